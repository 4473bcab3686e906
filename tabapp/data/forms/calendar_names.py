"""Names of months, weekdays and time zones in moments: in lower case, without accents."""

from __future__ import annotations

_MONTHS = (
    "january jan januar janner jaenner januari janvier janv enero ene gennaio gen genn janeiro",
    "february feb februar feber februari fevrier fevr fev febrero febbraio febb fevereiro",
    "march mar marz maerz mrz maart mrt mars marzo marco",
    "april apr avril avr abril abr aprile",
    "may mai mayo maggio mag magg maio mei",
    "june jun juni juin junio giugno giu junho",
    "july jul juli juillet juil julio luglio lug julho",
    "august aug aout agosto ago augustus",
    "september sep sept septembre septiembre setiembre set settembre sett setembro",
    "october oct oktober okt octobre octubre ottobre ott outubro out",
    "november nov novembre noviembre novembro",
    "december dec dezember dez decembre diciembre dic dicembre dezembro",
)
"""English, German, French, Spanish, Italian, Portuguese and Dutch, in full and abbreviated."""

MONTHS: dict[str, int] = {name: month for month, names in enumerate(_MONTHS, start=1) for name in names.split()}

_WEEKDAYS = (
    "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed weds thu thur thurs fri sat sun",
    "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag mo di mi do fr sa so",
    "lundi mardi mercredi jeudi vendredi samedi dimanche lun mar mer jeu ven sam dim",
    "lunes martes miercoles jueves viernes sabado domingo mie jue vie sab dom",
    "lunedi martedi mercoledi giovedi venerdi sabato domenica gio",
    "segunda terca quarta quinta sexta seg ter qua qui sex",
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag ma wo vr za zo",
)
WEEKDAYS = frozenset(name for names in _WEEKDAYS for name in names.split())

ZONES: dict[str, int] = {
    "z": 0, "utc": 0, "gmt": 0, "ut": 0, "wet": 0, "west": 60, "cet": 60, "cest": 120, "mez": 60, "mesz": 120, "eet": 120,
    "eest": 180, "msk": 180, "jst": 540, "kst": 540, "sgt": 480, "hkt": 480, "aest": 600, "aedt": 660, "nzst": 720,
    "nzdt": 780, "est": -300, "edt": -240, "cst": -360, "cdt": -300, "mst": -420, "mdt": -360, "pst": -480, "pdt": -420,
    "akst": -540, "akdt": -480, "hst": -600, "bst": 60, "ist": 330,
}  # fmt: skip
"""Minutes east of UTC. The names of North America are those of RFC 5322, section 4.3."""

DOUBTFUL_ZONES = frozenset({"cst", "bst", "ist", "mst"})
"""Names that other countries use for other zones, such as CST for China."""
