"""The comparison of two runs, as `tabapp compare --json` prints it and the Runs screen shows it."""

from __future__ import annotations

import msgspec

VERSION = 1


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The base of the records below."""


class ComparedModel(Record, frozen=True, kw_only=True):
    """The best score of a model in each run, on that run's own scored rows; None where it has none."""

    model: str
    title: str
    a: float | None
    b: float | None


class ComparedRun(Record, frozen=True, kw_only=True):
    """One of the runs: its id, its name, the title of its best result, and its number of scored rows."""

    run: str
    name: str
    best: str
    rows: int


class Difference(Record, frozen=True, kw_only=True):
    """What differs between the runs: a part (plan, result, data or versions), a name, and the value in each run."""

    part: str
    name: str
    a: str
    b: str


class Comparison(Record, frozen=True, kw_only=True):
    """Two runs on the rows that both have scored.

    Attributes:
        metric: of run A; `score_a` and `score_b` are those of the ensembles on `common_rows` rows.
        difference: score of B minus score of A, with its 95 % interval from a paired bootstrap over rows.
        better: "a", "b", or None if the interval contains 0.
        matched_by: how rows were matched: their number in the same file, or their content.
        note: why the scores are not compared; empty if they are.
    """

    v: int = VERSION
    a: ComparedRun
    b: ComparedRun
    metric: str = ""
    metric_title: str = ""
    greater_is_better: bool = True
    common_rows: int = 0
    matched_by: str = ""
    score_a: float | None = None
    score_b: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    better: str | None = None
    note: str = ""
    leaderboard: tuple[ComparedModel, ...] = ()
    differences: tuple[Difference, ...] = ()


def verdict(found: Comparison, a: str = "A", b: str = "B") -> str:
    """The result in one or two sentences, with names for the runs."""
    if found.difference is None or found.low is None or found.high is None:
        return found.note
    gap = f"{found.difference:+.4g} (95 % interval {found.low:+.4g} to {found.high:+.4g})"
    rows = f"{found.common_rows:,} common rows"
    if found.better is None:
        return f"No significant difference on {rows}: the {found.metric_title} of {b} minus that of {a} is {gap}."
    winner = {"a": a, "b": b}[found.better]
    return f"{winner} is significantly better on {rows}: the {found.metric_title} of {b} minus that of {a} is {gap}."
