"""Fits that are trained as one stacked network give the results of separate fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from tabapp.models import registry
from tabapp.models.contract import FitStopped, GroupFit
from tabapp.nn import plugin as plugin_module
from tabapp.nn import stacked, trainer
from tabapp.nn.method import TrainingMethod
from tabapp.nn.objective import Objective
from tests.plugins.tables import defaults_of, make_context, make_table

STACKING = [name for name in registry.names() if registry.get(name).stacks]
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
    for module in (trainer, stacked, plugin_module):
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
    monkeypatch.setattr(stacked, "CHECKPOINT_SECONDS", -1.0)
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
    monkeypatch.setattr(stacked, "CHECKPOINT_SECONDS", -1.0)
    registry.get("mlp").fit_group(fits_of("mlp", tmp_path, max_epochs=3, widths=(16,)))
    steps: list[int] = []
    fits = fits_of("mlp", tmp_path, rates=RATES[:2], max_epochs=3, widths=(16,))
    fits[0].context.on_report = lambda step, value: steps.append(step)
    registry.get("mlp").fit_group(fits)
    assert steps == [1, 2, 3]
