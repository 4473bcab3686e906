"""TabR: the published size, its formula, and no leak of a row's own target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tabapp_plugins import tabr
from tabapp_plugins.tabr import TabR, TabRMethod, TabRNetwork, TabRParams

from tabapp.nn.layers import embeddings
from tabapp.nn.plugin import Sizes
from tabapp.nn.training.checkpoint import Saving
from tabapp.nn.training.objective import Objective
from tests.nn.training.test_synchronization import NoWaiting
from tests.plugins.tables import make_context, make_table

NUMERIC = Sizes(n_numeric=8, cardinalities=(), d_out=1)


def codes_of(n_rows: int) -> torch.Tensor:
    return torch.zeros(n_rows, 0, dtype=torch.int64)


def network_of(n_rows: int, sizes: Sizes = NUMERIC, **params: object) -> TabRNetwork:
    """A small network without dropout, and random candidates."""
    torch.manual_seed(0)
    settings = {"width": 12, "n_neighbors": 7, "dropout": 0.0, "context_dropout": 0.0} | params
    network = TabRNetwork(sizes, TabRParams(**settings))
    target = torch.randn(n_rows) if sizes.n_classes == 1 else torch.randint(0, sizes.n_classes, (n_rows,))
    network.candidates.put(torch.randn(n_rows, 8), codes_of(n_rows), target, None)
    return network


def test_parameter_count_of_the_published_default() -> None:
    network = TabRNetwork(NUMERIC, TabRParams())
    assert sum(p.numel() for p in network.parameters()) == 637_856


def output_by_formula(network: TabRNetwork, x: torch.Tensor, leave_out: torch.Tensor | None) -> torch.Tensor:
    """Equations 3 to 5 of the paper, one row at a time."""
    stored, outputs = network.candidates, []
    keys = network.key(stored.numeric, stored.categorical)
    for i, row in enumerate(x):
        representation, key = network.encode(row[None], codes_of(1))
        distance = (key - keys).square().sum(1)
        if leave_out is not None:
            distance[leave_out[i]] = torch.inf
        nearest = distance.argsort()[: network.n_neighbors]
        share = F.softmax(-distance[nearest], dim=0)
        if network.label.is_number:
            label = stored.target[nearest, None] * network.label.weight + network.label.bias
        else:
            label = network.label.weight[stored.target[nearest].long()]
        value = label + network.difference_out(F.relu(network.difference_in(key - keys[nearest])))
        outputs.append(network.head(network.predictor(representation + (share[:, None] * value).sum(0))))
    return torch.cat(outputs)


def test_equals_the_formula() -> None:
    for n_classes, d_out in ((1, 1), (2, 1), (4, 4)):
        sizes = Sizes(n_numeric=8, cardinalities=(), d_out=d_out, n_classes=n_classes)
        network = network_of(60, sizes, n_encoder_blocks=1)
        x, rows = torch.randn(5, 8), torch.randperm(60)[:20]
        torch.testing.assert_close(network.eval()(x, codes_of(5)), output_by_formula(network, x, None))
        batch = network.candidates.numeric[rows]
        expected = output_by_formula(network, batch, rows)
        torch.testing.assert_close(network.train().training_output(rows, batch, codes_of(20)), expected)


def test_gradient_is_the_same_with_all_candidates_encoded_or_the_neighbors_alone() -> None:
    # 7 neighbors each of 20 rows are more than 60 candidates; those of 5 rows are fewer.
    network = network_of(60)
    rows, gradients = torch.arange(20), []
    for parts in (rows.split(20), rows.split(5)):
        network.zero_grad()
        for part in parts:
            network.training_output(part, network.candidates.numeric[part], codes_of(len(part))).sum().backward()
        gradients.append([p.grad.clone() for p in network.parameters()])
    for all_encoded, neighbors in zip(*gradients, strict=True):
        torch.testing.assert_close(all_encoded, neighbors, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("n_rows", [20, 5])
def test_search_for_all_rows_equals_the_search_of_a_step(n_rows: int) -> None:
    network, rows = network_of(60).train(), torch.arange(n_rows)
    batch = network.candidates.numeric[rows]
    searched = network.training_output(rows, batch, codes_of(n_rows))
    network.search()
    torch.testing.assert_close(network.training_output(rows, batch, codes_of(n_rows)), searched)


@pytest.mark.parametrize(("first", "expected"), [(0, [2, 5, 8]), (7, [8])])
def test_neighbors_are_reused_for_several_epochs(
    first: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the third epoch and in every third epoch after it, also when a fit resumes from a checkpoint."""
    network, params = network_of(60), TabRParams(search_epochs=2, search_period=3)
    method = TabRMethod(network, params, Objective(task="regression", n_classes=1))
    searches: list[int] = []
    search = network.search
    method.start(network.candidates.numeric, codes_of(60), network.candidates.target, None)
    monkeypatch.setattr(network, "search", lambda: (searches.append(epoch), search()))
    for epoch in range(first, 9):
        for step in range(7):
            method.schedule(torch.optim.SGD(network.parameters()), (7 * epoch + step) / (7 * params.max_epochs))
    assert searches == expected


def test_training_rows_cannot_use_their_own_target() -> None:
    network = network_of(100, n_neighbors=1).train()
    rows = torch.arange(100)
    before = network.training_output(rows, network.candidates.numeric, codes_of(100)).detach()
    for i in range(0, 100, 10):
        kept = network.candidates.target[i].clone()
        network.candidates.target[i] = 1000.0
        changed = network.training_output(rows[i : i + 1], network.candidates.numeric[i : i + 1], codes_of(1))
        torch.testing.assert_close(changed[0], before[i], atol=1e-4, rtol=1e-4)
        network.candidates.target[i] = kept


def test_fewer_rows_than_neighbors_are_supported() -> None:
    network = network_of(5)
    rows = torch.arange(5)
    assert network.training_output(rows, network.candidates.numeric, codes_of(5)).isfinite().all()
    assert network.eval()(torch.randn(3, 8), codes_of(3)).isfinite().all()


def test_biases_norms_embeddings_and_labels_have_no_weight_decay() -> None:
    sizes = Sizes(n_numeric=8, cardinalities=(60,), d_out=1)
    network = TabRNetwork(sizes, TabRParams(width=12, n_frequencies=4, n_encoder_blocks=2))
    decayed = {name for name, _ in network.named_parameters()} - TabR().undecayed(network)
    assert decayed
    assert all(name.endswith("weight") and "numeric" not in name and "categorical" not in name for name in decayed)
    assert not any("norm" in name or name.startswith(("label", "head.0")) for name in decayed)


class _Killed(Exception):
    pass


def test_a_killed_fit_resumes_with_its_neighbors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, spec, n_classes = make_table("regression", n_rows=1000)
    train, valid = table.take(slice(0, 800)), table.take(slice(800, None))
    params = TabRParams(
        width=16,
        n_neighbors=6,
        n_encoder_blocks=1,
        n_frequencies=4,
        d_embedding=4,
        search_epochs=1,
        search_period=3,
        batch_size=64,
        max_epochs=7,
        patience=None,
    )
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    expected = TabR().fit(train, valid, params, make_context("regression", spec, n_classes, tmp_path / "whole"))
    monkeypatch.setattr(Saving, "is_due", lambda self: True)
    epochs: list[int] = []

    def kill(step: int, score: float) -> None:
        epochs.append(step)
        # The neighbors of epochs 2 to 4 are found at the begin of epoch 2.
        if step == 3 and epochs.count(3) == 1:
            raise _Killed

    with pytest.raises(_Killed):
        TabR().fit(train, valid, params, make_context("regression", spec, n_classes, tmp_path / "cut", on_report=kill))
    context = make_context("regression", spec, n_classes, tmp_path / "cut", on_report=kill)
    resumed = TabR().fit(train, valid, params, context)
    assert epochs == [1, 2, 3, 4, 5, 6, 7]
    np.testing.assert_array_equal(resumed.predict(valid), expected.predict(valid))


def test_neighbors_are_searched_without_dropout() -> None:
    network = network_of(50, n_encoder_blocks=1, dropout=0.5).train()
    found = []
    for _ in range(2):
        network.search()
        assert network.training
        assert network.found is not None
        found.append(network.found.sort(1).values)
    assert torch.equal(found[0], found[1])


def step_of(network: TabRNetwork, rows: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor | None]]:
    """The output for some training rows and the gradients of its squares."""
    stored = network.candidates
    network.zero_grad()
    output = network.training_output(rows, stored.numeric[rows], stored.categorical[rows].long())
    output.square().sum().backward()
    return output.detach(), {name: parameter.grad for name, parameter in network.named_parameters()}


def searches_like_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabr, "starts_operations_slowly", lambda device: True)
    monkeypatch.setattr(embeddings, "is_preferred", lambda codes: True)


@pytest.mark.parametrize("n_rows", [20, 5])
@pytest.mark.parametrize(
    ("params", "is_linear"),
    [({"width": 40}, True), ({"width": 12}, False), ({"n_encoder_blocks": 1}, False), ({"n_frequencies": 4}, False)],
)
def test_a_step_on_a_gpu_is_the_same(
    params: dict[str, object], is_linear: bool, n_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linear keys of the candidates are not computed; others are encoded in chunks."""
    sizes = Sizes(n_numeric=8, cardinalities=(60, 4), d_out=1)
    network = network_of(120, sizes, **params).train()
    assert network.has_linear_keys == is_linear
    network.candidates.put(torch.randn(120, 8), torch.randint(0, 4, (120, 2)), torch.randn(120), None)
    rows = torch.randperm(120)[:n_rows]
    # 7 neighbors each of 20 rows are more than 120 candidates; those of 5 rows are fewer.
    expected, gradients = step_of(network, rows)
    network.candidates.encoded_rows = 50
    searches_like_a_gpu(monkeypatch)
    # The first step creates constants.
    step_of(network, rows)
    with NoWaiting():
        output, found = step_of(network, rows)
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)
    for name, gradient in gradients.items():
        # The same vector added to all keys changes no distance, so its gradient is a rounding error or none.
        if name != "to_key.bias":
            torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-4)


def test_steps_are_repeated_if_all_search() -> None:
    objective = Objective(task="regression", n_classes=1)
    context = make_context("regression", make_table("regression", n_rows=10)[1], 1, Path())
    for params in (TabRParams(), TabRParams(search_epochs=2)):
        method = TabR().method(network_of(60), params, objective, context)
        assert method.repeats_steps == (params.search_epochs is None)
