"""Self-supervised pre-training: its loss, its masks, and what a fine-tuned network takes over."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest
import torch

from tabapp.features.arrays import Table
from tabapp.models import registry
from tabapp.models.checks.tables import make_context
from tabapp.models.contract import Shape
from tabapp.nn.plugin import Sizes
from tabapp.nn.pretraining import Encoder, Guesses, pretext_loss
from tests.nn.test_integrated import CARDINALITIES, table, tensors

VARIANTS = registry.variants()
ENCODERS = [name for name in VARIANTS if not name.startswith("tabnet")]
SHAPE = Shape(n_rows=40, n_numeric=3, n_categorical=2, n_classes=2, n_unlabeled=400)


def network_of(name):
    torch.manual_seed(0)
    plugin = registry.get(name)
    small = {"n_steps": 2, "width": 8} if name.startswith("tabnet") else {"n_layers": 2, "d_token": 16}
    params = msgspec.structs.replace(plugin.defaults("binary", SHAPE, "cpu"), **small)
    network = plugin.build(Sizes(n_numeric=3, cardinalities=CARDINALITIES, d_out=1, n_classes=2), params)
    assert isinstance(network, Encoder) == (name in ENCODERS)
    return plugin, params, network


def redundant_rows(n):
    """Rows in which each column can be predicted from the others."""
    generator = np.random.default_rng(0)
    code = generator.integers(0, 3, n)
    numeric = np.stack([code - 1.0, 1.0 - code, generator.normal(size=n)], axis=1).astype(np.float32)
    return Table(numeric, np.stack([code + 2, code % 2 + 2], axis=1).astype(np.int32))


@pytest.mark.parametrize("name", ENCODERS)
def test_every_column_is_encoded(name):
    _, _, network = network_of(name)
    numeric, codes = tensors(table(6, 0))
    n = network.n_encoded_numeric
    masked = torch.zeros(6, n, dtype=torch.bool)
    found = network.encoded_columns(numeric[:, :n], codes, masked, torch.zeros(n, network.d_encoded))
    assert found.shape == (6, n + 2, network.d_encoded)
    assert n == (0 if name.startswith("tab_") else 3)


@pytest.mark.parametrize("name", ["ft_transformer_pretrained", "amformer_pretrained"])
def test_a_masked_number_is_not_seen(name):
    _, _, network = network_of(name)
    numeric, codes = tensors(table(6, 0))
    mask, masked = torch.randn(3, network.d_encoded), torch.zeros(6, 3, dtype=torch.bool)
    masked[:, 1] = True
    changed = numeric.clone()
    changed[:, 1] += 5
    network.eval()
    shown = [network.encoded_columns(x, codes, masked, mask) for x in (numeric, changed)]
    assert torch.equal(*shown)
    assert not torch.equal(shown[0], network.encoded_columns(changed, codes, ~masked, mask))


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_the_loss_falls_where_columns_predict_each_other(name, tmp_path):
    plugin, params, network = network_of(name)
    rows = redundant_rows(64)
    plugin.initialize(network, rows)
    context = make_context("binary", spec(), 2, tmp_path)
    torch.manual_seed(1)
    one, many = (msgspec.structs.replace(params, pretraining_steps=n) for n in (1, 80))
    first = plugin.learn_rows(network, rows, one, context)["pretraining_loss"]
    facts = plugin.learn_rows(network, rows, many, context)
    assert facts["pretraining_loss"] < 0.75 * first
    assert (facts["pretraining_steps"], facts["pretraining_rows"]) == (80, 64)


def test_tabnet_reconstructs_features_that_its_steps_do_not_see():
    from tabapp_plugins.tabnet_pretrained import Decoder, reconstruction_loss

    _, params, network = network_of("tabnet_pretrained")
    numeric, codes = tensors(table(6, 0))
    shown = torch.ones(6, 5)
    shown[:, 1] = shown[:, 4] = 0
    changed, others = numeric.clone(), codes.clone()
    changed[:, 1] += 5
    others[:, 1] = 0
    network.eval()
    decided = [network.decide(x, c, shown) for x, c in ((numeric, codes), (changed, others))]
    assert torch.equal(decided[0].decisions, decided[1].decisions)
    assert not torch.equal(decided[0].decisions, network.decide(numeric, codes).decisions)
    torch.testing.assert_close(
        network.decide(numeric, codes).masks, network.decide(numeric, codes, torch.ones(6, 5)).masks
    )
    network.train()
    decoder = Decoder(3, CARDINALITIES, params)
    reconstruction_loss(network, decoder, *tensors(redundant_rows(64))).backward()
    without = {name for name, p in network.named_parameters() if p.grad is None}
    assert without == {"head.weight"}
    assert all(p.grad is not None for p in decoder.parameters())


@pytest.mark.parametrize(
    ("pretext", "n_masked", "n_changed", "heads"),
    [
        ("both", 0.15, 0.15, {"levels", "detector"}),
        ("masked", 0.3, 0.0, {"levels"}),
        ("replaced", 0.0, 0.3, {"detector"}),
    ],
)
def test_one_pretext_has_all_of_the_chosen_cells(pretext, n_masked, n_changed, heads):
    _, _, network = network_of("tab_transformer_pretrained")
    codes = torch.randint(2, 5, (5_000, 2))
    guesses = Guesses(0, (5, 5), network.d_encoded)
    shown = []
    encode = network.encoded_columns
    network.encoded_columns = lambda numeric, given, masked, mask: (
        shown.append(given),
        encode(numeric, given, masked, mask),
    )[1]
    pretext_loss(network, guesses, torch.zeros(5_000, 0), codes, pretext).backward()
    masked = shown[0] == 1
    assert float(masked.float().mean()) == pytest.approx(n_masked, abs=0.02)
    # A third of the replaced cells get their own level again.
    assert float((shown[0] != codes)[~masked].float().mean()) * (1 - n_masked) == pytest.approx(
        2 / 3 * n_changed, abs=0.02
    )
    learned = {
        name.split(".")[0].removesuffix("_bias")
        for name, p in guesses.named_parameters()
        if p.grad is not None and p.numel()
    }
    assert learned == heads


def test_the_pretext_of_tab_transformer_is_a_hyperparameter_that_trials_share(tmp_path):
    plugin, params, network = network_of("tab_transformer_pretrained")
    masked = msgspec.structs.replace(params, pretext="masked", pretraining_steps=3)
    assert plugin.pretraining_key(params) != plugin.pretraining_key(masked)
    context = make_context("binary", spec(), 2, tmp_path)
    found = []
    for each in (masked, msgspec.structs.replace(masked, pretext="replaced")):
        torch.manual_seed(1)
        _, _, network = network_of("tab_transformer_pretrained")
        found.append(plugin.learn_rows(network, redundant_rows(64), each, context)["pretraining_loss"])
    assert found[0] != found[1]


def test_every_weight_of_the_encoder_gets_a_gradient():
    plugin, _, network = network_of("ft_transformer_pretrained")
    rows = redundant_rows(64)
    guesses = Guesses(3, CARDINALITIES, network.d_encoded)
    pretext_loss(network, guesses, *tensors(rows)).backward()
    without = {name for name, p in network.named_parameters() if p.grad is None}
    assert without == {name for name, _ in network.named_parameters() if name.startswith(plugin.task_parts)}
    assert all(p.grad is not None for p in guesses.parameters())


@pytest.mark.parametrize("name", VARIANTS)
def test_fine_tuning_starts_from_the_pretrained_encoder(name, tmp_path):
    """With a learning rate of almost zero, the encoder stays as pre-training left it, and the head is new."""
    plugin, params, _ = network_of(name)
    params = msgspec.structs.replace(
        params, pretraining_steps=5, learning_rate=1e-12, weight_decay=0.0, max_epochs=1, average_decay=0.0
    )
    context = make_context("binary", spec(), 2, tmp_path)
    folder = tmp_path / "pretrained"
    folder.mkdir()
    plugin.pretrain(redundant_rows(64), params, context, folder)
    context.pretrained = folder
    rows = redundant_rows(40)
    labeled = dataclasses.replace(rows, target=(rows.numeric[:, 0] > 0).astype(np.int64))
    model = plugin.fit(labeled, labeled, params, context)
    saved = load_weights(folder)
    state = model.network.state_dict()
    assert {name for name in state if name not in saved} == {n for n in state if n.startswith(plugin.task_parts)}
    for part, weights in saved.items():
        if "running_" in part or part.endswith("num_batches_tracked"):
            # Batch normalization follows the labeled rows, whatever the learning rate is.
            continue
        torch.testing.assert_close(state[part], weights)
    assert model.summary()["pretraining_steps"] == 5


def test_trials_differ_in_fine_tuning_only():
    from optuna import create_study

    for name in VARIANTS:
        study = create_study()
        plugin = registry.get(name)
        drawn = [plugin.search_space(study.ask(), "binary", SHAPE, "cpu") for _ in range(5)]
        keys = {plugin.pretraining_key(params) for params in (*drawn, plugin.defaults("binary", SHAPE, "cpu"))}
        assert len(keys) == 1
        assert len({params.learning_rate for params in drawn}) == 5


@pytest.mark.parametrize("name", VARIANTS)
def test_the_cost_includes_the_pretraining(name):
    plugin = registry.get(name)
    params = plugin.defaults("binary", SHAPE, "cpu")
    costs = [
        plugin.cost("binary", SHAPE, msgspec.structs.replace(params, pretraining_steps=n), "cpu") for n in (0, 100, 200)
    ]
    seconds = [cost.seconds for cost in costs]
    assert 0 < seconds[0] < seconds[1] < seconds[2]
    np.testing.assert_allclose(seconds[2] - seconds[1], seconds[1] - seconds[0])
    base = registry.get(name.removesuffix("_pretrained"))
    alone = base.cost("binary", SHAPE, base.defaults("binary", SHAPE, "cpu"), "cpu")
    assert costs[0].n_bytes > alone.n_bytes


@pytest.mark.parametrize("name", VARIANTS)
def test_a_model_that_did_not_gain_starts_only_by_name(name, monkeypatch):
    plugin = registry.get(name)
    assert plugin.supports("binary", SHAPE) is None
    assert plugin.supports("binary", dataclasses.replace(SHAPE, n_unlabeled=0)) is not None
    monkeypatch.setattr(type(plugin), "gained_with", (200,))
    shape = dataclasses.replace(SHAPE, n_rows=200, n_unlabeled=2000)
    assert plugin.skipped_by_default("binary", shape) is None
    assert plugin.merit("binary", shape) > 1.0, "it starts early"
    for changed, words in (
        ({"n_rows": 60}, "nothing with about 50 labeled rows"),
        ({"n_rows": 1001, "n_unlabeled": 20_000}, "more than 1,000 labeled rows"),
        ({"n_unlabeled": 1999}, "1,999 for 200"),
    ):
        reason = plugin.skipped_by_default("binary", dataclasses.replace(shape, **changed))
        assert reason is not None
        assert words in reason
    monkeypatch.setattr(type(plugin), "gained_with", ())
    assert plugin.skipped_by_default("binary", shape) == "In measurements, this pre-training gained nothing."
    assert plugin.merit("binary", shape) <= 1.0


def load_weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "weights.safetensors")


def spec():
    from tabapp.features.arrays import FeatureSpec

    return FeatureSpec(
        numeric=("a", "b", "c"), categorical=("d", "e"), cardinalities=CARDINALITIES, sources=("a", "b", "c", "d", "e")
    )
