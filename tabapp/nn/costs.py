"""Estimates of the memory and time of training a network, for the plugins of networks."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp.models.contract import Cost, Shape
from tabapp.nn.training.memory import GRADIENT_FACTOR, MOST_ROWS, PREDICTION_BYTES, STEP_BYTES
from tabapp.nn.training.params import batch_size_for

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


@dataclass(frozen=True)
class Speed:
    """What the time of a fit consists of.

    Attributes:
        start: seconds before the first step.
        flops: floating-point operations in a second.
        launch, recorded_launch: seconds for starting the operations of a step, one by one or as a recorded graph.
    """

    start: float
    flops: float
    launch: float
    recorded_launch: float


SPEEDS = {
    "cpu": Speed(start=0.5, flops=2e11, launch=1.5e-3, recorded_launch=1.5e-3),
    "cuda": Speed(start=1.5, flops=5e13, launch=3e-3, recorded_launch=1.5e-4),
}
"""Of one 2.6 GHz server core in bfloat16, and of one data-center GPU, on which the start includes the context and the kernels of
a process. On an H100, a recorded step of FT-Transformer with 512 rows of 50 columns has 1.1e11 operations and takes 1.8 ms
(`benchmarks/results/ft_transformer_speed_gpu.json`); one of an MLP with 64 rows of 5 columns takes 0.3 to 0.4 ms
(`benchmarks/results/stacked_fits_gpu.json`), one of an MLP, a ResNet or RealMLP with 256 rows of 9 columns 0.1 to 0.3 ms
(`benchmarks/results/fits_beside.json`). With 0.15 ms for a recorded step, the estimates of whole fits are 0.5 to 1.8 times what was
measured (`benchmarks/results/devices_120s.json`)."""


def launch_seconds(device: str, *, is_recorded: bool = True) -> float:
    """Seconds for starting the operations of a step of an average network.

    Args:
        is_recorded: a GPU records the step (`DeepPlugin.repeats_steps`).
    """
    speed = SPEEDS[device.partition(":")[0]]
    return speed.recorded_launch if is_recorded else speed.launch


def training_cost(
    shape: Shape,
    flops_per_epoch: float,
    n_weights: int,
    device: str,
    *,
    n_epochs: int,
    n_bytes: int | None = None,
    is_recorded: bool = True,
) -> Cost:
    """Estimate the cost of training a network on one core or one GPU.

    A step takes the time of its arithmetic and a fixed time for starting its operations.

    Args:
        flops_per_epoch: floating-point operations per epoch.
        n_weights: number of trained weights.
        is_recorded: as in `launch_seconds`.
        n_bytes: memory, such as that of `network_bytes`; None counts the weights and the table only.
    """
    if n_bytes is None:
        n_bytes = network_bytes(shape, n_weights, device, values=0, peak=0)
    steps = n_epochs * max(1, shape.n_rows // batch_size_for(shape.n_rows))
    speed, launch = SPEEDS[device.partition(":")[0]], launch_seconds(device, is_recorded=is_recorded)
    seconds = speed.start + n_epochs * flops_per_epoch / speed.flops + steps * launch
    return Cost(seconds=seconds, n_bytes=n_bytes)
