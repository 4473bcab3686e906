"""How a fit of NPT ends in the time that it gets: smaller batches and contexts, fewer evaluated rows, and time for predictions."""

from __future__ import annotations

import math

import msgspec

from .params import NPTParams

LEAST_STEPS, LEAST_ROWS = 20, 64
"""Where a fit has little time, batches are halved until so many steps are expected to end in time, but not below so many rows."""
CONTEXT_SHARE = 0.25
"""Most of the time of a fit in which its contexts, or the rows that it is scored on, are read without a shorter training."""
MOST_FOR_PREDICTIONS = 0.5
"""Most of the time of a fit that is kept for the predictions of the rows that it is scored on."""
EVALUATION_SHARE, LEAST_EVALUATED = 0.1, 256
"""Most of the time of a fit for one evaluation, which has at least so many rows."""


def step_seconds(params: NPTParams, n_attributes: int, rows: int, device: str) -> float:
    """Expected seconds of a training step on a batch of rows."""
    d, e, pairs = n_attributes, params.d_embedding, params.n_layers // 2
    h = d * e
    flops = 6 * rows * pairs * 13 * (h * h + d * e * e) + 12 * rows * pairs * (rows * h + d * d * e)
    speed, launch = (5e13, 4e-3) if device.startswith("cuda") else (1e11, 1e-2)
    return flops / speed + launch


def reading_seconds(params: NPTParams, n_attributes: int, rows: int, device: str) -> float:
    """Expected seconds to predict rows from one context of as many rows as a context has at most."""
    # A step takes three times as long as a forward pass.
    each = step_seconds(params, n_attributes, params.context_rows, device) / 3
    return each * rows / params.context_rows


def within_time(params: NPTParams, n_attributes: int, n_rows: int, device: str, seconds: float) -> NPTParams:
    """Smaller batches and contexts if the time is too short for `LEAST_STEPS` steps, or for reading the contexts.

    NOTE[DIFF]: the paper has no time limit. A large NPT that is given less than a minute on a CPU would end after one step, and
    predict from its contexts for minutes.

    Args:
        seconds: until the soft deadline; infinite without one.
    """
    batch, context, n_contexts = min(params.batch_rows, n_rows), min(params.context_rows, n_rows), params.n_contexts
    while batch > LEAST_ROWS and LEAST_STEPS * step_seconds(params, n_attributes, batch, device) > seconds:
        batch //= 2
    # A step takes three times as long as a forward pass.
    while step_seconds(params, n_attributes, context, device) * n_contexts / 3 > CONTEXT_SHARE * seconds:
        if n_contexts == 1 and context <= LEAST_ROWS:
            break
        context, n_contexts = (context, n_contexts // 2) if n_contexts > 1 else (context // 2, 1)
    changes: dict[str, int] = {"batch_rows": batch} if batch < min(params.batch_rows, n_rows) else {}
    if (context, n_contexts) != (min(params.context_rows, n_rows), params.n_contexts):
        changes |= {"context_rows": context, "n_contexts": n_contexts}
    return msgspec.structs.replace(params, **changes)


def time_for_predictions(params: NPTParams, n_attributes: int, n_rows: int, device: str, seconds: float) -> float:
    """Seconds by which training ends earlier, so that the rows that the fit is scored on are predicted in its time, too. None where
    their predictions take little of it.

    Args:
        n_rows: rows that are predicted after training.
        seconds: until the soft deadline; infinite without one.
    """
    needed = params.n_contexts * reading_seconds(params, n_attributes, n_rows, device)
    return min(needed, MOST_FOR_PREDICTIONS * seconds) if needed > CONTEXT_SHARE * seconds else 0.0


def evaluated(params: NPTParams, n_attributes: int, n_rows: int, device: str, seconds: float) -> slice:
    """The early-stopping rows of an evaluation: all, or evenly spaced ones where all would take too much of the time.

    Args:
        seconds: until the soft deadline; infinite without one.
    """
    each = reading_seconds(params, n_attributes, 1, device)
    most = max(LEAST_EVALUATED, EVALUATION_SHARE * seconds / each)
    return slice(None, None, max(1, math.ceil(n_rows / most)))
