"""Features whose values differ between the training table and the test file."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tabapp.data.checks.registry import Comparison, comparison
from tabapp.data.leaks import codes_of, score_alone
from tabapp.data.schema import DataWarning, leave_out
from tabapp.errors import option

_DRIFT = 0.4
"""Smallest score, as `score_alone` scales it: ROC AUC 0.7 for classifying rows by their file."""
_MANY_NEW = 0.05


@comparison(
    "drift",
    description="A feature's values differ so much between the test file and the training file that they identify the file.",
    remedy="Check that both files come from the same process; leave the column out with --ignore if it depends on the date.",
    rank=110,
)
def drift(tables: Comparison) -> Iterator[DataWarning]:
    """Features that classify rows as training or test with a ROC AUC of at least 0.7, out of fold."""
    for column in tables.columns:
        if column.role != "feature" or column.name not in tables.training or column.name not in tables.test:
            continue
        training, test = tables.training[column.name], tables.test[column.name]
        both = pl.concat([training, test])
        is_test = pl.Series([0] * len(training) + [1] * len(test))
        score, _ = score_alone(codes_of(both), is_test, 2)
        if score < _DRIFT:
            continue
        message = f"Its values differ between the test file and the training file (ROC AUC {(score + 1) / 2:.2f})."
        if both.dtype == pl.String:
            present = test.drop_nulls()
            share = float((~present.is_in(training.drop_nulls().unique().to_list())).mean() or 0)  # pyright: ignore[reportArgumentType]
            message += f" {share:.0%} of its values in the test file are new." if share >= _MANY_NEW else ""
        name = column.marks_of or column.name
        if column.marks_of is not None:
            message = f"Its marks: {message}"
        action = f"kept; scores on the test file may be lower, and {option('ignore', name)} leaves it out"
        yield DataWarning(check="drift", column=name, message=message, action=action, remedies=(leave_out(name),))
