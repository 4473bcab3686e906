"""The command `diagnose`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from tabapp.cli.completion import run_ids
from tabapp.cli.options import run_option, runs_dir_option
from tabapp.errors import UsageError
from tabapp.headless.narration import echo, echo_json, say
from tabapp.run.protocol.analyses import TRAINING_SECONDS, Diagnose, analyze
from tabapp.run.record.analysis import DiagnosisTable, all_requests, any_result
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import RunFolder, find_run
from tabapp.run.record.state import RunState
from tabapp.run.run_of_target import run_of_target
from tabapp.run.texts.diagnoses import grid_lines, grids_of, known_results, tables_of


def _analysis_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the option of each analysis to a command."""
    for each in reversed(all_requests()):
        add = click.option(each.flag, metavar=each.metavar, is_flag=each.metavar is None, help=each.help)
        command = add(command)
    return command


def _limited_flags() -> str:
    *others, last = [each.flag for each in all_requests() if each.is_limited]
    return f"{', '.join(others)} or {last}"


@click.command()
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@_analysis_options
@click.option("--model", metavar="NAME", help=f"Model of {_limited_flags()} [default: the best].")
@run_option("budget", summary="Time limit of each analysis of a model, such as 90s or 1h.")
@click.option("--target", metavar="COL", help="Target to analyze, of a run with several.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per analysis on stdout.")
@runs_dir_option
def diagnose(
    run_id: str,
    model: str | None,
    budget: float | None,
    target: str | None,
    as_json: bool,
    runs_dir: Path,
    **requested: str | bool | None,
) -> int:
    """Analyze a finished run: threshold, robustness, learning curves, attention, other rows, and fairness.

    Results are kept in the run, where the Explain screen and reports show them. Without an option, the command prints those of
    earlier calls.
    """
    wanted = [(each, requested[each.option.replace("-", "_")]) for each in all_requests()]
    wanted = [(each, value) for each, value in wanted if value is not None and value is not False]
    if not any(each.is_limited for each, _ in wanted):
        advice = f"Add {_limited_flags()}."
        if model is not None:
            raise UsageError(f"--model chooses the model of an analysis. {advice}")
        if budget is not None:
            raise UsageError(f"--budget limits the analysis of a model. {advice}")
    folder = run_of_target(find_run(run_id, runs_dir), target)
    if not wanted:
        return _print_known(folder, as_json)
    for request, value in wanted:
        text = value if isinstance(value, str) else None
        wish = Diagnose(request.option, text, model, budget or TRAINING_SECONDS)
        event: AnalysisEvent = analyze(any_result(), wish, folder.path)
        if as_json:
            echo_json(encode(event).decode().rstrip())
            continue
        _print_result(event, folder.state())
    return 0


def _print_known(folder: RunFolder, as_json: bool) -> int:
    state = folder.state()
    if as_json:
        for event in known_results(state):
            echo_json(encode(event).decode().rstrip())
        return 0
    results = known_results(state)
    if not results:
        say("No analyses yet. Choose one, such as --robustness or --threshold f1.")
    for event in results:
        _print_result(event, state)
    return 0


def _print_result(event: AnalysisEvent, state: RunState) -> None:
    for table in tables_of(event, state):
        _print(table)
    # The first one is the mean of the others.
    for grid in grids_of(event, state)[:1]:
        _print(DiagnosisTable(grid.title, tuple(grid_lines(grid))))


def _print(table: DiagnosisTable) -> None:
    from tabapp.headless.tables import print_table
    from tabapp.printable import one_line

    echo(table.title)
    for sentence in table.sentences:
        echo(one_line(sentence))
    if table.rows:
        print_table(list(table.header), [list(row) for row in table.rows], right=table.right)
