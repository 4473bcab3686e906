import time

import numpy as np
import pytest

from tabapp import metrics
from tabapp.explain.fold_model import FoldModel
from tabapp.explain.permutation import permutation_importance
from tabapp.features.arrays import Table
from tests.explain.models import COLUMNS, SPEC, LinearModel, fold_models


def by_column(result):
    return {importance.column: importance for importance in result.columns}


def test_columns_are_ranked_by_their_effect():
    found = by_column(permutation_importance(fold_models(), "rmse", COLUMNS, seed=0))
    assert found["strong"].mean > found["weak"].mean > 0
    assert found["color"].mean > 0
    for column in ("noise", "unused", "absent"):
        assert found[column].mean == found[column].low == found[column].high == 0
    for importance in found.values():
        assert importance.low <= importance.mean <= importance.high
        assert importance.n_repeats == 5


def test_importance_of_an_independent_column_matches_theory():
    """Shuffling x in y = a·x + e doubles a²·var(x) in the mean squared error (Fisher et al. 2019, section 4)."""
    folds = fold_models(n_rows=4_000)
    found = permutation_importance(folds, "rmse", ["weak"], seed=0, max_rows=20_000, n_repeats=10)
    weak = np.concatenate([fold.table.numeric[:, 1] for fold in folds])
    expected = np.sqrt(0.1**2 + 2 * weak.var()) - 0.1
    assert found.columns[0].mean == pytest.approx(expected, rel=0.02)


def test_importances_equal_scikit_learns():
    """On a fixed model, up to the standard errors of the shuffles, which differ."""
    from sklearn.base import BaseEstimator
    from sklearn.inspection import permutation_importance as expected_importance

    (fold,) = fold_models(n_folds=1, n_rows=300)
    rows = np.column_stack([fold.table.numeric, fold.table.categorical])

    class Estimator(BaseEstimator):
        def fit(self, x, y):
            raise NotImplementedError

        def predict(self, x):
            return fold.model.predict(Table(x[:, :4].astype(np.float32), x[:, 4:].astype(np.int32)))

    repeats = 100
    expected = expected_importance(
        Estimator(), rows, fold.table.target, scoring="neg_root_mean_squared_error", n_repeats=repeats, random_state=0
    )
    columns = ("weak", "noise", "color")
    found = permutation_importance([fold], "rmse", columns, seed=0, n_repeats=repeats)
    for importance, place in zip(found.columns, (1, 2, 4), strict=True):
        # The difference of two means over independent shuffles.
        margin = 4 * np.sqrt(2 / repeats) * expected.importances_std[place]
        assert importance.mean == pytest.approx(expected.importances_mean[place], abs=margin + 1e-6)


@pytest.mark.parametrize("metric", ["rmse", "mae"])
def test_intervals_of_a_column_without_effect_contain_zero(metric):
    """The model has learned noise: its importance is 0 in the population, but not in every sample of rows."""

    class Overfitted(LinearModel):
        def predict(self, table):
            return (2 * table.numeric[:, 0] + 0.3 * table.numeric[:, 2]).astype(np.float32)

    inside = []
    for seed in range(60):
        generator = np.random.default_rng(seed)
        numeric = generator.normal(size=(200, 4)).astype(np.float32)
        target = 2 * numeric[:, 0] + generator.normal(size=200)
        table = Table(numeric, np.full((200, 2), 2, dtype=np.int32), target)
        (found,) = permutation_importance([FoldModel(Overfitted(), table, SPEC)], metric, ["noise"], seed=seed).columns
        inside.append(found.low <= 0 <= found.high)
    assert np.mean(inside) >= 0.85, "95 % of samples; 60 of them have fewer than 51 in 2 of 1,000 cases"


def test_features_of_one_column_are_permuted_together():
    """Permuting value and missing indicator separately could make both non-zero in a row, which never occurs in a file."""
    seen = []

    class Watching(LinearModel):
        def predict(self, table):
            seen.append((table.numeric[:, 0] != 0) & (table.numeric[:, 3] != 0))
            return super().predict(table)

    permutation_importance(fold_models(model=Watching), "rmse", ["strong"], seed=0)
    assert len(seen) > 5
    assert not np.concatenate(seen).any()


def test_result_depends_on_the_seed_but_not_on_the_threads():
    folds = fold_models()
    one = permutation_importance(folds, "mae", COLUMNS, seed=4, n_jobs=1, max_rows=300)
    two = permutation_importance(folds, "mae", COLUMNS, seed=4, n_jobs=2, max_rows=300)
    assert one == two
    assert one != permutation_importance(folds, "mae", COLUMNS, seed=5, n_jobs=1, max_rows=300)


def test_runs_in_threads_of_the_calling_process():
    folds = fold_models(n_rows=50)
    for fold in folds:
        fold.model.threads.clear()
    permutation_importance(folds, "rmse", COLUMNS, seed=0, n_jobs=2, n_repeats=20)
    assert len(folds[0].model.threads) >= 2


def rare_level_folds(model):
    """A column with one value in 99.6 % of the rows, and a strong one."""
    numeric = np.random.default_rng(0).normal(size=(1_000, 4)).astype(np.float32)
    numeric[:, 1] = 0
    numeric[:4, 1] = 1
    codes = np.full((1_000, 2), 2, dtype=np.int32)
    target = 3.0 * numeric[:, 0] + numeric[:, 1]
    return [
        FoldModel(model, Table(numeric[part], codes[part], target[part]), SPEC)
        for part in np.split(np.arange(1_000), 5)
    ]


class Broken(LinearModel):
    """Leaves out a part of the model in some calls, as a prediction does whose state another thread has changed."""

    def __init__(self, every=3):
        super().__init__()
        self.calls, self.every = 0, every

    def predict(self, table):
        self.calls += 1
        found = super().predict(table)
        found[len(table) // 2 :] *= 1 if self.calls % self.every else 0.7
        return found


@pytest.mark.parametrize(("every", "columns"), [(2, ("strong", "weak", "noise")), (11, ("weak", "noise"))])
def test_values_that_are_not_reproducible_are_marked(every, columns):
    for column in columns:
        (found,) = permutation_importance(rare_level_folds(Broken(every)), "rmse", [column], seed=0).columns
        assert found.unstable, column


def test_values_of_reproducible_predictions_are_not_marked():
    found = permutation_importance(rare_level_folds(LinearModel()), "rmse", COLUMNS, seed=0)
    assert not any(each.unstable for each in found.columns)


def test_rounding_that_depends_on_the_other_rows_is_not_marked():
    class Rounded(LinearModel):
        def predict(self, table):
            found = super().predict(table)
            return found + np.float32(1e-6) * found.mean()

    found = permutation_importance(rare_level_folds(Rounded()), "rmse", COLUMNS, seed=0)
    assert not any(each.unstable for each in found.columns)


def test_predictions_that_are_not_numbers_are_marked_or_left_out():
    class Undefined(LinearModel):
        def predict(self, table):
            found = super().predict(table)
            found[-1] = np.nan
            return found

    found = permutation_importance(rare_level_folds(Undefined()), "rmse", ["strong"], seed=0)
    assert all(each.unstable for each in found.columns)


def test_the_order_of_shuffles_changes_what_is_skipped_only(monkeypatch):
    folds = fold_models()
    backwards = permutation_importance(folds, "rmse", COLUMNS, seed=0, order=range(len(COLUMNS))[::-1])
    assert backwards == permutation_importance(folds, "rmse", COLUMNS, seed=0)
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    class Slow(LinearModel):
        def predict(self, table):
            nonlocal now
            now += 0.01
            return super().predict(table)

    slow = fold_models(n_folds=1, model=Slow)
    found = permutation_importance(slow, "rmse", COLUMNS, seed=0, order=(3, 2, 0, 1, 4, 5), deadline=now + 0.025)
    assert [each.column for each in found.columns] == ["strong", "color"]
    assert found.skipped == ("noise", "weak", "unused", "absent")


def test_uses_at_most_the_maximum_rows_and_reports_the_score():
    folds = fold_models()
    result = permutation_importance(folds, "rmse", ["strong"], seed=0, max_rows=90)
    assert result.n_rows == 90
    whole = permutation_importance(folds, "rmse", ["strong"], seed=0)
    truth = np.concatenate([fold.table.target for fold in folds])
    prediction = np.concatenate([fold.model.predict(fold.table) for fold in folds])
    assert whole.score == metrics.score("rmse", truth, prediction.astype(np.float64))


def test_sign_follows_the_metric():
    """An accuracy falls and an error rises when an important column is shuffled; both are positive importances."""
    folds = fold_models()
    for metric in ("r2", "rmse"):
        assert permutation_importance(folds, metric, ["strong"], seed=0).columns[0].mean > 0


def test_no_pass_starts_after_the_deadline_and_first_shuffles_come_first(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    class Slow(LinearModel):
        def predict(self, table):
            nonlocal now
            now += 0.01
            return super().predict(table)

    folds = fold_models(n_folds=1, model=Slow)
    columns = ("noise", "weak", "strong", "color")
    result = permutation_importance(folds, "rmse", columns, seed=0, n_repeats=50, deadline=time.monotonic() + 0.15)
    repeats = [importance.n_repeats for importance in result.columns]
    assert len(repeats) == 4
    assert max(repeats) - min(repeats) <= 1
    assert max(repeats) < 50
    late = permutation_importance(folds, "rmse", columns, seed=0, deadline=time.monotonic() - 1)
    assert late.columns == ()
    assert late.skipped == columns


def test_classification_with_row_weights():
    generator = np.random.default_rng(0)
    signal = generator.normal(size=300).astype(np.float32)
    target = (signal > 0).astype(np.int64)

    class Classifier(LinearModel):
        def predict(self, table):
            positive = 1 / (1 + np.exp(-3 * table.numeric[:, 0]))
            return np.column_stack([1 - positive, positive]).astype(np.float32)

    numeric = np.zeros((300, 4), dtype=np.float32)
    numeric[:, 0] = signal
    categorical = np.full((300, 2), 2, dtype=np.int32)
    weight = np.where(signal > 0, 2, 1).astype(np.float32)
    folds = fold_models(n_folds=1)
    folds = [type(folds[0])(Classifier(), Table(numeric, categorical, target, weight), SPEC)]
    result = permutation_importance(folds, "roc_auc", COLUMNS, seed=0)
    assert result.score == pytest.approx(1.0)
    assert by_column(result)["strong"].mean == pytest.approx(0.5, abs=0.06)
    weighted = permutation_importance(folds, "log_loss", ["strong"], seed=0).columns[0].mean
    plain = Table(numeric, categorical, target)
    unweighted = permutation_importance([type(folds[0])(Classifier(), plain, SPEC)], "log_loss", ["strong"], seed=0)
    assert weighted != unweighted.columns[0].mean


def test_rows_without_target_are_rejected():
    folds = fold_models(n_folds=1)
    bare = Table(folds[0].table.numeric, folds[0].table.categorical)
    with pytest.raises(ValueError, match="target"):
        permutation_importance([type(folds[0])(folds[0].model, bare, SPEC)], "rmse", ["weak"], seed=0)
