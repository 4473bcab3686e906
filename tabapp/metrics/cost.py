"""`cost:fn=5,fp=1`: the mean cost of the errors of a binary classifier, with a price for each kind of error."""

from __future__ import annotations

import numpy as np

from tabapp.metrics.metric import BINARY, Array, Metric, mean
from tabapp.prices import EXAMPLE as EXAMPLE
from tabapp.prices import prices_of

PREFIX = "cost"


def is_cost(name: str) -> bool:
    """Whether a metric name asks for a cost, spelled correctly or not."""
    return name.partition(":")[0].strip() == PREFIX


def cost_metric(name: str) -> Metric:
    """The metric that a name such as `cost:fn=5,fp=1` describes.

    A row costs `fn` when its class is positive and its predicted label is not, `fp` in the opposite case, and nothing when the
    label is correct; the metric is the mean over the rows. The label is the one that `predict` writes: the more probable class,
    so positive exactly where the positive class has a probability above 0.5. The threshold does not move with the prices.

    Returns:
        A metric whose name has the canonical form: `fn` first, no spaces.

    Raises:
        UsageError: as `prices_of`.
    """
    prices = prices_of(name)
    false_negative, false_positive = prices["fn"], prices["fp"]

    def function(truth: Array, prediction: Array, weight: Array | None) -> float:
        label = prediction.argmax(axis=1)
        missed, false_alarm = (truth == 1) & (label == 0), (truth == 0) & (label == 1)
        return mean(np.where(missed, false_negative, 0.0) + np.where(false_alarm, false_positive, 0.0), weight)

    return Metric(
        name=f"{PREFIX}:fn={false_negative:g},fp={false_positive:g}",
        title=f"cost (fn {false_negative:g}, fp {false_positive:g})",
        description=f"Mean cost per row: {false_negative:g} per false negative, {false_positive:g} per false positive",
        tasks=BINARY,
        greater_is_better=False,
        needs_probability=False,
        function=function,
    )
