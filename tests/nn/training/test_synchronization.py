"""No operation within an epoch waits for the device: it would idle while the host prepares the next one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from tabapp_plugins.realmlp import network as realmlp
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tabapp.models import registry
from tabapp.models.contract import GroupFit
from tabapp.nn.layers import embeddings
from tabapp.nn.training import stacked, trainer
from tests.plugins.tables import defaults_of, make_context, make_table

WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "repeat_interleave.Tensor", "lift_fresh")
"""Operations whose result the host needs, or that copy a constant from the host."""
USABLE = [name for name in registry.names() if registry.find(name).reason is None]
DEEP = [name for name in USABLE if registry.get(name).uses_device]
STACKING = [name for name in DEEP if registry.get(name).stacks]


class NoWaiting(TorchDispatchMode):
    """Fails on operations that would wait for a GPU, also if the tensors are on a CPU."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(func)
        by_mask = name.startswith(("aten.index.", "aten.index_put")) and any(
            isinstance(index, Tensor) and index.dtype == torch.bool for index in args[1]
        )
        assert not by_mask, "selecting by a mask waits for its number of rows"
        assert not any(word in name for word in WAITING), f"{name} waits for the device"
        return func(*args, **(kwargs or {}))


class SynchronizationError:
    """Lets torch raise an error on operations that wait for a GPU."""

    def __enter__(self) -> None:
        with warnings.catch_warnings():
            # torch calls this mode a prototype.
            warnings.simplefilter("ignore")
            torch.cuda.set_sync_debug_mode("error")

    def __exit__(self, *_: object) -> None:
        torch.cuda.set_sync_debug_mode("default")


def guarded(method: Callable[..., Any], guard: Callable[[], Any], first: int) -> Callable[..., Any]:
    """A method that runs under a guard from its call number `first`: the first ones make constants."""
    n_calls = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        if n_calls <= first:
            return method(*args, **kwargs)
        with guard():
            return method(*args, **kwargs)

    call.n_calls = lambda: n_calls
    return call


def fit_guarded(
    name: str, device: str, folder: Path, monkeypatch: pytest.MonkeyPatch, guard: Callable[[], Any], task: Any
) -> int:
    """Fit a model whose epochs run under a guard; returns the number of guarded calls."""
    plugin = registry.get(name)
    table, spec, n_classes = make_table(task, n_rows=300)
    params = defaults_of(plugin, task, table, spec, n_classes)
    fewer = {"max_epochs": 2, "n_steps": 4, "n_evaluations": 1}
    params = msgspec.structs.replace(
        params, **{key: min(n, getattr(params, key)) for key, n in fewer.items() if hasattr(params, key)}
    )
    context = make_context(task, spec, n_classes, folder)
    context.device = device
    if name == "npt":
        from tabapp_plugins.npt import steps

        owner, method, first = steps.Steps, "take", 1
    elif name == "grownet":
        from tabapp_plugins import grownet

        owner, method, first = grownet.Boosting, "correct", 1
    else:
        owner, method, first = trainer.Steps, "run_epoch", 1
    call = guarded(getattr(owner, method), guard, first)
    monkeypatch.setattr(owner, method, lambda self, *args: call(self, *args))
    plugin.fit(table.take(slice(0, 200)), table.take(slice(200, None)), params, context)
    return call.n_calls() - first


@pytest.mark.parametrize("name", DEEP)
def test_an_epoch_waits_for_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a GPU.
    for module in (embeddings, realmlp):
        monkeypatch.setattr(module, "is_preferred", lambda codes: True)
    assert fit_guarded(name, "cpu", tmp_path, monkeypatch, NoWaiting, "multiclass") > 0


def fit_group_guarded(
    name: str, device: str, folder: Path, monkeypatch: pytest.MonkeyPatch, guard: Callable[[], Any]
) -> int:
    """Fit a stacked network whose epochs run under a guard; returns the number of guarded calls."""
    plugin = registry.get(name)
    table, spec, n_classes = make_table("multiclass", n_rows=300)
    params = msgspec.structs.replace(defaults_of(plugin, "multiclass", table, spec, n_classes), max_epochs=2)
    fits: list[GroupFit] = []
    for seed in range(2):
        (folder / str(seed)).mkdir()
        context = make_context("multiclass", spec, n_classes, folder / str(seed), seed=seed)
        context.device = device
        rows = slice(seed, 200)
        fits.append(GroupFit(table.take(rows), table.take(slice(200, None)), params, context))
    call = guarded(stacked.Group.run_epoch, guard, 1)
    monkeypatch.setattr(stacked.Group, "run_epoch", lambda self: call(self))
    assert all(plugin.fit_group(fits))
    return call.n_calls() - 1


@pytest.mark.parametrize("name", STACKING)
def test_an_epoch_of_a_group_waits_for_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "is_preferred", lambda codes: True)
    assert fit_group_guarded(name, "cpu", tmp_path, monkeypatch, NoWaiting) > 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", STACKING)
def test_torch_sees_no_synchronization_in_an_epoch_of_a_group(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fit_group_guarded(name, "cuda:0", tmp_path, monkeypatch, SynchronizationError) > 0


@pytest.mark.gpu
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("name", DEEP)
def test_torch_sees_no_synchronization_in_an_epoch(
    name: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fit_guarded(name, "cuda:0", tmp_path, monkeypatch, SynchronizationError, task) > 0
