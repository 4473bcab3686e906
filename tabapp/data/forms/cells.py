"""Cells that are a number with something beside it: "<0.5", "225*", "€1.2M", "12 kg", "1 1/2", "3.1×10³", "1:27.452"."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from tabapp.data.forms.units import CURRENCIES, MAGNITUDES, currency_of, is_known_unit, is_rating, is_unit

_BEFORE = {
    "<": ("<", "less than", "below", "under", "unter"),
    "≤": ("≤", "⩽", "<=", "=<", "up to", "at most", "max.", "max", "bis zu", "bis"),
    ">": (">", "more than", "above", "over", "über"),
    "≥": ("≥", "⩾", ">=", "=>", "at least", "min.", "mindestens", "from"),
    "~": (
        "~",
        "∼",
        "est.",
        "≈",
        "≅",
        "ca.",
        "ca",
        "circa",
        "c.",
        "approx.",
        "approx",
        "approximately",
        "about",
        "etwa",
        "rund",
    ),
}
"""The spellings of each mark before a number."""
_MARK_BEFORE = {spelling: mark for mark, spellings in _BEFORE.items() for spelling in spellings}
FLAGS = {
    **dict.fromkeys(("e", "est", "estimate", "estimated"), "e"),
    **dict.fromkeys(("p", "prov", "provisional", "prel", "prelim", "preliminary"), "p"),
    **dict.fromkeys(("r", "rev", "revised"), "r"),
    "b": "b",
}
"""Words and letters after a number that say how it came about: estimated, provisional, revised, break in the series."""
MORE_FLAGS = frozenset("cdfinsuz")
"""Further letters of statistical offices, which are flags only beside those of `FLAGS`; alone they are units."""
LETTERS = {"k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "b": 1e9, "B": 1e9, "T": 1e12}
"""Letters that may be powers of ten; the column decides."""
POWER_LETTERS = frozenset({"k", "K", "M"})
"""Those that are hardly ever anything else."""
CREDIT = {"cr": "CR", "dr": "DR"}


def _any_of(words: tuple[str, ...]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_SIGNS = r"[\u00a2-\u00a5\u058f\u060b\u09f2\u09f3\u0af1\u0bf9\u0e3f\u17db\u20a0-\u20c0\ufdfc]"
"""The currency signs of Unicode beside those of `CURRENCIES`."""
_CURRENCY = f"{_any_of(tuple(each for names in CURRENCIES.values() for each in names if len(each) < 4))}|{_SIGNS}"
_TEN_TO = r"(?:\s*[*x×·⋅]\s*10\s*(?:(?:\^|\*\*)\s*\(?|(?=[+-]\d))([+-]?\d{1,3})\)?|[eEdD]([+-]?\d{1,3})(?!\w))"
_CELL = re.compile(
    rf"""(?P<open>\()? \s*
    (?P<before>(?i:{_any_of(tuple(_MARK_BEFORE))}))? \s*
    (?P<sign>[+-])? \s* (?P<currency>{_CURRENCY})? \s* (?P<inner>[+-])? \s*
    (?: (?P<clock>\d{{1,4}}(?::[0-5]\d){{1,2}}(?:[.,]\d+)?)(?![\d:])
      | (?:(?P<whole>\d{{1,4}})\s+)?(?P<top>\d{{1,2}})\s*/\s*(?P<bottom>\d{{1,2}})(?![\d/])
      | (?P<core>[.,]?\d(?:[\d.,'_ ]*\d)?[.,]?) (?:{_TEN_TO})? )
    (?:\s*(?:±|\+/-|\+-)\s*[\d.,]+)? (?P<rest>.*)""",
    re.ASCII | re.VERBOSE,
)
_BOUNDS = re.compile(r"\s+(?:or|and) (?:(more|above|over|up|later)|(?:less|fewer|below|under))$", re.IGNORECASE)
_MARK_AFTER = re.compile(r"\s*(\*{1,3}|[†‡§#?!+]|\(\w{1,12}\.?\)|\[\w{1,4}\])$")
_GLUED_FACTORS = {"k": 1e3, "K": 1e3, "T": 1e3, "m": 1e6, "M": 1e6, "B": 1e9, "b": 1e9}
"""Before a currency, as in kEUR, the German TEUR, and M€."""
_GLUED = re.compile(rf"(?P<letter>[kKTmMbB]|(?i:mio|mrd|bn|mn)\.?)(?P<currency>{_CURRENCY})")
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_TO_POWER = re.compile("10([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_ONLY_POWER = re.compile(r"10(?:\^|\*\*)")
_OUT_OF = re.compile(r"\s+out of\s+(\d+)(?:\s+(?:stars?|points?))?$", re.IGNORECASE)
_VULGAR = re.compile("(?<=[0-9])?[¼½¾⅓⅔⅛⅜⅝⅞]")
_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_MOST_MARKS = 2
_LARGEST_POWER = 300
_DENOMINATORS = frozenset({2, 3, 4, 5, 6, 8, 10, 12, 16, 32, 64})
_CHARACTERS = {
    "٫": ".", "٬": ",", "٪": "%", "−": "-", "‐": "-", "‑": "-", "–": "-", "—": "-", "’": "'", "‘": "'", "´": "'",
    **dict.fromkeys("\xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(8192, 8203))), " "),
    **dict.fromkeys("\u200b\u200e\u200f\u061c\ufeff", ""),
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """The parts of a cell.

    Attributes:
        core: digits with decimal mark and separators, or a clock time; empty for a fraction that cannot be a rating.
        scale: the factor of powers of ten and words such as "million".
        fraction: the value of a fraction, which is complete; the unit of 3/5 says that it may also be a rating.
        is_clock: `core` is a clock time.
        negative: by a sign before or after, or by parentheses.
        trailing: the sign is after the number.
        letter: a letter or abbreviation after the number whose meaning depends on the column.
        unit: unit or currency as spelled.
        mark: normalized marks before and after; None for none.
    """

    core: str
    scale: float = 1.0
    fraction: float | None = None
    is_clock: bool = False
    negative: bool = False
    trailing: bool = False
    letter: str = ""
    unit: str = ""
    mark: str | None = None


def normalized(text: str) -> str:
    """A text with ASCII digits, signs, separators and spaces in place of those of other scripts and of typography."""
    if text.isascii():
        return text
    if text >= "¼" or any(each in text for each in "½¾"):
        text = _VULGAR.sub(lambda found: " " + unicodedata.normalize("NFKC", found[0]).replace("⁄", "/"), text)
    text = _TO_POWER.sub(lambda found: "10^" + found[1].translate(_SUPERSCRIPT), text)
    return "".join(_ascii(each) for each in text)


@lru_cache(maxsize=4096)
def _ascii(character: str) -> str:
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    return str(unicodedata.decimal(character)) if character.isdecimal() else character


def parts_of(text: str) -> Cell | None:
    """The parts of a stripped text; None if it is no number with marks, units or powers of ten."""
    text = normalized(text).strip().removeprefix("'")
    if " out of " in text.lower():
        text = _OUT_OF.sub(r"/\1", text)
    if _ONLY_POWER.match(text):
        text = "1*" + text
    found = _CELL.fullmatch(text)
    if found is None or (found["sign"] and found["inner"] and not found["currency"]):
        return None
    rest = found["rest"]
    if found["open"]:
        if not rest.startswith(")") and not rest.endswith(")"):
            return None
        rest = rest[1:] if rest.startswith(")") else rest[:-1]
    if found["core"] and found["core"][-1] in ".,":
        # The price 12.- has no cents, and 500/- no paise.
        rest = rest.lstrip("-")
    after = _after(rest.strip().removesuffix("/-"))
    if after is None:
        return None
    scale, trailing, letter, unit, marks = after
    if found["currency"]:
        unit = f"{found['currency']} {unit}".strip()
    fraction, rated = None, ""
    if found["bottom"]:
        top, bottom = int(found["top"]), int(found["bottom"])
        if not unit and not found["whole"] and is_rating(f"/{bottom}"):
            unit, rated = f"/{bottom}", found["top"]
        if top < bottom and bottom in _DENOMINATORS:
            fraction = int(found["whole"] or 0) + top / bottom
        elif not rated:
            return None
    if power := found[_POWER_GROUPS[0]] or found[_POWER_GROUPS[1]]:
        if abs(int(power)) > _LARGEST_POWER:
            return None
        scale *= 10.0 ** int(power)
    if found["before"]:
        marks = [_MARK_BEFORE[found["before"].lower()], *marks]
    return Cell(
        core=found["clock"] or found["core"] or rated,
        scale=scale,
        fraction=fraction,
        is_clock=found["clock"] is not None,
        negative=bool(found["open"]) ^ ("-" in (found["sign"], found["inner"])) ^ trailing,
        trailing=trailing,
        letter=letter,
        unit=unit,
        mark="".join(marks) or None,
    )


_POWER_GROUPS = tuple(index for index in range(1, _CELL.groups + 1) if index not in _CELL.groupindex.values())
"""The two unnamed groups of `_TEN_TO`."""


def _after(rest: str) -> tuple[float, bool, str, str, list[str]] | None:
    """What follows a number: factor, whether a minus sign does, a letter, a unit, and marks; None for anything else."""
    marks: list[str] = []
    scale, trailing, letter, units = 1.0, False, "", list[str]()
    while rest and len(marks) < _MOST_MARKS and (found := _MARK_AFTER.search(rest)):
        mark = found[1]
        if mark[0] == "(":
            word = mark[1:-1]
            if is_known_unit(word) or word.lower() in CREDIT:
                rest = rest[: found.start()] + " " + word
                break
            if (flag := FLAGS.get(word.lower().rstrip("."))) is None and not (len(word) == 1 and word.islower()):
                return None
            mark = flag or word
        marks.insert(0, mark)
        rest = rest[: found.start()].rstrip()
    if bound := _BOUNDS.search(f" {rest}"):
        marks.append("≥" if bound[1] else "≤")
        rest = rest[: max(0, bound.start() - 1)]
    if rest.endswith("-"):
        trailing, rest = True, rest[:-1].rstrip()
    for word in rest.split():
        bare = word.lower().rstrip(".")
        if currency_of(word) or is_rating(word) or (is_known_unit(word) and word not in LETTERS):
            units.append(word)
        elif glued := _GLUED.fullmatch(word):
            units.append(glued["currency"])
            factor = glued["letter"].rstrip(".")
            scale *= _GLUED_FACTORS.get(factor) or MAGNITUDES[factor.lower()]
        elif bare in MAGNITUDES:
            scale *= MAGNITUDES[bare]
        elif bare in CREDIT or word in LETTERS or bare in FLAGS or (len(word) == 1 and word in MORE_FLAGS):
            if letter:
                return None
            letter = word
        elif bare in _ORDINALS or (any(map(str.isdigit, word)) and not is_known_unit(word)):
            return None
        else:
            units.append(word)
    unit = " ".join(units)
    if unit and not is_unit(unit):
        return None
    return scale, trailing, letter, unit, marks
