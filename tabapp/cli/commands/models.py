"""The command `models`."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
import msgspec

from tabapp.cli.completion import models as known_models
from tabapp.headless.narration import echo, echo_json
from tabapp.printable import multi_line


@click.command()
@click.argument("name", required=False, shell_complete=known_models)
@click.option(
    "--check",
    metavar="NAME",
    shell_complete=known_models,
    help="Run the checks of the plugin contract on one model.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def models(name: str | None, check: str | None, as_json: bool) -> int:
    """List the models and their availability, or show the page of the model NAME.

    A page has the source of the model, its hyperparameters with defaults and ranges, its cost and its limits.
    """
    from tabapp.models import registry

    for file in registry.unused_files():
        echo(f"{file} is not used: an installed model has its name. Rename the file and its model.", err=True)
    if check is not None:
        from tabapp.cli.model_checks import check_model

        return check_model(check, as_json=as_json)
    if name is not None:
        return _show_page(name, as_json=as_json)
    described: list[dict[str, Any]] = []
    for name in (*registry.names(), *registry.variants(), *registry.presets()):
        found = registry.find(name)
        plugin = found.plugin
        described.append(
            {
                "name": name,
                "title": plugin.title if plugin else name,
                "family": plugin.family if plugin else None,
                "paper": plugin.paper if plugin else None,
                "tasks": list(plugin.tasks) if plugin else [],
                "available": found.reason is None,
                "reason": found.reason,
            }
        )
    if as_json:
        echo_json(json.dumps(described, ensure_ascii=False, indent=1))
        return 0
    from tabapp.headless.tables import print_table

    print_table(
        ["name", "title", "family", "tasks", "available", "paper"],
        [
            [
                model["name"],
                model["title"],
                model["family"] or "—",
                ", ".join(model["tasks"]),
                "yes" if model["available"] else f"no: {model['reason']}",
                model["paper"] or "—",
            ]
            for model in described
        ],
    )
    return 0


def _show_page(name: str, *, as_json: bool) -> int:
    from tabapp.models import registry
    from tabapp.models.describe import describe
    from tabapp.models.page import model_page

    if as_json:
        registry.check_names([name])
        echo_json(msgspec.json.encode(describe(registry.find(name).plugin or registry.get(name))).decode())
        return 0
    page = multi_line(model_page(name))
    if not sys.stdout.isatty():
        for line in page.splitlines():
            echo(line)
        return 0
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(page))
    return 0
