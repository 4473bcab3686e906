"""Columns most of whose cells are numbers, some of them with marks, units, powers of ten, or beside other texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.counts import Values
from tabapp.data.forms.cells import CREDIT, FLAGS, LETTERS, MORE_FLAGS, POWER_LETTERS, Cell, normalized, parts_of
from tabapp.data.forms.clock import CLOCK, CLOCKS, MINUTES
from tabapp.data.forms.numbers import LEADING_ZERO, NumberFormat, number_format, parse_numbers, value_of
from tabapp.data.forms.units import canonical_unit, currency_of, is_known_unit
from tabapp.data.small import any_contains

Float64 = npt.NDArray[np.float64]
Weighted = Sequence[tuple[Cell, int]]

_PROBED = 300
_LEAST_PROBED = 0.4
_AGREE = 0.95
"""Share of the values that must be numbers if the others are any texts."""
_MOST_WORDS, _LEAST_BESIDE_WORDS = 5, 0.5
"""With at most so many distinct other texts, all words, a smaller share suffices: the texts become marks."""
_FEWEST_DISTINCT, _FEWEST_WITH_MARKS = 20, 10
_MOST_CLEARLY = 0.5
_ALIKE = 5.0
"""Largest ratio of the medians of numbers with a unit and without one that are on the same scale."""
_MOST_ODD, _OFTEN = 0.01, 2
"""Texts are odd if they are at most this share of the cells and none occurs more often."""
_NUMBER_BEFORE_WORDS = re.compile(r"[0-9][0-9.,]*\s*[^\W\d_](?=\D*[^\W\d_]{3})\D*")
_RANGE = re.compile(r"([0-9][0-9,]*\.?[0-9]*)\s*(?:-|–|to)\s*([0-9][0-9,]*\.?[0-9]*)")
_WIDEST_RANGE = 100.0
_MOST_BARE = 0.05
"""A word that is no known unit is one only if few numbers are without it."""


@dataclass(frozen=True)
class Found:
    """How the numbers of a column are read.

    Attributes:
        form: their format.
        numbers: the distinct values as Float64; null for other texts.
        share: share of the cells that are numbers.
        n_marked: numbers that are not in the format without its notation.
    """

    form: NumberFormat
    numbers: pl.Series
    share: float
    n_marked: int


def find_numbers(values: Values) -> Found | None:
    """Read the values of a column as numbers with marks; None if fewer than half of its cells are numbers."""
    distinct = values.uniques.to_list()
    step = max(1, len(distinct) // _PROBED)
    probe = distinct[::step][:_PROBED]
    if sum(parts_of(text) is not None for text in probe) < _LEAST_PROBED * len(probe):
        return None
    counts = values.counts.to_list()
    cells = [parts_of(text) for text in distinct]
    weighted = [(cell, count) for cell, count in zip(cells, counts, strict=True) if cell is not None]
    if not weighted:
        return None
    separators = _separators(weighted)
    best: Found | None = None
    for notation, with_letters in _notations(weighted):
        for form in _with_unit(replace(separators, notation=notation), weighted, with_letters):
            found = _read(values, cells, form)
            if best is None or found.share > best.share:
                best = found
    return best


def is_convincing(values: Values, found: Found) -> bool:
    """Whether a column is numeric: its values are numbers, and the other texts are few, or a few words."""
    texts = values.uniques.filter(found.numbers.is_null())
    if any_contains(values.distinct, LEADING_ZERO):
        return False
    n_distinct = found.numbers.n_unique() - bool(found.numbers.null_count())
    if found.share == 1:
        return n_distinct >= _FEWEST_DISTINCT or (
            n_distinct >= _FEWEST_WITH_MARKS and found.n_marked < _MOST_CLEARLY * values.n_present
        )
    if n_distinct < _FEWEST_DISTINCT:
        return False
    if len(texts) <= _MOST_WORDS and (found.share >= _AGREE or not any_contains(_frequent(values, texts), "[0-9]")):
        return found.share >= _LEAST_BESIDE_WORDS
    # Codes have no unit: beside 23.4 kmpl, 26.6 km/kg is a quantity, too.
    has_unit = found.form.unit is not None and found.form.unit not in CLOCKS
    return found.share >= _AGREE and (has_unit or not any(map(_may_be_code, texts.to_list())))


def _frequent(values: Values, texts: pl.Series) -> pl.Series:
    """The texts without those that are a few single cells, such as those of a row with a cell too few."""
    counts = values.counts.filter(values.uniques.is_in(texts.implode()))
    odd = counts <= _OFTEN
    return texts.filter(~odd) if counts.filter(odd).sum() <= _MOST_ODD * values.n_present else texts


def _may_be_code(text: str) -> bool:
    """Whether a text with digits is neither a range nor a number before words, which are quantities in another notation."""
    if re.search("[0-9]", text) is None or _NUMBER_BEFORE_WORDS.fullmatch(text):
        return False
    ends = _RANGE.fullmatch(text)
    if ends is None:
        return True
    low, high = (float(end.replace(",", "")) for end in ends.groups())
    return not low < high <= _WIDEST_RANGE * low


def with_ascii_digits(values: Values) -> Values | None:
    """The values with the digits of ASCII; None if they have no others."""
    same = {text: normalized(text) for text in values.uniques.to_list() if not text.isascii()}
    if not same:
        return None
    return Values(values.name, values.texts.replace(list(same), list(same.values())))


def without_odd(values: Values, found: Found) -> Values | None:
    """The values without the texts that are no plain numbers; None if these are more than a few single cells.

    Plain are the numbers with what most of them have beside them.
    """
    plain = parse_numbers(values.uniques, replace(found.form, notation="exact")).is_not_null()
    if found.form.unit is not None and found.form.unit not in CLOCKS:
        bare = parse_numbers(values.uniques, replace(found.form, unit=None, notation="exact")).is_not_null()
        if values.count_array[bare.to_numpy()].sum() > values.n_present / 2:
            plain = bare
    counts = values.count_array[~plain.to_numpy()]
    n_odd = int(counts.sum())
    if not n_odd or counts.max() > _OFTEN or n_odd > max(1, _MOST_ODD * values.n_present):
        return None
    if values.n_present - n_odd < _FEWEST_DISTINCT:
        return None
    odd = values.uniques.filter(~plain).to_list()
    return Values(values.name, values.texts.set(values.texts.is_in(odd).fill_null(False), None))


def _read(values: Values, cells: Sequence[Cell | None], form: NumberFormat) -> Found:
    exact = parse_numbers(values.uniques, replace(form, notation="exact")).is_null().to_numpy()
    read = [None if cell is None else value_of(cell, form)[0] for cell in cells]
    numbers = pl.Series("value", read, dtype=pl.Float64)
    known, counts = numbers.is_not_null().to_numpy(), values.count_array
    marked = known if form.notation == "share" else known & exact
    return Found(form, numbers, float(counts[known].sum()) / values.n_present, int(counts[marked].sum()))


def _separators(weighted: Weighted) -> NumberFormat:
    """Decimal mark and thousands separator of the numbers without anything beside them."""
    cores: Counter[str] = Counter()
    for cell, count in weighted:
        if cell.core and not cell.is_clock:
            cores[cell.core] += count
    if not cores:
        return NumberFormat()
    form, _, _ = number_format(pl.Series("value", list(cores)), pl.Series("count", list(cores.values())))
    return NumberFormat(form.decimal, form.thousands)


def _notations(weighted: Weighted) -> list[tuple[str, frozenset[str]]]:
    """The notations that the letters after numbers can have, each with the letters that it reads."""
    letters: Counter[str] = Counter()
    scales = 0
    for cell, count in weighted:
        if cell.letter:
            letters[cell.letter] += count
        scales += count * (cell.scale != 1)
    found: list[tuple[str, frozenset[str]]] = []
    lower = {letter: letter.lower().rstrip(".") for letter in letters}
    magnitudes = frozenset(letter for letter in letters if letter in LETTERS)
    crore = frozenset(letter for letter in letters if lower[letter] == "cr") if scales else frozenset[str]()
    is_money = any(cell.letter in magnitudes and currency_of(cell.unit.split(" ")[0]) for cell, _ in weighted)
    if magnitudes & POWER_LETTERS or len(magnitudes) > 1 or is_money or crore:
        found.append(("magnitude", magnitudes | crore))
    flags = frozenset(letter for letter in letters if lower[letter] in FLAGS or letter in MORE_FLAGS)
    if any(lower[letter] in FLAGS for letter in flags):
        found.append(("flags", flags))
    signs = frozenset(letter for letter in letters if lower[letter] in CREDIT)
    if signs and not crore:
        negative = "DR" if any(lower[letter] == "dr" for letter in signs) else "CR"
        found.append((negative, signs))
    return [*found, ("marks", frozenset())]


def _with_unit(form: NumberFormat, weighted: Weighted, with_letters: frozenset[str]) -> list[NumberFormat]:
    """The format with the unit of the numbers, and without one."""
    forms = [form]
    clocks = [cell for cell, _ in weighted if cell.is_clock]
    if clocks:
        has_minutes = any(cell.core.count(":") == 1 and ("." in cell.core or "," in cell.core) for cell in clocks)
        return [replace(form, unit=MINUTES if has_minutes else CLOCK), form]
    units: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    bare: list[tuple[Cell, int]] = []
    for cell, count in weighted:
        unit = cell.unit if cell.letter in with_letters else f"{cell.unit} {cell.letter}".strip()
        if not unit:
            bare.append((cell, count))
            continue
        canonical = canonical_unit(unit)
        units[canonical] += count
        spelled.setdefault(canonical, unit)
    if not units:
        return forms
    base = units.most_common(1)[0][0]
    with_unit = replace(form, unit=spelled[base])
    if not bare:
        return [with_unit]
    n_bare, n_all = (sum(count for _, count in each) for each in (bare, weighted))
    if n_bare > _MOST_BARE * n_all and not (currency_of(base) or is_known_unit(base)):
        return forms
    inside, outside = _values(weighted, with_unit, with_letters), _values(bare, form, with_letters)
    # Zero is zero in any unit.
    outside = outside[outside != 0]
    if base == "%" and outside.size and np.abs(outside).max() <= 1 < np.median(np.abs(inside)):
        return [replace(with_unit, notation="share"), form]
    if currency_of(base) or base in ("%", "‰") or _are_alike(inside, outside):
        forms.insert(0, with_unit)
    return forms


def _values(weighted: Weighted, form: NumberFormat, with_letters: frozenset[str]) -> Float64:
    """The values of the cells that have a unit if the format has one, and of those without otherwise."""
    found = [
        value
        for cell, _ in weighted
        if bool(cell.unit or (cell.letter and cell.letter not in with_letters)) == (form.unit is not None)
        and (value := value_of(cell, form)[0]) is not None
    ]
    return np.array(found, dtype=np.float64)


def _are_alike(inside: Float64, outside: Float64) -> bool:
    """Whether numbers with a unit are on the scale of those without one."""
    if not inside.size or not outside.size:
        return True
    if inside.size < _FEWEST_WITH_MARKS:
        return bool(((inside >= outside.min()) & (inside <= outside.max())).all())
    one, other = (float(np.median(np.abs(each))) for each in (inside, outside))
    return one <= _ALIKE * other and other <= _ALIKE * one
