"""AMFormer and its arithmetic block, compared with Cheng et al. 2024. `test_contract.py` covers the contract."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import optuna
import pytest
import torch
from tabapp_plugins.amformer.network import MANY_PROMPTS, AMFormerNetwork, AMFormerParams, prompt_counts, prompts_for
from tabapp_plugins.amformer.plugin import AMFormer, AMFormerTraining
from torch import Tensor, nn

from tabapp.features.arrays import MISSING, UNSEEN, Table
from tabapp.models.contract import Shape
from tabapp.nn.layers import arithmetic
from tabapp.nn.layers.arithmetic import HardAttention, ProductAttention
from tabapp.nn.layers.attention import SelfAttention
from tabapp.nn.plugin import Sizes
from tabapp.nn.training.objective import Objective
from tests.plugins.tables import make_context, make_table, shape_of

SIZES = Sizes(n_numeric=4, cardinalities=(5, 3), d_out=2, n_classes=2)
LAYOUTS = [
    {"backbone": backbone, "prompts": prompts, "n_prompts": n_prompts}
    for backbone in ("ft_transformer", "autoint")
    for prompts, n_prompts in (("none", None), ("multiplicative", None), ("both", None), ("both", 4))
]


def small(**options: object) -> AMFormerParams:
    plain: dict[str, object] = {"n_layers": 2, "d_token": 16, "top_k": 3, "attention_dropout": 0.0, "ffn_dropout": 0.0}
    return AMFormerParams(**(plain | options))


def network_of(seed: int = 0, sizes: Sizes = SIZES, **options: object) -> AMFormerNetwork:
    torch.manual_seed(seed)
    return AMFormerNetwork(sizes, small(**options))


def rows_of(n_rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    codes = torch.stack([torch.randint(0, c, (n_rows,), generator=generator) for c in SIZES.cardinalities], 1)
    return torch.randn(n_rows, 4, generator=generator), codes


def hard(top_k: int, n_prompts: int | None = 5, dropout: float = 0.0) -> HardAttention:
    torch.manual_seed(0)
    return HardAttention(16, 4, n_prompts=n_prompts, top_k=top_k, dropout=dropout)


@torch.no_grad()
def test_uniform_attention_over_logarithms_is_the_geometric_mean() -> None:
    attention = HardAttention(1, 1, n_prompts=1, top_k=2, dropout=0.0)
    attention.key.weight.zero_()
    attention.value.weight.fill_(1.0)
    product = ProductAttention(attention, epsilon=1e-12, bound=1e6)
    x = torch.rand(200, 2, 1) * 3 + 0.1
    expected = (x[:, 0] * x[:, 1]).sqrt()
    torch.testing.assert_close(product(x)[:, 0], expected, rtol=1e-5, atol=0)
    # The same with the default bound, if the product is far below it.
    near_one = torch.rand(200, 2, 1) * 0.5 + 0.8
    bounded = ProductAttention(attention, epsilon=1e-12)(near_one)[:, 0]
    torch.testing.assert_close(bounded, (near_one[:, 0] * near_one[:, 1]).sqrt(), rtol=1e-3, atol=0)


@torch.no_grad()
def test_two_layers_of_logarithms_add_exponents() -> None:
    # Weights with a sum above one yield powers: attention ½ + ½ and a value weight of 4 yield x₁² x₂².
    attention = HardAttention(1, 1, n_prompts=1, top_k=2, dropout=0.0)
    attention.key.weight.zero_()
    attention.value.weight.fill_(4.0)
    x = torch.rand(50, 2, 1) + 0.5
    product = ProductAttention(attention, epsilon=1e-12, bound=1e6)(x)[:, 0]
    torch.testing.assert_close(product, (x[:, 0] * x[:, 1]).square(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("n_prompts", [None, 5])
def test_top_k_of_all_tokens_equals_softmax(n_prompts: int | None) -> None:
    attention, x = hard(7, n_prompts), torch.randn(6, 7, 16)
    query = attention.query(x) if n_prompts is None else attention.prompts.expand(6, -1, -1)
    query, key, value = (t.unflatten(2, (4, 4)).transpose(1, 2) for t in (query, attention.key(x), attention.value(x)))
    dense = torch.softmax(query @ key.transpose(2, 3) / 2, dim=-1) @ value
    torch.testing.assert_close(attention(x), dense.transpose(1, 2).flatten(2), atol=1e-6, rtol=0)


@pytest.mark.parametrize("top_k", [1, 3, 6])
def test_exactly_k_probabilities_are_nonzero(top_k: int) -> None:
    attention, x = hard(top_k), torch.randn(20, 7, 16)
    probabilities = attention.probabilities(x)
    assert probabilities.shape == (20, 4, 5, 7)
    assert ((probabilities > 0).sum(-1) == top_k).all()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(20, 4, 5))
    tied = attention.probabilities(torch.ones(2, 7, 16))
    assert ((tied > 0).sum(-1) == top_k).all()
    # They are the softmax of the highest scores, so their ratios are unchanged.
    everything = hard(7).probabilities(x)
    kept = torch.where(probabilities > 0, everything, 0)
    torch.testing.assert_close(probabilities, kept / kept.sum(-1, keepdim=True))
    assert torch.where(probabilities > 0, 0, everything).amax(-1).le(kept.masked_fill(kept == 0, 1).amin(-1)).all()


@pytest.mark.parametrize("n_prompts", [None, 5])
def test_implementations_for_few_and_many_tokens_agree(n_prompts: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    attention, x = hard(3, n_prompts), torch.randn(9, 30, 16)
    dense_x, selected_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    dense = attention(dense_x)
    dense.square().sum().backward()
    gradients = {name: p.grad.clone() for name, p in attention.named_parameters()}
    attention.zero_grad()
    monkeypatch.setattr(arithmetic, "MANY_TOKENS", 8)
    monkeypatch.setattr(arithmetic, "SELECTION_SCORES", 2 * 4 * 5 * 30)
    selected = attention(selected_x)
    torch.testing.assert_close(selected, dense, atol=1e-5, rtol=0)
    selected.square().sum().backward()
    torch.testing.assert_close(selected_x.grad, dense_x.grad, atol=1e-4, rtol=1e-4)
    for name, parameter in attention.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-4, rtol=1e-4)


def test_dropout_only_in_training() -> None:
    attention, x = hard(3, dropout=0.5), torch.randn(50, 7, 16)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))


@torch.no_grad()
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_finite_at_zero_and_at_ten_thousand(layout: dict[str, object]) -> None:
    network, (_, codes) = network_of(**layout), rows_of(8)
    for value in (0.0, 1e4, -1e4):
        x = torch.full((8, 4), value).requires_grad_()
        with torch.enable_grad():
            output = network(x, codes)
            output.sum().backward()
        assert torch.isfinite(output).all()
        assert torch.isfinite(x.grad).all()
        assert all(torch.isfinite(p.grad).all() for p in network.parameters())


def test_products_stay_precise_under_autocast() -> None:
    product = ProductAttention(hard(4)).eval()
    x = torch.randn(30, 7, 16) * 3
    with torch.no_grad():
        exact = product(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            low = product(x)
    assert low.dtype == torch.float32
    assert torch.equal(low, exact)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_gradient_reaches_every_parameter(layout: dict[str, object]) -> None:
    network, (x, codes) = network_of(**layout).train(), rows_of(60)
    network(x, codes).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        gradient = parameter.grad
        if name.endswith("query_key_value.bias"):
            # The keys' bias shifts all scores of a query equally, so softmax cancels it.
            query, _, value = gradient.chunk(3)
            gradient = torch.cat([query, value])
        assert (gradient != 0).any(), name
        if name.endswith(".prompts"):
            assert (gradient != 0).any(1).all(), name


@torch.no_grad()
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_rows_are_independent(layout: dict[str, object]) -> None:
    """Uses float64, because the order of a sum in float32 can change which of two nearly equal scores is selected."""
    network, (x, codes) = network_of(**layout).double().eval(), rows_of(40)
    x = x.double()
    x[0] *= 1000
    together = network(x, codes)
    network.rows_together = 16
    torch.testing.assert_close(network(x, codes), together, atol=1e-10, rtol=1e-10)
    alone = torch.cat([network(x[i : i + 1], codes[i : i + 1]) for i in range(40)])
    torch.testing.assert_close(together, alone, atol=1e-10, rtol=1e-10)


@torch.no_grad()
def test_reduced_last_layer_equals_cls_of_a_full_layer() -> None:
    network, (x, codes) = network_of().eval(), rows_of(10)
    tokens = network.layers[0](network.tokens(x, codes))
    last = network.layers[1]
    fused = last.arithmetic(tokens)
    assert fused.shape == (10, 1, 16)
    # Equation 4.
    seen = last.arithmetic.normalization(tokens)
    candidates = torch.cat([last.arithmetic.additive(seen), last.arithmetic.multiplicative(tokens)], 1)
    assert candidates.shape == (10, 14, 16)
    torch.testing.assert_close(last.arithmetic.fusion(candidates.mT).mT, fused, atol=1e-6, rtol=1e-5)
    residual = tokens[:, :1] + fused
    torch.testing.assert_close(last(tokens), residual + last.ffn(last.ffn_normalization(residual)))


def test_layouts_equal_the_paper() -> None:
    hybrid, both, none = (network_of(prompts=p).layers[0].arithmetic for p in ("multiplicative", "both", "none"))
    assert isinstance(hybrid.additive, SelfAttention)
    assert both.additive.prompts.shape == both.multiplicative.attention.prompts.shape == (7, 16)
    assert none.additive.prompts is None
    assert none.multiplicative.attention.prompts is None
    assert hybrid.multiplicative.attention.top_k == both.additive.top_k == none.additive.top_k == 3
    assert [layer.arithmetic.normalization is None for layer in network_of(n_layers=3).layers] == [True, False, False]
    assert network_of(backbone="autoint").pool.in_features == 6
    assert network_of(backbone="autoint", prompts="both", n_prompts=4).pool.in_features == 2


@pytest.mark.parametrize("prompts", ["none", "multiplicative", "both"])
def test_one_stream_alone_has_half_the_candidates(prompts) -> None:
    x, codes = rows_of(5)
    both = network_of(prompts=prompts)
    for streams, left_out in (("additive", "multiplicative"), ("multiplicative", "additive")):
        network = network_of(prompts=prompts, streams=streams).train()
        arithmetic = network.layers[0].arithmetic
        assert getattr(arithmetic, left_out) is None
        assert 2 * arithmetic.fusion.in_features == both.layers[0].arithmetic.fusion.in_features
        network(x, codes).sum().backward()
        assert all(p.grad is not None for p in network.parameters())


def test_prompts_halve_for_many_features() -> None:
    assert prompt_counts(9, AMFormerParams()) == (9, 9, 9)
    assert prompt_counts(301, AMFormerParams()) == (301, 301, 301)
    assert prompt_counts(2001, AMFormerParams()) == (MANY_PROMPTS, MANY_PROMPTS // 2, MANY_PROMPTS // 4)
    assert prompt_counts(2001, AMFormerParams(n_prompts=512)) == (512, 256, 128)
    assert prompt_counts(9, AMFormerParams(n_prompts=2, n_layers=4)) == (2, 1, 1, 1)
    assert prompts_for(300, AMFormerParams()) == "multiplicative"
    assert prompts_for(301, AMFormerParams()) == "both"
    wide = network_of(sizes=Sizes(n_numeric=700, cardinalities=(), d_out=1, n_classes=1), n_layers=3)
    layers = [layer.arithmetic for layer in wide.layers]
    assert [layer.additive.prompts.shape[0] for layer in layers] == [256, 128, 64]
    assert [layer.fusion.out_features for layer in layers] == [256, 128, 1]
    # 701 tokens need at least 3 per prompt for 256 prompts; 256 tokens need 2 for 128 prompts, so the requested 3 are
    # kept.
    assert [layer.additive.top_k for layer in layers] == [3, 3, 3]
    tight = network_of(sizes=Sizes(n_numeric=700, cardinalities=(), d_out=1, n_classes=1), top_k=1, n_layers=3)
    assert [layer.arithmetic.additive.top_k for layer in tight.layers] == [3, 2, 2]
    assert wide(torch.randn(2, 700), torch.zeros(2, 0, dtype=torch.int64)).shape == (2, 1)


def formula(n: int, d: int, hidden: int, n_layers: int, d_out: int) -> int:
    """Parameters of AMF-F with self-attention in the additive stream, for n numeric features and n + 1 prompts."""
    t = n + 1
    embedding = d + 2 * n * d
    streams = (4 * d * d + 4 * d) + (t * d + 2 * d * d)
    fusion = (n_layers - 1) * 2 * t * t + 2 * t
    feed_forward = (2 * d * hidden + 2 * hidden) + (hidden * d + d)
    norms = n_layers * 2 * d + (n_layers - 1) * 2 * d + 2 * d
    return embedding + n_layers * (streams + feed_forward) + fusion + norms + d * d_out + d_out


@pytest.mark.parametrize(("n", "params"), [(8, AMFormerParams()), (54, AMFormerParams(n_layers=4, d_token=64))])
def test_parameter_count(n: int, params: AMFormerParams) -> None:
    network = AMFormerNetwork(Sizes(n_numeric=n, cardinalities=(), d_out=3, n_classes=3), params)
    expected = formula(n, params.d_token, int(params.d_token * params.ffn_factor), params.n_layers, 3)
    assert sum(p.numel() for p in network.parameters()) == expected


def test_default_is_table_7() -> None:
    params = AMFormer().defaults("binary", Shape(10_000, 20, 2, 2), "cuda:0")
    assert (params.n_layers, params.d_token, params.n_heads, params.top_k) == (3, 192, 8, 8)
    assert (params.attention_dropout, params.ffn_dropout, params.weight_decay) == (0.2, 0.1, 0.0)
    (autoint,) = AMFormer().portfolio("binary", Shape(10_000, 20, 2, 2), "cuda:0")
    assert (autoint.backbone, autoint.d_token) == ("autoint", 32)


def test_learning_rate_schedule_equals_the_paper(tmp_path: Path) -> None:
    table, spec, _ = make_table("binary", n_rows=321)
    context = make_context("binary", spec, 2, tmp_path)
    params = small(warmup_steps=10, decay_steps=30, batch_size=32, max_epochs=10)
    network = network_of()
    method = AMFormerTraining(network, params, Objective.fit(table, context))
    method.start(torch.zeros(321, 4), torch.zeros(321, 2), torch.zeros(321), None)
    optimizer = method.optimizer()
    rates = []
    for step in range(100):
        method.schedule(optimizer, step / 100)
        rates.append(optimizer.param_groups[0]["lr"])
    expected = [1e-3 * min(1, (step + 1) / 10) * 0.1 ** (step // 30) for step in range(100)]
    np.testing.assert_allclose(rates, expected)


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["ft_transformer", "autoint"])
def test_learns_a_product_and_loads_bit_identically(backbone: str, tmp_path: Path) -> None:
    table, spec, _ = make_table("regression", n_rows=900)
    x = table.numeric.astype(np.float64)
    table = Table(table.numeric, table.categorical, 5 * np.abs(x[:, 0]) * np.abs(x[:, 2]) + 3)
    train, valid, test = (table.take(slice(*s)) for s in ((0, 600), (600, 750), (750, 900)))
    params = small(backbone=backbone, d_token=32, learning_rate=5e-3, warmup_steps=20, max_epochs=10)
    plugin = AMFormer()
    model = plugin.fit(train, valid, params, make_context("regression", spec, 1, tmp_path))
    error = np.sqrt(np.square(model.predict(test) - test.target).mean())
    assert error < 0.35 * test.target.std()
    selection = model.summary()["prompt_selection"]
    assert len(selection) == 7 if backbone == "ft_transformer" else 6
    assert all(set(prompt) <= {*spec.numeric, *spec.categorical} for prompt in selection)
    assert all(0 < frequency <= 1 for prompt in selection for frequency in prompt.values())

    odd = Table(np.zeros_like(test.numeric), np.full_like(test.categorical, UNSEEN))
    assert np.isfinite(model.predict(odd)).all()
    odd = Table(test.numeric * 1000, np.full_like(test.categorical, MISSING))
    assert np.isfinite(model.predict(odd)).all()

    folder = tmp_path / "model"
    folder.mkdir()
    model.save(folder)
    loaded = plugin.load(folder)
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    assert loaded.summary() == model.summary()


@torch.no_grad()
def test_selection_is_a_frequency_over_rows_and_heads() -> None:
    network, (x, codes) = network_of().eval(), rows_of(5)
    frequencies = network.selection(x, codes)
    assert frequencies.shape == (7, 7)
    torch.testing.assert_close(frequencies.sum(1), torch.full((7,), 3.0))
    network.selection_rows = 2
    torch.testing.assert_close(network.selection(x, codes), frequencies)


def test_every_sampled_configuration_can_be_built() -> None:
    plugin = AMFormer()
    table, spec, n_classes = make_table("binary", n_rows=300)
    shape = shape_of(table, spec, n_classes)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    x, codes = rows_of(3)
    drawn = [plugin.search_space(study.ask(), "binary", shape, "cpu") for _ in range(15)]
    assert {params.backbone for params in drawn} == {"ft_transformer", "autoint"}
    for params in drawn:
        assert plugin.build(SIZES, params)(x, codes).shape == (3, 2)


def test_cost_is_linear_in_features_with_prompts() -> None:
    plugin = AMFormer()
    params = AMFormerParams()

    def seconds(n: int) -> float:
        return plugin.cost("binary", Shape(1_000_000, n, 0, 2), params, "cpu").seconds

    assert seconds(4000) < 2.5 * seconds(2000)
    assert seconds(300) > 2.0 * seconds(150)
    assert msgspec.to_builtins(params)["prompts"] is None


def test_norms_biases_and_prompts_have_no_weight_decay() -> None:
    network = network_of()
    decayed = {name for name, _ in network.named_parameters()} - AMFormer().undecayed(network)
    assert decayed == {"head.weight"} | {
        f"layers.{i}.{part}.weight"
        for i in range(2)
        for part in (
            "arithmetic.additive.query_key_value",
            "arithmetic.additive.output",
            "arithmetic.multiplicative.attention.key",
            "arithmetic.multiplicative.attention.value",
            "arithmetic.fusion",
            "ffn.first",
            "ffn.second",
        )
    }
    assert all(isinstance(m, nn.Linear) for m in (network.head, network.layers[0].arithmetic.fusion))
