"""DCN V2 with cross layers of a low rank."""

from __future__ import annotations

import torch
from tabapp_plugins.dcn_v2 import CrossLayer, DCNV2Network, DCNV2Params

from tabapp.nn.plugin import Sizes


def test_a_low_rank_layer_equals_a_full_one_with_the_product_of_its_matrices():
    torch.manual_seed(0)
    low, full = CrossLayer(8, 0.0, rank=3), CrossLayer(8, 0.0)
    assert low.reduction is not None
    with torch.no_grad():
        full.linear.weight.copy_(low.linear.weight @ low.reduction.weight)
        full.linear.bias.copy_(low.linear.bias)
    first, x = torch.randn(5, 8), torch.randn(5, 8)
    torch.testing.assert_close(low(first, x), full(first, x))


def test_the_rank_decides_the_number_of_weights():
    sizes = Sizes(n_numeric=4, cardinalities=(5,), d_out=1)

    def n_weights(rank: int) -> int:
        return sum(p.numel() for p in DCNV2Network(sizes, DCNV2Params(width=64, rank=rank)).crosses.parameters())

    assert n_weights(0) == 3 * (64 * 64 + 64)
    assert n_weights(8) == 3 * (2 * 64 * 8 + 64)
