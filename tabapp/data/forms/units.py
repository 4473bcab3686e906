"""Units, currencies and words for powers of ten beside a number, and the factors between units of one dimension."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

CURRENCIES: dict[str, tuple[str, ...]] = {
    "USD": ("US$", "$", "USD", "dollar", "dollars"),
    "EUR": ("€", "EUR", "euro", "euros"),
    "GBP": ("£", "GBP"),
    "JPY": ("¥", "円", "JPY", "yen"),
    "CNY": ("CNY", "RMB", "元", "CN¥"),
    "INR": ("₹", "INR", "Rs", "Rs."),
    "KRW": ("₩", "KRW", "원"),
    "RUB": ("₽", "RUB", "руб", "руб."),
    "BRL": ("R$", "BRL"),
    "CAD": ("CA$", "C$", "CAD"),
    "AUD": ("A$", "AU$", "AUD"),
    "CHF": ("CHF", "Fr.", "SFr.", "sFr"),
    "kr": ("kr", "kr.", ":-"),
    "SEK": ("SEK",),
    "NOK": ("NOK",),
    "DKK": ("DKK",),
    "PLN": ("zł", "PLN"),
    "CZK": ("Kč", "CZK"),
    "HUF": ("Ft", "HUF"),
    "TRY": ("₺", "TRY", "TL"),
    "UAH": ("₴", "UAH"),
    "ILS": ("₪", "ILS"),
    "THB": ("฿", "THB"),
    "VND": ("₫", "VND"),
    "ZAR": ("ZAR",),
    "MXN": ("MXN", "MX$"),
    "SGD": ("SGD", "S$"),
    "HKD": ("HKD", "HK$"),
    "IDR": ("IDR", "Rp", "Rp."),
    "MYR": ("MYR", "RM"),
    "BDT": ("৳", "BDT"),
    "NGN": ("₦", "NGN"),
    "PHP": ("₱", "PHP"),
    "NZD": ("NZD", "NZ$"),
}
"""The spellings of each currency."""

_DIMENSIONS: tuple[dict[str, tuple[float, tuple[str, ...]]], ...] = (
    {
        "µg": (1e-9, ("ug", "mcg")),
        "mg": (1e-6, ("milligram", "milligrams")),
        "g": (1e-3, ("gr", "gram", "grams", "gramm")),
        "kg": (1.0, ("kgs", "kilo", "kilos", "kilogram", "kilograms", "kilogramm")),
        "t": (1e3, ("tonne", "tonnes", "tonnen")),
        "oz": (0.028349523125, ("ounce", "ounces")),
        "lb": (0.45359237, ("lbs", "pound", "pounds")),
    },
    {
        "nm": (1e-9, ()),
        "µm": (1e-6, ("um",)),
        "mm": (1e-3, ("millimeter", "millimeters")),
        "cm": (1e-2, ("centimeter", "centimeters")),
        "m": (1.0, ("meter", "meters", "metre", "metres", "mtr")),
        "km": (1e3, ("kms", "kilometer", "kilometers", "kilometre", "kilometres")),
        "in": (0.0254, ("inch", "inches", "zoll")),
        "ft": (0.3048, ("foot", "feet")),
        "yd": (0.9144, ("yard", "yards")),
        "mi": (1609.344, ("mile", "miles", "meile", "meilen")),
    },
    {
        "mm²": (1e-6, ("mm2", "mm^2")),
        "cm²": (1e-4, ("cm2", "cm^2")),
        "m²": (1.0, ("m2", "m^2", "sqm", "sq m", "sq. m", "qm")),
        "ha": (1e4, ("hectare", "hectares")),
        "km²": (1e6, ("km2", "km^2", "sq km")),
        "ft²": (0.09290304, ("ft2", "ft^2", "sqft", "sq ft", "sq. ft", "sf", "square feet")),
        "acre": (4046.8564224, ("acres", "ac")),
    },
    {
        "µl": (1e-6, ("ul",)),
        "ml": (1e-3, ("milliliter", "milliliters")),
        "cl": (1e-2, ()),
        "dl": (1e-1, ()),
        "l": (1.0, ("ltr", "liter", "liters", "litre", "litres")),
        "hl": (1e2, ()),
        "m³": (1e3, ("m3", "m^3", "cbm")),
        "cm³": (1e-3, ("cm3", "cm^3", "ccm", "cc")),
    },
    {
        "ms": (1e-3, ("msec",)),
        "s": (1.0, ("sec", "secs", "second", "seconds", "sek", "sekunden")),
        "min": (60.0, ("mins", "minute", "minutes", "minuten")),
        "h": (3600.0, ("hr", "hrs", "hour", "hours", "std", "stunden")),
        "d": (86400.0, ("day", "days", "tag", "tage")),
        "weeks": (604800.0, ("wk", "wks", "week", "woche", "wochen")),
        "months": (2629746.0, ("mo", "mos", "month", "monat", "monate")),
        "years": (31556952.0, ("yr", "yrs", "y", "year", "jahr", "jahre")),
    },
    {
        "B": (1.0, ("byte", "bytes")),
        "kB": (1e3, ("kb",)),
        "MB": (1e6, ("mb",)),
        "GB": (1e9, ("gb",)),
        "TB": (1e12, ("tb",)),
        "KiB": (1024.0, ()),
        "MiB": (1024.0**2, ()),
        "GiB": (1024.0**3, ()),
        "TiB": (1024.0**4, ()),
    },
    {"kbit/s": (1e3, ("kbps",)), "Mbit/s": (1e6, ("mbps",)), "Gbit/s": (1e9, ("gbps",))},
    {"mW": (1e-3, ()), "W": (1.0, ("watt", "watts")), "kW": (1e3, ()), "MW": (1e6, ()), "GW": (1e9, ())},
    {"Wh": (1.0, ()), "kWh": (1e3, ()), "MWh": (1e6, ()), "GWh": (1e9, ()), "TWh": (1e12, ())},
    {"Hz": (1.0, ()), "kHz": (1e3, ()), "MHz": (1e6, ()), "GHz": (1e9, ())},
    {"mV": (1e-3, ()), "V": (1.0, ("volt", "volts")), "kV": (1e3, ())},
    {"mA": (1e-3, ()), "A": (1.0, ("ampere", "amps")), "mAh": (3.6, ()), "Ah": (3600.0, ())},
    {"Pa": (1.0, ()), "hPa": (1e2, ()), "mbar": (1e2, ()), "kPa": (1e3, ()), "bar": (1e5, ()), "MPa": (1e6, ())},
    {"m/s": (1.0, ()), "km/h": (1 / 3.6, ("kmh", "kph", "km/hr")), "mph": (0.44704, ())},
    {
        "ng/l": (1e-9, ("pg/ml",)),
        "µg/l": (1e-6, ("ug/l", "ng/ml")),
        "mg/l": (1e-3, ("µg/ml", "ug/ml")),
        "mg/dl": (1e-2, ()),
        "g/l": (1.0, ("mg/ml",)),
        "g/dl": (10.0, ()),
    },
    {"°C": (1.0, ("℃", "deg c", "celsius"))},
    {"°F": (1.0, ("℉", "deg f", "fahrenheit"))},
    {"%": (1.0, ("percent", "pct", "prozent", "p.c.")), "‰": (0.1, ("promille", "permille"))},
)
"""The units of each dimension: factor to a common unit, and further spellings. Prefixes of bytes are those of SI."""

MAGNITUDES: dict[str, float] = {
    **dict.fromkeys(("thousand", "tsd", "tausend", "千", "тыс"), 1e3),
    **dict.fromkeys(("万", "萬"), 1e4),
    **dict.fromkeys(("lakh", "lakhs", "lac", "lacs"), 1e5),
    **dict.fromkeys(("million", "millions", "mio", "mln", "mn", "mill", "millionen", "millones", "млн"), 1e6),
    **dict.fromkeys(("crore", "crores"), 1e7),
    **dict.fromkeys(("亿", "億"), 1e8),
    **dict.fromkeys(("billion", "billions", "bn", "bln", "mrd", "mia", "milliarden", "milliard", "млрд"), 1e9),
    **dict.fromkeys(("trillion", "trillions", "tn", "trn"), 1e12),
}
"""Words for powers of ten in lower case without a point."""

_MOST_CHARACTERS = 16
_NO_UNIT = r"\s\d<>=~*+,;!?()\[\]{}\"'\\|#@&_\-"
RATINGS = "/(?:5|10|100)"
"""After a number, as in 4.5/5. Other denominators are those of fractions, and of months of a year."""
_UNIT = re.compile(rf"[^{_NO_UNIT}:]+(?:[23]|\^[23])?(?: [^{_NO_UNIT}:]+[23]?)?|:-|{RATINGS}")


@cache
def _spellings() -> dict[str, tuple[str, int, float]]:
    """By exact spelling: the unit, its dimension and its factor."""
    found: dict[str, tuple[str, int, float]] = {}
    for dimension, units in enumerate(_DIMENSIONS):
        for unit, (factor, others) in units.items():
            for spelling in (unit, *others):
                found[spelling.replace("µ", "μ")] = found[spelling] = unit, dimension, factor
    return found


@cache
def _folded() -> dict[str, tuple[str, int, float] | None]:
    """By spelling in lower case; None where that is ambiguous, as for mW and MW."""
    found: dict[str, tuple[str, int, float] | None] = {}
    for spelling, unit in _spellings().items():
        folded = spelling.casefold()
        found[folded] = unit if found.get(folded, unit) == unit else None
    return found


@cache
def _currency_spellings() -> dict[str, str]:
    found: dict[str, str] = {}
    for currency, spellings in CURRENCIES.items():
        for each in spellings:
            # "Ft" is a currency and "ft" a unit: only codes of three letters have any case.
            found |= dict.fromkeys((each, each.lower()) if each.isalpha() and len(each) == 3 else (each,), currency)
    return found


def currency_of(text: str) -> str | None:
    """The currency that a text is, or None."""
    if len(text) == 1 and unicodedata.category(text) == "Sc":
        return _currency_spellings().get(text, text)
    return _currency_spellings().get(text)


def _known(unit: str) -> tuple[str, int, float] | None:
    if unit in _spellings():
        return _spellings()[unit]
    folded = unit.casefold()
    # Single letters differ by case: "M" is a million or mega, "m" a metre.
    return _folded().get(folded) or _folded().get(folded.rstrip(".")) if len(unit) > 1 else None


def is_known_unit(text: str) -> bool:
    """Whether a text is a unit of a known dimension."""
    return _known(text) is not None


def canonical_unit(text: str) -> str:
    """One spelling for all spellings of a unit or a currency; singular and in lower case for an unknown word."""
    if currency := currency_of(text):
        return currency
    if known := _known(text):
        return known[0]
    return text.casefold().rstrip(".").removesuffix("s")


def unit_factor(unit: str, base: str) -> float | None:
    """The number that a quantity in `unit` is multiplied by for `base`; None if they have different dimensions."""
    if canonical_unit(unit) == canonical_unit(base):
        return 1.0
    one, other = _known(unit), _known(base)
    if one is None or other is None or one[1] != other[1]:
        return None
    return one[2] / other[2]


def is_unit(text: str) -> bool:
    """Whether a text can be a unit: at most two short words without digits and marks, except an exponent at the
    end; or what follows a rating."""
    return 0 < len(text) <= _MOST_CHARACTERS and text.isprintable() and _UNIT.fullmatch(text) is not None


def is_rating(unit: str) -> bool:
    """Whether a unit is the greatest value of a rating, such as the "/5" of 4.5/5."""
    return re.fullmatch(RATINGS, unit) is not None
