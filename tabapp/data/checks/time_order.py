"""Tables whose rows are in the order of a date."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tabapp.data.checks.registry import Evidence, check
from tabapp.data.schema import DataWarning, Remedy
from tabapp.errors import option

_IN_ORDER = 0.98
_FEWEST_DATES = 20
_FEWEST_STEPS = 10


@check(
    "time",
    description="The rows are sorted by a date, as in a log or a time series.",
    remedy="Use --time COLUMN if predictions are for later rows; models are then scored on the latest rows.",
    rank=70,
)
def time(evidence: Evidence) -> Iterator[DataWarning]:
    """Dates that the rows are sorted by, forwards or backwards."""
    if any(column.role == "time" for column in evidence.columns):
        return
    for column in evidence.judged_features:
        if column.kind != "datetime" or column.unique < _FEWEST_DATES:
            continue
        steps = np.diff(evidence.features[column.name].drop_nulls().dt.epoch("us").to_numpy())
        if (steps != 0).sum() < _FEWEST_STEPS:
            continue
        if max(float((steps >= 0).mean()), float((steps <= 0).mean())) >= _IN_ORDER:
            message = f"The rows are sorted by this date, from {' to '.join(column.first_and_last or ())}."
            by_time = Remedy(label="score models on the latest rows", option="time", value=column.name)
            action = (
                f"kept; if you predict later rows, score models on the latest rows with {option('time', column.name)}"
            )
            yield DataWarning(check="time", column=column.name, message=message, action=action, remedies=(by_time,))
