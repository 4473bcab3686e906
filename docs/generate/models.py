"""One page per built-in model, from the description of its plugin, and their index."""

from __future__ import annotations

from tabapp.markdown import code, page, table
from tabapp.models import registry
from tabapp.models.describe import ModelDescription, describe
from tabapp.models.page import model_page

FAMILIES = {"gbdt": "Gradient boosting", "deep": "Networks", "classic": "Classic models"}


def pages() -> dict[str, str]:
    found = [plugin for name in registry.names() if (plugin := registry.find(name).plugin) is not None]
    described = [describe(plugin) for plugin in found if type(plugin).__module__.startswith("tabapp_plugins")]
    made = {f"models/{model.name}.md": model_page(model.name) for model in described}
    made["models/index.md"] = page(
        "Models",
        "`--models` and `--exclude` take these names. `tabapp models` shows which of them can run on your machine.",
        *(_family(title, [m for m in described if m.family == family]) for family, title in FAMILIES.items()),
    )
    return made


def _family(title: str, models: list[ModelDescription]) -> str:
    rows = [[f"[{model.title}]({model.name}.md)", code(model.name), model.paper] for model in models]
    toctree = "\n".join(["```{toctree}", ":hidden:", "", *(model.name for model in models), "```"])
    return f"## {title}\n\n{table(['Model', 'Name', 'Paper'], rows)}\n\n{toctree}"
