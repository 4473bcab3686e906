"""The uncertainty of filled cells: checked answers of models, and the columns that `impute` adds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.bundle.prediction.local import bundle_errors
from tabapp.errors import BundleError, UsageError
from tabapp.features.arrays import Table
from tabapp.models.contract import FittedModel, Uncertainty


def uncertainty_of(model: FittedModel, table: Table, where: str) -> Uncertainty:
    """The uncertainty of the missing cells of a table.

    Args:
        where: names the model in messages.

    Raises:
        UsageError: the model does not know it.
        BundleError: the model fails, or its answer is not valid.
    """
    with bundle_errors(f"{where} fails to estimate the uncertainty of cells"):
        found = model.imputation_uncertainty(table)
    if found is None:
        raise UsageError(f"{where} does not know the uncertainty of filled cells. Omit --uncertainty.")
    shapes = found.numeric.shape, found.categorical.shape
    if shapes != (table.numeric.shape, table.categorical.shape):
        raise BundleError(f"{where} gives uncertainties of other cells.")
    if np.isinf(found.numeric).any() or np.isinf(found.categorical).any():
        raise BundleError(f"{where} gives uncertainties that are not finite.")
    return found


def uncertainty_name(column: str, taken: Collection[str]) -> str:
    """The name of the column with the uncertainties of a column."""
    name = f"{column}_uncertainty"
    while name in taken:
        name += "_"
    return name


def uncertainty_column(
    column: str, taken: Collection[str], found: Sequence[npt.NDArray[np.float64]], missing: pl.Series
) -> pl.Series:
    """The mean uncertainty of several models in the missing cells of a column, null in the others.

    Args:
        taken: names of other columns.
        found: (rows,) by model.
        missing: (rows,) mask of the filled cells.
    """
    name = uncertainty_name(column, taken)
    if not found:
        return pl.Series(name, [None] * len(missing), dtype=pl.Float64)
    mean = pl.Series(name, np.mean(found, axis=0), dtype=pl.Float64, nan_to_null=True)
    return mean.set(~missing, None)
