"""What `tabapp monitor` finds, as `--json` prints it and reports show it."""

from __future__ import annotations

import msgspec

MODERATE, LARGE = 0.1, 0.25
"""Population stability above which a shift is called moderate, or large (Siddiqi: Credit Risk Scorecards, 2006)."""


class ColumnShift(msgspec.Struct, frozen=True, kw_only=True):
    """How a column differs from the training table.

    Attributes:
        stability: population stability index; 0 for equal shares.
        new_levels: number of cells with a level that the training table does not have.
        missing, missing_before: share of missing cells, here and in the training table.
    """

    column: str
    stability: float
    new_levels: int
    missing: float
    missing_before: float


class FileScore(msgspec.Struct, frozen=True, kw_only=True):
    """A score on the labeled rows of a file, with its 95 % interval; None if it is undefined."""

    metric: str
    rows: int
    score: float | None
    low: float | None
    high: float | None


class FileShift(msgspec.Struct, frozen=True, kw_only=True):
    """A file compared with the training table.

    Attributes:
        columns: largest shift first.
        predictions: mean probability of each class, or the mean prediction of a regression as `mean`.
        score: None without labeled rows.
        notes: sentences about the file.
    """

    file: str
    rows: int
    columns: tuple[ColumnShift, ...]
    predictions: dict[str, float]
    score: FileScore | None
    notes: tuple[str, ...] = ()


class Monitored(msgspec.Struct, frozen=True, kw_only=True):
    """All files, in the given order. `trained` is the out-of-fold score of the bundle."""

    bundle: str
    target: str
    task: str
    trained: FileScore
    files: tuple[FileShift, ...]


def size_of(stability: float) -> str:
    """A shift in words; empty for a small one."""
    return "large" if stability > LARGE else "moderate" if stability > MODERATE else ""
