"""Loading of networks from files that may lie: a network is built only as large as its saved weights are."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode

from tabapp.features.saved import demand

WEIGHTS = "weights.safetensors"
MOST = 2**20
"""Largest integer among saved hyperparameters: more than any network needs, few enough for the length of a list."""
_SPARE_VALUES = 2**20
"""Values of a tensor that a network may create without saved weights of this size, such as indices and masks."""
_SPARE_BYTES = 2**24
_BYTES_PER_BYTE = 8
"""Bytes that building may allocate per saved byte; the built-in networks allocate up to three, most of them twice the same."""
_MODULES_PER_WEIGHT = 16

_Network = TypeVar("_Network", bound=nn.Module)


class TooLarge(ValueError):
    """A network is larger than its saved weights."""


def check_integers(params: msgspec.Struct) -> None:
    """Bound saved hyperparameters, which become lengths of lists and exponents before a network has any weights.

    Raises:
        ValueError: an integer is larger than `MOST`.
    """

    def check(name: str, value: object) -> None:
        if isinstance(value, dict):
            for key, part in cast(dict[str, object], value).items():
                check(key, part)
        elif isinstance(value, list):
            for part in cast(list[object], value):
                check(name, part)
        elif isinstance(value, int):
            demand(abs(value) <= MOST, f"its hyperparameter {name!r} is {value:,}, above {MOST:,}")

    check("", msgspec.to_builtins(params, builtin_types=()))


def load_network(folder: Path, build: Callable[[], _Network]) -> _Network:
    """Build a network and load its weights from `weights.safetensors`.

    Building stops as soon as it creates more or larger weights than the file has, so wrong sizes cost neither memory nor time.

    Args:
        build: creates the network with new weights.

    Raises:
        ValueError: the file is not valid, or the network and its weights differ in names, shapes or types.
    """
    shapes, values = read_tensors(folder / WEIGHTS)
    with _bounded(shapes):
        network = build()
    expected = network.state_dict()
    if different := sorted(set(expected) ^ set(values)):
        raise ValueError(f"{WEIGHTS} and the network differ in {different[0]!r}")
    for name, tensor in values.items():
        wanted = expected[name].dtype
        demand(tensor.dtype == wanted, f"{WEIGHTS}: {name!r} is {tensor.dtype} instead of {wanted}")
    try:
        network.load_state_dict(values)
    except RuntimeError as error:
        lines = str(error).strip().splitlines()
        raise ValueError(f"{WEIGHTS}: {lines[-1].strip()[:160]}") from None
    return network


def read_tensors(path: Path) -> tuple[list[tuple[int, ...]], dict[str, Tensor]]:
    """The shapes and the tensors of a safetensors file, whose floats are all finite. Half precision becomes single precision.

    Raises:
        ValueError: the file is not valid, or a value is not finite.
        OSError: the file cannot be read.
    """
    try:
        with safe_open(path, framework="pt") as file:
            shapes = [tuple(file.get_slice(name).get_shape()) for name in file.keys()]  # noqa: SIM118
        values = safetensors.torch.load_file(path)
    except (SafetensorError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path.name}: {(str(error).splitlines() or [''])[0][:160]}") from None
    for name, tensor in values.items():
        if tensor.dtype == torch.float16:
            values[name] = tensor = tensor.float()
        if tensor.is_floating_point():
            demand(bool(torch.isfinite(tensor).all()), f"{path.name}: {name!r} has values that are not finite")
    return shapes, values


def check_tensors(tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[torch.dtype, int]], file: str) -> None:
    """Check the names, types and numbers of dimensions of the tensors of a file.

    Raises:
        ValueError: they differ.
    """
    if different := sorted(set(tensors) ^ set(expected)):
        raise ValueError(f"{file} should have {', '.join(expected)}, but differs in {different[0]!r}")
    for name, (dtype, n_dimensions) in expected.items():
        found = tensors[name]
        fits = (found.dtype, found.ndim) == (dtype, n_dimensions)
        demand(fits, f"{file}: {name!r} is {found.dtype} with {found.ndim} dimensions")


@contextmanager
def _bounded(shapes: Sequence[tuple[int, ...]]) -> Generator[None]:
    """Bound what this thread creates: parameters, modules, values of a tensor, and bytes of all tensors."""
    thread, n_parameters, n_modules = threading.get_ident(), 0, 0
    most_modules = _MODULES_PER_WEIGHT * (len(shapes) + 16)

    def count_parameter(*_: Any) -> None:
        nonlocal n_parameters
        if threading.get_ident() == thread:
            n_parameters += 1
            if n_parameters > len(shapes):
                raise TooLarge(f"the network has more weights than the {len(shapes)} of {WEIGHTS}")

    def count_module(*_: Any) -> None:
        nonlocal n_modules
        if threading.get_ident() == thread:
            n_modules += 1
            if n_modules > most_modules:
                raise TooLarge(f"the network has more layers than the weights of {WEIGHTS} explain")

    hooks = [
        register_module_parameter_registration_hook(count_parameter),
        register_module_module_registration_hook(count_module),
    ]
    try:
        with _BoundedMemory([math.prod(shape) for shape in shapes]):
            yield
    finally:
        for hook in hooks:
            hook.remove()


class _BoundedMemory(TorchDispatchMode):
    """Refuses operations of torch that would create too much, before they do.

    Args:
        sizes: number of values of each saved tensor.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self._most_values = max(_SPARE_VALUES, *sizes, 0)
        self._bytes_left = _SPARE_BYTES + _BYTES_PER_BYTE * 4 * sum(sizes)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch would import its compiler, which takes seconds.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._check_sizes(func, args)
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor) and not func.is_view:
                self._spend(tensor.numel() * tensor.element_size())
        return result

    def _check_sizes(self, func: Any, args: tuple[Any, ...]) -> None:
        n_values = 0
        lists = [arg for arg in args if isinstance(arg, (list, tuple)) and arg and all(isinstance(n, int) for n in arg)]
        numbers = [abs(arg) for arg in args if isinstance(arg, (int, float)) and not isinstance(arg, bool)]
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        if not tensors:
            # A factory takes a size, or numbers such as a range or the sides of a matrix.
            n_values = max([math.prod(size) for size in lists] + [_range_of(func, numbers)])
        elif len(tensors) > 1:
            n_values = math.prod(map(max, zip(*_aligned([tensor.shape for tensor in tensors]), strict=True)))
        elif "repeat" in func.__name__ and lists:
            n_values = tensors[0].numel() * math.prod(lists[0])
        if n_values > self._most_values:
            raise TooLarge(f"the network has a tensor of {n_values:,} values, which {WEIGHTS} does not have")

    def _spend(self, n_bytes: int) -> None:
        self._bytes_left -= n_bytes
        if self._bytes_left < 0:
            raise TooLarge(f"the network is larger than the weights of {WEIGHTS}")


def _range_of(func: Any, numbers: Sequence[float]) -> int:
    """An upper bound of the values that a factory creates from plain numbers."""
    if any(word in func.__name__ for word in ("eye", "indices", "tri")):
        return int(math.prod(numbers[:2]))
    return int(max(numbers, default=0)) if any(word in func.__name__ for word in ("arange", "randperm", "space")) else 0


def _aligned(shapes: Sequence[Sequence[int]]) -> list[list[int]]:
    """Shapes with leading ones, so that all have the same length."""
    longest = max(map(len, shapes))
    return [[1] * (longest - len(shape)) + list(shape) for shape in shapes]
