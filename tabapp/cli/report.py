"""The command `report`."""

from __future__ import annotations

from pathlib import Path

import click

from tabapp.cli.completion import run_ids
from tabapp.headless.narration import echo_data
from tabapp.run.folder import default_runs_dir, find_run


@click.command()
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Output file. Its name ends with .html, .md or .json unless --format is given.",
)
@click.option(
    "--format", "form", type=click.Choice(["html", "md", "json"]), help="Format of the file [default: by its name]."
)
@click.option("--runs-dir", type=click.Path(path_type=Path), metavar="DIR", help="Folder of runs.")
def report(run_id: str, out: Path, form: str | None, runs_dir: Path | None) -> int:
    """Write a report of a run to one file: data, plan, leaderboard, quality, importances, effects and weak slices.

    HTML files contain their charts and load nothing else.
    """
    from tabapp.report.write import write_report

    write_report(find_run(run_id, runs_dir or default_runs_dir()), out, form)
    echo_data(f"{out}\n".encode(errors="surrogateescape"))
    return 0
