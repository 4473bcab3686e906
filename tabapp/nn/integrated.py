"""Integrated gradients of a network (Sundararajan, Taly, Yan: "Axiomatic Attribution for Deep Networks", ICML 2017).

The path from a reference row to the explained row is straight in the numbers, and in the embeddings or one-hot vectors of the
levels: a `TorchFunctionMode` replaces the results of `embedding` and `one_hot`. Values are means over reference rows, as in
expected gradients (Erion et al., Nature Machine Intelligence 3, 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tabapp.nn.layers.gather import lookups_by_column

N_STEPS, MOST_STEPS = 64, 2048
"""Points of a path at first, and on average at most, where the values are not complete with fewer."""
COMPLETE = 0.004
"""Completeness error at which a network's values are not refined further, as a share of its output minus its base. A bundle
averages networks whose changes of the output partly cancel, so that its share is larger; it should be below 1 %."""
LEAST_CHANGE = 0.1
"""Rows with an output near the base get the error of this share of the mean change of the output from a reference row."""
PATH_ROWS = 128
"""Points of paths that are computed together."""
LEAST_WIDTH = 2.0**-20
"""Shorter segments of a path are not halved: the output jumps there."""
MOST_VALUES = 2**24
"""Values kept for all points of a row's paths; wide tables have fewer points."""

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


@dataclass(frozen=True)
class _Paths:
    """The paths from all reference rows to one row.

    Args:
        numeric, categorical: (n_numeric,) and (n_categorical,) explained row.
    """

    network: nn.Module
    output: Output
    numeric: Tensor
    categorical: Tensor
    reference_numeric: Tensor
    reference_categorical: Tensor

    def outputs(self, place: Tensor, start: Tensor) -> Tensor:
        """(points,) float64 outputs.

        Args:
            place: (points,) position of each point on its path, 0 at the reference row and 1 at the explained one.
            start: (points,) reference row of its path.
        """
        with torch.no_grad():
            parts = zip(place.split(PATH_ROWS), start.split(PATH_ROWS), strict=True)
            return torch.cat([self._run(*part)[0].detach().double() for part in parts])

    def gradients(self, place: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """(points, n_features) float32 gradients times the changes from the reference row, and (points,) float64 outputs.

        Raises:
            PathError: the network uses codes in another way.
        """
        parts = zip(place.split(PATH_ROWS), start.split(PATH_ROWS), strict=True)
        values, outputs = zip(*(self._gradients(*part) for part in parts), strict=True)
        return torch.cat(values), torch.cat(outputs)

    def _run(self, place: Tensor, start: Tensor) -> tuple[Tensor, Tensor, Tensor, _Path]:
        """The outputs at points, the points, their changes, and what the codes are looked up as."""
        change = self.numeric - self.reference_numeric[start]
        point = (self.reference_numeric[start] + place.unsqueeze(1) * change).requires_grad_()
        codes = torch.cat([self.categorical.expand(len(place), -1), self.reference_categorical[start]])
        path = _Path(codes, place)
        with lookups_by_column(), path:
            if len(self.categorical):
                found = self.network(torch.cat([point, point]), codes)
            else:
                found = self.network(point, codes[: len(place)])
            outputs = self.output(found.float()[: len(place)])
        return outputs, point, change, path

    def _gradients(self, place: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        n_numeric, n_categorical = len(self.numeric), len(self.categorical)
        with torch.enable_grad():
            outputs, point, change, path = self._run(place, start)
        if n_categorical and not path.points:
            raise PathError
        inputs = ([point] if n_numeric else []) + path.points
        changes = ([change] if n_numeric else []) + path.changes
        columns = ([None] if n_numeric else []) + path.columns
        gradients: Any = torch.autograd.grad(outputs.sum(), inputs, allow_unused=True)
        values = torch.zeros(len(place), n_numeric + n_categorical, device=place.device)
        for index, (gradient, each, column) in enumerate(zip(gradients, changes, columns, strict=True)):
            if gradient is None:
                continue
            part = (gradient * each).float()
            first = 0 if n_numeric and index == 0 else n_numeric
            if column is not None:
                values[:, n_numeric + column] += part.flatten(1).sum(1)
            elif part.ndim >= 2 and part.shape[1] == (n_numeric if first == 0 else n_categorical):
                values[:, first : first + part.shape[1]] += part.flatten(2).sum(2) if part.ndim > 2 else part
            else:
                raise PathError
        return values, outputs.detach().double()


@dataclass(frozen=True)
class _Segments:
    """Segments of paths, each with the values at its middle.

    Attributes:
        place, width: (segments,) the beginning and the length of each on its path.
        start: (segments,) the reference row of its path.
        values: (segments, n_features) gradients times changes at its middle.
        at_start, at_middle, at_end: (segments,) outputs.
    """

    place: Tensor
    width: Tensor
    start: Tensor
    values: Tensor
    at_start: Tensor
    at_middle: Tensor
    at_end: Tensor

    def total(self) -> Tensor:
        """(n_features,) float64 values by the midpoint rule, summed over the paths."""
        return self.width.double() @ self.values.double()

    def missing(self) -> Tensor:
        """(segments,) what the values of each miss of the change of the output within it."""
        return self.at_end - self.at_start - self.values.double().sum(1) * self.width

    def take(self, chosen: Tensor) -> _Segments:
        """Select segments."""
        return _Segments(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def joined(self, other: _Segments) -> _Segments:
        """Concatenate segments."""
        names = [each.name for each in fields(self)]
        return _Segments(*(torch.cat([getattr(self, name), getattr(other, name)]) for name in names))

    def halves(self, paths: _Paths) -> _Segments:
        """Both halves of each segment."""
        half = self.width / 2
        place, start = torch.cat([self.place, self.place + half]), self.start.repeat(2)
        values, at_middle = paths.gradients(place + half.repeat(2) / 2, start)
        ends = torch.cat([self.at_start, self.at_middle]), torch.cat([self.at_middle, self.at_end])
        return _Segments(place, half.repeat(2), start, values, ends[0], at_middle, ends[1])


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
            paths = _Paths(network, output, numeric[row], categorical[row], reference_numeric, reference_categorical)
            goal = float(reached[row] - base.mean())
            least = LEAST_CHANGE * float((reached[row] - base).abs().mean())
            found = _of_row(paths, goal, COMPLETE * max(abs(goal), least))
            missing = goal - float(found.sum())
            sizes = np.abs(found)
            share = sizes / sizes.sum() if sizes.sum() > 0 else np.zeros_like(sizes)
            values[row] = found + missing * share
            errors[row] = abs(missing)
    finally:
        network.train(was_training)
    return float(base.mean()), values, errors


def _of_row(paths: _Paths, goal: float, tolerance: float) -> npt.NDArray[np.float64]:
    """(n_features,) values of one row, by the midpoint rule on segments of the paths.

    Segments are halved where the values miss most of the change of the output, until the values are complete: the outputs at
    both ends of a segment are known, and a network such as TabNet is steep on small parts of a path.

    Args:
        goal: what the values should add up to.
        tolerance: how much they may miss.
    """
    n_reference, device, dtype = len(paths.reference_numeric), paths.numeric.device, paths.numeric.dtype
    ends = torch.arange(N_STEPS + 1, device=device, dtype=dtype) / N_STEPS
    place = ends[:-1].repeat(n_reference)
    width = torch.full_like(place, 1 / N_STEPS)
    start = torch.arange(n_reference, device=device)
    of_place = start.repeat_interleave(N_STEPS)
    values, at_middle = paths.gradients(place + width / 2, of_place)
    found = (width.double() @ values.double()).cpu().numpy() / n_reference
    if abs(goal - found.sum()) <= tolerance:
        return found
    outputs = paths.outputs(ends.repeat(n_reference), start.repeat_interleave(N_STEPS + 1)).view(n_reference, -1)
    segments = _Segments(place, width, of_place, values, outputs[:, :-1].flatten(), at_middle, outputs[:, 1:].flatten())
    n_points, most = len(place), min(MOST_STEPS * n_reference, MOST_VALUES // max(1, values.shape[1]))
    while abs(goal - found.sum()) > tolerance and n_points < most:
        missing = segments.missing().abs()
        size, order = missing.sort()
        # Errors of different segments have independent signs.
        chosen = torch.zeros_like(missing, dtype=torch.bool)
        chosen[order] = size.square().cumsum(0).sqrt() > tolerance * n_reference / 2
        chosen &= segments.width > LEAST_WIDTH
        if not chosen.any():
            break
        segments = segments.take(~chosen).joined(segments.take(chosen).halves(paths))
        n_points += 2 * int(chosen.sum())
        found = segments.total().cpu().numpy() / n_reference
    return found
