"""The network of NPT and its masking, compared with the formulas of Kossen et al. 2021."""

from __future__ import annotations

import math

import pytest
import torch
from tabapp_plugins.npt.network import Attributes, Entries, NPTNetwork, SelfAttentionBlock
from tabapp_plugins.npt.params import NPTParams
from tabapp_plugins.npt.steps import corrupt, entry_losses, objective, stratified_order

ATTRIBUTES = Attributes(n_numeric=3, n_levels=(4, 2), targets=(2,))


def make_network(**changes) -> NPTNetwork:
    torch.manual_seed(0)
    options = {"d_embedding": 8, "n_layers": 4, "n_heads": 2, "dropout": 0.1, "normalize_keys": True} | changes
    return NPTNetwork(ATTRIBUTES, **options).eval()


def make_entries(n_rows: int, seed: int = 0, hidden: float = 0.3) -> Entries:
    generator = torch.Generator().manual_seed(seed)
    levels = [torch.randint(n, (n_rows,), generator=generator) for n in ATTRIBUTES.n_levels]
    return Entries(
        torch.randn(n_rows, 3, generator=generator),
        torch.stack(levels, dim=1),
        torch.rand(n_rows, 5, generator=generator) < hidden,
    )


def everything(predicted) -> torch.Tensor:
    return torch.cat([predicted.numeric, *predicted.logits], dim=1)


def test_parameter_count_of_a_block_equals_the_formula() -> None:
    for width in (8, 24):
        block = SelfAttentionBlock(width, 2, 0.1, normalize_keys=True)
        assert sum(p.numel() for p in block.parameters()) == 13 * width**2 + 14 * width


def test_block_equals_equations_one_to_five() -> None:
    torch.manual_seed(0)
    width, n_heads, n = 12, 3, 7
    block = SelfAttentionBlock(width, n_heads, 0.1, normalize_keys=True).double().eval()
    x = torch.randn(n, width).double()
    normal = torch.nn.functional.layer_norm(
        x, (width,), block.attention_normalization.weight, block.attention_normalization.bias, 1e-12
    )
    weights, biases = block.query_key_value.weight.split(width), block.query_key_value.bias.split(width)
    query, key, value = (normal @ w.T + b for w, b in zip(weights, biases, strict=True))
    heads = []
    for q, k, v in zip(*(t.split(width // n_heads, dim=1) for t in (query, key, value)), strict=True):
        heads.append(torch.softmax(q @ k.T / math.sqrt(width), dim=1) @ v)
    residual = block.residual(x) + block.mix(torch.cat(heads, dim=1))
    expected = residual + block.ffn(block.ffn_normalization(residual))
    torch.testing.assert_close(block(x[None])[0], expected)


def test_without_attention_between_rows_a_prediction_ignores_other_rows() -> None:
    network, entries, other = make_network(attention="attributes"), make_entries(12), make_entries(12, seed=1)
    with torch.inference_mode():
        alone = everything(network(entries.take(slice(0, 4))))
        torch.testing.assert_close(everything(network(Entries.joined([entries.take(slice(0, 4)), other])))[:4], alone)
        recalled = network.recall(entries.take(slice(0, 4)), network.remember(other))
        torch.testing.assert_close(everything(recalled), alone)
        assert not torch.allclose(everything(make_network()(entries))[:4], everything(make_network()(other))[:4])


def test_without_layers_between_attributes_only_those_between_rows_remain() -> None:
    both, rows = make_network(), make_network(attention="rows")
    width = 8
    assert sum(p.numel() for p in both.parameters()) - sum(p.numel() for p in rows.parameters()) == 2 * (
        13 * width**2 + 14 * width
    )
    entries = make_entries(6)
    with torch.inference_mode():
        recalled = rows.recall(entries.take(slice(0, 1)), rows.remember(entries.take(slice(1, 6))))
    assert recalled.numeric.isfinite().all()


def test_every_weight_of_an_ablation_is_trained_or_has_a_zero_gradient() -> None:
    for attention in ("rows", "attributes"):
        network = make_network(attention=attention).train()
        everything(network(make_entries(6))).square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_keys_are_not_normalized_without_normalize_keys() -> None:
    entries = make_entries(6)
    paper, code = make_network(), make_network(normalize_keys=False)
    code.load_state_dict(paper.state_dict())
    assert not torch.allclose(everything(paper(entries)), everything(code(entries)), atol=1e-3)
    assert not torch.allclose(
        everything(code.recall(entries, code.remember(entries))), everything(paper(entries)), atol=1e-3
    )


def test_predictions_are_equivariant_to_row_permutations() -> None:
    network, entries = make_network(), make_entries(40)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    difference = everything(network(entries.take(order))) - everything(network(entries))[order]
    assert difference.abs().max() <= 1e-5


def test_content_of_hidden_entries_has_no_effect() -> None:
    network, entries = make_network(), make_entries(30)
    n_numeric = ATTRIBUTES.n_numeric
    numeric = entries.numeric.masked_fill(entries.hidden[:, :n_numeric], float("nan"))
    levels = entries.categorical.masked_fill(entries.hidden[:, n_numeric:], 1)
    other = Entries(numeric, levels, entries.hidden)
    assert torch.equal(everything(network(other)), everything(network(entries)))
    memory, same = network.remember(entries), network.remember(other)
    assert torch.equal(everything(network.recall(other, same)), everything(network.recall(entries, memory)))


def test_visible_entries_and_other_rows_have_an_effect() -> None:
    network, entries = make_network(), make_entries(10, hidden=0.0)
    before = everything(network(entries))
    entries.numeric[0, 0] += 1
    after = everything(network(entries))
    assert not torch.equal(before[0], after[0])
    assert not torch.equal(before[1:], after[1:])


def test_recall_equals_attention_to_a_context_that_ignores_the_row() -> None:
    """With a single block between rows, the context's keys do not depend on the row, so both results are equal."""
    network = make_network(n_layers=2)
    context, query = make_entries(20), make_entries(3, seed=1)
    memory = network.remember(context)
    recalled = everything(network.recall(query, memory))
    for i in range(3):
        alone = network(Entries.joined([context, query.take(slice(i, i + 1))]))
        torch.testing.assert_close(everything(alone)[-1], recalled[i], atol=1e-5, rtol=1e-5)
    (heads,) = network.attention_between_rows(query, memory)
    assert heads.shape[1:] == (3, 20)
    assert (heads.sum(dim=2) < 1).all()


def test_concatenated_sets_are_independent() -> None:
    network, one, other = make_network(), make_entries(6), make_entries(6, seed=1)
    together = everything(network(Entries.joined([one, other]), n_sets=2))
    torch.testing.assert_close(together[:6], everything(network(one)), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(together[6:], everything(network(other)), atol=1e-5, rtol=1e-5)


def test_every_parameter_gets_a_gradient() -> None:
    network, entries = make_network().train(), make_entries(40)
    losses = entry_losses(network(entries), entries)
    losses.mean().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


def test_type_embedding_exists_only_with_two_types() -> None:
    assert make_network().embedding.kind is not None
    only = NPTNetwork(Attributes(n_numeric=3), d_embedding=8, n_layers=2, n_heads=2, dropout=0.0, normalize_keys=True)
    assert only.embedding.kind is None
    with pytest.raises(ValueError, match="must be even"):
        make_network(n_layers=3)


def test_masking_hides_ninety_percent_and_skips_hidden_entries() -> None:
    entries = make_entries(20_000)
    params = NPTParams(feature_masking=0.2, target_masking=0.5)
    shown, chosen = corrupt(entries, ATTRIBUTES, params, torch.Generator().manual_seed(5))
    assert not (chosen & entries.hidden).any()
    rate = [float(chosen[:, j].sum() / (~entries.hidden[:, j]).sum()) for j in range(5)]
    assert rate == pytest.approx([0.2, 0.2, 0.5, 0.2, 0.2], abs=0.02)
    masked = chosen & shown.hidden
    assert float(masked.sum() / chosen.sum()) == pytest.approx(0.9, abs=0.01)
    assert torch.equal(shown.hidden, entries.hidden | masked)
    randomized = chosen & ~masked
    in_numeric = randomized[:, :3]
    assert torch.equal(shown.numeric[~in_numeric], entries.numeric[~in_numeric])
    assert float((shown.numeric[in_numeric] == entries.numeric[in_numeric]).float().mean()) == 0
    assert int(shown.categorical[:, 0].max()) == 3
    assert int(shown.categorical[:, 1].max()) == 1


def test_always_predicted_target_is_always_hidden() -> None:
    entries, generator = make_entries(500, hidden=0.0), torch.Generator().manual_seed(5)
    shown, chosen = corrupt(entries, ATTRIBUTES, NPTParams(target_masking=1.0), generator)
    assert chosen[:, 2].all()
    assert shown.hidden[:, 2].all()


def test_each_loss_is_the_mean_over_its_entries() -> None:
    losses = torch.arange(10.0).view(2, 5)
    chosen = torch.zeros(2, 5, dtype=torch.bool)
    chosen[0, 2] = chosen[1, 0] = chosen[1, 1] = True
    weight = torch.tensor([3.0, 1.0])
    assert float(objective(losses, chosen, weight, (2,), 0.0)) == 6.0
    assert float(objective(losses, chosen, weight, (2,), 1.0)) == 5.5
    assert float(objective(losses, chosen, weight, (2,), 0.25)) == pytest.approx(0.75 * 6 + 0.25 * 5.5)
    assert float(objective(losses, chosen, weight, (), 0.0)) == pytest.approx((2 + 5 + 6) / 3)
    assert float(objective(losses, torch.zeros_like(chosen), weight, (2,), 0.5)) == 0.0


def test_the_target_of_a_run_keeps_its_weight_beside_others() -> None:
    losses = torch.tensor([[4.0, 1.0, 2.0, 10.0], [8.0, 3.0, 6.0, 20.0]])
    chosen = torch.tensor([[True, True, False, True], [True, True, False, False]])
    ones = torch.ones(2)
    # Attribute 0 is the target of the run; 1, 2 and 3 are others, of which 2 is not chosen in any row.
    assert float(objective(losses, chosen, ones, (0,), 0.0, own=0)) == 6.0
    expected = 2 / 3 * 6 + 1 / 3 * (2 + 10) / 2
    assert float(objective(losses, chosen, ones, (0, 1, 2, 3), 0.0, own=0)) == pytest.approx(expected)
    assert float(objective(losses, chosen, ones, (0, 1), 0.0, own=0)) == pytest.approx(2 / 3 * 6 + 1 / 3 * 2)
    assert float(objective(losses, chosen, ones, (0, 1, 3), 0.0)) == pytest.approx((6 + 2 + 10) / 3)


def test_batches_contain_every_stratum_in_proportion() -> None:
    strata = torch.cat([torch.zeros(600), torch.ones(300), torch.full((100,), 7)]).long()
    order = stratified_order(strata, torch.Generator().manual_seed(0))
    assert torch.equal(order.sort().values, torch.arange(1000))
    for start in range(0, 1000, 50):
        run = strata[order[start : start + 50]]
        assert [int((run == s).sum()) for s in (0, 1, 7)] == pytest.approx([30, 15, 5], abs=2)
    assert not torch.equal(order, stratified_order(strata, torch.Generator().manual_seed(1)))
