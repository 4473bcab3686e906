"""NPT as a model: contexts, leaks, several targets, imputation, unlabeled rows, and probes of the network."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest
import torch
from tabapp_plugins.npt import steps
from tabapp_plugins.npt.model import NPTModel
from tabapp_plugins.npt.network import Entries, Memory, NPTNetwork, Predicted
from tabapp_plugins.npt.params import NPTParams
from tabapp_plugins.npt.plugin import NPT, sized
from tabapp_plugins.npt.timing import evaluated, reading_seconds, time_for_predictions, within_time

from tabapp import metrics
from tabapp.features.arrays import FIRST_LEVEL, MISSING, UNSEEN, FeatureSpec, Table
from tabapp.models.contract import Shape
from tabapp.nn.training.checkpoint import Saving
from tests.plugins.tables import make_context

SPEC = FeatureSpec(numeric=("a", "b", "c"), categorical=("k",), cardinalities=(5,), sources=("a", "b", "c", "k"))


def made(n_rows: int, seed: int = 0) -> Table:
    """A table in which b is a plus noise, k is the sign of c, and the target is a + c."""
    generator = np.random.default_rng(seed)
    a, c = generator.normal(size=(2, n_rows))
    b = a + 0.2 * generator.normal(size=n_rows)
    codes = np.where(c > 0, FIRST_LEVEL, FIRST_LEVEL + 1).astype(np.int32)
    return Table(np.column_stack([a, b, c]).astype(np.float32), codes[:, None], 50 + 10 * (a + c))


def fit(train: Table, valid: Table, folder: Path, task="regression", n_classes=1, seed=0, spec=SPEC, **changes):
    settings = {
        "d_embedding": 8,
        "n_layers": 2,
        "n_heads": 2,
        "n_steps": 150,
        "learning_rate": 1e-2,
        "n_evaluations": 3,
    }
    params = sized("mini", 5, **(settings | changes))
    model = NPT().fit(train, valid, params, make_context(task, spec, n_classes, folder, seed=seed))
    assert isinstance(model, NPTModel)
    return model


def noise_labels(n_rows: int, seed: int) -> Table:
    return replace(made(n_rows, seed), target=np.random.default_rng(seed + 100).integers(0, 2, n_rows))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> NPTModel:
    return fit(made(240), made(60, 1), tmp_path_factory.mktemp("npt"), also_predict=("b", "k"))


@pytest.mark.slow
def test_score_on_a_noise_target_is_chance(tmp_path: Path) -> None:
    train, valid, test = noise_labels(200, 0), noise_labels(80, 1), noise_labels(400, 2)
    model = fit(train, valid, tmp_path, "binary", 2)
    for table in (valid, test):
        said = model.predict(replace(table, target=None))
        # The context contains the early-stopping rows, but the target of a predicted row is always hidden.
        assert 0.35 < metrics.score("roc_auc", table.target, said) < (0.8 if table is valid else 0.65)


@pytest.mark.slow
def test_early_stopping_score_on_a_noise_target_is_chance(tmp_path: Path) -> None:
    scores: list[float] = []
    context = make_context("binary", SPEC, 2, tmp_path, on_report=lambda step, value: scores.append(value))
    params = sized("mini", 5, d_embedding=8, n_layers=2, n_steps=120, learning_rate=1e-2, n_evaluations=4)
    NPT().fit(noise_labels(200, 0), noise_labels(400, 1), params, context)
    assert len(scores) == 4
    assert all(0.4 < score < 0.6 for score in scores)


def test_predictions_ignore_the_targets_of_predicted_rows(model: NPTModel) -> None:
    test = made(20, 5)
    said = model.predict(test)
    np.testing.assert_array_equal(model.predict(replace(test, target=None)), said)
    np.testing.assert_array_equal(model.predict(replace(test, target=1e6 - test.target)), said)


def test_early_stopping_targets_are_not_trained_on(tmp_path: Path) -> None:
    train, valid = made(100), made(60, 1)
    other = replace(valid, target=-3 * valid.target)
    one, two = (fit(train, v, tmp_path, n_steps=12, n_evaluations=1).network.state_dict() for v in (valid, other))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_target_masking_of_one_hides_all_targets(tmp_path: Path) -> None:
    model = fit(made(100), made(40, 1), tmp_path, target_masking=1.0, n_steps=12, n_evaluations=1)
    assert model.context.hidden[:, model.saved.target].all()
    assert not fit(made(100), made(40, 1), tmp_path, n_steps=12).context.hidden.any()


def test_contexts_are_bounded_stratified_and_averaged(tmp_path: Path) -> None:
    train, valid = made(300), made(60, 1)
    model = fit(train, valid, tmp_path, n_steps=12, context_rows=40, n_contexts=3)
    assert model.draws.shape == (3, 40)
    assert len(model.source) == len(model.context) == 120
    every = np.concatenate([train.target, valid.target])
    edges = np.quantile(every, np.linspace(0, 1, 5)[1:-1])
    for draw in model.draws:
        counts = np.bincount(np.searchsorted(edges, every[model.source[draw]]), minlength=4)
        assert counts.min() >= 6
    test = made(5, 3)
    each = [model.prediction(model.recall(model.queries(test), [memory])) for memory in model.memories()]
    np.testing.assert_allclose(model.predict(test), np.mean(each, axis=0), rtol=1e-5)
    assert np.ptp(np.stack(each), axis=0).max() > 0


def test_missing_cells_are_hidden_and_their_codes_have_no_effect(model: NPTModel) -> None:
    test = made(8, 4)
    numeric = test.numeric.copy()
    numeric[:4, 0] = np.nan
    entries = model.saved.entries(replace(test, numeric=numeric), with_target=False)
    assert entries.hidden[:4, 0].all()
    assert not entries.hidden[4:, :3].any()
    said = model.predict(replace(test, numeric=numeric))
    assert np.isfinite(said).all()
    assert not np.array_equal(said[:4], model.predict(test)[:4])
    # No training row had an unseen level, so an unseen level is treated as missing.
    odd = [replace(test, categorical=np.full_like(test.categorical, code)) for code in (UNSEEN, MISSING)]
    np.testing.assert_array_equal(model.predict(odd[0]), model.predict(odd[1]))


def test_numeric_and_categorical_targets_are_predicted_together(model: NPTModel) -> None:
    test = made(200, 6)
    said = model.predict_features(test)
    assert set(said) == {1, 3}
    assert np.corrcoef(said[1], test.numeric[:, 1])[0, 1] > 0.8
    assert said[3].shape == (200, 5)
    assert said[3][:, MISSING].max() == 0
    np.testing.assert_allclose(said[3].sum(axis=1), 1, rtol=1e-5)
    assert (said[3].argmax(axis=1) == test.categorical[:, 0]).mean() > 0.8
    assert np.corrcoef(model.predict(test), test.target)[0, 1] > 0.8
    blind = replace(test, numeric=test.numeric * np.array([1, -5, 1], np.float32), categorical=test.categorical * 0)
    np.testing.assert_array_equal(model.predict(blind), model.predict(test))


@pytest.mark.slow
def test_imputes_without_a_target(tmp_path: Path) -> None:
    train, valid, test = made(300), made(60, 1), made(200, 2)
    model = fit(replace(train, target=None), replace(valid, target=None), tmp_path, n_steps=240)
    assert model.saved.objective is None
    gone = np.random.default_rng(0).random((200, 4)) < 0.15
    numeric, codes = test.numeric.copy(), test.categorical.copy()
    numeric[gone[:, :3]] = np.nan
    codes[gone[:, 3:]] = MISSING
    holed = Table(numeric, codes)
    filled = model.impute(holed)
    np.testing.assert_array_equal(filled.numeric[~gone[:, :3]], test.numeric[~gone[:, :3]])
    np.testing.assert_array_equal(filled.categorical[~gone[:, 3:]], test.categorical[~gone[:, 3:]])
    assert np.isfinite(filled.numeric).all()
    assert filled.categorical.min() >= FIRST_LEVEL
    rmse = np.sqrt(np.mean((filled.numeric - test.numeric)[gone[:, 1], 1] ** 2))
    assert rmse < 0.7 * test.numeric[:, 1].std()
    assert (filled.categorical == test.categorical)[gone[:, 3:]].mean() > 0.75
    with pytest.raises(ValueError, match="without a target"):
        model.predict(test)
    folder = tmp_path / "saved"
    folder.mkdir()
    model.save(folder)
    again = NPTModel.load(folder).impute(holed)
    np.testing.assert_array_equal(again.numeric, filled.numeric)
    np.testing.assert_array_equal(again.categorical, filled.categorical)


@pytest.mark.parametrize(
    ("task", "absent"), [("regression", np.nan), pytest.param("binary", -1, marks=pytest.mark.slow)]
)
def test_rows_without_a_target_are_used(task, absent, tmp_path: Path) -> None:
    labeled, unlabeled, valid = made(80), made(120, 9), made(60, 1)
    if task == "binary":
        labeled, valid = (replace(t, target=(t.target > 50).astype(np.int64)) for t in (labeled, valid))
    target = np.concatenate([labeled.target, np.full(120, absent)]).astype(labeled.target.dtype)
    both = Table(
        np.concatenate([labeled.numeric, unlabeled.numeric]),
        np.concatenate([labeled.categorical, unlabeled.categorical]),
        target,
    )
    n_classes = 1 if task == "regression" else 2
    options = {"n_steps": 60, "context_rows": 100, "n_contexts": 2}
    model = fit(both, valid, tmp_path, task, n_classes, **options)
    alone = fit(labeled, valid, tmp_path, task, n_classes, **options)
    assert np.isfinite(model.predict(valid)).all()
    assert not np.array_equal(model.predict(valid), alone.predict(valid))
    if task == "regression":
        assert model.saved.objective == alone.saved.objective
    # Contexts are drawn from rows with a target if there are enough.
    assert model.source[model.source < 200].max() < 80


def test_trials_of_a_run_use_no_rows_without_a_target() -> None:
    shape = replace(Shape(400, 3, 1, 2), n_unlabeled=4_000)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    tried = [NPT().defaults("binary", shape, "cpu"), *NPT().portfolio("binary", shape, "cpu")]
    tried += [NPT().search_space(study.ask(), "binary", shape, "cpu") for _ in range(8)]
    assert {params.unlabeled for params in tried} == {0.0}


def test_row_neighbors_are_rows_of_the_fit(model: NPTModel, tmp_path: Path) -> None:
    found = model.row_neighbors(made(7, 3), 5)
    assert found.index.shape == found.weight.shape == (7, 5)
    assert found.index.max() < 300
    assert (np.diff(found.weight, axis=1) <= 0).all()
    everyone = model.row_neighbors(made(7, 3), 1000)
    np.testing.assert_allclose(everyone.weight.sum(axis=1), 1, rtol=1e-4)
    assert np.array_equal(np.sort(everyone.index, axis=1), np.tile(np.arange(300), (7, 1)))
    model.save(tmp_path)
    again = NPTModel.load(tmp_path).row_neighbors(made(7, 3), 5)
    np.testing.assert_array_equal(again.index, found.index)
    np.testing.assert_array_equal(again.weight, found.weight)


@pytest.mark.slow
def test_fewer_steps_are_planned_if_time_is_short(tmp_path: Path, ticking_clock: Callable[[], float]) -> None:
    context = make_context("regression", SPEC, 1, tmp_path, soft_deadline=ticking_clock() + 0.3)
    params = sized("mini", 5, d_embedding=8, n_layers=2, n_steps=1_000_000, n_evaluations=100_000)
    model = NPT().fit(made(240), made(60, 1), params, context)
    assert ticking_clock() < context.soft_deadline + 0.02
    assert 1 <= model.summary()["steps"] < 1_000_000


def test_batches_and_contexts_are_smaller_where_the_time_is_too_short_for_them() -> None:
    small = sized("small", 15)
    assert within_time(small, 15, 39_000, "cpu", math.inf) == small
    short = within_time(small, 15, 39_000, "cpu", 36.0)
    assert 64 <= short.batch_rows < 512
    assert short.n_contexts == 1
    assert 64 <= short.context_rows < small.context_rows
    least = within_time(small, 15, 39_000, "cpu", 0.1)
    assert (least.batch_rows, least.context_rows, least.n_contexts) == (64, 64, 1)
    # The defaults of a CPU take a tenth of a second for a step.
    assert within_time(sized("mini", 15), 15, 39_000, "cpu", 36.0) == sized("mini", 15)


def test_a_fit_with_little_time_keeps_some_of_it_for_the_rows_that_it_is_scored_on() -> None:
    small, mini, seconds = within_time(sized("small", 15), 15, 35_000, "cpu", 48.0), sized("mini", 15), 48.0
    assert time_for_predictions(small, 15, 9_768, "cpu", seconds) == 0.5 * seconds
    assert time_for_predictions(small, 15, 9_768, "cpu", math.inf) == 0
    few = time_for_predictions(small, 15, 3_000, "cpu", seconds)
    assert few == pytest.approx(reading_seconds(small, 15, 3_000, "cpu"))
    assert 12 < few < 24
    assert time_for_predictions(small, 15, 0, "cpu", seconds) == 0
    # The defaults of a CPU take little of the time.
    assert time_for_predictions(mini, 15, 9_768, "cpu", seconds) == 0
    step = evaluated(small, 15, 4_000, "cpu", seconds).step
    assert step > 1
    assert reading_seconds(small, 15, 4_000 // step, "cpu") < 0.1 * seconds
    assert 4_000 / evaluated(small, 15, 4_000, "cpu", 1.0).step >= 250
    assert (
        evaluated(small, 15, 4_000, "cpu", math.inf)
        == evaluated(mini, 15, 4_000, "cpu", seconds)
        == slice(None, None, 1)
    )
    assert evaluated(small, 15, 0, "cpu", seconds) == slice(None, None, 1)


def test_training_ends_earlier_if_many_rows_are_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[float] = []

    def train(network, rows, params, evaluate, context) -> None:
        deadlines.append(context.soft_deadline)
        raise InterruptedError

    monkeypatch.setattr("tabapp_plugins.npt.plugin.train_npt", train)
    context = make_context("regression", SPEC, 1, tmp_path)
    context.soft_deadline = time.monotonic() + 1_000
    for context.n_scored in (0, 10**9):
        with pytest.raises(InterruptedError):
            NPT().fit(made(400), made(100, seed=1), sized("mini", 5), context)
    assert deadlines[0] == context.soft_deadline
    assert context.soft_deadline - deadlines[1] == pytest.approx(500, abs=50)


def test_no_row_is_evaluated_after_a_deadline_before_the_first_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[int] = []
    evaluation = NPTModel.predict
    monkeypatch.setattr(
        NPTModel, "predict", lambda self, table: evaluated.append(len(table)) or evaluation(self, table)
    )
    context = make_context("regression", SPEC, 1, tmp_path)
    context.soft_deadline = time.monotonic()
    model = NPT().fit(made(400), made(100, seed=1), sized("mini", 5), context)
    assert model.summary()["best_step"] == 1
    assert not evaluated
    assert np.isfinite(model.predict(made(10, seed=2))).all()


def test_is_skipped_by_size() -> None:
    plugin = NPT()
    assert plugin.supports("regression", Shape(500, 10, 3, 1)) is None
    for shape in (Shape(49, 5, 0, 1), Shape(100_001, 5, 0, 1), Shape(500, 50, 11, 1), Shape(500, 5, 0, 101)):
        reason = plugin.supports("multiclass", shape)
        assert reason
        assert reason.endswith(".")


def test_sizes_of_the_paper() -> None:
    plugin = NPT()
    gpu = [plugin.defaults("regression", Shape(n, 13, 0, 1), "cuda:0") for n in (506, 45_000)]
    assert [(p.d_embedding, p.n_layers, p.n_heads, p.flat) for p in gpu] == [(128, 8, 8, 0.5), (64, 8, 8, 0.7)]
    assert gpu[1] == NPTParams()
    for n_features in (1, 6, 13, 30, 60):
        mini = plugin.defaults("regression", Shape(1000, n_features, 0, 1), "cpu")
        assert mini.n_layers == 4
        assert mini.d_embedding * (n_features + 1) <= 500
        assert mini.d_embedding % mini.n_heads == 0


class _Killed(Exception):
    pass


@pytest.mark.parametrize("batch_rows", [pytest.param(1000, marks=pytest.mark.slow), 48])
def test_a_killed_fit_resumes_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_rows: int
) -> None:
    changes = {"n_steps": 60, "n_evaluations": 5, "batch_rows": batch_rows, "dropout": 0.2}
    train, valid = made(100), made(40, 1)
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    params = sized("mini", 5, d_embedding=8, n_layers=2, n_heads=2, learning_rate=1e-2, **changes)
    expected = NPT().fit(train, valid, params, make_context("regression", SPEC, 1, tmp_path / "whole"))
    monkeypatch.setattr(Saving, "is_due", lambda self: True)
    steps: list[int] = []

    def kill_at_the_third_report(step: int, score: float) -> None:
        steps.append(step)
        if len(steps) == 3:
            raise _Killed

    context = make_context("regression", SPEC, 1, tmp_path / "cut", on_report=kill_at_the_third_report)
    with pytest.raises(_Killed):
        NPT().fit(train, valid, params, context)
    context = make_context("regression", SPEC, 1, tmp_path / "cut", on_report=lambda step, score: steps.append(step))
    resumed = NPT().fit(train, valid, params, context)
    # The third report comes before its checkpoint, so that the fit resumes after the second.
    assert steps == [12, 24, 36, 36, 48, 60]
    assert resumed.summary() == expected.summary()
    np.testing.assert_array_equal(resumed.predict(made(30, 2)), expected.predict(made(30, 2)))


def test_a_batch_that_does_not_fit_in_memory_is_halved_and_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    forward = NPTNetwork.forward

    def fits_fifty_rows(self: NPTNetwork, entries: Entries, n_sets: int = 1) -> Predicted:
        seen.append(len(entries))
        if len(entries) > 50:
            raise torch.OutOfMemoryError
        return forward(self, entries, n_sets)

    remember = NPTNetwork.remember

    def remembers_fifty_rows(self: NPTNetwork, entries: Entries) -> Memory:
        if len(entries) > 50:
            raise torch.OutOfMemoryError
        return remember(self, entries)

    monkeypatch.setattr(NPTNetwork, "forward", fits_fifty_rows)
    monkeypatch.setattr(NPTNetwork, "remember", remembers_fifty_rows)
    model = fit(made(150), made(50, 1), tmp_path, n_steps=12, n_evaluations=1, batch_rows=1000)
    assert seen[:3] == [200, 100, 50]
    assert set(seen[2:]) == {50}
    assert model.draws.shape[1] <= 50
    assert np.isfinite(model.predict(made(10, 2))).all()


def test_unknown_target_feature_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'z', which is not a feature"):
        fit(made(60), made(20, 1), tmp_path, also_predict=("z",))


@pytest.mark.parametrize("task", ["regression", pytest.param("multiclass", marks=pytest.mark.slow)])
def test_contributions_add_up_to_the_output(model: NPTModel, tmp_path: Path, task: str) -> None:
    rows, reference = made(3, 5), made(4, 6)
    if task == "multiclass":
        train, valid = (replace(each, target=np.digitize(each.target, [45, 55])) for each in (made(240), made(60, 1)))
        model = fit(train, valid, tmp_path, "multiclass", 3, n_steps=40)
    rows.numeric[0, 1], rows.categorical[1, 0] = np.nan, MISSING
    assert model.contributions(rows, 1) is None, "there are no exact contributions"
    found = model.contributions(rows, 1, reference)
    assert found is not None
    assert found.errors is not None
    output, before = (
        p if task == "regression" else np.log(p[:, 1] / (1 - p[:, 1]))
        for p in (model.predict(each).astype(np.float64) for each in (rows, reference))
    )
    assert found.base == pytest.approx(before.mean(), abs=1e-3)
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), output, atol=1e-3)
    assert (found.errors <= 0.01 * np.abs(output[:, None] - before).mean(axis=1) + 1e-4).all()
    if task == "regression":
        sizes = np.abs(found.values).mean(axis=0)
        assert set(np.argsort(sizes)[-2:]) <= {0, 1, 2}, "the target is a + c, and b is nearly a"
    same = model.contributions(reference.take(slice(0, 1)), 1, reference.take(slice(0, 1)))
    assert same is not None
    np.testing.assert_allclose(same.values, 0, atol=1e-6)


def test_attention_between_attributes_is_that_of_the_forward_pass(model: NPTModel, monkeypatch) -> None:
    rows, captured = made(6, 5), []

    def attend(query, key, value, dropout_rate):
        captured.append(torch.softmax(query @ key.transpose(2, 3), dim=3))
        return captured[-1] @ value

    model.memories()
    monkeypatch.setattr("tabapp_plugins.npt.network.attend", attend)
    model.recall(model.queries(rows))
    found = model.attention_maps(rows)
    assert [each.title for each in found] == ["layer 2"]
    assert found[0].queries == found[0].keys == (0, 1, 2, -3, 3), "a numeric target is before the categories"
    np.testing.assert_allclose(found[0].weights, captured[0].mean(0), atol=1e-6)


@pytest.mark.parametrize(("given", "first", "last"), [(None, 1.0, 0.2), (0.5, 0.5, 0.5), (0.0, 0.0, 0.0)])
def test_a_constant_weight_of_features_replaces_the_decreasing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: float | None, first: float, last: float
) -> None:
    tradeoffs: list[float] = []
    original = steps.objective

    def recorded(losses, chosen, weight, targets, tradeoff, own):
        tradeoffs.append(tradeoff.item())
        return original(losses, chosen, weight, targets, tradeoff, own)

    monkeypatch.setattr(steps, "objective", recorded)
    fit(made(60), made(20, 1), tmp_path, n_steps=12, feature_weight=given)
    assert len(tradeoffs) == 12
    assert tradeoffs[0] == first
    assert tradeoffs[-1] <= last
    assert tradeoffs == sorted(tradeoffs, reverse=True)
