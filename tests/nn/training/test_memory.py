"""Memory of networks: chunks by the bytes of a row, errors of exhausted memory, and state without training rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tabapp_plugins.ft_transformer import FTTransformerNetwork, FTTransformerParams
from tabapp_plugins.modern_nca import ModernNCANetwork, ModernNCAParams
from tabapp_plugins.realmlp import network as realmlp
from tabapp_plugins.tabr import TabRNetwork, TabRParams
from torch import Tensor, nn

from tabapp.nn import retrieval
from tabapp.nn.plugin import Sizes
from tabapp.nn.retrieval import RetrievalNetwork
from tabapp.nn.training import memory, trainer
from tabapp.nn.training.memory import prediction_rows, row_bytes, step_rows

N_ROWS = 400


class Wide(nn.Module):
    """Keeps two of its three hidden values alive at a time."""

    def __init__(self, n_features: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(n_features, width)
        self.second = nn.Linear(width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        x = self.first(numeric)
        x = self.second(x)
        x = x.relu()
        return self.head(x)


def rows_of(n_features: int, n_rows: int = N_ROWS) -> tuple[Tensor, Tensor]:
    return torch.randn(n_rows, n_features), torch.zeros(n_rows, 0, dtype=torch.int64)


def test_bytes_of_a_row_are_those_of_its_values() -> None:
    network = Wide(5, 100)
    measured = row_bytes(network, *rows_of(5))
    assert measured.peak == 4 * 2 * 100
    assert measured.total == 4 * (3 * 100 + 1)
    assert network.training


def test_measuring_draws_nothing_and_changes_nothing() -> None:
    network = nn.Sequential(nn.BatchNorm1d(50), nn.Dropout(0.5), nn.Linear(50, 1))
    network.forward = lambda numeric, categorical: nn.Sequential.forward(network, numeric)
    rows = rows_of(50)
    before, state = torch.get_rng_state(), {name: t.clone() for name, t in network.state_dict().items()}
    row_bytes(network, *rows)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(t, state[name]) for name, t in network.state_dict().items())


def test_more_features_mean_fewer_rows_at_once() -> None:
    torch.manual_seed(0)
    chunks: list[int] = []
    for n_features in (10, 100, 1000):
        network = FTTransformerNetwork(
            Sizes(n_numeric=n_features, cardinalities=(), d_out=1), FTTransformerParams(n_layers=2, d_token=32)
        )
        rows = rows_of(n_features, 10_000 if n_features < 1000 else 400)
        chunks.append(prediction_rows(network, *rows))
        each = row_bytes(network, *rows).peak
        assert chunks[-1] * each <= memory.PREDICTION_BYTES["cpu"]
        assert step_rows(network, *rows, 1024) <= 1024
    assert chunks[0] > 4 * chunks[1] > 16 * chunks[2] > 0


def test_predictions_do_not_depend_on_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    network, rows = Wide(100, 64), rows_of(100)
    whole = trainer.predict_output(network, *rows)
    monkeypatch.setitem(memory.PREDICTION_BYTES, "cpu", 4 * 2 * 64 * 7)
    assert prediction_rows(network, *rows) == 7
    torch.testing.assert_close(trainer.predict_output(network, *rows), whole)


def test_a_batch_is_split_if_its_gradients_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    network, rows = Wide(100, 64), rows_of(100)
    assert step_rows(network, *rows, 256) == 256
    monkeypatch.setitem(memory.STEP_BYTES, "cpu", 100_000)
    assert step_rows(network, *rows, 256) == 100_000 // int(1.5 * row_bytes(network, *rows).total)


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: 9 bytes"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_errors_of_exhausted_memory(error: Exception, is_one: bool) -> None:
    assert memory.is_out_of_memory(error) == is_one


def retrieval_network(name: str, n_rows: int = 200) -> RetrievalNetwork:
    torch.manual_seed(0)
    sizes = Sizes(n_numeric=4, cardinalities=(), d_out=1)
    if name == "tabr":
        network: RetrievalNetwork = TabRNetwork(sizes, TabRParams(width=16, n_neighbors=8))
    else:
        network = ModernNCANetwork(sizes, ModernNCAParams(width=16, n_frequencies=4, d_embedding=4))
    network.candidates.put(*rows_of(4, n_rows), torch.randn(n_rows), None)
    return network


@pytest.mark.parametrize("name", ["tabr", "modern_nca"])
def test_averages_contain_no_training_rows(name: str) -> None:
    network = retrieval_network(name)
    assert set(network.state_dict()) - set(trainer.learned_state(network)) == {
        "candidates.numeric",
        "candidates.categorical",
        "candidates.target",
        "candidates.weight",
    }
    state = trainer.WeightAverage(network, 0.9).state()
    assert state
    assert not any(name.startswith("candidates.") for name in state)


@pytest.mark.parametrize("name", ["tabr", "modern_nca"])
def test_chunks_of_candidates_are_halved_until_they_fit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = retrieval_network(name).eval()
    whole, key, seen = network.candidates.keys(network), network.key, list[int]()

    def key_of_few_rows(numeric: Tensor, categorical: Tensor) -> Tensor:
        seen.append(len(numeric))
        if len(numeric) > 60:
            raise torch.OutOfMemoryError
        return key(numeric, categorical)

    monkeypatch.setattr(network, "key", key_of_few_rows)
    network.candidates.encoded_rows = 200
    network.candidates.forget()
    torch.testing.assert_close(network.candidates.keys(network), whole)
    assert seen[:3] == [200, 100, 50]
    seen.clear()
    network.candidates.forget()
    network.candidates.keys(network)
    assert seen[0] == 50


def test_chunks_of_candidates_are_not_halved_in_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps then stay eager, and later chunks fit."""
    network = retrieval_network("tabr")

    def exhausted(numeric: Tensor, categorical: Tensor) -> Tensor:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(network, "key", exhausted)
    monkeypatch.setattr(retrieval, "is_recording", lambda device: True)
    network.candidates.encoded_rows = 200
    with pytest.raises(torch.OutOfMemoryError):
        network.candidates.encode(network)
    assert network.candidates.encoded_rows == 200


def test_a_batch_of_neighbors_excludes_each_row_without_a_mask() -> None:
    network = retrieval_network("modern_nca").train()
    network.sample_rate = 1.0
    rows = torch.arange(20)
    stored = network.candidates
    outputs = [network.training_output(rows, stored.numeric[rows], stored.categorical[rows].long()) for _ in range(2)]
    keys = network.key(stored.numeric, stored.categorical.long())
    similarities = network.similarities(keys[rows], keys, stored.weight)
    similarities = similarities - realmlp.OPEN * torch.eye(20, 200)
    torch.testing.assert_close(outputs[0], network.vote(similarities, stored.target))
    torch.testing.assert_close(outputs[0], outputs[1])


def test_realmlp_initializes_wide_layers_from_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    fit = realmlp.NTKLinear.fit
    monkeypatch.setattr(realmlp.NTKLinear, "fit", lambda self, x: (seen.append(len(x)), fit(self, x))[0])
    for n_features in (4, 400):
        sizes = Sizes(n_numeric=n_features, cardinalities=(), d_out=1)
        monkeypatch.setattr(realmlp, "INIT_BYTES", 2**22)
        realmlp.RealMLPNetwork(sizes, realmlp.RealMLPParams(widths=(8, 8))).fit_to(*rows_of(n_features, 5000))
    assert seen[0] >= 4 * seen[-1] >= realmlp.LEAST_INIT_ROWS


@pytest.mark.gpu
def test_predictions_on_a_gpu_equal_those_on_a_cpu(tmp_path: Path) -> None:
    network, rows = Wide(100, 64), rows_of(100)
    expected = trainer.predict_output(network, *rows)
    on_gpu = trainer.predict_output(network.cuda(), *(part.cuda() for part in rows))
    torch.testing.assert_close(on_gpu.cpu(), expected, rtol=1e-5, atol=1e-5)
