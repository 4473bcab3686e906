"""One page per built-in model, from the description of its plugin."""

from __future__ import annotations

from typing import Any

from tabapp.models import registry
from tabapp.models.describe import Distribution, ModelDescription, describe

from .markdown import code, page, table

FAMILIES = {"gbdt": "Gradient boosting", "deep": "Networks", "classic": "Classic models"}
MEGABYTE = 10**6


def pages() -> dict[str, str]:
    found = [plugin for name in registry.names() if (plugin := registry.find(name).plugin) is not None]
    described = [describe(plugin) for plugin in found if type(plugin).__module__.startswith("tabapp_plugins")]
    made = {f"models/{model.name}.md": _model(model) for model in described}
    made["models/index.md"] = page(
        "Models",
        "`--models` and `--exclude` take these names. `tabapp models` shows which of them can run on your machine.",
        *(_family(title, [m for m in described if m.family == family]) for family, title in FAMILIES.items()),
    )
    return made


def _family(title: str, models: list[ModelDescription]) -> str:
    rows = [[f"[{model.title}]({model.name}.md)", code(model.name), model.paper] for model in models]
    toctree = "\n".join(["```{toctree}", ":hidden:", "", *(model.name for model in models), "```"])
    return f"## {title}\n\n{table(['Model', 'Name', 'Paper'], rows)}\n{toctree}"


def _model(model: ModelDescription) -> str:
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
        "## Search space\n\n" + model.search_space_text + "\n\n" + _search_space(model.search_space),
        "## Cost\n\nEstimates for one fit of the defaults on one thread, before the run measures the real cost.\n\n"
        + table(
            ["Rows", "Seconds", "Memory"],
            [
                [f"{each.shape.n_rows:,}", f"{each.cost.seconds:,.2g}", f"{each.cost.n_bytes / MEGABYTE:,.0f} MB"]
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
        ["Starts with the first models", _yes(model.starts_first)],
        ["Reports attention", _yes(model.has_attention)],
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
