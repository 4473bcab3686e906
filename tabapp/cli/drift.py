"""Shifts of columns as tables on stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabapp.headless.narration import say
from tabapp.run.protocol.monitoring import ColumnShift, FileShift, size_of

if TYPE_CHECKING:
    from tabapp.bundle.prediction.drift import ColumnDrift

SHOWN_COLUMNS = 10


def print_shift(file: FileShift) -> None:
    """Print the columns of a file with the largest shifts, its score, and notes."""
    from tabapp.headless.tables import print_table
    from tabapp.run.record.state import format_score

    score = "" if file.score is None else f" · {file.score.metric} {format_score(file.score.score)}"
    print_table(
        ["column", "stability", "shift", "new levels", "missing", "in training"],
        [
            [
                column.column,
                f"{column.stability:.3f}",
                size_of(column.stability),
                f"{column.new_levels:,}" if column.new_levels else "",
                f"{column.missing:.1%}",
                f"{column.missing_before:.1%}",
            ]
            for column in file.columns[:SHOWN_COLUMNS]
        ],
        right=(1, 3, 4, 5),
        title=f"{file.file} · {file.rows:,} rows{score}",
    )
    for note in file.notes:
        say(note)


def column_shifts(columns: tuple[ColumnDrift, ...]) -> tuple[ColumnShift, ...]:
    """The drift of columns as messages."""
    return tuple(
        ColumnShift(
            column=each.column,
            stability=round(each.stability, 6),
            new_levels=each.new_levels,
            missing=each.missing,
            missing_before=each.missing_before,
        )
        for each in columns
    )
