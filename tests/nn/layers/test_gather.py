"""Categorical columns at once, as on a GPU: the values and gradients of a lookup by column, in a constant number of operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tabapp_plugins.realmlp.network import Categories
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tabapp.nn.layers import embeddings
from tabapp.nn.layers.embeddings import FlatInput, OneHotOrEmbedding

CARDINALITIES = (3, 40, 5, 4, 100, 33, 2)


class Operations(TorchDispatchMode):
    """Counts operations that start work on a device; views and allocations do not."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = str(func)
        self.n += not (func.is_view or any(word in name for word in ("empty", "detach", "lift_fresh", "unsafe_view")))
        return func(*args, **(kwargs or {}))


def flat(cardinalities: tuple[int, ...]) -> tuple[nn.Module, Callable[[nn.Module, Tensor], Tensor]]:
    return FlatInput(2, cardinalities), lambda module, codes: module(torch.ones(len(codes), 2), codes)


def one_hot(cardinalities: tuple[int, ...]) -> tuple[nn.Module, Callable[[nn.Module, Tensor], Tensor]]:
    return OneHotOrEmbedding(cardinalities, most_one_hot=32), lambda module, codes: module(codes)


def categories(cardinalities: tuple[int, ...]) -> tuple[nn.Module, Callable[[nn.Module, Tensor], Tensor]]:
    module = Categories(cardinalities, most_one_hot=8)
    torch.nn.init.uniform_(module.median)
    return module, lambda module, codes: module(codes)


KINDS = [flat, one_hot, categories]


def codes_of(cardinalities: tuple[int, ...], n_rows: int = 50) -> Tensor:
    return torch.stack([torch.randint(0, c, (n_rows,)) for c in cardinalities], dim=1)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    import tabapp_plugins.realmlp.network as realmlp

    def choose(preferred: bool) -> None:
        for module in (embeddings, realmlp):
            monkeypatch.setattr(module, "is_preferred", lambda codes: preferred)

    return choose


@pytest.mark.parametrize("make", KINDS)
def test_values_and_gradients_equal_those_by_column(make: Any, at_once: Callable[[bool], None]) -> None:
    torch.manual_seed(0)
    module, run = make(CARDINALITIES)
    codes, results = codes_of(CARDINALITIES), []
    for preferred in (False, True):
        at_once(preferred)
        module.zero_grad()
        output = run(module, codes)
        weight = torch.arange(output.numel()).view_as(output).sin()
        (output * weight).sum().backward()
        results.append((output.detach(), [p.grad.clone() for p in module.parameters()]))
    (one, one_gradients), (two, two_gradients) = results
    torch.testing.assert_close(two, one, rtol=0, atol=0)
    for a, b in zip(one_gradients, two_gradients, strict=True):
        torch.testing.assert_close(b, a)


@pytest.mark.parametrize("make", KINDS)
def test_the_number_of_operations_does_not_depend_on_the_columns(make: Any, at_once: Callable[[bool], None]) -> None:
    at_once(True)
    counts: list[int] = []
    for cardinalities in (CARDINALITIES, 5 * CARDINALITIES):
        module, run = make(cardinalities)
        codes = codes_of(cardinalities)
        # The first call makes the indices.
        run(module, codes)
        with Operations() as operations:
            run(module, codes)
        counts.append(operations.n)
    assert counts[0] == counts[1] < 30


def test_a_cpu_looks_up_column_by_column() -> None:
    module, run = flat(CARDINALITIES)
    with Operations() as operations:
        run(module, codes_of(CARDINALITIES))
    assert operations.n >= len(CARDINALITIES)


@pytest.mark.gpu
@pytest.mark.parametrize("make", KINDS)
def test_a_gpu_gives_the_same_values(make: Any) -> None:
    module, run = make(CARDINALITIES)
    codes = codes_of(CARDINALITIES)
    expected = run(module, codes)
    moved = module.cuda()
    found = moved(torch.ones(len(codes), 2, device="cuda"), codes.cuda()) if make is flat else moved(codes.cuda())
    torch.testing.assert_close(found.cpu(), expected)
