"""The fast linear layer has the results of torch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tabapp.nn.layers import linear as module
from tabapp.nn.layers.linear import FEW_PRODUCTS, Linear, linear, onednn_linear

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN, which is asked for here"
)


@pytest.fixture(autouse=True)
def on_any_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "onednn_linear", lambda: torch.ops.mkldnn._linear_pointwise)


@pytest.mark.parametrize("shape", [(700, 96), (70, 10, 96)])
@pytest.mark.parametrize("biased", [True, False])
def test_values_and_gradients_equal_torch(shape: tuple[int, ...], biased: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, requires_grad=True)
    weight = torch.randn(80, 96, requires_grad=True)
    bias = torch.randn(80, requires_grad=True) if biased else None
    assert x.numel() * len(weight) >= FEW_PRODUCTS
    inputs = [x, weight] + ([bias] if bias is not None else [])
    upstream = torch.randn(*shape[:-1], 80)
    ours, theirs = linear(x, weight, bias), F.linear(x, weight, bias)
    assert "OneDNN" in str(ours.grad_fn) or "OneDNN" in str(ours.grad_fn and ours.grad_fn.next_functions)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)
    gradients = torch.autograd.grad(ours, inputs, upstream), torch.autograd.grad(theirs, inputs, upstream)
    for mine, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-3)


def test_only_requested_gradients_are_computed() -> None:
    x, weight = torch.randn(700, 96), torch.randn(80, 96, requires_grad=True)
    linear(x, weight).sum().backward()
    assert x.grad is None
    torch.testing.assert_close(weight.grad, x.sum(0).expand(80, -1), rtol=1e-5, atol=1e-3)


def test_strided_operands() -> None:
    x, weight = torch.randn(96, 700).t(), torch.randn(96, 80).t()
    torch.testing.assert_close(linear(x, weight), F.linear(x, weight), rtol=1e-5, atol=1e-4)


def test_small_products_bfloat16_and_float64_use_torch() -> None:
    x, weight = torch.randn(700, 96), torch.randn(80, 96)
    assert torch.equal(linear(x[:3], weight), F.linear(x[:3], weight))
    assert torch.equal(linear(x.double(), weight.double()), F.linear(x.double(), weight.double()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16
    assert linear(torch.zeros(0, 96), weight).shape == (0, 80)


def test_layer_has_the_state_of_a_torch_layer() -> None:
    torch.manual_seed(0)
    ours = Linear(96, 80)
    torch.manual_seed(0)
    theirs = nn.Linear(96, 80)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert torch.equal(ours.weight, theirs.weight)
    x = torch.randn(700, 96)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)


def test_enabled_only_where_torch_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for processor, capability, pays in (
        ("AuthenticAMD", "AVX512", True),
        ("AuthenticAMD", "AVX2", False),
        ("GenuineIntel", "AVX512", False),
    ):
        onednn_linear.cache_clear()
        with monkeypatch.context() as patched:
            patched.setattr(module, "_processor", lambda processor=processor: f"vendor_id : {processor}")
            patched.setattr(torch.backends.cpu, "get_cpu_capability", lambda capability=capability: capability)
            assert (onednn_linear() is not None) == pays
    onednn_linear.cache_clear()


def test_traced_products_use_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.randn(700, 96), torch.randn(80, 96)
    monkeypatch.setattr(torch.jit, "is_tracing", lambda: True)
    assert torch.equal(linear(x, weight), F.linear(x, weight))
