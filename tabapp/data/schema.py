"""What each column is, and why. JSON in and out; the same schema reads the training file and every file predicted later."""

from __future__ import annotations

from typing import Literal

import msgspec

from tabapp.column_names import join_record
from tabapp.task import Task

Kind = Literal["numeric", "categorical", "boolean", "datetime", "text", "identifier", "constant"]
Role = Literal["feature", "target", "weight", "group", "time", "ignore"]

FEWEST_MARKED = 5
"""A column with fewer marked cells has no companion."""
KINDS: tuple[Kind, ...] = ("numeric", "categorical", "boolean", "datetime", "text", "identifier", "constant")
MIDNIGHT = "T00:00:00"


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One column of the user's file.

    Attributes:
        name: as in the file (made unique where it was not).
        kind: what its values are.
        role: what it is used for.
        reason: one sentence on why it was judged so, for a user to read.
        support: share of the non-missing values that agree with `kind`, in [0, 1].
        missing: number of missing cells, counting `missing_spellings`.
        unique: number of distinct non-missing values.
        missing_spellings: texts that were read as missing in this column, as found; `missing_counts` has how often.
        kept_spellings: texts that are spelled like a missing cell and are values in this column.
        levels: the distinct values of a categorical or boolean column, most frequent first (at most 10,000).
        level_counts: how often each level occurs.
        order: those levels of a categorical column that have an order, lowest first: low, medium, high.
        learns_texts: models learn from the texts of a categorical column, too: its levels are rare, and most have digits inside.
        low, high: range of a numeric column, or of a datetime as ISO text in `low_text` and `high_text`.
        quartiles: lower quartile, median and upper quartile of a numeric column; empty in older schemas.
        histogram: counts in up to 10 equal bins of the range, or of the up to 10 most frequent levels.
        datetime_format: how a datetime column is read: the order of its dates ("iso", "day first", "month first" or "year first"),
            or the unit of its numbers ("epoch s", "epoch ms", "epoch us", "epoch ns" or "excel"). Earlier versions stored a
            strptime format.
        zone: "UTC" if all moments have an offset from UTC, "mixed" if only some have one.
        open_ends: days and texts that stand for no date in a datetime column, such as 9999-12-31.
        decimal, thousands: separators inside numbers written as text.
        label: unit, type or title of the column, from a row below the names.
        unit: the one currency, percent sign or unit around the numbers of a numeric column; values do not contain it.
        notation: what else may be beside numbers, as in `tabapp.data.forms.numbers.NumberFormat`.
        overridden: the user set the kind or the role.
        marks_of: the column of the file whose marks this companion column holds; None for a column of the file. A mark is the part
            of a cell beside its value, such as the "<" of "<0.5"; a cell without a mark is missing.
    """

    name: str
    kind: Kind
    role: Role = "feature"
    reason: str
    support: float = 1.0
    missing: int = 0
    unique: int = 0
    missing_spellings: tuple[str, ...] = ()
    missing_counts: tuple[int, ...] = ()
    kept_spellings: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    level_counts: tuple[int, ...] = ()
    order: tuple[str, ...] = ()
    learns_texts: bool = False
    low: float | None = None
    high: float | None = None
    low_text: str | None = None
    high_text: str | None = None
    quartiles: tuple[float, ...] = ()
    histogram: tuple[int, ...] = ()
    datetime_format: str | None = None
    zone: Literal["UTC", "mixed"] | None = None
    open_ends: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str | None = None
    unit: str | None = None
    notation: str = "exact"
    label: str | None = None
    overridden: bool = False
    marks_of: str | None = None

    @property
    def first_and_last(self) -> tuple[str, str] | None:
        """The range of a datetime for people: days alone where both ends are at midnight; None without a date."""
        if self.low_text is None or self.high_text is None:
            return None
        low, high = self.low_text, self.high_text
        if all(text.endswith(MIDNIGHT) for text in (low, high)):
            return low.removesuffix(MIDNIGHT), high.removesuffix(MIDNIGHT)
        return low.replace("T", " "), high.replace("T", " ")


class Remedy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A change of the plan that remedies a warning: an option of the run and its value, as the command line takes it. `label` says
    what it does to the column."""

    label: str
    option: str
    value: str


def as_kind(column: str, kind: Kind) -> Remedy:
    """Use a column as another kind."""
    return Remedy(label=f"use it as {kind}", option="kind", value=f"{column}={kind}")


def leave_out(column: str) -> Remedy:
    """Use a column no longer."""
    return Remedy(label="leave it out", option="ignore", value=column)


def read_as(option: Literal["null", "keep_null"], text: str, column: str | None = None) -> Remedy:
    """Read a text as missing ("null") or as a value ("keep_null"), in one column or in all."""
    what = "missing" if option == "null" else "a value"
    where = " in every column" if column is None else ""
    item = text if column is None else f"{column}={text}"
    return Remedy(label=f"read {text!r} as {what}{where}", option=option, value=join_record([item]))


class DataWarning(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Something that looks wrong with the data.

    Attributes:
        check: code of the check, as in `tabapp.data.checks.registry.all_checks`.
        column: the column it is about; None for the table as a whole.
        message: what was found, in one sentence.
        action: what is done by default, and the option that changes it.
        remedies: changes of the plan that a screen offers; empty in earlier versions.
    """

    check: str
    column: str | None = None
    message: str
    action: str
    remedies: tuple[Remedy, ...] = ()


class Schema(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All columns of a table, its target and its task.

    Attributes:
        columns: in file order, the target included. The marks of a column follow it as a companion column (`Column.marks_of`).
        target: name of the target column.
        target_reason: one sentence on why it was chosen.
        task: what kind of prediction it is, with `task_reason`.
        classes: class labels as they are spelled, in code order; for binary the positive class is last. Empty for regression.
        rows: usable rows; `rows_without_target` were set aside.
        warnings: what looked wrong.
    """

    columns: tuple[Column, ...]
    target: str
    target_reason: str
    task: Task
    task_reason: str
    classes: tuple[str, ...] = ()
    rows: int
    rows_without_target: int = 0
    warnings: tuple[DataWarning, ...] = ()

    def column(self, name: str) -> Column:
        """The column of that name.

        Raises:
            KeyError: there is none.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns that models learn from, in file order, each followed by its companion."""
        return tuple(column for column in self.columns if column.role == "feature")

    @property
    def columns_of_file(self) -> tuple[Column, ...]:
        """The columns without companions."""
        return tuple(column for column in self.columns if column.marks_of is None)

    @property
    def inputs(self) -> tuple[Column, ...]:
        """The features without companions: the columns that a file to predict must have."""
        return tuple(column for column in self.columns if column.role == "feature" and column.marks_of is None)

    @property
    def companions(self) -> dict[str, Column]:
        """The companion columns by the column whose marks they hold."""
        return {column.marks_of: column for column in self.columns if column.marks_of is not None}

    @property
    def target_ratio(self) -> float:
        """The largest target over its median, which the histogram estimates; 0 if there are classes or negative targets."""
        target = self.column(self.target)
        if self.task != "regression" or target.low is None or target.high is None or target.low < 0:
            return 0.0
        width, below, half = (target.high - target.low) / max(1, len(target.histogram)), 0, sum(target.histogram) / 2
        for number, count in enumerate(target.histogram):
            if count and below + count >= half:
                median = target.low + width * (number + (half - below) / count)
                return target.high / median if median > 0 else 0.0
            below += count
        return 0.0

    def with_role(self, role: Role) -> Column | None:
        """The one column with a special role (target, weight, group, time), if any."""
        return next((column for column in self.columns if column.role == role), None)
