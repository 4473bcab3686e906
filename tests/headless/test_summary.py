"""Output of a finished run, and the summary after a screen closes."""

from __future__ import annotations

import msgspec
import pytest

from tabapp.headless.follow import PlainView
from tabapp.headless.live import progress_line
from tabapp.headless.summary import BAR_WIDTH, print_result, print_summary
from tabapp.headless.tables import fitting_columns, plain_table
from tabapp.run.analyses.attention_importances import AttentionImportancesReady
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventLog, RunFolder
from tabapp.run.record.reducing.reduce import replay
from tabapp.run.record.state import RunState
from tabapp.run.texts.progress import progress_of
from tests.run.recording import IMPORTANCE, LIGHTGBM_ROW, finished, recorded, write_run


def state_of(events: list[ev.Event]) -> RunState:
    return replay(msgspec.structs.replace(event, seq=n, t=float(n)) for n, event in enumerate(events, start=1))  # type: ignore[misc]


def written(tmp_path, events: list[ev.Event]) -> RunFolder:
    """A run folder with these events only."""
    folder = write_run(tmp_path)
    folder.events.unlink()
    log = EventLog(folder.events)
    for event in events:
        log.append(event)
    log.close()
    return folder


def test_columns_are_aligned_without_trailing_blanks():
    lines = plain_table(["name", "score"], [["a", "0.5"], ["longer", "12.25"]], right=(1,))
    assert lines == ["name    score", "a         0.5", "longer  12.25"]


def test_result_has_leaderboard_importances_and_bundle(capsys):
    print_result("r", state_of([*recorded("r")[:-1], finished("r", bundle="/runs/r/model.tabapp", test_score=0.875)]))
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "Leaderboard · bought · ROC AUC · 5-fold stratified cross-validation"
    assert next(line for line in lines if line.startswith("1")).split()[1:4] == ["★", "Ensemble", "0.9100"]
    assert any(line.startswith("2") and "LightGBM" in line and "0.8900 … 0.9100" in line for line in lines)
    assert any(line.startswith("age") and "0.0500" in line and "0.400" in line for line in lines)
    assert "permutation of LightGBM on 1,000 held-out rows" in out
    assert "rank correlation 1.00" in out
    assert "Bundle  /runs/r/model.tabapp" in out
    assert "Test    ROC AUC 0.8750" in out
    assert "tabapp predict /runs/r/model.tabapp NEW.csv" in out


def test_a_run_without_a_score_prints_no_empty_leaderboard(capsys):
    waiting = ev.LeaderboardRow(
        rank=0, model="mlp", title="MLP", family="deep", status="skipped", reason="not started", not_started=True
    )
    ended = finished("r", leaderboard=(waiting,), importances=(), best=None, exit_code=4)
    events = [event for event in recorded("r")[:-1] if not isinstance(event, ev.ImportancesReady)]
    print_result("r", state_of([*events, ended]))
    out = capsys.readouterr().out
    assert out == "1 model not started within the budget; -v lists them.\n"


def test_the_next_command_quotes_the_path(capsys):
    print_result("r", state_of([*recorded("r")[:-1], finished("r", bundle="/runs/my run; ls/model.tabapp")]))
    assert "tabapp predict '/runs/my run; ls/model.tabapp' NEW.csv" in capsys.readouterr().out


def test_failed_model_is_a_row_with_its_reason(capsys):
    failed = ev.LeaderboardRow(rank=0, model="mlp", title="MLP", family="deep", status="failed", reason="out of memory")
    print_result("r", state_of([*recorded("r")[:-1], finished("r", leaderboard=(LIGHTGBM_ROW, failed))]))
    line = next(line for line in capsys.readouterr().out.splitlines() if "MLP" in line)
    assert "✗ failed: out of memory" in line
    assert line.split()[0] == "–"


def test_importances_beyond_the_limit_are_counted(capsys):
    rows = tuple(msgspec.structs.replace(IMPORTANCE, feature=f"f{n}", attention=None) for n in range(23))
    ready = ev.ImportancesReady(rows=rows, model="lightgbm", attention_model=None, n_rows=10, agreement=None)
    print_result("r", state_of([*recorded("r")[:-1], ready, finished("r")]))
    out = capsys.readouterr().out
    assert "f19" in out
    assert "f20" not in out
    assert "… and 3 more in the bundle" in out
    assert "attention of" not in out


INCOMPLETE = ev.ImportancesReady(
    rows=(
        msgspec.structs.replace(IMPORTANCE, feature="age", attention=None),
        msgspec.structs.replace(IMPORTANCE, feature="street", attention=None, permutation=0.9, unstable=True),
    ),
    model="lightgbm",
    attention_model=None,
    n_rows=10,
    agreement=None,
    n_columns=2_000,
)


def test_columns_that_were_not_measured_and_unstable_values_are_named(capsys):
    print_result("r", state_of([*recorded("r")[:-1], INCOMPLETE, finished("r")]))
    out = capsys.readouterr().out
    assert "2 of 2,000 columns measured before the time ended, the most promising ones first." in out
    assert "1 importance is unstable: predictions changed for rows in which nothing was shuffled." in out
    age, street = (next(line for line in out.splitlines() if line.startswith(name)) for name in ("age", "street"))
    assert "█" * BAR_WIDTH in age, "an unstable value does not scale the bars of the others"
    assert "unstable" in street
    assert "█" not in street


@pytest.mark.parametrize("n_columns", [None, 2])
def test_complete_importances_have_no_remark(capsys, n_columns):
    rows = tuple(msgspec.structs.replace(row, unstable=False) for row in INCOMPLETE.rows)
    complete = msgspec.structs.replace(INCOMPLETE, rows=rows, n_columns=n_columns)
    print_result("r", state_of([*recorded("r")[:-1], complete, finished("r")]))
    out = capsys.readouterr().out
    assert "measured" not in out
    assert "unstable" not in out


def test_importances_without_a_measured_column_say_so(capsys):
    print_result("r", state_of([*recorded("r")[:-1], msgspec.structs.replace(INCOMPLETE, rows=()), finished("r")]))
    assert "0 of 2,000 columns measured before the time ended" in capsys.readouterr().out


def test_the_command_that_computes_attention_names_the_path_of_a_run_elsewhere(tmp_path, capsys):
    folder = write_run(tmp_path)
    missing = AttentionImportancesReady(model="lightgbm", trial=1, reason="the time was up")
    PlainView(folder.argument, quiet=True, verbose=False).close(
        state_of([*recorded(folder.run)[:-1], missing, finished(folder.run)])
    )
    command = f"`tabapp diagnose {folder.path} --attention lightgbm` computes it."
    assert command in capsys.readouterr().out


def test_the_interval_of_an_importance_has_its_decimals(capsys):
    small = msgspec.structs.replace(IMPORTANCE, permutation=0.00396, low=0.0003246, high=0.007596)
    ready = ev.ImportancesReady(rows=(small,), model="lightgbm", attention_model=None, n_rows=10, agreement=None)
    print_result("r", state_of([*recorded("r")[:-1], ready, finished("r")]))
    assert "0.003960  0.000325 … 0.007596" in capsys.readouterr().out


def test_negative_importance_has_no_bar(capsys):
    harmful = msgspec.structs.replace(IMPORTANCE, permutation=-0.01, low=-0.02, high=0.0)
    ready = ev.ImportancesReady(rows=(harmful,), model="lightgbm", attention_model=None, n_rows=10, agreement=None)
    print_result("r", state_of([*recorded("r")[:-1], ready, finished("r")]))
    assert "█" not in capsys.readouterr().out


def test_run_without_a_plan_prints_nothing(capsys):
    print_result("r", state_of(recorded("r")[:3]))
    assert capsys.readouterr().out == ""


def test_summary_of_a_finished_run_shows_score_bundle_and_next_command(tmp_path, capsys):
    print_summary(written(tmp_path, [*recorded("r")[:-1], finished("r", bundle="/runs/r/model.tabapp")]))
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "Ensemble: ROC AUC 0.9100 (0.9000 … 0.9200), ≈ LightGBM (+0.0020 ±0.0040), 5-fold stratified cross-validation",
        "Bundle: /runs/r/model.tabapp",
        "Next: tabapp predict /runs/r/model.tabapp NEW.csv -o predictions.csv",
    ]


@pytest.mark.parametrize(
    ("is_running", "command", "words"), [(True, "attach", "continues"), (False, "resume", "was stopped")]
)
def test_summary_of_an_unfinished_run_shows_how_to_return(tmp_path, capsys, is_running, command, words):
    folder = written(tmp_path, recorded("r")[:-1])
    if is_running:
        with folder.lock():
            print_summary(folder)
    else:
        print_summary(folder)
    out = capsys.readouterr().out
    assert words in out
    assert f"`tabapp {command} {folder.path}`" in out, "a run outside the default folder is named by its path"


def test_summary_before_the_start_is_empty(tmp_path, capsys):
    print_summary(written(tmp_path, recorded("r")[:4]))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_optional_columns_are_dropped_on_narrow_terminals():
    header = ["#", "model", "interval", "status"]
    rows = [["1", "a model", "0.1 … 0.9", "✓"], ["–", "another model", "—", "✗ failed: " + "for a long reason " * 9]]
    assert fitting_columns(header, rows, (2, 1), 200) == [0, 1, 2, 3]
    assert fitting_columns(header, rows, (2, 1), 50) == [0, 1, 3]
    assert fitting_columns(header, rows, (2, 1), 30) == [0, 3]
    assert fitting_columns(header, rows, (), 10) == [0, 1, 2, 3], "required columns are kept"


def test_models_that_were_not_started_fold_into_one_line(capsys):
    waiting = [
        msgspec.structs.replace(
            LIGHTGBM_ROW, model=name, title=name.upper(), rank=0, score=None, status="skipped", not_started=True
        )
        for name in ("mlp", "snn")
    ]
    state = state_of([*recorded("r")[:-1], finished("r", leaderboard=(LIGHTGBM_ROW, *waiting))])
    print_result("r", state)
    folded = capsys.readouterr().out
    assert "2 models not started within the budget; -v lists them." in folded
    assert "MLP" not in folded
    print_result("r", state, verbose=True)
    listed = capsys.readouterr().out
    assert "not started within the budget" not in listed
    assert "MLP" in listed
    assert "SNN" in listed


def test_headless_view_and_screen_show_the_same_progress():
    plan = next(event for event in recorded("r") if isinstance(event, ev.PlanMade))
    state = state_of([plan, ev.StageChanged(stage="fitting", deadline=32.0)])
    progress = progress_of(state, 17.0)
    assert progress is not None
    assert (progress.share, progress.elapsed, progress.left) == (0.5, 15.0, 15.0)
    assert progress_line(state, 17.0) == (0.5, "fitting · 15s elapsed · ~15s left")
