"""Example rows of a report: predictions with the contribution of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabapp.report.parts import Bar, Bars, Part, Text

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

    `label` is the class whose probability is explained, None for a regression.
    """

    prediction: str
    label: str | None
    base: float
    output: float
    contributions: Sequence[Contribution]


def example_parts(examples: Sequence[Example]) -> list[Part]:
    """Bars for each row, largest contributions first."""
    if not examples:
        return []
    first = examples[0]
    output = "prediction" if first.label is None else f"probability of {first.label}"
    parts: list[Part] = [
        Text(
            f"How much each column moves the {output} from its mean over the sample rows of the bundle, {first.base:.4g}: Shapley "
            "values of the whole ensemble. They describe the model, not causes."
        )
    ]
    for number, example in enumerate(examples, start=1):
        order = sorted(example.contributions, key=lambda each: -abs(each.contribution))
        bars = tuple(
            Bar(
                f"{each.column} = {'missing' if each.value is None else each.value.strip()}",
                each.contribution,
                each.contribution - each.error,
                each.contribution + each.error,
            )
            for each in order[:MAX_COLUMNS]
        )
        parts.append(
            Bars(f"Row {number}: {example.prediction}, {output} {example.output:.4g}", f"change of the {output}", bars)
        )
        rest = order[MAX_COLUMNS:]
        if rest:
            parts.append(Text(f"{len(rest)} more columns contribute {sum(each.contribution for each in rest):+.4g}."))
    return parts
