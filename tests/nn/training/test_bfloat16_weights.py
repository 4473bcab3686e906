"""Training with bfloat16 copies of the weights, on a GPU and by torch's operations on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tabapp_plugins.ft_transformer import FTTransformerNetwork, FTTransformerParams
from torch import Tensor, nn

from tabapp.nn.layers import fused
from tabapp.nn.layers.precision import autocast, bfloat16_output
from tabapp.nn.plugin import Sizes
from tabapp.nn.training import cuda_graphs, method
from tests.nn.training.test_cuda_graphs import deep, prediction_of
from tests.nn.training.test_synchronization import SynchronizationError, fit_guarded


def relative_error(found: Tensor, expected: Tensor) -> float:
    return (torch.linalg.vector_norm(found - expected) / torch.linalg.vector_norm(expected)).item()


# torch says so if a product of gradients is the first in its thread.
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("cardinalities", [(), (4, 7)])
@pytest.mark.parametrize("n_layers", [1, 3])
def test_errors_are_those_of_autocast(n_layers: int, cardinalities: tuple[int, ...], device: str) -> None:
    torch.manual_seed(0)
    params = FTTransformerParams(n_layers=n_layers, d_token=64, attention_dropout=0.0, ffn_dropout=0.0)
    network = FTTransformerNetwork(Sizes(n_numeric=6, cardinalities=cardinalities, d_out=3), params).to(device)
    numeric = torch.randn(256, 6, device=device)
    codes = torch.zeros(256, len(cardinalities), dtype=torch.int64, device=device)
    for i, n_codes in enumerate(cardinalities):
        codes[:, i] = torch.randint(n_codes, (256,))
    leaves = list(network.parameters())
    upstream = torch.randn(256, 3, device=device)

    def run(output: Tensor) -> tuple[Tensor, Tensor]:
        gradients = torch.autograd.grad(output, leaves, upstream.to(output.dtype))
        assert all(g.dtype == torch.float32 for g in gradients)
        return output.float(), torch.cat([g.flatten() for g in gradients])

    exact = run(network(numeric, codes))
    with fused.serving(True):
        with autocast(torch.device(device), enabled=True):
            usual = network(numeric, codes)
        output = bfloat16_output(network, numeric, codes)
    assert output.dtype == torch.bfloat16
    # Products of bfloat16 factors make most of the error, and autocast has those, too.
    for found, by_autocast, expected in zip(run(output), run(usual), exact, strict=True):
        assert 0 < relative_error(found, expected) < 2 * relative_error(by_autocast, expected) < 0.3


def test_a_weight_that_the_output_does_not_use_has_no_gradient() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x.to(self.used.weight.dtype))

    network = Half()
    bfloat16_output(network, torch.randn(5, 3)).float().sum().backward()
    assert network.used.weight.grad is not None
    assert network.unused.weight.grad is None


class Forced(method.TrainingMethod):
    """Uses bfloat16 weights on any device."""

    def start(self, *args: Any) -> None:
        super().start(*args)
        self._bfloat16_weights = True


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_training_reaches_the_predictions_of_float32(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = deep("ft_transformer")
    monkeypatch.setattr(type(plugin), "low_precision", False)
    expected = prediction_of("ft_transformer", "regression", device, tmp_path / "a", max_epochs=15)
    outputs = 0

    def counted(*args: Any) -> Tensor:
        nonlocal outputs
        outputs += 1
        return bfloat16_output(*args)

    monkeypatch.setattr(method, "bfloat16_output", counted)
    monkeypatch.setattr(
        type(plugin),
        "method",
        lambda self, network, params, objective, context: Forced(network, params, objective, repeats_steps=True),
    )
    found = prediction_of("ft_transformer", "regression", device, tmp_path / "b", max_epochs=15)
    assert outputs > 0
    # Both fits end with errors near the noise of the table, so that they differ far less than predictions do.
    assert np.std(found - expected) < 0.1 * np.std(expected)


@pytest.mark.gpu
def test_recorded_steps_with_dropout_train_the_same_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fused.has_kernels(torch.device("cuda:0"))
    monkeypatch.setattr(fused, "LEAST_CELLS", 0)
    changes = {"attention_dropout": 0.2, "ffn_dropout": 0.1}
    recorded = prediction_of("ft_transformer", "regression", "cuda:0", tmp_path / "a", **changes)
    monkeypatch.setattr(cuda_graphs, "EAGER_STEPS", 10**9)
    eager = prediction_of("ft_transformer", "regression", "cuda:0", tmp_path / "b", **changes)
    without = prediction_of("ft_transformer", "regression", "cuda:0", tmp_path / "c")
    # The same random numbers; sums of gradients differ in their last bits.
    assert np.abs(recorded - eager).max() < 0.5 * np.abs(without - eager).max()


@pytest.mark.gpu
def test_the_kernels_wait_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "LEAST_CELLS", 0)
    assert fit_guarded("ft_transformer", "cuda:0", tmp_path, monkeypatch, SynchronizationError, "multiclass") > 0


def test_kernels_serve_in_fits_of_large_tables_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def observed(x: Tensor) -> bool:
        asked.append(fused._serving.get())
        return False

    monkeypatch.setattr(fused, "is_fused", observed)
    prediction_of("ft_transformer", "regression", "cpu", tmp_path / "small", max_epochs=1)
    assert asked
    assert not any(asked)
    asked.clear()
    monkeypatch.setattr(fused, "LEAST_CELLS", 200)
    prediction_of("ft_transformer", "regression", "cpu", tmp_path / "large", max_epochs=1)
    # The last prediction is that of a saved model, which does not depend on the device.
    assert any(asked)
    assert not asked[-1]
