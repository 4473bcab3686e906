"""Permutation importance of data columns on held-out rows.

Breiman: "Random Forests", Machine Learning 45, 2001, section 10; for any model, Fisher, Rudin and Dominici, JMLR 20, 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tabapp import metrics
from tabapp.explain.dependence import permuted_within
from tabapp.explain.fold_model import FoldModel, at_most
from tabapp.explain.shuffles import run_shuffles
from tabapp.explain.stability import Changes, is_unstable, unshuffled, witnesses
from tabapp.features.arrays import Table

ROW_GROUPS = 10


@dataclass(frozen=True)
class ColumnImportance:
    """How much the metric worsens when one column is shuffled, in the metric's units; positive means that the model uses it.

    `low` and `high` are the 95 % interval over rows and shuffles: the delete-a-group jackknife (Efron & Tibshirani 1993, chapter
    11) with `ROW_GROUPS` groups of held-out rows. An interval over shuffles alone is too narrow: a column without effect has an
    importance of 0 in the population, but not in every sample of rows.

    `unstable` marks a value that is not due to the column alone: predictions of rows changed that the shuffles had left as they
    were.
    """

    column: str
    mean: float
    low: float
    high: float
    n_repeats: int
    unstable: bool = False


@dataclass(frozen=True)
class PermutationImportance:
    """Importances in the order of the columns, the number of rows used, and the score without shuffling.

    `skipped` are the columns without a single shuffle before the deadline.
    """

    columns: tuple[ColumnImportance, ...]
    n_rows: int
    score: float
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Pass:
    """The drop of the score of all rows, then without each group of rows, and the changes of the predictions."""

    drops: npt.NDArray[np.float64]
    changes: Changes


def _with_witnesses(fold: FoldModel) -> FoldModel:
    """The fold's rows, and some of them again at the end."""
    rows = np.concatenate([np.arange(len(fold.table)), witnesses(len(fold.table))])
    return replace(fold, table=fold.table.take(rows), rows=None if fold.rows is None else fold.rows[rows])


def _permuted(fold: FoldModel, features: npt.NDArray[np.intp], order: npt.NDArray[np.intp]) -> Table:
    """The first rows of a fold with some features in another order; rows beyond the order stay as they are."""
    n_numeric = fold.table.numeric.shape[1]
    order = np.concatenate([order, np.arange(len(order), len(fold.table))])
    numeric, categorical = fold.table.numeric.copy(), fold.table.categorical.copy()
    in_numeric, in_categorical = features[features < n_numeric], features[features >= n_numeric] - n_numeric
    numeric[:, in_numeric] = numeric[order][:, in_numeric]
    categorical[:, in_categorical] = categorical[order][:, in_categorical]
    return Table(numeric=numeric, categorical=categorical, target=fold.table.target, weight=fold.table.weight)


def group_name(columns: Sequence[str]) -> str:
    """The name of columns that are permuted together."""
    return " + ".join(columns)


def _order(
    fold: FoldModel, cells: npt.NDArray[np.int64] | None, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """A random order of a fold's rows."""
    if cells is None:
        return generator.permutation(len(fold.table))
    assert fold.rows is not None
    return permuted_within(cells[fold.rows], generator)


def _predict(folds: Sequence[FoldModel], tables: Sequence[Table]) -> npt.NDArray[np.float64]:
    parts = [np.asarray(fold.model.predict(table), dtype=np.float64) for fold, table in zip(folds, tables, strict=True)]
    return np.concatenate(parts)


def _margin(without: npt.NDArray[np.float64]) -> float:
    """Half-width of the 95 % interval of a statistic.

    Args:
        without: (groups,) the statistic without each group of rows, NaN where it is undefined.
    """
    known = without[np.isfinite(without)]
    n = len(known)
    if n < 2:
        return 0.0
    # The conductor imports this module; it should not wait for scipy.
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.975) * np.sqrt((n - 1) / n * ((known - known.mean()) ** 2).sum()))


@dataclass(frozen=True)
class _Scores:
    """What held-out rows are scored by.

    Attributes:
        truth, weight: (rows,) targets and weights of all folds; None without weights.
        kept: (rows,) weights without each group of rows.
    """

    metric: str
    truth: npt.NDArray[np.float64]
    weight: npt.NDArray[np.floating] | None
    kept: list[npt.NDArray[np.float64]]

    @classmethod
    def of(cls, folds: Sequence[FoldModel], metric: str) -> _Scores:
        """Raises: ValueError: there are no held-out rows, or they have no target."""
        targets = [fold.table.target for fold in folds if fold.table.target is not None]
        if not folds or len(targets) != len(folds):
            raise ValueError("permutation importance needs held-out rows with a target")
        truth = np.concatenate(targets).astype(np.float64)
        weights = [fold.table.weight for fold in folds if fold.table.weight is not None]
        weight = np.concatenate(weights) if len(weights) == len(folds) else None
        base = np.ones(len(truth)) if weight is None else np.asarray(weight, dtype=np.float64)
        group = np.arange(len(truth)) % ROW_GROUPS
        return cls(metric, truth, weight, [base * (group != each) for each in range(min(ROW_GROUPS, len(truth)))])

    def __call__(self, prediction: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The score of all rows, then without each group of rows."""
        without = metrics.get(self.metric).resampled(self.truth, prediction)
        whole = metrics.score(self.metric, self.truth, prediction, self.weight)
        return np.array([whole, *(without(each) for each in self.kept)])


@dataclass(frozen=True)
class _Shuffling:
    """Held-out rows whose columns are shuffled.

    Attributes:
        extended: the folds with witnesses at the end of their rows; `is_scored` marks the other rows of all of them.
        before: predictions without shuffling, and `baseline` their scores.
    """

    folds: Sequence[FoldModel]
    extended: Sequence[FoldModel]
    scores: _Scores
    is_scored: npt.NDArray[np.bool_]
    before: npt.NDArray[np.float64]
    baseline: npt.NDArray[np.float64]

    @classmethod
    def of(cls, folds: Sequence[FoldModel], metric: str) -> _Shuffling:
        scores = _Scores.of(folds, metric)
        extended = [_with_witnesses(fold) for fold in folds]
        is_scored = np.concatenate(
            [np.arange(len(more.table)) < len(fold.table) for fold, more in zip(folds, extended, strict=True)]
        )
        before = _predict(extended, [fold.table for fold in extended])
        return cls(folds, extended, scores, is_scored, before, scores(before[is_scored]))

    def shuffle(
        self, unit: Sequence[str], generator: np.random.Generator, cells: npt.NDArray[np.int64] | None
    ) -> _Pass:
        """One pass over all rows with some columns shuffled together, within cells if there are any."""
        features = [np.concatenate([fold.features_of(column) for column in unit]) for fold in self.folds]
        if not any(map(len, features)):
            return _Pass(np.zeros(len(self.baseline)), Changes())
        tables = [
            _permuted(more, chosen, _order(fold, cells, generator))
            for fold, more, chosen in zip(self.folds, self.extended, features, strict=True)
        ]
        after = _predict(self.extended, tables)
        same = [
            unshuffled(more.table, table, chosen)
            for more, table, chosen in zip(self.extended, tables, features, strict=True)
        ]
        sign = 1.0 if metrics.get(self.scores.metric).greater_is_better else -1.0
        drops = sign * (self.baseline - self.scores(after[self.is_scored]))
        return _Pass(drops, Changes.of(self.before, after, np.concatenate(same)))

    def importance(self, column: str, passes: Sequence[_Pass]) -> ColumnImportance:
        """The mean of the passes of a column, with the interval."""
        mean, *without = np.mean([each.drops for each in passes], axis=0).tolist()
        margin = _margin(np.array(without))
        unstable = is_unstable([each.changes for each in passes], float(self.before.std(axis=0).max()))
        return ColumnImportance(column, mean, mean - margin, mean + margin, len(passes), unstable)


def permutation_importance(
    models: Sequence[FoldModel],
    metric: str,
    columns: Sequence[str | tuple[str, ...]],
    *,
    seed: int,
    n_repeats: int = 5,
    n_jobs: int = 1,
    max_rows: int = 2_000,
    deadline: float | None = None,
    within: Mapping[str, npt.NDArray[np.int64]] | None = None,
    order: Sequence[int] | None = None,
) -> PermutationImportance:
    """Shuffle one data column at a time and measure how much the held-out score worsens.

    Each fold model predicts its own held-out rows, and one score is computed over all of them. The features of a column (value,
    missing indicator, parts of a date) are permuted together, which is the same as shuffling the column in the file. A column
    without features has importance 0. Passes run as joblib threads; the result does not depend on `n_jobs`, nor on `order` as long
    as no column is skipped.

    Args:
        models: fold models whose tables have a target.
        columns: names of data columns, or groups of them, which are permuted together and named by `group_name`.
        n_repeats: shuffles per column, in the order of `run_shuffles`.
        n_jobs: threads; each pass uses one.
        max_rows: maximum number of rows in total; a larger table is sampled with the seed.
        deadline: `time.monotonic()` after which no further pass starts; columns without any pass are in `skipped`.
        within: by column, the cells of all usable rows within which it is permuted; needs `FoldModel.rows`.
        order: positions of the columns in the order in which they are shuffled, such as the most promising first.

    Raises:
        ValueError: there are no held-out rows, or they have no target.
    """
    units = [(column,) if isinstance(column, str) else column for column in columns]
    shuffling = _Shuffling.of(at_most(models, max_rows, seed), metric)
    done = run_shuffles(
        lambda index, repeat: shuffling.shuffle(
            units[index],
            np.random.default_rng([seed, index, repeat]),
            None if within is None else within[units[index][0]],
        ),
        lambda each: float(each.drops[0]),
        range(len(columns)) if order is None else order,
        n_repeats,
        n_jobs=n_jobs,
        deadline=deadline,
    )
    by_column: list[list[_Pass]] = [[] for _ in units]
    # The last digits of a mean depend on the order of its terms.
    for (index, _), each in sorted(done.items(), key=lambda item: item[0]):
        if np.isfinite(each.drops[0]):
            by_column[index].append(each)
    names = list(map(group_name, units))
    found = [shuffling.importance(name, passes) for name, passes in zip(names, by_column, strict=True) if passes]
    skipped = [name for name, passes in zip(names, by_column, strict=True) if not passes]
    return PermutationImportance(
        tuple(found), len(shuffling.scores.truth), float(shuffling.baseline[0]), tuple(skipped)
    )
