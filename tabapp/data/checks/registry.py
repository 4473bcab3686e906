"""The registry of checks, what they receive, and how they run."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module

import polars as pl

from tabapp.data.counts import Values
from tabapp.data.schema import Column, DataWarning
from tabapp.data.target import Goal

PACKAGE = "tabapp.data.checks"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A judged table, as its checks receive it.

    Attributes:
        columns: every column, in file order, with companions.
        n_rows: rows of the table.
        target: name of the target column.
        goal: the task, with its classes and their counts.
        frame: the whole table, every column as text.
        values: counted values of each column.
        copies: columns that repeat an earlier one or the target cell by cell, as {name: original}.
        features: typed values of the features by name, for a sample of rows that have a target, in file order.
        answer: (sampled rows,) class codes, or numbers for regression.
    """

    columns: tuple[Column, ...]
    n_rows: int
    target: str
    goal: Goal
    frame: pl.DataFrame
    values: Mapping[str, Values]
    copies: Mapping[str, str]
    features: Mapping[str, pl.Series]
    answer: pl.Series

    @property
    def judged_features(self) -> list[Column]:
        """The columns of the file that models learn from."""
        return [column for column in self.columns if column.role == "feature" and column.marks_of is None]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A training table and a test file, as the checks that compare them receive them.

    Attributes:
        columns: of the training table, in file order.
        training, test: typed values of common features by name, for about the same number of sampled rows.
    """

    columns: tuple[Column, ...]
    training: Mapping[str, pl.Series]
    test: Mapping[str, pl.Series]


CheckFunction = Callable[[Evidence], Iterable[DataWarning]]
ComparisonFunction = Callable[[Comparison], Iterable[DataWarning]]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check and its documentation.

    Attributes:
        code: what `DataWarning.check` says.
        description: what it finds, in one sentence.
        remedy: what a user can do about it, in one sentence.
        rank: position of its warnings among others; the lowest is shown first.
        functions, comparisons: what finds it; empty for codes that reading the file reports.
    """

    code: str
    description: str
    remedy: str
    rank: int
    functions: list[CheckFunction] = field(default_factory=list[CheckFunction])
    comparisons: list[ComparisonFunction] = field(default_factory=list[ComparisonFunction])


_checks: dict[str, Check] = {}


def declare(code: str, *, description: str, remedy: str, rank: int) -> Check:
    """Register a code with its documentation.

    Raises:
        ValueError: the code is taken.
    """
    if code in _checks:
        raise ValueError(f"two checks have the code {code!r}")
    _checks[code] = Check(code=code, description=description, remedy=remedy, rank=rank)
    return _checks[code]


def check(code: str, *, description: str, remedy: str, rank: int) -> Callable[[CheckFunction], CheckFunction]:
    """Register a function as a check on the training table. See `Check` for the arguments."""
    declared = declare(code, description=description, remedy=remedy, rank=rank)

    def register(function: CheckFunction) -> CheckFunction:
        declared.functions.append(function)
        return function

    return register


def comparison(
    code: str, *, description: str, remedy: str, rank: int
) -> Callable[[ComparisonFunction], ComparisonFunction]:
    """Register a function as a check that compares a test file with the training table. See `Check` for the arguments."""
    declared = declare(code, description=description, remedy=remedy, rank=rank)

    def register(function: ComparisonFunction) -> ComparisonFunction:
        declared.comparisons.append(function)
        return function

    return register


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, in the order of their warnings."""
    for module in pkgutil.iter_modules(import_module(PACKAGE).__path__):
        import_module(f"{PACKAGE}.{module.name}")
    return tuple(sorted(_checks.values(), key=lambda each: (each.rank, each.code)))


def most_important_first(warnings: Iterable[DataWarning]) -> tuple[DataWarning, ...]:
    """Warnings by the rank of their check, otherwise in their order."""
    ranks = {each.code: each.rank for each in all_checks()}
    return tuple(sorted(warnings, key=lambda warning: ranks.get(warning.check, 0)))


def run_checks(evidence: Evidence) -> list[DataWarning]:
    """The warnings of all checks on a table."""
    return [warning for each in all_checks() for function in each.functions for warning in function(evidence)]


def run_comparisons(tables: Comparison) -> list[DataWarning]:
    """The warnings of all checks that compare a test file with the training table."""
    return [warning for each in all_checks() for function in each.comparisons for warning in function(tables)]
