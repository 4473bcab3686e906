"""Example rows of a report: predictions with the contribution of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabapp.report.parts import Bar, Bars, Part, Text
from tabapp.report.svg import number

MAX_COLUMNS = 12


@dataclass(frozen=True)
class Contribution:
    """The contribution of a column with its value as text, None for a missing one, and the half-width of its interval."""

    column: str
    value: str | None
    contribution: float
    error: float


@dataclass(frozen=True)
class Example:
    """An explained row of a bundle's sample; `output` is the base plus all contributions.

    `label` is the class whose probability is explained, None for a regression. `method` is how contributions were computed, and
    `reference` which rows the base is the mean output of.
    """

    prediction: str
    label: str | None
    base: float
    output: float
    contributions: Sequence[Contribution]
    method: str = "Shapley values"
    reference: str = "the sample rows of the bundle"


def example_parts(examples: Sequence[Example]) -> list[Part]:
    """Bars for each row, largest contributions first."""
    if not examples:
        return []
    first = examples[0]
    same_class = len({example.label for example in examples}) == 1
    explained = _output(first) if same_class else "probability of the predicted class"
    mean = f", {number(first.base)}" if same_class else ""
    parts: list[Part] = [
        Text(
            f"How much each column moves the {explained} from its mean over {first.reference}{mean}: {first.method} of the whole "
            "ensemble. They describe the model, not causes."
        )
    ]
    for place, example in enumerate(examples, start=1):
        output = _output(example)
        is_regression = example.label is None
        title = (
            f"{output} {number(example.output)}"
            if is_regression
            else f"{example.prediction}, {output} {number(example.output)}"
        )
        mean = "" if same_class else f" from its mean of {number(example.base)}"
        order = sorted(example.contributions, key=lambda each: -abs(each.contribution))
        bars = tuple(
            Bar(
                f"{each.column} = {'missing' if each.value is None else each.value.strip()}",
                each.contribution,
                each.contribution - each.error if each.error else None,
                each.contribution + each.error if each.error else None,
            )
            for each in order[:MAX_COLUMNS]
        )
        parts.append(Bars(f"Row {place}: {title}", f"change of the {output}{mean}", bars))
        rest = order[MAX_COLUMNS:]
        if rest:
            parts.append(Text(f"{len(rest)} more columns contribute {sum(each.contribution for each in rest):+.4g}."))
    return parts


def _output(example: Example) -> str:
    return "prediction" if example.label is None else f"probability of {example.label}"
