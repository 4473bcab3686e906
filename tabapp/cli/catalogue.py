"""The commands that tell what is there: `models`, `profile`, `info`, `completion`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from tabapp import __version__


@click.command()
@click.option("--json", "as_json", is_flag=True, help="A JSON list on stdout.")
def models(as_json: bool) -> int:
    """List the models, and whether each can run here."""
    from tabapp.models import registry

    described: list[dict[str, Any]] = []
    for name in registry.names():
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
        click.echo(json.dumps(described, ensure_ascii=False, indent=1))
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


@click.command()
@click.argument("data")
@click.option("--target", metavar="COL", help="Column to predict.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
@click.option("--delimiter", metavar="TEXT", help="Column separator.")
@click.option("--encoding", metavar="NAME", help="Text encoding.")
def profile(data: str, target: str | None, as_json: bool, delimiter: str | None, encoding: str | None) -> int:
    """Show what each column of DATA is taken for, and why; the target and task it would choose; warnings."""
    from tabapp.cli.running import check_file
    from tabapp.data.infer import infer_schema
    from tabapp.data.read import ReadOptions, read_table
    from tabapp.metrics import default_metric

    check_file(data)
    reading = read_table(Path(data), ReadOptions(delimiter=delimiter, encoding=encoding))
    schema = infer_schema(reading.frame, target=target)
    warnings = [*reading.warnings, *schema.warnings]
    if as_json:
        click.echo(
            json.dumps(
                {
                    "file": data,
                    "rows": reading.frame.height,
                    "reading": {
                        "format": reading.format,
                        "encoding": reading.encoding,
                        "delimiter": reading.delimiter,
                        "bytes": reading.n_bytes,
                    },
                    "columns": [
                        {
                            "name": column.name,
                            "kind": column.kind,
                            "role": column.role,
                            "reason": column.reason,
                            "missing": column.missing,
                            "unique": column.unique,
                        }
                        for column in schema.columns
                    ],
                    "target": schema.target,
                    "task": schema.task,
                    "metric": default_metric(schema.task),
                    "warnings": [
                        {"check": w.check, "column": w.column, "message": w.message, "action": w.action}
                        for w in warnings
                    ],
                },
                ensure_ascii=False,
                indent=1,
            )
        )
        return 0
    from tabapp.headless.tables import print_table

    print_table(
        ["column", "kind", "role", "missing", "unique", "why"],
        [
            [column.name, column.kind, column.role, str(column.missing), str(column.unique), column.reason]
            for column in schema.columns
        ],
    )
    click.echo(f"\ntarget  {schema.target}: {schema.target_reason}")
    click.echo(f"task    {schema.task}: {schema.task_reason}")
    click.echo(f"metric  {default_metric(schema.task)}")
    for warning in warnings:
        click.echo(f"⚠ {warning.message} → {warning.action}")
    return 0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
def info(as_json: bool) -> int:
    """Show versions and places, for bug reports."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from tabapp.run.folder import default_runs_dir

    packages: dict[str, str | None] = {}
    for name in ("textual", "torch", "polars", "catboost", "xgboost", "lightgbm", "optuna", "scikit-learn", "numpy"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    facts: dict[str, Any] = {
        "tabapp": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "executable": sys.executable,
        "runs_dir": str(default_runs_dir()),
        "packages": packages,
    }
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return 0
    for key, value in facts.items():
        if isinstance(value, dict):
            for name, number in packages.items():
                click.echo(f"{name:<14}{number or 'not installed'}")
        else:
            click.echo(f"{key:<14}{value}")
    return 0


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script of a shell, to be evaluated in its start-up file."""
    from click.shell_completion import get_completion_class

    from tabapp.cli.main import group

    found = get_completion_class(shell)
    if found is not None:
        click.echo(found(group, {}, "tabapp", "_TABAPP_COMPLETE").source())
    return 0
