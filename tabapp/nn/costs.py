"""Estimates of the memory and time of training a network, for the plugins of networks."""

from __future__ import annotations

from tabapp.models.contract import Cost, Shape
from tabapp.nn.memory import GRADIENT_FACTOR, MOST_ROWS, PREDICTION_BYTES, STEP_BYTES
from tabapp.nn.params import batch_size_for

BASE_BYTES = 115_000_000
"""Memory that torch takes for its first training step, whatever the network."""
WEIGHT_BYTES, CELL_BYTES = 24, 13
"""Memory of a weight with its gradient, its moments, its average and its best value; and of a cell of the table with its copies."""
SCORED_SHARE = 0.2
"""Rows predicted at once after training, as a share of the training rows."""


def network_bytes(
    shape: Shape,
    n_weights: float,
    device: str,
    *,
    values: float,
    peak: float,
    batch_size: int | None = None,
    kept: float = GRADIENT_FACTOR,
) -> int:
    """Estimate the peak memory of training a network and predicting with it.

    Args:
        n_weights: number of trained weights.
        values: number of values that the network computes for a row.
        peak: number of values of a row that are alive at the same time in a prediction.
        kept: memory of a training step as a multiple of that of the values.
    """
    place = device.partition(":")[0]
    batch = min(batch_size or batch_size_for(shape.n_rows), shape.n_rows)
    step = min(4 * values * batch, STEP_BYTES[place] / GRADIENT_FACTOR) * kept
    predicted = min(4 * peak * min(SCORED_SHARE * shape.n_rows, MOST_ROWS), PREDICTION_BYTES[place])
    table = CELL_BYTES * shape.n_rows * shape.n_features
    return int(BASE_BYTES + WEIGHT_BYTES * n_weights + table + step + predicted)


def training_cost(
    shape: Shape, flops_per_epoch: float, n_weights: int, device: str, *, n_epochs: int, n_bytes: int | None = None
) -> Cost:
    """Estimate the cost of training a network on one 2.6 GHz server core or one data-center GPU.

    A step takes the time of its arithmetic (200 GFLOP/s in bfloat16 on a core) and a fixed time for launching its operations.

    Args:
        flops_per_epoch: floating-point operations per epoch.
        n_weights: number of trained weights.
        n_bytes: memory, such as that of `network_bytes`; None counts the weights and the table only.
    """
    if n_bytes is None:
        n_bytes = network_bytes(shape, n_weights, device, values=0, peak=0)
    steps = n_epochs * max(1, shape.n_rows // batch_size_for(shape.n_rows))
    speed, launch = (2e13, 3e-3) if device.startswith("cuda") else (2e11, 1.5e-3)
    seconds = 0.5 + n_epochs * flops_per_epoch / speed + steps * launch
    return Cost(seconds=seconds, n_bytes=n_bytes)
