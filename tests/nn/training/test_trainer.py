from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from tabapp_plugins.mlp import MLPNetwork, MLPParams

from tabapp import metrics
from tabapp.features.arrays import MISSING
from tabapp.models.contract import FitContext, FitStopped
from tabapp.nn.layers.attention import ShortSoftmax, attend
from tabapp.nn.layers.dropout import Dropout
from tabapp.nn.layers.precision import has_fast_bfloat16
from tabapp.nn.plugin import Sizes
from tabapp.nn.training import trainer
from tabapp.nn.training.checkpoint import FILE, Progress, Saving, save_checkpoint
from tabapp.nn.training.method import TrainingMethod
from tabapp.nn.training.objective import Objective
from tabapp.nn.training.params import batch_size_for
from tests.plugins.tables import make_context, make_table


def train_small(
    tmp_path: Path, task="regression", params=None, n_rows=300, seed=0, method_type=None, **context_options
):
    table, spec, n_classes = make_table(task, n_rows=n_rows)
    most_step_rows = context_options.pop("most_step_rows", None)
    context = make_context(task, spec, n_classes, tmp_path, seed=seed, **context_options)
    context.most_step_rows = most_step_rows
    train, valid = table.take(slice(0, n_rows * 2 // 3)), table.take(slice(n_rows * 2 // 3, None))
    objective = Objective.fit(train, context)
    trainer.seed_everything(context)
    network = MLPNetwork(Sizes(n_numeric=4, cardinalities=(5, 3), d_out=objective.d_out), (32,), 0.1)
    params = params or MLPParams()
    method = (method_type or TrainingMethod)(network, params, objective)
    result = trainer.train_network(network, train, valid, params, objective, context, method)
    return network, objective, valid, result


@pytest.mark.parametrize(("n_rows", "size"), [(10, 4), (9, 4), (8, 4), (1, 4), (5, 4), (4, 4), (33, 32)])
def test_batches_cover_every_row_once_and_have_at_least_two_rows(n_rows: int, size: int) -> None:
    cut = list(trainer.batches(torch.arange(n_rows), size))
    assert torch.equal(torch.cat(cut), torch.arange(n_rows))
    assert n_rows == 1 or min(len(rows) for rows in cut) > 1
    assert max(len(rows) for rows in cut) <= size + 1


def test_batch_size_follows_tabm() -> None:
    sizes = [batch_size_for(n) for n in (2_799, 2_800, 4_500, 6_400, 32_000, 108_000)]
    assert sizes == [32, 64, 128, 256, 512, 1024]


def test_keeps_the_best_epoch_and_stops_after_patience(tmp_path: Path) -> None:
    reports: list[tuple[int, float]] = []
    params = MLPParams(patience=3, learning_rate=1e-2)
    network, objective, valid, result = train_small(
        tmp_path, params=params, on_report=lambda step, value: reports.append((step, value))
    )
    steps, values = zip(*reports, strict=True)
    assert steps == tuple(range(1, result.n_epochs + 1))
    assert result.best_epoch == steps[int(np.argmin(values))]
    assert result.n_epochs == result.best_epoch + 4
    inputs = trainer.inputs(valid, torch.device("cpu"))
    prediction = objective.prediction(trainer.predict_output(network, *inputs))
    assert metrics.score("rmse", valid.target, prediction) == pytest.approx(min(values))


def test_deadline_in_the_first_epoch_keeps_trained_weights(tmp_path: Path) -> None:
    network, _, _, result = train_small(tmp_path, soft_deadline=time.monotonic() - 1)
    untouched, _, _, _ = train_small(tmp_path, params=MLPParams(max_epochs=0))
    assert (result.best_epoch, result.n_epochs) == (1, 1)
    assert not torch.equal(network.head.weight, untouched.head.weight)
    assert not network.training


def test_a_deadline_ends_training(tmp_path: Path, ticking_clock: Callable[[], float]) -> None:
    params = MLPParams(patience=100_000, max_epochs=100_000)
    *_, result = train_small(tmp_path, params=params, n_rows=3000, soft_deadline=ticking_clock() + 0.5)
    assert 0.5 < ticking_clock() < 0.52
    assert 1 < result.n_epochs < 500


def test_averaged_weights_are_kept(tmp_path: Path) -> None:
    plain, *_ = train_small(tmp_path, params=MLPParams(average_decay=0.0, max_epochs=2))
    averaged, *_ = train_small(tmp_path, params=MLPParams(average_decay=0.9, max_epochs=2))
    assert not torch.equal(plain.head.weight, averaged.head.weight)

    network = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(network.weight)
    average = trainer.WeightAverage(network, decay=0.5)
    for value in (3.0, 5.0):
        torch.nn.init.constant_(network.weight, value)
        average.begin_step()
        average.update()
    average.swap()
    early = [2 / 11, 3 / 12]
    after_one = early[0] * 1 + (1 - early[0]) * 3
    assert network.weight.item() == pytest.approx(early[1] * after_one + (1 - early[1]) * 5)
    average.swap()
    assert network.weight.item() == 5


def test_hidden_cells_are_drawn_anew_in_training_only(tmp_path: Path) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    class Watching(TrainingMethod):
        def loss(self, rows, numeric, categorical, target, weight):
            seen.append((rows, numeric, categorical))
            return super().loss(rows, numeric, categorical, target, weight)

    params = MLPParams(hidden_rate=0.3, unseen_rate=0.0, max_epochs=4)
    train_small(tmp_path, params=params, method_type=Watching)
    rows, numeric, codes = (torch.cat(parts) for parts in zip(*seen, strict=True))
    table, _, _ = make_table("regression", n_rows=300)
    whole = trainer.inputs(table, torch.device("cpu"))
    changed = torch.cat([numeric != whole[0][rows], codes != whole[1][rows]], dim=1)
    hidden = torch.cat([numeric == 0, codes == MISSING], dim=1)
    assert torch.equal(changed & hidden, changed)
    known = ~torch.cat([whole[0][rows] == 0, whole[1][rows] == MISSING], dim=1)
    # Four standard errors of the share of 4 times 200 rows are below 0.03.
    assert abs(float(changed[known].float().mean()) - 0.3) < 0.03
    counts = torch.stack([changed[rows == row].sum(0) for row in rows.unique()])
    assert set(counts.unique().tolist()) == {0, 1, 2, 3, 4}
    seen.clear()
    train_small(tmp_path, params=MLPParams(max_epochs=1, unseen_rate=0.0), method_type=Watching)
    assert all(torch.equal(x, whole[0][rows]) and torch.equal(c, whole[1][rows]) for rows, x, c in seen)


def test_prediction_halves_its_chunk_when_out_of_memory() -> None:
    seen: list[int] = []

    class FitsThirtyRows(torch.nn.Module):
        def forward(self, numeric: torch.Tensor, categorical: torch.Tensor) -> torch.Tensor:
            seen.append(len(numeric))
            if len(numeric) > 30:
                raise torch.OutOfMemoryError
            return numeric

    x = torch.randn(100, 1)
    assert torch.equal(trainer.predict_output(FitsThirtyRows(), x, torch.zeros(100, 0), chunk=100), x)
    assert seen[:3] == [100, 50, 25]

    class AlwaysOutOfMemory(torch.nn.Module):
        def forward(self, numeric: torch.Tensor, categorical: torch.Tensor) -> torch.Tensor:
            raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        trainer.predict_output(AlwaysOutOfMemory(), x, torch.zeros(100, 0))


class FitsNineRows(TrainingMethod):
    """Raises OutOfMemoryError for more than nine rows."""

    def loss(self, rows, *batch):
        if len(rows) > 9:
            raise torch.OutOfMemoryError
        return super().loss(rows, *batch)


def test_step_that_exceeds_the_memory_is_split_into_chunks(tmp_path: Path) -> None:
    params = MLPParams(max_epochs=3, dropout=0.0, unseen_rate=0.0)
    whole, *_, untouched = train_small(tmp_path, params=params)
    cut, *_, halved = train_small(tmp_path, params=params, method_type=FitsNineRows)
    # Half of a half of batches of 32 rows.
    assert (untouched.step_rows, halved.step_rows) == (None, 8)
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(cut.state_dict()[name], tensor, atol=2e-4, rtol=1e-3)

    class AlwaysOutOfMemory(TrainingMethod):
        def loss(self, rows, *batch):
            raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        train_small(tmp_path, params=params, method_type=AlwaysOutOfMemory)


def test_the_next_fit_starts_with_the_rows_that_fit_in_memory(tmp_path: Path) -> None:
    class Strict(FitsNineRows):
        def loss(self, rows, *batch):
            assert len(rows) <= 9
            return super().loss(rows, *batch)

    params = MLPParams(max_epochs=1)
    *_, again = train_small(tmp_path, params=params, method_type=Strict, most_step_rows=8)
    assert again.step_rows == 8


@pytest.mark.parametrize("average_decay", [0.0, 0.9])
def test_killed_fit_resumes_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, average_decay: float
) -> None:
    params = MLPParams(max_epochs=8, average_decay=average_decay, dropout=0.2)
    (tmp_path / "whole").mkdir()
    expected, _, _, whole = train_small(tmp_path / "whole", params=params)
    monkeypatch.setattr(Saving, "is_due", lambda self: True)
    seen: list[int] = []

    def stop_after_three(step: int, value: float) -> None:
        seen.append(step)
        if step == 3:
            raise FitStopped

    (tmp_path / "cut").mkdir()
    with pytest.raises(FitStopped):
        train_small(tmp_path / "cut", params=params, on_report=stop_after_three)
    assert (tmp_path / "cut" / FILE).is_file()
    # A different seed, because the result depends only on the checkpoint.
    resumed, _, _, result = train_small(
        tmp_path / "cut", params=params, seed=5, on_report=lambda step, _: seen.append(step)
    )
    assert seen == [1, 2, 3, 4, 5, 6, 7, 8]
    assert (result.best_epoch, result.n_epochs) == (whole.best_epoch, whole.n_epochs)
    for name, tensor in expected.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], tensor), name


def test_a_fit_with_a_given_number_of_epochs_resumes_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, spec, n_classes = make_table("regression", n_rows=100)
    params = MLPParams(average_decay=0.9, dropout=0.2)
    monkeypatch.setattr(Saving, "is_due", lambda self: True)
    seen: list[int] = []
    run_epoch = trainer.Steps.run_epoch

    def train(folder: str, seed: int, last: int = 99) -> dict[str, torch.Tensor]:
        def until_killed(steps: trainer.Steps, planned_epochs: int, context: FitContext) -> bool:
            if len(seen) == last:
                raise KeyboardInterrupt
            seen.append(steps.n_steps)
            return run_epoch(steps, planned_epochs, context)

        monkeypatch.setattr(trainer.Steps, "run_epoch", until_killed)
        (tmp_path / folder).mkdir(exist_ok=True)
        context = make_context("regression", spec, n_classes, tmp_path / folder, seed=seed)
        objective = Objective.fit(table, context)
        trainer.seed_everything(context)
        network = MLPNetwork(Sizes(n_numeric=4, cardinalities=(5, 3), d_out=1), (32,), 0.1)
        method = TrainingMethod(network, params, objective)
        trainer.train_epochs(network, table, 6, 6, params, objective, context, method)
        return network.state_dict()

    expected = train("whole", 0)
    steps = seen.copy()
    seen.clear()
    with pytest.raises(KeyboardInterrupt):
        train("cut", 0, last=3)
    resumed = train("cut", 5)
    assert seen == steps
    assert all(torch.equal(resumed[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize("damage", ["truncated", "other network"])
def test_incompatible_checkpoint_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setattr(Saving, "is_due", lambda self: True)
    params = MLPParams(max_epochs=2)
    expected, *_ = train_small(tmp_path, params=params)
    file = tmp_path / FILE
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        other = torch.nn.Linear(3, 3)
        optimizer = torch.optim.AdamW(other.parameters())
        progress = Progress(epoch=1, best_epoch=1, best_loss=0.0, n_steps=1, planned_epochs=2, chunk=9, seconds=1.0)
        save_checkpoint(tmp_path, {"network": dict(other.state_dict())}, optimizer, progress)
    again, *_ = train_small(tmp_path, params=params)
    assert torch.equal(again.head.weight, expected.head.weight)


@pytest.mark.slow
def test_a_schedule_is_planned_to_end_before_the_deadline(tmp_path: Path, ticking_clock: Callable[[], float]) -> None:
    progress: list[float] = []

    class Annealed(TrainingMethod):
        scheduled = True

        def schedule(self, optimizer, progress_now):
            progress.append(progress_now)

    params = MLPParams(max_epochs=5, patience=None)
    _, _, _, result = train_small(tmp_path, params=params, method_type=Annealed)
    assert result.n_epochs == 5
    assert progress == pytest.approx([i / len(progress) for i in range(len(progress))])
    progress.clear()
    params = MLPParams(max_epochs=1_000_000, patience=None)
    *_, result = train_small(tmp_path, params=params, method_type=Annealed, soft_deadline=ticking_clock() + 1.5)
    assert progress[0] == 0
    assert progress == sorted(progress)
    assert progress[-1] > 0.9


@pytest.mark.slow
def test_low_precision_reaches_the_same_loss(tmp_path: Path) -> None:
    if not has_fast_bfloat16(torch.device("cpu")):
        pytest.skip("this CPU has no bfloat16")
    table, spec, _ = make_table("regression", n_rows=600)
    scores: list[float] = []
    for low_precision in (False, True):
        context = make_context("regression", spec, 1, tmp_path)
        trainer.seed_everything(context)
        objective = Objective.fit(table, context)
        network = MLPNetwork(Sizes(n_numeric=4, cardinalities=(5, 3), d_out=1), (64,), 0.0)
        params = MLPParams(max_epochs=30)
        method = TrainingMethod(network, params, objective, low_precision=low_precision)
        train, valid = table.take(slice(0, 400)), table.take(slice(400, None))
        result = trainer.train_network(network, train, valid, params, objective, context, method)
        assert {p.dtype for p in network.parameters()} == {torch.float32}
        scores.append(result.best_loss)
    assert scores[1] == pytest.approx(scores[0], rel=0.15)


def test_dropout_preserves_the_mean_and_has_its_rate() -> None:
    torch.manual_seed(0)
    layer, x = Dropout(0.25), torch.ones(1000, 200, requires_grad=True)
    y = layer(x)
    assert (y == 0).float().mean().item() == pytest.approx(0.25, abs=0.005)
    assert y.mean().item() == pytest.approx(1, abs=0.01)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert torch.equal(layer.eval()(x), x)
    torch.manual_seed(0)
    assert torch.equal(layer.train()(x), y)


def test_short_softmax_equals_softmax() -> None:
    x = (3 * torch.randn(2, 3, 4, 5, dtype=torch.float32)).requires_grad_()
    ours, theirs = ShortSoftmax.apply(x), torch.softmax(x, -1)
    torch.testing.assert_close(ours, theirs)
    upstream = torch.randn_like(ours)
    torch.testing.assert_close(
        torch.autograd.grad(ours, x, upstream)[0], torch.autograd.grad(theirs, x, upstream)[0], atol=1e-6, rtol=1e-5
    )
    huge = ShortSoftmax.apply(torch.tensor([[1e4, -1e4, 1e4]]))
    torch.testing.assert_close(huge, torch.tensor([[0.5, 0.0, 0.5]]))


@pytest.mark.parametrize("n_tokens", [5, 70])
def test_attend_equals_scaled_dot_product_attention(n_tokens: int) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(3, 2, n_tokens, 8) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    torch.testing.assert_close(attend(query, key, value, 0.0), expected, atol=1e-6, rtol=1e-5)


def test_objective_survives_a_json_round_trip(tmp_path: Path) -> None:
    table, spec, _ = make_table("regression")
    objective = Objective.fit(table, make_context("regression", spec, 1, tmp_path))
    assert msgspec.json.decode(msgspec.json.encode(objective), type=Objective) == objective
    target = objective.target(table, torch.device("cpu"))
    assert target.mean().item() == pytest.approx(0, abs=1e-5)
    assert target.std(correction=0).item() == pytest.approx(1, rel=1e-5)
    np.testing.assert_allclose(objective.prediction(target[:, None]), table.target, rtol=1e-5)
