"""Fits that are trained as one stacked network give the results of separate fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from tabapp import metrics
from tabapp.models import registry
from tabapp.models.contract import FitStopped, GroupFit
from tabapp.nn import plugin as plugin_module
from tabapp.nn.layers.dropout import AlphaDropout, Dropout
from tabapp.nn.training import stacked, stacked_losses, stacked_rows, trainer
from tabapp.nn.training.checkpoint import Saving
from tabapp.nn.training.method import TrainingMethod
from tabapp.nn.training.objective import Objective, target_of
from tabapp.nn.training.stopping import criterion
from tests.plugins.tables import defaults_of, make_context, make_table

USABLE = [name for name in registry.names() if registry.find(name).reason is None]
STACKING = [name for name in USABLE if registry.get(name).stacks]
RATES = (1e-3, 3e-3, 1e-2)
ROUNDING = 2.0**-53 * 2.0**24
"""Of float64, amplified by at most the ratio of the precisions of float64 and float32 less five bits: an error of float32 anywhere
would be larger."""


@pytest.fixture(autouse=True)
def double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything in float64: Adam amplifies rounding errors of float32 to visible differences where a gradient is almost zero."""
    monkeypatch.setattr(TrainingMethod, "precision", lambda self: torch.autocast("cpu", enabled=False))
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    inputs, target = trainer.inputs, Objective.target
    for module in (trainer, stacked, stacked_rows, plugin_module):
        monkeypatch.setattr(
            module, "inputs", lambda table, device: (inputs(table, device)[0].double(), inputs(table, device)[1])
        )

    def wide(self: Objective, table: Any, device: torch.device) -> torch.Tensor:
        found = target(self, table, device)
        return found.double() if found.is_floating_point() else found

    monkeypatch.setattr(Objective, "target", wide)
    for name in STACKING:
        kind: Any = type(registry.get(name))
        build = kind.build
        monkeypatch.setattr(kind, "build", lambda self, sizes, params, build=build: build(self, sizes, params).double())


def fits_of(
    name: str, folder: Path, task: Any = "multiclass", rates: Sequence[float] = RATES, **changes: Any
) -> list[GroupFit]:
    """Fits that differ in seed, learning rate and number of rows, without dropout."""
    plugin = registry.get(name)
    fits: list[GroupFit] = []
    for i, rate in enumerate(rates):
        table, spec, n_classes = make_table(task, n_rows=260)
        params = defaults_of(plugin, task, table, spec, n_classes)
        undropped = {key: 0.0 for key in params.__struct_fields__ if key.endswith("dropout")}
        params = msgspec.structs.replace(params, learning_rate=rate, **undropped, **changes)
        (folder / str(i)).mkdir(exist_ok=True)
        context = make_context(task, spec, n_classes, folder / str(i), seed=i)
        # Of 164, 163 and 162 rows, by batches of 32, only the first has six steps in an epoch after merging.
        fits.append(GroupFit(table.take(slice(i, 164)), table.take(slice(164, 230 + i)), params, context))
    return fits


def weights_of(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.network.parameters()])


def separate(name: str, fits: Sequence[GroupFit]) -> list[Any]:
    plugin = registry.get(name)
    return [
        plugin.refit(fit.train, fit.params, fit.summaries, fit.context)
        if fit.summaries
        else plugin.fit(fit.train, fit.valid, fit.params, fit.context)
        for fit in fits
    ]


@pytest.mark.parametrize(
    ("name", "task"),
    [*((name, "multiclass") for name in STACKING), ("mlp", "binary"), ("mlp", "regression")],
)
def test_a_group_equals_separate_fits(name: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = fits_of(name, tmp_path, task, average_decay=0.9, max_gradient_norm=1.0, unseen_rate=0.0)
    grouped = registry.get(name).fit_group(fits)
    for model, expected in zip(grouped, separate(name, fits), strict=True):
        assert model is not None
        assert model.summary() == expected.summary()
        torch.testing.assert_close(weights_of(model), weights_of(expected), rtol=0, atol=ROUNDING)


TRIALS = [
    {
        "learning_rate": 1e-3 * 10 ** (i / 8),
        "weight_decay": 1e-2 * (i % 3),
        "batch_size": 32 if i % 4 else 48,
        "patience": 1 + i % 3,
        "average_decay": 0.9 * (i % 2),
        "max_gradient_norm": float(i % 5),
    }
    for i in range(16)
]


def trials_of(name: str, folder: Path, settings: Sequence[dict[str, Any]] = TRIALS, **changes: Any) -> list[GroupFit]:
    """Trials on one fold: fits of the same rows that differ in hyperparameters alone."""
    (first,) = fits_of(name, folder, rates=RATES[:1], max_epochs=14, widths=(16,), unseen_rate=0.0, **changes)
    fits: list[GroupFit] = []
    for i, setting in enumerate(settings):
        (folder / str(i)).mkdir(exist_ok=True)
        context = dataclasses.replace(first.context, folder=folder / str(i))
        params = msgspec.structs.replace(first.params, **setting)
        fits.append(GroupFit(first.train, first.valid, params, context))
    return fits


def equal_models(found: Sequence[Any], expected: Sequence[Any]) -> None:
    for model, other in zip(found, expected, strict=True):
        assert model.summary() == other.summary()
        torch.testing.assert_close(weights_of(model), weights_of(other), rtol=0, atol=ROUNDING)


def test_sixteen_trials_equal_separate_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "_train_alone", None)
    fits = trials_of("mlp", tmp_path)
    expected = separate("mlp", fits)
    assert len({model.summary()["epochs"] for model in expected}) > 3
    equal_models(registry.get("mlp").fit_group(fits), expected)


def test_members_that_have_ended_stay_until_half_of_them_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Recorded:
        """Stands for the recorded steps of a GPU."""

        def __init__(self, take: Callable[[torch.Tensor], None], device: torch.device) -> None:
            self.take = take

        def __call__(self, step: torch.Tensor) -> None:
            self.take(step)

    plan: Callable[[Any], None] = stacked.Group._plan_steps
    monkeypatch.setattr(stacked, "can_record", lambda device: True)
    monkeypatch.setattr(stacked, "GraphedSteps", Recorded)
    monkeypatch.setattr(stacked.Group, "_plan_steps", lambda self: (sizes.append(len(self.members)), plan(self)))
    fits = trials_of("mlp", tmp_path)
    found = registry.get("mlp").fit_group(fits)
    assert sizes[0] == 16
    assert all(2 * smaller <= larger for larger, smaller in pairwise(sizes))
    equal_models(found, separate("mlp", fits))


def test_members_draw_their_rows_at_once_on_a_gpu(tmp_path: Path) -> None:
    plugin = registry.get("mlp")
    members: list[Any] = []
    for fit in fits_of("mlp", tmp_path):
        spec: Any = SimpleNamespace(train=fit.train, params=fit.params, batch_size=32)
        spec.objective, spec.random = Objective.fit(fit.train, fit.context), torch.get_rng_state()
        members.append(spec)
    assert plugin.stacks
    rows = stacked_rows.StackedRows(members, torch.device("cpu"), torch.float64)
    rows._random = []
    orders = rows._orders()
    assert not torch.equal(orders, rows._orders())
    for member, order in zip(members, orders, strict=True):
        assert sorted(order[: len(member.train)].tolist()) == list(range(len(member.train)))


DROPOUTS = (0.0, 0.1, 0.5)


@pytest.mark.parametrize("kind", [Dropout, AlphaDropout])
def test_dropout_has_a_rate_for_each_member(kind: type[Dropout]) -> None:
    layer = kind(0.3)
    torch.manual_seed(0)
    x = torch.nn.functional.selu(torch.randn(len(DROPOUTS), 400, 100))

    def one(x: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        layer.rate = rate
        return layer(x)

    y = torch.func.vmap(one, randomness="different")(x, torch.tensor(DROPOUTS))
    assert torch.equal(y[0], x[0])
    for i, rate in enumerate(DROPOUTS):
        layer.rate = rate
        expected = layer(x[i])
        n = x[i].numel()
        # Six standard errors of the difference of two means, of the values and of the values that appear most often.
        spread = 6 * (2 / n) ** 0.5
        assert abs(y[i].mean() - expected.mean()) < spread * expected.std()
        assert abs(y[i].std() - expected.std()) < spread * expected.std() * 3
        dropped = expected.flatten().mode().values if rate else None
        if dropped is not None:
            shares = [(abs(t - dropped) < 1e-4).double().mean().item() for t in (y[i], expected)]
            assert shares == pytest.approx([rate, rate], abs=spread)


def test_members_with_different_dropout_train_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "_train_alone", None)
    for name, rates in (("mlp", "dropout"), ("snn", "dropout"), ("dcn_v2", "hidden_dropout")):
        settings = [{rates: rate, "max_epochs": 2} for rate in DROPOUTS]
        sizes = {"width": 16} if name == "dcn_v2" else {"widths": (16,)}
        (tmp_path / name).mkdir()
        (first,) = fits_of(name, tmp_path / name, rates=RATES[:1], unseen_rate=0.0, **sizes)
        fits = [
            GroupFit(first.train, first.valid, msgspec.structs.replace(first.params, **setting), first.context)
            for setting in settings
        ]
        models: list[Any] = registry.get(name).fit_group(fits)
        # The one without dropout is what it is alone, and each has its own rate back.
        expected = separate(name, fits[:1])
        equal_models(models[:1], expected)
        assert not torch.allclose(weights_of(models[1]), weights_of(models[2]))
        kept = [{module.rate for module in stacked.dropouts(model.network)} for model in models]
        assert kept == [{rate} if name != "dcn_v2" else {rate, 0.0} for rate in DROPOUTS]


def test_trials_with_dropout_score_as_separate_ones(tmp_path: Path) -> None:
    """Means over seeds: both ways draw other random numbers."""
    plugin = registry.get("mlp")
    settings = [{"dropout": rate, "max_epochs": 6, "learning_rate": 1e-2} for rate in (0.1, 0.6)]
    fits = [
        dataclasses.replace(fit, context=dataclasses.replace(fit.context, seed=seed))
        for seed in range(12)
        for fit in trials_of("mlp", tmp_path, settings)
    ]

    def losses(models: Sequence[Any]) -> torch.Tensor:
        found = [
            metrics.loss("log_loss", target_of(fit.valid), model.predict(fit.valid))
            for fit, model in zip(fits, models, strict=True)
        ]
        return torch.tensor(found).view(-1, len(settings))

    together, alone = losses(plugin.fit_group(fits)), losses(separate("mlp", fits))
    error = ((together.var(0) + alone.var(0)) / len(alone)).sqrt()
    assert (abs(together.mean(0) - alone.mean(0)) < 4 * error).all()
    # The rates differ by more than that.
    assert abs(alone.mean(0)[0] - alone.mean(0)[1]) > 4 * error.max()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("task", "metric"),
    [("binary", "roc_auc"), ("multiclass", "log_loss"), ("regression", "rmse"), ("regression", "mae")],
)
def test_losses_on_the_device_are_those_of_the_metric(task: Any, metric: str, weighted: bool, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    members: list[Any] = []
    for fit in fits_of("mlp", tmp_path, task):
        context = dataclasses.replace(fit.context, metric=metric)
        weight = generator.random(len(fit.valid)).astype(np.float32) if weighted else None
        valid = dataclasses.replace(fit.valid, weight=weight)
        members.append(SimpleNamespace(context=context, valid=valid, objective=Objective.fit(fit.train, context)))
    d_out, most = members[0].objective.d_out, max(len(member.valid) for member in members)
    # So large that probabilities and numbers reach their limits.
    output = torch.tensor(generator.normal(0, 20, (len(members), most, d_out)), dtype=torch.float32)
    losses = stacked_losses.StackedLosses(members, torch.device("cpu"))
    expected = [
        metrics.loss(
            criterion(m.context), target_of(m.valid), m.objective.prediction(output[i, : len(m.valid)]), m.valid.weight
        )
        for i, m in enumerate(members)
    ]
    # float32 probabilities of the C library and of torch differ in their last bit.
    assert losses(output).tolist() == pytest.approx(expected, rel=1e-7)
    losses.keep(torch.tensor([2]))
    assert losses(output[2:]).tolist() == pytest.approx(expected[2:], rel=1e-7)


@pytest.mark.parametrize("metric", ["log_loss", "accuracy"])
def test_members_report_what_separate_fits_report(metric: str, tmp_path: Path) -> None:
    curves: list[list[list[tuple[int, float]]]] = []
    for train in (registry.get("mlp").fit_group, lambda fits: separate("mlp", fits)):
        reported: list[list[tuple[int, float]]] = []
        fits = trials_of("mlp", tmp_path, TRIALS[10:14])
        for fit in fits:
            curve: list[tuple[int, float]] = []
            reported.append(curve)
            fit.context.metric = metric
            fit.context.on_report = lambda step, value, curve=curve: curve.append((step, value))
        train(fits)
        curves.append(reported)
    assert len({len(curve) for curve in curves[0]}) > 1
    for found, expected in zip(*curves, strict=True):
        assert [step for step, _ in found] == [step for step, _ in expected]
        assert [value for _, value in found] == pytest.approx([value for _, value in expected], rel=1e-6)


def test_unseen_levels_are_drawn_as_in_separate_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    draw = torch.rand

    def recorded(*shape: Any, **options: Any) -> torch.Tensor:
        seen.append(draw(*shape, **options))
        return seen[-1]

    fits = fits_of("mlp", tmp_path, unseen_rate=0.2, max_epochs=1)
    monkeypatch.setattr(torch, "rand", recorded)
    registry.get("mlp").fit_group(fits)
    grouped = [torch.cat(seen[i :: len(fits)]) for i in range(len(fits))]
    seen.clear()
    separate("mlp", fits)
    assert torch.equal(torch.cat(grouped), torch.cat(seen))


def test_members_share_one_training_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    train: Callable[[Any], None] = stacked.Group.train
    monkeypatch.setattr(stacked.Group, "train", lambda self: (sizes.append(len(self.members)), train(self)))
    fits = fits_of("mlp", tmp_path)
    wider = fits_of("mlp", tmp_path, rates=RATES[:1], widths=(16,))
    assert all(registry.get("mlp").fit_group([*fits, *wider]))
    assert sizes == [3]


def test_each_member_stops_early_by_itself(tmp_path: Path) -> None:
    fits = fits_of("mlp", tmp_path, rates=(3e-2, 1e-5), patience=1, max_epochs=12)
    grouped = registry.get("mlp").fit_group(fits)
    summaries = [model.summary() for model in grouped if model is not None]
    assert [s["best_epoch"] for s in summaries] == [m.summary()["best_epoch"] for m in separate("mlp", fits)]
    assert summaries[0]["epochs"] < summaries[1]["epochs"]


def test_refits_of_a_group_train_for_the_epochs_of_their_pilots(tmp_path: Path) -> None:
    pilots = ({"best_epoch": 2, "epochs": 4}, {"best_epoch": 3, "epochs": 4})
    fits = [
        GroupFit(fit.train, fit.valid.take(slice(0, 0)), fit.params, fit.context, pilots)
        for fit in fits_of("mlp", tmp_path)
    ]
    grouped = registry.get("mlp").fit_group(fits)
    for model, expected in zip(grouped, separate("mlp", fits), strict=True):
        assert model is not None
        assert model.summary() == expected.summary()
        assert model.summary()["epochs"] == 2
        torch.testing.assert_close(weights_of(model), weights_of(expected), rtol=0, atol=ROUNDING)


def test_a_stopped_fit_ends_alone(tmp_path: Path) -> None:
    fits = fits_of("mlp", tmp_path)

    def stop(step: int, value: float) -> None:
        raise FitStopped

    fits[1].context.on_report = stop
    grouped = registry.get("mlp").fit_group(fits)
    assert [model is None for model in grouped] == [False, True, False]


def test_a_group_that_does_not_fit_in_memory_is_halved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step: Callable[..., None] = stacked.Group._step
    seen: list[int] = []

    def limited(self: Any, *args: Any) -> None:
        seen.append(len(self.members))
        if len(self.members) > 2:
            raise torch.OutOfMemoryError("out of memory")
        step(self, *args)

    monkeypatch.setattr(stacked.Group, "_step", limited)
    assert all(registry.get("mlp").fit_group(fits_of("mlp", tmp_path, rates=(1e-3,) * 4)))
    assert seen[0] == 4
    assert set(seen[1:]) == {2}


class Killed(Exception):
    """Ends a group as a kill would."""


def test_a_killed_group_resumes_with_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Saving, "is_due", lambda self: True)
    options: dict[str, Any] = {
        "rates": (0.3, 3e-3, 1e-5),
        "patience": 1,
        "max_epochs": 10,
        "average_decay": 0.9,
        "widths": (16,),
    }
    (tmp_path / "whole").mkdir()
    expected = registry.get("mlp").fit_group(fits_of("mlp", tmp_path / "whole", **options))
    epochs = [model.summary()["epochs"] for model in expected if model is not None]
    # Killed when one of the members has ended.
    last = min(epochs) + 2
    assert last < max(epochs)
    (tmp_path / "killed").mkdir()
    fits = fits_of("mlp", tmp_path / "killed", **options)
    steps: list[int] = []

    def kill(step: int, value: float) -> None:
        if step == last:
            raise Killed

    fits[epochs.index(max(epochs))].context.on_report = kill
    with pytest.raises(Killed):
        registry.get("mlp").fit_group(fits)
    fits = fits_of("mlp", tmp_path / "killed", **options)
    for fit in fits:
        fit.context.on_report = lambda step, value: steps.append(step)
    resumed = registry.get("mlp").fit_group(fits)
    assert min(steps) == last
    for model, whole in zip(resumed, expected, strict=True):
        assert model is not None
        assert whole is not None
        assert model.summary() == whole.summary()
        assert torch.equal(weights_of(model), weights_of(whole))


def test_a_checkpoint_of_another_group_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Saving, "is_due", lambda self: True)
    registry.get("mlp").fit_group(fits_of("mlp", tmp_path, max_epochs=3, widths=(16,)))
    steps: list[int] = []
    fits = fits_of("mlp", tmp_path, rates=RATES[:2], max_epochs=3, widths=(16,))
    fits[0].context.on_report = lambda step, value: steps.append(step)
    registry.get("mlp").fit_group(fits)
    assert steps == [1, 2, 3]
