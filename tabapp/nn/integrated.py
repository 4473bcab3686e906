"""Integrated gradients of a network (Sundararajan, Taly, Yan: "Axiomatic Attribution for Deep Networks", ICML 2017).

The path from a reference row to the explained row is straight in the numbers, and in the embeddings or one-hot vectors of the
levels: a `TorchFunctionMode` replaces the results of `embedding` and `one_hot`. Values are means over reference rows, as in
expected gradients (Erion et al., Nature Machine Intelligence 3, 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tabapp.nn.gather import lookups_by_column

N_STEPS, MOST_STEPS = 64, 512
"""Points of a path; their number is doubled until the values are complete."""
COMPLETE = 0.01
"""Largest completeness error, as a share of the mean change of the output from a reference row."""
PATH_ROWS = 128
"""Points of paths that are computed together."""

Output = Callable[[Tensor], Tensor]
"""From the network's output to the explained number: (rows, …) to (rows,)."""


class PathError(Exception):
    """The network uses codes in another way than to look up embeddings or one-hot vectors."""


class _Path(TorchFunctionMode):
    """Within a call of a network, replaces what each code is looked up as by a point between two rows.

    The network gets every point twice, with the codes of the explained row in the first half and those of the reference row in the
    second; both halves get the same point.

    Args:
        codes: (2 · points, n_categorical) codes.
        place: (points,) position on the path, 0 at the reference row.

    Attributes:
        points: for each look-up, the point as a leaf, (points, …).
        changes: the difference of both rows, of the same shape.
        columns: the position of the column, or None if dimension 1 runs over all columns.
    """

    def __init__(self, codes: Tensor, place: Tensor) -> None:
        super().__init__()
        self._place = place
        self._sources: dict[int, int | None] = {id(codes): None}
        self._kept = [codes]
        self.points: list[Tensor] = []
        self.changes: list[Tensor] = []
        self.columns: list[int | None] = []

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        source = next((a for a in args if isinstance(a, Tensor) and id(a) in self._sources), None)
        result = func(*args, **kwargs)
        if source is None:
            return result
        column = self._sources[id(source)]
        if func in (F.embedding, F.one_hot):
            return self._between(result.float(), column)
        if isinstance(result, (tuple, list)):
            by_column = func in (Tensor.unbind, torch.unbind)
            for index, part in enumerate(result):
                # The parts of a shape are numbers.
                if isinstance(part, Tensor):
                    self._follow(part, index if by_column else column)
        elif isinstance(result, Tensor):
            self._follow(result, _selected(func, args, column))
        return result

    def _follow(self, codes: Tensor, column: int | None) -> None:
        if not codes.is_floating_point() and codes.dtype != torch.bool:
            self._sources[id(codes)] = column
            # A freed tensor would leave its id to another one.
            self._kept.append(codes)

    def _between(self, looked_up: Tensor, column: int | None) -> Tensor:
        row, reference = looked_up.detach().chunk(2)
        change = row - reference
        point = (reference + self._place.view(-1, *[1] * (change.ndim - 1)) * change).requires_grad_()
        self.points.append(point)
        self.changes.append(change)
        self.columns.append(column)
        return torch.cat([point, point])


def _selected(func: Any, args: tuple[Any, ...], column: int | None) -> int | None:
    """The column of codes after an operation: `codes[:, j]` selects one."""
    if func is Tensor.__getitem__ and isinstance(args[1], tuple):
        index: tuple[Any, ...] = args[1]
        if len(index) == 2 and isinstance(index[1], int):
            return index[1]
    return column


def integrated_gradients(
    network: nn.Module,
    output: Output,
    numeric: Tensor,
    categorical: Tensor,
    reference_numeric: Tensor,
    reference_categorical: Tensor,
) -> tuple[float, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The mean output of the reference rows, the (rows, n_features) values, and the (rows,) completeness errors.

    A completeness error is what the values of a row miss of its output minus the base. It is distributed over the values in
    proportion to their sizes, so that base and values add up to the output.

    Args:
        network: takes (numeric, categorical) and treats rows independently.
        numeric, categorical: the explained rows.

    Raises:
        PathError: the network uses codes in another way.
    """
    was_training = network.training
    network.eval()
    try:
        with torch.inference_mode(), lookups_by_column():
            base = output(network(reference_numeric, reference_categorical).float()).double()
            reached = output(network(numeric, categorical).float()).double()
        values = np.empty((len(numeric), numeric.shape[1] + categorical.shape[1]))
        errors = np.empty(len(numeric))
        for row in range(len(numeric)):
            goal = float(reached[row] - base.mean())
            scale = float((reached[row] - base).abs().mean())
            steps = N_STEPS
            while True:
                found = _of_row(
                    network, output, numeric[row], categorical[row], reference_numeric, reference_categorical, steps
                )
                missing = goal - float(found.sum())
                if abs(missing) <= COMPLETE * scale or steps >= MOST_STEPS:
                    break
                steps *= 2
            sizes = np.abs(found)
            share = sizes / sizes.sum() if sizes.sum() > 0 else np.zeros_like(sizes)
            values[row] = found + missing * share
            errors[row] = abs(missing)
    finally:
        network.train(was_training)
    return float(base.mean()), values, errors


def _of_row(
    network: nn.Module,
    output: Output,
    numeric: Tensor,
    categorical: Tensor,
    reference_numeric: Tensor,
    reference_categorical: Tensor,
    n_steps: int,
) -> npt.NDArray[np.float64]:
    """(n_features,) values of one row: the midpoint rule on the path from each reference row."""
    n_numeric, n_categorical, n_reference = len(numeric), len(categorical), len(reference_numeric)
    total = torch.zeros(n_numeric + n_categorical, dtype=torch.float64, device=numeric.device)
    middles = (torch.arange(n_steps, device=numeric.device, dtype=numeric.dtype) + 0.5) / n_steps
    places = middles.repeat(n_reference)
    starts = torch.arange(n_reference, device=numeric.device).repeat_interleave(n_steps)
    for place, start in zip(places.split(PATH_ROWS), starts.split(PATH_ROWS), strict=True):
        change = numeric - reference_numeric[start]
        point = (reference_numeric[start] + place.unsqueeze(1) * change).requires_grad_()
        codes = torch.cat([categorical.expand(len(place), -1), reference_categorical[start]])
        path = _Path(codes, place)
        with torch.enable_grad(), lookups_by_column(), path:
            found = output(network(torch.cat([point, point]), codes).float()[: len(place)])
        inputs = ([point] if n_numeric else []) + path.points
        changes = ([change] if n_numeric else []) + path.changes
        columns = ([None] if n_numeric else []) + path.columns
        if n_categorical and not path.points:
            raise PathError
        gradients: Any = torch.autograd.grad(found.sum(), inputs, allow_unused=True)
        for index, (gradient, each, column) in enumerate(zip(gradients, changes, columns, strict=True)):
            if gradient is None:
                continue
            part = (gradient * each).double()
            first = 0 if n_numeric and index == 0 else n_numeric
            if column is not None:
                total[n_numeric + column] += part.sum()
            elif part.ndim >= 2 and part.shape[1] == (n_numeric if first == 0 else n_categorical):
                total[first : first + part.shape[1]] += part.flatten(2).sum((0, 2)) if part.ndim > 2 else part.sum(0)
            else:
                raise PathError
    return (total / len(places)).cpu().numpy()
