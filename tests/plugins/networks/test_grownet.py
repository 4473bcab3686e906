"""GrowNet's stages: targets of a learner, parameters of the corrective step, and the learners that are kept."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from tabapp_plugins.grownet import (
    Boosting,
    GrowNet,
    GrowNetNetwork,
    GrowNetParams,
    WeakLearner,
    grow,
    newton_step,
    start_value,
)
from torch import Tensor, nn

from tabapp.features.arrays import Table
from tabapp.models.contract import FitStopped
from tabapp.nn.plugin import Sizes
from tabapp.nn.training.checkpoint import Saving
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.trainer import batches
from tabapp.task import Task
from tests.plugins.tables import make_context, make_table

MIXED = Sizes(n_numeric=4, cardinalities=(5, 3), d_out=1)
NUMERIC = Sizes(n_numeric=4, cardinalities=(), d_out=1)


def boosting_on(task: Task, folder: Path, params: GrowNetParams, table: Table | None = None, **columns) -> Boosting:
    made, spec, n_classes = make_table(task, n_rows=300, **columns)
    table = table or made
    context = make_context(task, spec, n_classes, folder)
    objective = Objective.fit(table, context)
    torch.manual_seed(0)
    sizes = Sizes(n_numeric=len(spec.numeric), cardinalities=spec.cardinalities, d_out=objective.d_out)
    return Boosting(GrowNetNetwork(sizes, params), table, params, objective, context)


@pytest.mark.parametrize(("task", "n_classes", "d_out"), [("regression", 1, 1), ("binary", 2, 1), ("multiclass", 3, 3)])
def test_newton_steps_are_gradients_divided_by_second_derivatives(task: Task, n_classes: int, d_out: int) -> None:
    torch.manual_seed(0)
    objective = Objective(task=task, n_classes=n_classes)
    output = torch.randn(40, d_out, dtype=torch.float64)
    target = torch.randn(40) if task == "regression" else torch.randint(0, n_classes, (40,))

    def loss(row: Tensor, y: Tensor) -> Tensor:
        if task == "regression":
            return (row[0] - y).square() / 2
        if task == "binary":
            return nn.functional.softplus(-(2 * y - 1) * row[0])
        return -row.log_softmax(0)[y]

    step, curvature = newton_step(objective, output, target)
    for i in range(40):
        gradient = torch.func.grad(loss)(output[i], target[i])
        hessian = torch.func.hessian(loss)(output[i], target[i]).diagonal()
        torch.testing.assert_close(curvature[i], hessian.double(), atol=1e-6, rtol=1e-4)
        torch.testing.assert_close(step[i], -(gradient / hessian).double(), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_steps_of_rows_with_large_errors_are_bounded(task: Task) -> None:
    objective = Objective(task=task, n_classes=2 if task == "binary" else 3)
    wrong = torch.tensor([[-90.0]]) if task == "binary" else torch.tensor([[-90.0, 90.0, 0.0]])
    step, curvature = newton_step(objective, wrong, torch.tensor([1]) if task == "binary" else torch.tensor([0]))
    assert step.isfinite().all()
    assert step.abs().max() < np.exp(10) + 2
    assert (curvature > 0).all()


def test_start_values() -> None:
    target, weight = torch.tensor([0.0, 0.0, 0.0, 1.0]), torch.tensor([0.5, 0.5, 1.0, 2.0])
    binary = Objective(task="binary", n_classes=2)
    assert start_value(binary, target, None).item() == pytest.approx(np.log(1 / 3))
    assert start_value(binary, target, weight).item() == pytest.approx(0)
    regression = Objective(task="regression", n_classes=1)
    assert start_value(regression, target, weight).item() == pytest.approx(0.5)
    three = start_value(Objective(task="multiclass", n_classes=3), target.long(), None)
    torch.testing.assert_close(three[:2].exp(), torch.tensor([0.75, 0.25]))
    assert three[2].isfinite()


def test_first_stage_equals_a_least_squares_network(tmp_path: Path) -> None:
    """With ρ = 1 and one stage, predictions equal those of the same learner trained on the squared error. Uses float64,
    because Adam divides small gradients by their magnitude, which amplifies rounding errors.
    """
    params = GrowNetParams(n_learners=1, stage_epochs=3, batch_size=50)
    boosting = boosting_on("regression", tmp_path, params, cardinalities=())
    boosting.network.double()
    boosting.numeric, boosting.target = boosting.numeric.double(), boosting.target.double()
    assert abs(boosting.network.base.item()) < 1e-6
    boosting.network.base.zero_()
    learner = WeakLearner(4, params.width, 1, is_first=True).double()
    learner.load_state_dict(boosting.network.learners[0].state_dict())
    torch.manual_seed(1)
    boosting.fit_learner(0)
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(learner.parameters(), lr=params.learning_rate)
    for _ in range(3):
        for rows in batches(torch.randperm(300), 50):
            optimizer.zero_grad()
            nn.functional.mse_loss(learner(boosting.numeric[rows], None)[1][:, 0], boosting.target[rows]).backward()
            optimizer.step()
    network = boosting.network.eval()
    ours = network(boosting.numeric, boosting.categorical)
    torch.testing.assert_close(ours, learner.eval()(boosting.numeric, None)[1], atol=1e-8, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.slow
def test_fits_a_linear_target(tmp_path: Path) -> None:
    table, spec, _ = make_table("regression", n_rows=2000, cardinalities=())
    linear = table.numeric.astype(np.float64) @ np.array([3.0, -1.0, 0.5, 2.0])
    table = Table(table.numeric, table.categorical, linear)
    model = GrowNet().fit(
        table.take(slice(0, 1500)),
        table.take(slice(1500, None)),
        GrowNetParams(n_learners=6, stage_epochs=2, corrective_epochs=2),
        make_context("regression", spec, 1, tmp_path),
    )
    new, _, _ = make_table("regression", n_rows=500, cardinalities=(), seed=1)
    expected = new.numeric.astype(np.float64) @ np.array([3.0, -1.0, 0.5, 2.0])
    error = model.predict(new) - expected
    assert np.sqrt(np.mean(error**2)) < 0.1 * expected.std()


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_training_loss_decreases_with_each_stage(task: Task, tmp_path: Path) -> None:
    params = GrowNetParams(n_learners=5, stage_epochs=2, corrective_epochs=2, learning_rate=2e-3, batch_size=100)
    boosting = boosting_on(task, tmp_path, params)
    losses = []
    for stage in range(5):
        boosting.fit_learner(stage)
        if stage:
            boosting.correct(stage)
        with torch.no_grad():
            output = boosting.network.eval()(boosting.numeric, boosting.categorical)
        losses.append(boosting.objective.loss(output, boosting.target, None).item())
    assert all(after <= 1.01 * before for before, after in pairwise(losses)), losses
    assert losses[-1] < 0.7 * losses[0]


def test_stage_trains_one_learner_and_corrective_step_trains_all(tmp_path: Path) -> None:
    boosting = boosting_on("binary", tmp_path, GrowNetParams(n_learners=3, batch_size=100))
    boosting.fit_learner(0)
    before = {name: t.clone() for name, t in boosting.network.state_dict().items()}
    boosting.fit_learner(1)
    after = boosting.network.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    # Weights and running statistics of the earlier learner, embeddings and ρ are unchanged.
    assert all(name.startswith("learners.1.") for name in moved)
    before = {name: t.clone() for name, t in after.items()}
    boosting.correct(1)
    moved = {name for name, t in boosting.network.state_dict().items() if not torch.equal(before[name], t)}
    assert {"boost_rate", "input.embeddings.0.weight", "learners.0.first.weight", "learners.1.head.bias"} <= moved
    assert not any(name.startswith("learners.2.") for name in moved)


def test_the_boost_rate_is_trained_without_categories(tmp_path: Path) -> None:
    boosting = boosting_on("regression", tmp_path, GrowNetParams(n_learners=2, batch_size=100), cardinalities=())
    for stage in range(2):
        boosting.fit_learner(stage)
    boosting.correct(1)
    rate = boosting.network.boost_rate
    assert rate.grad is not None
    assert rate.grad.item() != 0
    assert rate.item() != 1


def test_gradient_reaches_every_parameter() -> None:
    torch.manual_seed(0)
    network = GrowNetNetwork(MIXED, GrowNetParams(n_learners=3, width=8))
    x, codes = torch.randn(60, 4), torch.stack([torch.arange(60) % 5, torch.arange(60) % 3], 1)
    network(x, codes).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name


def test_parameter_count_and_features_without_activation() -> None:
    n, d, learners = 4, 16, 3
    network = GrowNetNetwork(NUMERIC, GrowNetParams(n_learners=learners, width=d)).eval()
    rest = d * d + d + 2 * d + d + 1
    expected = (n * d + d + rest) + (learners - 1) * (2 * (n + d) + (n + d) * d + d + rest) + 1
    assert sum(p.numel() for p in network.parameters()) == expected
    features, prediction = network.learners[0](torch.randn(50, n), None)
    assert features.min() < 0
    torch.testing.assert_close(prediction, network.learners[0].head(features.relu()))


def test_overfits_64_random_rows(tmp_path: Path) -> None:
    table, spec, _ = make_table("binary", n_rows=64)
    table = Table(table.numeric, table.categorical, np.random.default_rng(0).integers(0, 2, 64))
    context = make_context("binary", spec, 2, tmp_path, metric="log_loss")
    params = GrowNetParams(n_learners=8, stage_epochs=30, corrective_epochs=30, batch_size=64, unseen_rate=0.0)
    torch.manual_seed(0)
    network = GrowNetNetwork(MIXED, params)
    assert grow(network, table, table, params, Objective.fit(table, context), context).best_loss < 1e-3


@pytest.mark.slow
def test_learners_up_to_the_best_stage_are_kept(tmp_path: Path) -> None:
    table, spec, _ = make_table("binary", n_rows=200)
    train, valid = table.take(slice(0, 150)), table.take(slice(150, None))
    reports: list[float] = []
    context = make_context(
        "binary", spec, 2, tmp_path, metric="log_loss", on_report=lambda step, value: reports.append(value)
    )
    params = GrowNetParams(n_learners=12, patience=3, stage_epochs=10, corrective_epochs=10)
    model = GrowNet().fit(train, valid, params, context)
    best = int(np.argmin(reports)) + 1
    assert model.saved.params["n_learners"] == model.summary()["best_stage"] == best == len(model.network.learners)
    assert model.summary()["stages"] == len(reports) == min(12, best + 4)


def test_resumes_from_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Saving, "is_due", lambda self: True)
    table, spec, n_classes = make_table("multiclass", n_rows=200)
    train, valid = table.take(slice(0, 150)), table.take(slice(150, None))
    params = GrowNetParams(n_learners=5, stage_epochs=2)
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    whole = GrowNet().fit(train, valid, params, make_context("multiclass", spec, n_classes, tmp_path / "whole"))

    def kill(step: int, value: float) -> None:
        if step == 3:
            raise FitStopped

    context = make_context("multiclass", spec, n_classes, tmp_path / "killed", on_report=kill)
    with pytest.raises(FitStopped):
        GrowNet().fit(train, valid, params, context)
    steps: list[int] = []
    context = make_context(
        "multiclass", spec, n_classes, tmp_path / "killed", on_report=lambda step, value: steps.append(step)
    )
    again = GrowNet().fit(train, valid, params, context)
    assert steps == [4, 5]
    np.testing.assert_array_equal(again.predict(table), whole.predict(table))
    assert again.summary() == whole.summary()


def test_deadline_in_the_first_stage_keeps_one_learner(tmp_path: Path) -> None:
    table, spec, _ = make_table("regression", n_rows=5000)
    context = make_context("regression", spec, 1, tmp_path, soft_deadline=time.monotonic() - 1)
    model = GrowNet().fit(table, table, GrowNetParams(), context)
    assert len(model.network.learners) == 1
    assert np.ptp(model.predict(table)) > 0
    assert msgspec.convert(model.saved.params, GrowNetParams).n_learners == 1
