"""The page of a model in Markdown, for the documentation and for `tabapp models NAME`."""

from __future__ import annotations

from typing import Any

from tabapp.markdown import code, page, table
from tabapp.models import registry
from tabapp.models.describe import Distribution, ModelDescription, describe

_MEGABYTE = 10**6


def model_page(name: str) -> str:
    """What a model is, its hyperparameters, search space, cost and limits, its presets, and how it differs from its paper.

    Raises:
        UsageError: there is no such model, or it cannot be used.
    """
    registry.check_names([name])
    # The page of a model without its packages or weights says what it needs.
    plugin = registry.find(name).plugin or registry.get(name)
    model = describe(plugin)
    presets = [preset for preset in registry.presets() if preset.partition(":")[0] == name]
    shape = f"{model.shape.n_rows:,} rows, {model.shape.n_numeric} numeric and {model.shape.n_categorical} categorical columns"
    return page(
        model.title,
        model.text,
        _facts(model),
        "## Defaults\n\n"
        + f"For {shape}, on {model.device.upper()}.\n\n"
        + table(
            ["Hyperparameter", "Default", "Description"],
            [[code(each.name), _value(each.default), each.text] for each in model.hyperparameters],
        ),
        _portfolio(model),
        _presets([describe(registry.get(preset)) for preset in presets]),
        "## Search space\n\n" + model.search_space_text + "\n\n" + _search_space(model.search_space),
        "## Cost\n\nEstimates for one fit of the defaults on one thread, before the run measures the real cost.\n\n"
        + table(
            ["Rows", "Seconds", "Memory"],
            [
                [f"{each.shape.n_rows:,}", f"{each.cost.seconds:,.2g}", f"{each.cost.n_bytes / _MEGABYTE:,.0f} MB"]
                for each in model.costs
            ],
        ),
        _skipped(model),
        "## Differences from the paper\n\n" + "\n".join(f"- {text}" for text in model.departures)
        if model.departures
        else "",
    )


def _facts(model: ModelDescription) -> str:
    rows = [
        ["Name", code(model.name)],
        ["Paper", model.paper],
        ["Tasks", ", ".join(model.tasks)],
        ["Packages", ", ".join(map(code, model.requires)) or "none besides tabapp's"],
        *([["Pre-trained weights", ", ".join(code(each) for each in model.weights)]] if model.weights else []),
        ["Starts with the first models", _yes(model.starts_first)],
        ["Reports attention per feature", _yes(model.has_attention)],
        ["Reports attention by layer and head", _yes(model.has_attention_maps)],
        ["Predicts from other rows, shown by `diagnose --rows`", _yes(model.predicts_from_rows)],
        ["Imputes missing cells", _yes(model.can_impute)],
        ["Stores training rows in the bundle", _yes(model.contains_training_rows)],
    ]
    return table(["", ""], rows)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _value(value: Any) -> str:
    return code(f"{value:g}" if isinstance(value, float) else str(value))


def _portfolio(model: ModelDescription) -> str:
    if not model.portfolio:
        return ""
    lines = [
        f"- {', '.join(f'{code(name)} = {_value(value)}' for name, value in each.items())}" for each in model.portfolio
    ]
    return "## Configurations tried first\n\nAfter the defaults, these configurations are tried:\n\n" + "\n".join(lines)


def _presets(models: list[ModelDescription]) -> str:
    if not models:
        return ""
    rows = [[code(model.name), " ".join(model.text.split())] for model in models]
    return "## Presets\n\n`--models` takes these names, too.\n\n" + table(["Name", "Model"], rows)


def _search_space(distributions: tuple[Distribution, ...]) -> str:
    if not distributions:
        return "The model is not tuned."
    rows = [[code(each.name), _range(each), _condition(each)] for each in distributions]
    return table(["Draw", "Values", "Drawn if"], rows)


def _range(each: Distribution) -> str:
    if each.kind == "categorical":
        return ", ".join(_value(choice) for choice in each.choices)
    step = f", step {each.step:g}" if each.step not in (None, 1) else ""
    return f"{each.low:g} to {each.high:g}{step}{', logarithmic' if each.log else ''} ({each.kind})"


def _condition(each: Distribution) -> str:
    return " and ".join(f"{code(name)} is {' or '.join(_value(v) for v in values)}" for name, values in each.condition)


def _skipped(model: ModelDescription) -> str:
    if not model.skipped:
        return "## When it is skipped\n\nThe model runs on every table."
    return "## When it is skipped\n\n" + "\n".join(f"- {each.rule}" for each in model.skipped)
