"""The command `diagnose`."""

from __future__ import annotations

from pathlib import Path

import click

from tabapp.cli.completion import run_ids
from tabapp.cli.options import read_budget
from tabapp.errors import UsageError
from tabapp.headless.narration import echo, echo_json, say
from tabapp.run.protocol.analyses import analyze
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder, default_runs_dir, find_run
from tabapp.run.record.target_of import run_of_target
from tabapp.run.texts.diagnoses import DiagnosisTable, diagnosis_tables, table_of


@click.command()
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@click.option(
    "--threshold",
    metavar="METRIC",
    help="Choose the threshold of a binary classifier by accuracy, balanced_accuracy, f1 or a cost such as cost:fn=5,fp=1, and "
    "keep it in the bundle of the run; none restores 0.5.",
)
@click.option("--robustness", is_flag=True, help="Score the ensemble with 0 to 60 % of the cells missing or noisy.")
@click.option("--learning-curve", is_flag=True, help="Score the best model with fewer training rows; trains it again.")
@click.option(
    "--time-curve",
    is_flag=True,
    help="Score the latest rows by the best model, trained on recent rows and on old rows; for tables with dates.",
)
@click.option(
    "--faithfulness",
    is_flag=True,
    help="Compare attention with permutation, integrated gradients, and training again without each of the top columns.",
)
@click.option(
    "--model", metavar="NAME", help="Model of --learning-curve, --time-curve or --faithfulness [default: the best]."
)
@click.option(
    "--budget",
    callback=read_budget,
    metavar="TIME",
    help="Time limit of each analysis that trains models again, such as 90s or 1h [default: 10m].",
)
@click.option("--target", metavar="COL", help="Target to analyze, of a run with several.")
@click.option("--fairness", metavar="COLUMN", help="Rates, errors and calibration by the groups of a column.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per analysis on stdout.")
@click.option("--runs-dir", type=click.Path(path_type=Path), metavar="DIR", help="Folder of runs.")
def diagnose(
    run_id: str,
    threshold: str | None,
    robustness: bool,
    learning_curve: bool,
    time_curve: bool,
    faithfulness: bool,
    model: str | None,
    budget: float | None,
    target: str | None,
    fairness: str | None,
    as_json: bool,
    runs_dir: Path | None,
) -> int:
    """Analyze a finished run: threshold, robustness, learning curves, faithfulness of attention, and fairness.

    Results are kept in the run, where the Explain screen and reports show them. Without an option, the command prints those of
    earlier calls.
    """
    if model is not None and not (learning_curve or time_curve or faithfulness):
        raise UsageError(
            "--model chooses the model of an analysis. Add --learning-curve, --time-curve or --faithfulness."
        )
    if budget is not None and not (learning_curve or time_curve or faithfulness):
        raise UsageError("--budget limits training. Add --learning-curve, --time-curve or --faithfulness.")
    folder = run_of_target(find_run(run_id, runs_dir or default_runs_dir()), target)
    training = [*(["--model", model] if model else []), *(["--seconds", f"{budget!r}"] if budget else [])]
    wanted: list[list[str]] = []
    wanted += [["--threshold", threshold]] if threshold is not None else []
    wanted += [["--robustness"]] if robustness else []
    wanted += [["--learning-curve", *training]] if learning_curve else []
    wanted += [["--time-curve", *training]] if time_curve else []
    wanted += [["--faithfulness", *training]] if faithfulness else []
    wanted += [["--fairness", fairness]] if fairness is not None else []
    if not wanted:
        return _print_known(folder, as_json)
    for words in wanted:
        event = analyze(ev.AnyAnalysisEvent, ["diagnose", str(folder.path), *words])
        if as_json:
            echo_json(ev.encode(event).decode().rstrip())
            continue
        table = table_of(event, folder.state())
        if table is not None:
            _print(table)
    return 0


def _print_known(folder: RunFolder, as_json: bool) -> int:
    state = folder.state()
    if as_json:
        known = (state.threshold, state.robustness, state.row_curve, state.time_curve, *state.fairness.values())
        for event in (*known, state.dependence, state.interactions, state.faithfulness, *state.attention.values()):
            if event is not None:
                echo_json(ev.encode(event).decode().rstrip())
        return 0
    tables = diagnosis_tables(state)
    if not tables:
        say("No analyses yet. Choose one, such as --robustness or --threshold f1.")
    for table in tables:
        _print(table)
    return 0


def _print(table: DiagnosisTable) -> None:
    from tabapp.headless.tables import print_table
    from tabapp.printable import one_line

    echo(table.title)
    for sentence in table.sentences:
        echo(one_line(sentence))
    if table.rows:
        print_table(list(table.header), [list(row) for row in table.rows], right=table.right)
