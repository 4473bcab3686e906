"""`cost:fn=5,fp=1`: the mean cost of the errors of a binary classifier, with a price for each kind of error."""

from __future__ import annotations

import math

import numpy as np

from tabapp.errors import UsageError, did_you_mean
from tabapp.metrics.metric import BINARY, Array, Metric, mean

PREFIX = "cost"
EXAMPLE = "cost:fn=5,fp=1"
_KEYS = {"fn": "false negative", "fp": "false positive"}


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
        UsageError: a price is absent, given twice, not a number or negative; both are zero; or a key is unknown.
    """
    prices = _prices(name)
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


def _prices(name: str) -> dict[str, float]:
    _, colon, body = name.partition(":")
    if not colon or not body.strip():
        raise UsageError(f"The metric cost needs the price of each error, such as {EXAMPLE}.")
    prices: dict[str, float] = {}
    for part in body.split(","):
        key, equals, text = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UsageError(f"{part.strip()!r} in the metric {name!r} is not KEY=PRICE; write it as {EXAMPLE}.")
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS) or "; its keys are fn (false negative) and fp (false positive)."
            raise UsageError(f"The metric cost has no key {key!r}{hint}")
        if key in prices:
            raise UsageError(f"The metric {name!r} gives the price {key} twice; write it as {EXAMPLE}.")
        prices[key] = _price(key, text)
    for key, meaning in _KEYS.items():
        if key not in prices:
            raise UsageError(f"The metric {name!r} lacks {key}, the price of a {meaning}; write it as {EXAMPLE}.")
    if not any(prices.values()):
        raise UsageError(f"The metric {name!r} prices every error at 0; give at least one of them a price above 0.")
    return prices


def _price(key: str, text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = float("nan")
    if not math.isfinite(price) or price < 0:
        raise UsageError(f"The price {key}={text} is not a number of 0 or more; write the metric as {EXAMPLE}.")
    return price
