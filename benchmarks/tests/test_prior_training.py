import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_breast_cancer
from tabapp_plugins.prior_fitted.network import SIZES
from tabapp_plugins.prior_fitted.reading import Predictor

from benchmarks.document import ROOT
from benchmarks.prior import train
from benchmarks.prior.judge_tables import macro_auc
from benchmarks.prior.state import SHIPPED, Counters, State, weights_of
from benchmarks.prior.stream import Stream
from benchmarks.prior.train import Trainer

CPU = torch.device("cpu")


def trainer(out: Path, resumed: Path | None = None) -> Trainer:
    counters = Counters("tiny", seed=1, tokens=512, learning_rate=0.003, warmup=5)
    state = State(counters, CPU) if resumed is None else State.load(resumed, CPU)
    return Trainer(state, CPU, out, most_rows=128, n_validation=2)


@pytest.mark.slow
def test_a_resumed_training_is_the_same_bit_for_bit(tmp_path: Path) -> None:
    """Weights, average, optimizer and data after 6 + 5 steps are those after 11."""
    whole = trainer(tmp_path / "whole")
    whole.run(steps=11, seconds=None, decay=0)
    trainer(tmp_path / "first").run(steps=6, seconds=None, decay=0)
    second = trainer(tmp_path / "second", tmp_path / "first" / "state")
    assert second.state.counters.step == 6
    second.run(steps=5, seconds=None, decay=0)
    for name in ("weights", "average", "optimizer"):
        one, two = (load_file(tmp_path / folder / "state" / f"{name}.safetensors") for folder in ("whole", "second"))
        assert one.keys() == two.keys()
        assert all(torch.equal(one[key], two[key]) for key in one)
    assert whole.state.counters.tables == second.state.counters.tables


def test_weights_alone_are_enough_to_continue(tmp_path: Path) -> None:
    trainer(tmp_path).run(steps=4, seconds=None, decay=0)
    for name in ("average", "optimizer"):
        (tmp_path / "state" / f"{name}.safetensors").unlink()
    state = State.load(tmp_path / "state", CPU)
    saved = load_file(tmp_path / "state" / "weights.safetensors")
    assert all(torch.equal(saved[name], p) for name, p in weights_of(state.network).items())
    assert all(torch.equal(saved[name], p) for name, p in state.average.items())
    assert state.counters.step == 4
    assert state.optimizer.n_steps == 0


def test_training_lowers_the_loss_and_writes_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is of the constant rate; the network is of the end."""
    monkeypatch.setattr(train, "LOGGED", 5)
    monkeypatch.setattr(train, "SAVED_SECONDS", float("inf"))
    job = trainer(tmp_path)
    before = job.validate("start")[0]
    job.run(steps=40, seconds=None, decay=0.25)
    curve = json.loads((tmp_path / "curve.json").read_text())
    assert [entry["at"] for entry in curve if "at" in entry] == ["start", "constant rate", "end"]
    assert curve[-1]["validation"] < before - 0.02
    assert json.loads((tmp_path / "state" / "state.json").read_text())["step"] == 30
    assert curve[-1]["step"] == 40
    Predictor.load(tmp_path / "network.safetensors")


def test_a_training_of_seconds_ends_about_in_time(tmp_path: Path) -> None:
    job = trainer(tmp_path)
    job.run(steps=None, seconds=2.0, decay=0.3)
    assert job.state.counters.step > 1
    assert (tmp_path / "network.safetensors").is_file()


def test_the_committed_network_predicts_a_real_table_and_can_be_continued() -> None:
    folder = ROOT / "benchmarks" / "prior" / "h100"
    state = State.load(folder, CPU)
    assert state.counters.step == 19_422
    data = load_breast_cancer()
    rows, labels = data.data[::2], data.target[::2]
    predictor = Predictor.load(SHIPPED, permutations=1)
    kinds = np.zeros(rows.shape[1], bool)
    probabilities = predictor.predict(rows[:100], kinds, labels[:100], rows[100:], n_classes=2, seed=0)
    assert macro_auc(labels[100:], probabilities) > 0.97
    for name, parameter in weights_of(state.network).items():
        assert torch.equal(parameter, weights_of(predictor.network)[name])


def test_query_rows_of_unknown_classes_do_not_count() -> None:
    job = trainer(Path())
    batch = job.stream.batch(0)
    n_context = batch.n_context
    labels = batch.labels.clone()
    labels[:, :n_context] %= 2
    labels[:, n_context:] = 5
    labels[:, n_context] = 0
    loss = train.loss_of(job.state.network, batch._replace(labels=labels), torch.float32)
    logits = job.state.network(batch.cells, labels[:, :n_context])
    torch.testing.assert_close(loss, -logits.log_softmax(2)[:, 0, 0].mean())


def test_batches_are_a_function_of_the_step() -> None:
    one, two = (Stream(5, SIZES["tiny"], 1_024, CPU, 128) for _ in range(2))
    for step in (40, 3):
        later = one.batch(step)
        for _ in range(2):
            assert torch.equal(two.batch(step).cells, later.cells)
    shapes = {one.batch(step).cells.shape for step in range(8)}
    assert len(shapes) > 1
    for batch in (one.batch(step) for step in range(4)):
        assert 0.4 * 128 - 1 <= batch.n_context <= 0.92 * 128
