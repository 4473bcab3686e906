"""Texts below a table that are no rows: counts of rows, totals, sources, ends of a file."""

from __future__ import annotations

import re

_COUNT = r"\d[\d.,'\u00a0\u202f ]*"
_ROWS = (
    r"(row|record|line|entr(y|ie)|observation|result|tuple|item|zeile|datens[aä]tz|s[aä]tz|eintr[aä]g|ligne|enregistrement|fila|registro|"
    r"riga|righe|record|linha|rij|rijen|rekord|wiersz)"
)
_DONE = r"fetched|returned|showing|selected|retrieved|read|exported|wrote|loaded|insgesamt|total(\ of)?|rows:?"
_ROW_COUNT = re.compile(
    rf"""(?ix) \W* (
        (({_DONE})\W+)? {_COUNT} \s* {_ROWS}\w* (\(\w+\))? \b [^|;\t]* |
        (showing|displaying)\ .*\bof\b.* |
        (number\ of\ rows|row\ count|rows|records|anzahl|total\ rows)\s*[:=]\s*{_COUNT} |
        empty\ set.* | query\ ok.* | query\ returned.* | completion\ time:.* |
        ((elapsed\ )?time|elapsed|duration|took|execution\ time|run\ time|dauer|zeit)\s*[:=]\s*[\d.,:]+.* |
        COPY\ \d+ | SELECT\ \d+ | (mysql|sql|sqlite|postgres[=\#\w]*)>.*
    )"""
)
_END = re.compile(
    r"(?i)\W*(eof|bye|\\\.|<eof>|<end>|\[?end\]?|fin|ende|\x1a|(-{2,}|={2,}|\*{2,}|#)\s*(end|eof|ende|fin)\b.*"
    r"|end[ -]of[ -](file|report|data|table|list|document|record|export|transmission)\w*.*|ende der .*|quit|exit)\W*"
)
_RULE = re.compile(r"[-=_*~#.+\s]{3,}")
_REMARK = re.compile(
    r"""(?ix) \s* (
        [*†‡]+\ ?\w | [\u00b9\u00b2\u00b3]\ ?\w | © | \(c\)\W | copyright\b | all\ rights\ reserved |
        (data\ )?(sources?|quellen?|fuentes?|fonte|bron)\b | (foot)?notes?\b |
        (hinweis|anmerkung|remarque|nota|opmerking)\w*\b |
        (generated|exported|created|printed|produced|retrieved|downloaded|prepared|compiled)\b |
        (erstellt|exportiert|généré|generado)\b | (data\ )?as\ of\b | (last\ )?updated?\b | stand\b |
        report\ (date|generated|run|end)\b | date\ printed\b | (page|seite)\W+\d | (https?|ftp):// |
        disclaimer\b | confidential\b | legende?\s*: | data\ from\b | -{2,}\ ?end | end\ of\b
    )"""
)
_TOTAL = re.compile(
    r"""(?ix) \s* (grand\ |sub|running\ )?
    (total|totaal|totale|sum|summe|suma|somme|gesamt|gesamtsumme|zwischensumme|average|avg|mean|count|mittelwert|durchschnitt|
    moyenne|promedio|media|anzahl) s? (\ general|\ général)? \s* :? \s*"""
)


def is_row_count(line: str) -> bool:
    """Whether a whole line is what a database client prints below a table: a count of rows, a time, or nothing but an end."""
    text = line.strip()
    return len(text) < 200 and (_ROW_COUNT.fullmatch(text) is not None or _END.fullmatch(text) is not None)


def is_rule(text: str) -> bool:
    """Whether a text is a line of dashes or stars."""
    return _RULE.fullmatch(text) is not None


def is_remark(text: str) -> bool:
    """Whether a text begins as notes on a table do: a source, a copyright, a date of creation."""
    return _REMARK.match(text) is not None


def is_total(text: str) -> bool:
    """Whether a text is a word such as "Total"."""
    return _TOTAL.fullmatch(text) is not None
