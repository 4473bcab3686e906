"""The command `runs`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from tabapp.cli.options import runs_dir_option
from tabapp.headless.narration import echo_json, say
from tabapp.run.lists.description import RunDescription, describe_run
from tabapp.run.record.folder import list_runs, with_runs_dir

DROPPED_FIRST = ("metric", "run", "tags", "status")
"""Columns that a narrow terminal omits, in order. Each run keeps a name or a short id, which commands accept."""


def _listed(run: RunDescription) -> dict[str, Any]:
    """A run as `tabapp runs --json` lists it; `started` is in seconds since the epoch."""
    return {
        "run": run.run,
        "name": run.name or run.run,
        "status": run.status,
        "data": run.data,
        "target": run.target or None,
        "metric": run.metric or None,
        "best": run.best,
        "folds": run.partial or None,
        "started": run.started,
        "seconds": run.seconds,
        "path": str(run.folder.path),
        "tags": list(run.labels.tags),
        "note": run.labels.note or None,
        "pinned": run.labels.pinned,
    }


def _cells(run: RunDescription) -> dict[str, str]:
    """A run as a row of the table, by column."""
    from tabapp.run.record.state import format_score

    return {
        "name": f"* {run.title}" if run.labels.pinned else run.title,
        "status": run.status,
        "data": Path(run.data).name,
        "target": run.target or "—",
        "best": format_score(run.best) + (f" ({run.partial})" if run.partial else ""),
        "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)) if run.started else "—",
        "metric": run.metric or "—",
        "tags": " ".join(f"#{tag}" for tag in run.labels.tags),
        "run": run.run,
    }


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list on stdout.")
@runs_dir_option
def runs(as_json: bool, runs_dir: Path) -> int:
    """List the runs: pinned ones first, then the newest."""
    described = [describe_run(folder) for folder in list_runs(runs_dir)]
    for run in described:
        if run.labels_problem:
            say(run.labels_problem)
    if as_json:
        echo_json(json.dumps([_listed(run) for run in described], ensure_ascii=False, indent=1))
        return 0
    if not described:
        say(f"No runs in {runs_dir} yet; start one with `{with_runs_dir('tabapp DATA', runs_dir)}`.")
        return 0
    from tabapp.headless.tables import print_table

    rows = [_cells(run) for run in sorted(described, key=lambda run: not run.labels.pinned)]
    header = [name for name in rows[0] if name != "tags" or any(row["tags"] for row in rows)]
    print_table(
        header,
        [[row[name] for name in header] for row in rows],
        right=[header.index("best")],
        optional=[header.index(name) for name in DROPPED_FIRST if name in header],
        wraps=False,
    )
    return 0
