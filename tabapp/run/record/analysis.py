"""How an analysis of a run is declared: its result, the option that requests it, and what views show of it.

Each analysis is a module of `tabapp.run.analyses` with an `ANALYSIS`. `all_analyses` imports every module there, so that a new
analysis is this module and the function that computes it: the command line, the log, the state, screens and reports follow.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from importlib import import_module
from operator import or_
from typing import Any, Generic, TypeVar

import msgspec

from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.state import RunState

PACKAGE = "tabapp.run.analyses"

EventT = TypeVar("EventT", bound=AnalysisEvent)
Point = tuple[float, float]


@dataclass(frozen=True)
class DiagnosisTable:
    """A title, sentences on the result, and a table; columns of numbers are in `right`.

    `shades` are, by row, how strongly a page shades the cells after the first, from 0 to 1; empty for none.
    """

    title: str
    sentences: tuple[str, ...]
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    right: tuple[int, ...] = ()
    shades: tuple[tuple[float, ...], ...] = ()


class Series(msgspec.Struct, frozen=True):
    """A line, and the band from `low` to `high` around it where there is one."""

    name: str
    points: tuple[Point, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


class Lines(msgspec.Struct, frozen=True, tag_field="part", tag="lines"):
    """A line chart. `reference` is a dashed line to compare with, from its first point to its last."""

    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    reference: tuple[Point, ...] = ()
    x_range: Point | None = None
    y_range: Point | None = None


class Grid(msgspec.Struct, frozen=True, tag_field="part", tag="grid"):
    """A heat map of ordered rows and columns without labels. Cells are multiples of what chance gives, in units of `unit`."""

    title: str
    row_title: str
    column_title: str
    cells: tuple[tuple[float, ...], ...]
    unit: str

    @property
    def top(self) -> float:
        """The value of the strongest shade: the largest one, or twice chance, so that equal cells are pale."""
        return max(2.0, *(value for row in self.cells for value in row))


@dataclass(frozen=True, kw_only=True)
class Question:
    """A text that a screen asks for. `{}` in `value` stands for the answer, which `check` returns in its final form, or raises a
    `UsageError` about."""

    title: str
    message: str
    default: str
    value: str
    check: Callable[[str], str] = str.strip


@dataclass(frozen=True)
class Value:
    """A value of an option that a screen offers; the answer to `question` replaces the value."""

    value: str
    label: str
    note: str
    question: Question | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """How a user requests an analysis.

    Attributes:
        option: the option of `tabapp diagnose`, without its dashes.
        help: help of the option.
        computation: "module:function" of the engine. The function takes a `FinishedRun`, the value if the option has one, and model
            and seconds if the analysis has them; it returns the event.
        title, note: name on screens, and a remark beside it.
        metavar: the value of the option in its help; None for a flag.
        values: the values that a screen offers under the title `question`.
        trains: the analysis trains models again.
        of_model: one model is analyzed, which `--model` names, within the time of `--budget`; also where it `trains`.
        models: names of the models of a run that it can analyze, best first; None for all.
        is_offered: whether a screen offers the analysis for a run.
        needs: what a run that is not offered the analysis lacks, such as "two classes".
    """

    option: str
    help: str
    computation: str
    title: str
    note: str
    metavar: str | None = None
    question: str = ""
    values: Callable[[RunState], Sequence[Value]] | None = None
    trains: bool = False
    of_model: bool = False
    models: Callable[[RunState], Sequence[str]] | None = None
    is_offered: Callable[[RunState], bool] = lambda state: True
    needs: str = ""

    @property
    def is_limited(self) -> bool:
        """Whether `--model` and `--budget` apply."""
        return self.trains or self.of_model

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--{self.option}"


@dataclass(frozen=True, kw_only=True)
class Analysis(Generic[EventT]):
    """An analysis that a user requests, or that the engine adds while time is left.

    Attributes:
        event: its result.
        rank: position among the others; the lowest is first.
        tables: sentences and tables of a result, the same on every view.
        line: the line of a result in the feed; None for no line.
        figures: what reports show beside the tables: line charts and heat maps below those of all analyses, further tables directly
            below.
        of_columns: the result is about columns and what models make of them; reports show these results below the importances.
        has_own_section: reports show it elsewhere, so that its tables are not repeated.
        request: how a user requests it; None if only the engine adds it.
        title: name on screens of an analysis without a request.
    """

    event: type[EventT]
    rank: int
    tables: Callable[[EventT, RunState], Sequence[DiagnosisTable]]
    line: Callable[[EventT, RunState], str] | None = None
    figures: Callable[[EventT, RunState], Sequence[Lines | DiagnosisTable | Grid]] = lambda event, state: ()
    of_columns: bool = False
    has_own_section: bool = False
    request: Request | None = None
    title: str = ""

    @property
    def name(self) -> str:
        """The title on screens."""
        return self.request.title if self.request is not None else self.title


@cache
def all_analyses() -> tuple[Analysis[Any], ...]:
    """Every analysis, in the order of their tables and options."""
    names = [module.name for module in pkgutil.iter_modules(import_module(PACKAGE).__path__)]
    modules = [import_module(f"{PACKAGE}.{name}") for name in names]
    found: list[Analysis[Any]] = [module.ANALYSIS for module in modules if hasattr(module, "ANALYSIS")]
    return tuple(sorted(found, key=lambda each: each.rank))


def analysis_of(event: AnalysisEvent) -> Analysis[Any]:
    """The analysis that a result is of."""
    return next(each for each in all_analyses() if each.event is type(event))


def any_result() -> Any:
    """The results of all analyses as a union, which a decoder takes."""
    return reduce(or_, (each.event for each in all_analyses()))


def all_requests() -> list[Request]:
    """The analyses that a user can request."""
    return [each.request for each in all_analyses() if each.request is not None]


def title_of_request(option: str, value: str | None) -> str:
    """An analysis with its value in words, such as "Groups of a column: Sex"; the option if this version does not know it."""
    title = next((each.title for each in all_requests() if each.option == option), option)
    return title if value is None else f"{title}: {value}"
