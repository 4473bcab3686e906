"""The prices of errors in the name of a metric, such as `cost:fn=5,fp=1`; screens check what is typed by it, too."""

from __future__ import annotations

import math

from tabapp.errors import UsageError, did_you_mean

EXAMPLE = "cost:fn=5,fp=1"
_KEYS = {"fn": "false negative", "fp": "false positive"}


def prices_of(name: str) -> dict[str, float]:
    """The price of a false negative, `fn`, and of a false positive, `fp`, in the name of a metric.

    Raises:
        UsageError: a price is absent, given twice, not a number or negative; both are zero; or a key is unknown.
    """
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
