"""The result of a run on stdout: leaderboard, importances and path of the bundle. Depends only on the state."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tabapp import charts
from tabapp.headless.narration import echo, say
from tabapp.headless.tables import print_table
from tabapp.run.analyses.attention_importances import attentions, comparison_table, missing
from tabapp.run.options.units import format_duration
from tabapp.run.record.events import ENSEMBLE, ImportanceRow, LeaderboardRow
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.importance_notes import UNSTABLE, largest, notes
from tabapp.run.record.score_text import bounds_text, folds_text, interval_text, validation_of
from tabapp.run.record.state import RunState, format_score, subject_of, title_of
from tabapp.run.texts.differences import ALIKE, alike, mark_of
from tabapp.run.texts.mean_score import mean_score, partial_note
from tabapp.run.texts.provisional import score_or_provisional
from tabapp.run.texts.verdict import GLYPHS, verdict_of

MAX_IMPORTANCES = 20
MAX_ATTENTION_ROWS = 12
BAR_WIDTH = 20

LEADERBOARD_HEADER = ["#", "model", "score", "95 % interval", "folds", "trials", "fit", "ms/1k", "weight", "status"]
LEADERBOARD_RIGHT = (0, 2, 4, 5, 6, 7, 8)
LEADERBOARD_OPTIONAL = (7, 5, 8, 4, 6, 3)
IMPORTANCES_OPTIONAL = (1, 3)
"""Columns that are dropped on a narrow terminal, in this order."""


def leaderboard_cells(
    row: LeaderboardRow, folds: int, provisional: float | None = None, difference: str = ""
) -> list[str]:
    """One leaderboard row as text; `provisional` is shown while it has no score, `difference` is that from the ensemble."""
    scored = row.score is not None
    status = {
        "ok": "✓",
        "running": "… " + row.activity,
        "queued": "· queued",
        "failed": "✗ failed",
        "skipped": "– skipped",
    }
    words = status.get(row.status, row.status)
    return [
        str(row.rank) if row.rank else "–",
        f"★ {row.title}" if row.rank == 1 else row.title,
        score_or_provisional(row.score, provisional),
        interval_text(row),
        f"{row.folds}/{folds}" if scored else "—",
        str(row.trials) if row.trials else "—",
        format_duration(row.fit_seconds) if scored else "—",
        f"{row.predict_ms_per_1k:.1f}" if row.predict_ms_per_1k is not None else "—",
        f"{row.in_ensemble:.2f}" if row.in_ensemble and row.model != "ensemble" else "—",
        (f"{words}: {row.reason}" if row.reason else words) + (f"  {difference}" if difference else ""),
    ]


def fold_not_started(rows: Sequence[LeaderboardRow], *, verbose: bool) -> tuple[list[LeaderboardRow], str]:
    """The rows to show, and a line for the models that were not started within the budget; `verbose` shows every row."""
    shown = [row for row in rows if verbose or not row.not_started]
    n_folded = len(rows) - len(shown)
    if not n_folded:
        return shown, ""
    return shown, f"{n_folded} model{'s' if n_folded > 1 else ''} not started within the budget; -v lists them."


def print_leaderboard(state: RunState, *, verbose: bool = False) -> None:
    """Print the leaderboard on stdout."""
    plan = state.plan
    if plan is None or not state.leaderboard:
        return
    title = f"Leaderboard · {plan.target} · {plan.metric_title} · {plan.validation}"
    shown, folded = fold_not_started(state.leaderboard, verbose=verbose)
    single = alike(state)
    marks = {} if single is None else {single.model: mark_of(state, single), ENSEMBLE: f"{ALIKE} {single.title}"}
    rows = [leaderboard_cells(row, plan.folds, difference=marks.get(row.model, "")) for row in shown]
    if rows:
        print_table(LEADERBOARD_HEADER, rows, LEADERBOARD_RIGHT, title, LEADERBOARD_OPTIONAL)
    if folded:
        echo(folded)
    if state.best is not None and (partial := folds_text(state.best, plan.folds)):
        echo(f"The scores cover only {partial}: the run ended before the others. A longer --budget scores all of them.")


def importance_cells(row: ImportanceRow, top: float) -> list[str]:
    """One importance row as text, with a bar for the permutation importance relative to the largest one."""
    share = max(0.0, row.permutation) / top if top > 0 and not row.unstable else 0.0
    return [
        row.feature,
        charts.bar(share, BAR_WIDTH),
        format_score(row.permutation),
        UNSTABLE if row.unstable else bounds_text(row.permutation, row.low, row.high),
        "—" if row.attention is None else f"{row.attention:.3f}",
    ]


def print_importances(run: str, state: RunState) -> None:
    """Print the importances on stdout, most important first; `run` selects the run in proposed commands."""
    found = state.importances
    if found is None or state.plan is None:
        return
    if not found.rows:
        for sentence in notes(found):
            echo()
            echo(sentence)
        return
    top = largest(found.rows)
    rows = [importance_cells(row, top) for row in found.rows[:MAX_IMPORTANCES]]
    what = "Preliminary importances" if found.preliminary else "Importances"
    title = (
        f"{what} · {state.plan.target} · permutation of {subject_of(state, found)} on {found.n_rows:,} held-out rows"
    )
    if found.attention_model:
        title += f" · attention of {title_of(state, found.attention_model)}"
    echo()
    header = ["feature", "", f"worse {state.plan.metric_title}", "95 % interval", "attention"]
    print_table(header, rows, (2, 4), title, IMPORTANCES_OPTIONAL)
    if len(found.rows) > MAX_IMPORTANCES:
        echo(f"… and {len(found.rows) - MAX_IMPORTANCES} more in the bundle")
    for sentence in notes(found):
        echo(sentence)
    if found.agreement is not None:
        echo(f"Attention and permutation agree with rank correlation {found.agreement:.2f}.")
    print_attention(run, state)


def print_attention(run: str, state: RunState) -> None:
    """Print the attention of each model beside permutation importance, if there are several models, and why others have none."""
    table = comparison_table(state, MAX_ATTENTION_ROWS)
    if table is not None and len(attentions(state)) > 1:
        echo()
        # The models at the right are dropped first; the report has all of them.
        optional = tuple(range(len(table.header) - 1, 2, -1))
        print_table(list(table.header), [list(row) for row in table.rows], table.right, table.title, optional)
    for model, reason in missing(state).items():
        echo(
            f"No attention of {title_of(state, model)}: {reason}. `tabapp diagnose {run} --attention {model}` computes it."
        )


def print_verdict(state: RunState) -> None:
    """Print what the result is worth, on stdout."""
    verdict = verdict_of(state)
    if verdict is None:
        return
    echo()
    echo(f"Result  {verdict.word + '. ' if verdict.word else ''}{verdict.headline}")
    if verdict.judgment:
        echo(f"        {verdict.judgment}")
    for fact in verdict.facts:
        echo(f"      {GLYPHS[fact.mark]} {fact.topic}: {fact.text}")


def print_result(run: str, state: RunState, *, verbose: bool = False) -> None:
    """Print the whole result of a run on stdout: with several targets, that of each, and the mean of their scores.

    Args:
        run: selects the run in proposed commands.
    """
    for number, each in enumerate(_results(state)):
        if number:
            echo()
        print_leaderboard(each, verbose=verbose)
        print_importances(run, each)
        print_verdict(each)
    finished = state.finished
    if finished is None:
        return
    if line := mean_line(state):
        echo()
        echo(line)
    if finished.bundle:
        echo()
        echo(f"Bundle  {finished.bundle}")
        for each in _results(state):
            if each.finished is not None and each.finished.test_score is not None and each.plan is not None:
                target = f"{each.plan.target}: " if state.targets else ""
                echo(f"Test    {target}{each.plan.metric_title} {format_score(each.finished.test_score)}")
        echo(f"Use it  tabapp predict {shlex.quote(finished.bundle)} NEW.csv -o predictions.csv")


def _results(state: RunState) -> list[RunState]:
    """The state of each target that has ended; that of the run if it has a single target."""
    return [view.state for view in state.targets if view.state is not None] or [state]


def mean_line(state: RunState) -> str:
    """The mean score over several targets as a line; empty where their scores cannot be averaged."""
    mean = mean_score(state)
    if mean is None:
        return ""
    return f"Mean    {mean[0]} {format_score(mean[1])} over {len(state.targets)} targets{partial_note(state)}"


def print_summary(folder: RunFolder) -> None:
    """Print a summary after a screen closes: best score, bundle and the next command."""
    state = folder.state()
    best, finished = state.best, state.finished
    for each in _results(state):
        first = each.best
        if first is not None and each.plan is not None:
            target = f"{each.plan.target}: " if state.targets else ""
            single = alike(each)
            like = (
                ""
                if single is None
                else f", {ALIKE} {single.title} ({mark_of(each, single).removeprefix(ALIKE).strip()})"
            )
            score = f"{each.plan.metric_title} {format_score(first.score)} ({interval_text(first)}){like}"
            echo(f"{target}{first.title}: {score}, {validation_of(first, each.plan.folds, each.plan.validation)}")
    if finished is None:
        if best is not None or state.stage not in ("starting", "reading", "ready"):
            is_running = folder.is_running()
            words = "continues in the background" if is_running else "was stopped"
            echo(f"The run {words}; `tabapp {'attach' if is_running else 'resume'} {folder.argument}` shows it.")
        return
    if finished.bundle:
        echo(f"Bundle: {finished.bundle}")
        echo(f"Next: tabapp predict {shlex.quote(finished.bundle)} NEW.csv -o predictions.csv")
    elif finished.message:
        say(finished.message)
