"""The command `compare`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from tabapp.cli.completion import run_ids
from tabapp.cli.options import runs_dir_option
from tabapp.headless.narration import echo, echo_json
from tabapp.run.protocol.analyses import Compare, analyze
from tabapp.run.protocol.comparing import Comparison, verdict
from tabapp.run.record.folder import find_run
from tabapp.run.record.state import format_score
from tabapp.run.run_of_target import run_of_target


@click.command()
@click.argument("run_a", metavar="RUN_A", shell_complete=run_ids)
@click.argument("run_b", metavar="RUN_B", shell_complete=run_ids)
@click.option("--target", metavar="COL", help="Target to compare, of runs with several.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
@runs_dir_option
def compare(run_a: str, run_b: str, target: str | None, as_json: bool, runs_dir: Path) -> int:
    """Compare two finished runs on the rows that both have scored.

    The difference of the two ensembles has a 95 % interval from a paired bootstrap. Leaderboards, and what differs in plan,
    result, data and versions, follow.
    """
    folders = [run_of_target(find_run(run, runs_dir), target) for run in (run_a, run_b)]
    found = analyze(Comparison, Compare(), *(folder.path for folder in folders))
    if as_json:
        echo_json(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
        return 0
    _print(found)
    return 0


def _print(found: Comparison) -> None:
    from tabapp.headless.tables import print_table
    from tabapp.printable import one_line

    for letter, run in (("A", found.a), ("B", found.b)):
        echo(one_line(f"{letter}  {run.run} · {run.best} · {run.rows:,} scored rows"))
    echo(one_line(verdict(found)))
    if found.matched_by:
        echo(f"Rows are matched by their {found.matched_by}.")
    rows = [[row.title, format_score(row.a), format_score(row.b)] for row in found.leaderboard]
    if found.score_a is not None:
        rows.insert(0, ["Ensemble, common rows", format_score(found.score_a), format_score(found.score_b)])
    print_table([found.metric_title, "A", "B"], rows, right=(1, 2))
    if found.differences:
        print_table(
            ["differs in", "name", "A", "B"], [[each.part, each.name, each.a, each.b] for each in found.differences]
        )
