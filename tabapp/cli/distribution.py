"""What `tabapp predict --json` says of all predictions of a file: their distribution, and the inputs of the first rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tabapp.run.protocol.prediction import Distribution

if TYPE_CHECKING:
    import polars as pl

    from tabapp.data.schema import Schema

PROBABILITY_BINS, NUMBER_BINS = 20, 40
MOST_INPUTS = 60
"""Feature columns of a wide table whose cells are shown beside predictions."""


class Distributions:
    """Collects the predictions of a file part by part: four bytes a row, or a count for each class.

    Args:
        schema: of the bundle that predicts.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._numbers: list[pl.Series] = []
        self._classes: Counter[str] = Counter()

    def add(self, predictions: pl.DataFrame) -> None:
        """Add the predictions of the next rows, with the columns that `predict` writes."""
        import polars as pl

        schema = self._schema
        if schema.task == "multiclass":
            self._classes.update(predictions["prediction"].cast(pl.String).drop_nulls().to_list())
        else:
            name = "prediction" if schema.task == "regression" else f"probability_{schema.classes[1]}"
            self._numbers.append(predictions[name].cast(pl.Float32).drop_nulls())

    def clear(self) -> None:
        """Forget all rows."""
        self._numbers.clear()
        self._classes.clear()

    def result(self) -> Distribution | None:
        """The distribution; None without a row."""
        import polars as pl

        schema = self._schema
        if schema.task == "multiclass":
            counts = tuple((label, self._classes[label]) for label in schema.classes)
            return Distribution(target=schema.target, classes=counts) if self._classes else None
        numbers = pl.concat(self._numbers) if self._numbers else pl.Series([], dtype=pl.Float32)
        numbers = numbers.filter(numbers.is_finite())
        if not len(numbers):
            return None
        is_number = schema.task == "regression"
        low, high = _extent(numbers) if is_number else (0.0, 1.0)
        bins = [0] * (NUMBER_BINS if is_number else PROBABILITY_BINS)
        scale = len(bins) / (high - low) if high > low else 0.0
        places = ((numbers - low) * scale).floor().clip(0, len(bins) - 1).cast(pl.UInt32)
        for place, number in places.value_counts().iter_rows():
            bins[place] = number
        label = "" if is_number else schema.classes[1]
        return Distribution(target=schema.target, label=label, low=low, high=high, counts=tuple(bins))


def _extent(numbers: pl.Series) -> tuple[float, float]:
    ordered = numbers.sort()
    return float(ordered[0]), float(ordered[-1])


def inputs_of(rows: pl.DataFrame, schema: Schema, n_rows: int) -> tuple[Sequence[str], Sequence[Sequence[str | None]]]:
    """The feature columns of the first rows of a file, at most `MOST_INPUTS`, and their cells as text."""
    import polars as pl

    names = [column.name for column in schema.inputs if column.name in rows.columns][:MOST_INPUTS]
    # A name such as ^a$ would be a pattern in `select`.
    return names, pl.DataFrame([rows[name].head(n_rows).cast(pl.String) for name in names]).rows()
