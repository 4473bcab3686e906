"""Numbers with something beside them, texts among numbers or dates, and texts that are mostly numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import polars as pl

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.columns import column_of
from tabapp.data.counts import Values
from tabapp.data.forms.cells import normalized, parts_of
from tabapp.data.forms.clock import CLOCKS
from tabapp.data.forms.missing import missing_cells, strip
from tabapp.data.forms.numbers import NumberFormat, letter_of, parse_numbers, value_of
from tabapp.data.forms.units import canonical_unit, currency_of, is_known_unit
from tabapp.data.kinds.kinds import UNSEARCHED
from tabapp.data.kinds.marked import Found, find_numbers
from tabapp.data.kinds.names import names_code
from tabapp.data.kinds.verdict import show
from tabapp.data.schema import FEWEST_MARKED, Column, DataWarning, as_kind
from tabapp.data.small import all_contain
from tabapp.data.target import format_of
from tabapp.data.typed import typed_column
from tabapp.errors import option

_SHOWN = 3
_MOSTLY, _FEWEST_NUMBERS = 0.5, 20
_READ = ("feature", "target", "weight", "time")


@dataclass
class _Cells:
    """Cells with something in common: their number, and the first text."""

    count: int = 0
    example: str = ""
    value: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter[str])

    def add(self, count: int, text: str, value: float, kind: str = "") -> None:
        self.example, self.value = (self.example, self.value) if self.count else (text, value)
        self.count += count
        self.kinds[kind] += count

    @property
    def shown(self) -> str:
        """The example with its value."""
        return f"such as {show(self.example)}, read as {self.value:.6g}"

    @property
    def listed(self) -> str:
        """The most frequent kinds with their counts."""
        return ", ".join(f"{kind!r} ({count:,})" for kind, count in self.kinds.most_common(_SHOWN))


@check(
    "notation",
    description="Numbers of a column have marks, several units, signs after them, or another notation.",
    remedy="Compare the quoted cells with their values; use --kind COLUMN=categorical to keep the texts.",
    rank=60,
)
def notation(evidence: Evidence) -> Iterator[DataWarning]:
    """Columns of numbers in which some cells need more than a number format."""
    companions = {column.marks_of: column for column in evidence.columns}
    for column in evidence.columns:
        if column.kind != "numeric" or column.role not in _READ:
            continue
        form = format_of(column)
        if form.notation in ("exact", "open") and not _is_plain_unit(form.unit):
            continue
        facts = _facts(_values_of(column, evidence), form)
        if not facts:
            continue
        marks = ""
        if column.name in companions:
            marks = f"marks of {FEWEST_MARKED} cells or more are in a column of their own, {companions[column.name].name!r}; "
        action = f"read as numbers; {marks}{option('kind', {column.name: 'categorical'})} keeps the texts"
        yield DataWarning(
            check="notation",
            column=column.name,
            message=f"{'; '.join(facts)}.",
            action=action,
            remedies=(as_kind(column.name, "categorical"),),
        )


def _is_plain_unit(unit: str | None) -> bool:
    """Whether numbers without a unit may be on another scale beside it."""
    return unit is not None and unit not in CLOCKS and is_known_unit(unit) and currency_of(unit) is None


def _facts(values: Values, form: NumberFormat) -> list[str]:
    """What is beside the numbers of a column, each as a clause."""
    marked, converted, bare, signed, other = (_Cells() for _ in range(5))
    exact, distinct = replace(form, notation="exact"), values.uniques.to_list()
    # Digits of another script alone are no notation to mention.
    ascii_texts = pl.Series([normalized(text) for text in distinct], dtype=pl.String)
    is_exact = parse_numbers(ascii_texts, exact).is_not_null().to_list()
    base = canonical_unit(form.unit) if form.unit and form.unit not in CLOCKS else ""
    total = 0
    for text, count, is_plain in zip(distinct, values.counts.to_list(), is_exact, strict=True):
        cell = parts_of(text)
        value, mark = (None, None) if cell is None else value_of(cell, form)
        if cell is None or value is None:
            continue
        total += count
        letter = letter_of(cell, form)
        spelled = f"{cell.unit} {letter.unit}".strip()
        unit = canonical_unit(spelled) if spelled else ""
        if mark is not None:
            marked.add(count, text, value, mark)
        elif cell.trailing or (form.notation in ("CR", "DR") and cell.letter != letter.unit):
            signed.add(count, text, value)
        elif unit and unit != base:
            converted.add(count, text, value, spelled)
        elif base and not unit:
            bare.add(count, text, value)
        elif not is_plain and cell.scale == letter.factor == 1:
            other.add(count, text, value)
    facts: list[str] = []
    if marked.count:
        facts.append(f"{marked.count:,} of {total:,} numbers have a mark, {marked.shown}: {marked.listed}")
    if signed.count:
        facts.append(f"{signed.count:,} of {total:,} numbers have a sign, CR or DR after them, {signed.shown}")
    if converted.count:
        facts.append(
            f"{converted.count:,} of {total:,} numbers have other units, {converted.shown} {form.unit}: {converted.listed}"
        )
    if bare.count and (form.notation == "share" or _is_plain_unit(form.unit)):
        facts.append(f"{bare.count:,} of {total:,} numbers are without {form.unit}, {bare.shown} {form.unit}")
    if other.count:
        facts.append(f"{other.count:,} of {total:,} numbers are in another notation, {other.shown}")
    return facts


@check(
    "set_aside",
    description="A column of numbers has other texts, which are read as missing.",
    remedy="Correct the cells, or use --kind COLUMN=categorical to keep the texts.",
    rank=55,
)
def set_aside(evidence: Evidence) -> Iterator[DataWarning]:
    """Features of numbers with cells that are neither missing nor numbers."""
    for column in evidence.columns:
        if column.kind != "numeric" or column.role not in _READ or column.role == "target" or column.support == 1:
            continue
        values = evidence.values[column.name]
        counts = _unread(values, column)
        if not counts:
            continue
        n = counts.total()
        shown = ", ".join(f"{show(text)} ({count:,})" for text, count in counts.most_common(_SHOWN))
        more = f" and {len(counts) - _SHOWN:,} more texts" if len(counts) > _SHOWN else ""
        message = f"{n:,} of {values.n_present:,} cells are no numbers: {shown}{more}."
        action = f"read as missing; correct them, or keep the texts with {option('kind', {column.name: 'categorical'})}"
        yield DataWarning(
            check="set_aside",
            column=column.name,
            message=message,
            action=action,
            remedies=(as_kind(column.name, "categorical"),),
        )


def _unread(values: Values, column: Column) -> Counter[str]:
    if values.plain is not None:
        return Counter()
    unread = typed_column(values.uniques, column).is_null().to_list()
    cells = zip(values.uniques.to_list(), values.counts.to_list(), unread, strict=True)
    return Counter({text: count for text, count, is_unread in cells if is_unread})


def _values_of(column: Column, evidence: Evidence) -> Values:
    """The values of a column."""
    if column.role != "target":
        return evidence.values[column.name]
    # Those of a target lack the texts that are no numbers.
    texts = strip(column_of(evidence.frame, column.name).alias(""))
    return Values(column.name, texts.set(missing_cells(texts, column), None))


@check(
    "mostly_numbers",
    description="Most cells of a column that is read as categories or text are numbers.",
    remedy="If the column is a quantity, use --kind COLUMN=numeric; the other texts are then missing.",
    rank=58,
)
def mostly_numbers(evidence: Evidence) -> Iterator[DataWarning]:
    """Columns of categories, text or identifiers with many distinct numbers and some other texts."""
    for column in evidence.columns:
        if column.kind not in ("categorical", "text", "identifier") or column.overridden or column.marks_of is not None:
            continue
        if column.role not in ("feature", "ignore") or column.unique < _FEWEST_NUMBERS or names_code(column.name):
            continue
        if column.reason.endswith(UNSEARCHED):
            continue
        values = evidence.values[column.name]
        # Identifiers and codes of digits only have no other texts.
        found = None if all_contain(values.distinct, "^[0-9]+$") else find_numbers(values)
        if found is None or found.share == 1 or found.numbers.n_unique() <= _FEWEST_NUMBERS:
            continue
        units, share = _other_units(values, found)
        if found.share + share < _MOSTLY:
            continue
        texts = ", ".join(map(show, values.uniques.filter(found.numbers.is_null()).head(_SHOWN)))
        message = f"{found.share:.0%} of the cells are numbers; texts such as {texts} are not."
        if units:
            message = (
                f"{found.share + share:.0%} of the cells are numbers, but their units cannot be converted: {units}."
            )
        done = "left out" if column.role == "ignore" else "read"
        remedy = (
            f"{option('kind', {column.name: 'numeric'})} reads the numbers of one unit, and all other texts as missing"
        )
        action = f"{done} as {column.kind}; {remedy}"
        yield DataWarning(
            check="mostly_numbers",
            column=column.name,
            message=message,
            action=action,
            remedies=(as_kind(column.name, "numeric"),),
        )


def _other_units(values: Values, found: Found) -> tuple[str, float]:
    """The units of a column if it has several of different dimensions, and the share of the cells with one that is not read."""
    units: Counter[str] = Counter()
    n_more = 0
    unread = found.numbers.is_null().to_list()
    for text, count, is_unread in zip(values.uniques.to_list(), values.counts.to_list(), unread, strict=True):
        cell = parts_of(text)
        if cell is not None and (currency_of(cell.unit) or is_known_unit(cell.unit)):
            units[cell.unit] += count
            n_more += count * is_unread
    return (
        (", ".join(unit for unit, _ in units.most_common(_SHOWN)), n_more / values.n_present) if n_more else ("", 0.0)
    )
