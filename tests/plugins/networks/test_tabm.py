"""TabM compared with the authors' package with the same weights, and properties of its members from the paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tabapp_plugins.mlp import MLPNetwork
from tabapp_plugins.tabm import EnsembleLinear, TabM, TabMNetwork, TabMParams
from torch import nn

from tabapp.features.arrays import Table
from tabapp.nn.layers.numeric import PiecewiseLinearEmbedding, bin_edges
from tabapp.nn.plugin import Sizes
from tabapp.nn.training.objective import Objective
from tests.plugins.tables import make_context, make_table

NUMERIC = Sizes(n_numeric=8, cardinalities=(), d_out=1)
MIXED = Sizes(n_numeric=3, cardinalities=(5, 60), d_out=2)


def n_parameters(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def test_parameter_counts_of_the_package_defaults() -> None:
    plain = {"n_blocks": 3, "n_bins": 0}
    assert n_parameters(TabMNetwork(NUMERIC, TabMParams(**plain))) == 676_128
    assert n_parameters(TabMNetwork(NUMERIC, TabMParams(variant="mini", **plain))) == 546_592


def codes_of(n_rows: int) -> torch.Tensor:
    return torch.zeros(n_rows, 0, dtype=torch.int64)


@pytest.mark.parametrize("variant", ["full", "mini"])
@pytest.mark.parametrize("n_bins", [0, 12])
def test_equals_the_package_with_the_same_weights(variant: str, n_bins: int) -> None:
    tabm = pytest.importorskip("tabm")
    rtdl_num_embeddings = pytest.importorskip("rtdl_num_embeddings")
    torch.manual_seed(0)
    x = torch.randn(500, 4)
    x[:, 3] = (x[:, 3] > 0).float()
    sizes = Sizes(n_numeric=4, cardinalities=(), d_out=3)
    params = TabMParams(variant=variant, n_members=5, n_blocks=2, width=24, n_bins=n_bins, d_embedding=6, dropout=0.0)
    ours = TabMNetwork(sizes, params)
    with torch.no_grad():
        for p in ours.parameters():
            p.add_(0.1 * torch.randn_like(p))
    embeddings = None
    if n_bins:
        assert ours.numeric is not None
        ours.numeric.set_bins(x)
        bins = rtdl_num_embeddings.compute_bins(x, n_bins=n_bins)
        embeddings = rtdl_num_embeddings.PiecewiseLinearEmbeddings(bins, 6, activation=False, version="B")
    theirs = tabm.TabM.make(
        n_num_features=4, d_out=3, num_embeddings=embeddings, k=5, n_blocks=2, d_block=24, dropout=0.0,
        arch_type="tabm" if variant == "full" else "tabm-mini",
    )  # fmt: skip
    with torch.no_grad():
        if embeddings is not None:
            embeddings.linear0.weight.copy_(ours.numeric.linear.weight)
            embeddings.linear0.bias.copy_(ours.numeric.linear.bias)
            widest = embeddings.linear.weight.shape[1]
            for j, edges in enumerate(bins):
                # The package stores a column's last bin at the end of the row.
                n = len(edges) - 1
                embeddings.linear.weight[j, : n - 1].copy_(ours.numeric.weight[j, : n - 1])
                embeddings.linear.weight[j, widest - 1].copy_(ours.numeric.weight[j, n - 1])
        if variant == "mini":
            theirs.backbone.affine.weight.copy_(ours.scale.weight)
        for mine, other in zip(ours.blocks, theirs.backbone.blocks, strict=True):
            layer, oracle = mine[0], other[0]
            oracle.weight.copy_(layer.weight)
            oracle.bias.copy_(layer.bias)
            if isinstance(layer, EnsembleLinear):
                oracle.r.copy_(layer.input_scale.weight)
                oracle.s.copy_(layer.output_scale.weight)
        theirs.output.weight.copy_(ours.head_weight)
        theirs.output.bias.copy_(ours.head_bias)
    torch.testing.assert_close(ours(x, codes_of(500)), theirs(x), atol=2e-5, rtol=1e-5)


def test_one_member_without_scales_equals_an_mlp() -> None:
    torch.manual_seed(0)
    params = TabMParams(n_members=1, n_blocks=2, width=16, n_bins=0, dropout=0.0)
    ours, mlp = TabMNetwork(NUMERIC, params), MLPNetwork(NUMERIC, (16, 16), 0.0)
    with torch.no_grad():
        ours.blocks[0][0].input_scale.weight.fill_(1)
        for mine, other in zip(ours.blocks, mlp.blocks, strict=True):
            other[0].weight.copy_(mine[0].weight)
            other[0].bias.copy_(mine[0].bias[0])
        mlp.head.weight.copy_(ours.head_weight[0].T)
        mlp.head.bias.copy_(ours.head_bias[0])
    x = torch.randn(10, 8)
    torch.testing.assert_close(ours(x, codes_of(10))[:, 0], mlp(x, codes_of(10)), atol=1e-6, rtol=0)


@pytest.mark.parametrize("variant", ["full", "mini"])
def test_members_differ_by_one_factor_per_feature(variant: str) -> None:
    torch.manual_seed(0)
    params = TabMParams(variant=variant, n_members=4, n_blocks=2, width=16, n_bins=6, d_embedding=5)
    network = TabMNetwork(MIXED, params)
    scale = network.scale if variant == "mini" else network.blocks[0][0].input_scale
    widths = (5, 5, 5, *network.categorical.widths)
    assert network.categorical.widths[0] == 4
    for part in scale.weight.detach().split(widths, dim=1):
        torch.testing.assert_close(part, part[:, :1].expand_as(part))
        assert len(part[:, 0].unique()) == 4
    for module in network.modules():
        if isinstance(module, EnsembleLinear):
            assert (module.output_scale.weight == 1).all()
            assert (module.bias == module.bias[0]).all()
    signs = TabMNetwork(NUMERIC, TabMParams(variant=variant, n_members=32, n_bins=0, width=8))
    first = signs.scale if variant == "mini" else signs.blocks[0][0].input_scale
    assert set(first.weight.unique().tolist()) == {-1.0, 1.0}


def test_loss_is_computed_per_member_and_prediction_is_their_mean(tmp_path: Path) -> None:
    for task, d_out in (("binary", 1), ("multiclass", 3), ("regression", 1)):
        table, spec, n_classes = make_table(task, n_rows=20)
        # A limit holds for the mean.
        context = replace(make_context(task, spec, n_classes, tmp_path), is_ordered=True)
        objective = Objective.fit(table, context)
        target = objective.target(table, torch.device("cpu"))
        output, weight = torch.randn(20, 4, d_out), torch.rand(20)
        alone = [objective.loss(member, target, weight) for member in output.unbind(1)]
        torch.testing.assert_close(objective.loss(output, target, weight), torch.stack(alone).mean())
        predictions = [objective.prediction(member).astype(np.float64) for member in output.unbind(1)]
        np.testing.assert_allclose(objective.prediction(output), np.mean(predictions, axis=0), rtol=1e-6)


def test_piecewise_linear_encoding_by_hand() -> None:
    embedding = PiecewiseLinearEmbedding(3, 4, 2)
    columns = torch.stack([torch.linspace(0, 8, 33), torch.zeros(33), (torch.arange(33) > 15).float()], dim=1)
    embedding.set_bins(columns)
    x = torch.tensor([[3.0, 5.0, 1.0], [-2.0, 0.0, 0.0], [10.0, 0.0, 0.5]])
    expected = torch.tensor([[1, 0.5, 0, 0], [-1, 0, 0, 0], [1, 1, 1, 2]])
    torch.testing.assert_close(embedding.components(x)[:, 0], expected)
    assert (embedding.components(x)[:, 1] == 0).all()
    torch.testing.assert_close(embedding.components(x)[:, 2, 0], torch.tensor([1.0, 0.0, 0.5]))
    torch.testing.assert_close(embedding(x), embedding.linear(x))
    assert bin_edges(torch.tensor([0.0, 1.0, 1.0 + 1e-6, 2.0]), 3).diff().min() > 1e-4


def test_weight_decay_applies_to_weights_and_scales_only() -> None:
    network = TabMNetwork(MIXED, TabMParams(n_members=2, width=8, n_bins=4))
    decayed = {name for name, _ in network.named_parameters()} - TabM().undecayed(network)
    assert all(name.endswith(("weight",)) and "numeric" not in name and "categorical" not in name for name in decayed)
    assert sum(name.endswith("_scale.weight") for name in decayed) == 4


def test_bins_are_saved(tmp_path: Path) -> None:
    table, spec, _ = make_table("regression", n_rows=300)
    params = TabMParams(n_members=4, width=16, n_bins=8, max_epochs=2, average_decay=0.9)
    model = TabM().fit(table, table, params, make_context("regression", spec, 1, tmp_path))
    (tmp_path / "model").mkdir()
    model.save(tmp_path / "model")
    far = Table(table.numeric * 3, table.categorical, table.target)
    assert np.isfinite(model.predict(far)).all()
    np.testing.assert_array_equal(TabM().load(tmp_path / "model").predict(far), model.predict(far))
