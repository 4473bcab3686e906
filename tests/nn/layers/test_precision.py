"""TF32 on a GPU, which these tests pretend to have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from tabapp.models import registry
from tabapp.models.contract import GroupFit
from tabapp.nn import plugin as plugin_module
from tabapp.nn.layers.precision import tensor_float32
from tabapp.nn.plugin import DeepPlugin
from tests.plugins.tables import defaults_of, make_context, make_table

GPU, CPU = torch.device("cuda:0"), torch.device("cpu")
EXACT, FAST = "highest", "high"


@pytest.mark.parametrize(
    ("device", "enabled", "expected"), [(GPU, True, FAST), (GPU, False, EXACT), (CPU, True, EXACT)]
)
def test_a_block_has_the_precision_of_its_device(device: torch.device, enabled: bool, expected: str) -> None:
    with tensor_float32(device, enabled):
        assert torch.get_float32_matmul_precision() == expected
    assert torch.get_float32_matmul_precision() == EXACT


def test_the_precision_is_restored_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), tensor_float32(GPU, True):
        raise ZeroDivisionError
    assert torch.get_float32_matmul_precision() == EXACT


def test_networks_train_in_tf32_and_predict_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []

    def recording(name: str) -> None:
        trained = getattr(plugin_module, name)

        def record(*args: Any) -> Any:
            seen.append((name, torch.get_float32_matmul_precision()))
            return trained(*args)

        monkeypatch.setattr(plugin_module, name, record)

    for name in ("train_network", "train_epochs", "train_members"):
        recording(name)
    # The networks stay on the CPU; only the setting is that of a GPU.
    monkeypatch.setattr(plugin_module, "tensor_float32", lambda device, enabled: tensor_float32(GPU, enabled))
    plugin = registry.get("snn")
    assert isinstance(plugin, DeepPlugin)
    table, spec, n_classes = make_table("binary", n_rows=120)
    params = msgspec.structs.replace(defaults_of(plugin, "binary", table, spec, n_classes), max_epochs=1, widths=(8,))
    context = make_context("binary", spec, n_classes, tmp_path)
    train, valid = table.take(slice(0, 80)), table.take(slice(80, None))
    for tolerates in (True, False):
        monkeypatch.setattr(type(plugin), "tolerates_tf32", tolerates)
        model = plugin.fit(train, valid, params, context)
        plugin.refit(train, params, [model.summary()], context)
        plugin.fit_group([GroupFit(train, valid, params, context)])
        precision = FAST if tolerates else EXACT
        assert seen == [(name, precision) for name in ("train_network", "train_epochs", "train_members")]
        seen.clear()
    assert torch.get_float32_matmul_precision() == EXACT
