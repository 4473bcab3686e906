"""The command `runs`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from tabapp.cli.options import runs_dir_option
from tabapp.headless.narration import echo_json, say
from tabapp.run.record.description import RunDescription, describe_run
from tabapp.run.record.folder import list_runs


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
    }


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list on stdout.")
@runs_dir_option
def runs(as_json: bool, runs_dir: Path) -> int:
    """List the runs, newest first."""
    described = [_listed(describe_run(folder)) for folder in list_runs(runs_dir)]
    if as_json:
        echo_json(json.dumps(described, ensure_ascii=False, indent=1))
        return 0
    if not described:
        say(f"No runs in {runs_dir} yet; start one with `tabapp DATA`.")
        return 0
    from tabapp.headless.tables import print_table
    from tabapp.run.record.state import format_score

    print_table(
        ["run", "status", "data", "target", "metric", "best", "started"],
        [
            [
                run["run"],
                run["status"],
                Path(run["data"]).name,
                run["target"] or "—",
                run["metric"] or "—",
                format_score(run["best"]) + (f" ({run['folds']})" if run["folds"] else ""),
                time.strftime("%Y-%m-%d %H:%M", time.localtime(run["started"])) if run["started"] else "—",
            ]
            for run in described
        ],
    )
    return 0
