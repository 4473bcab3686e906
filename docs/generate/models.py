"""One page per model, from its plugin."""

from __future__ import annotations

from tabapp.models import registry

from .markdown import page

FAMILIES = {"gbdt": "Gradient boosting", "deep": "Networks", "classic": "Classic models"}


def pages() -> dict[str, str]:
    made: dict[str, str] = {}
    for name in registry.names():
        found = registry.find(name)
        if found.plugin is not None:
            made[f"models/{name}.md"] = page(found.plugin.title, f"Paper: {found.plugin.paper}.")
    made["models/index.md"] = page(
        "Models",
        "\n".join(["```{toctree}", ":maxdepth: 1", "", *(n.split("/")[1][:-3] for n in made), "```"]),
    )
    return made
