"""Scores of a run that ended after one of its five folds, in every view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tabapp.headless.summary import print_result, print_summary
from tabapp.report.make import make_report
from tabapp.run.lists.description import describe_run
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventLog, RunFolder
from tabapp.run.record.score_text import folds_text, score_with_folds, validation_of
from tabapp.run.record.state import RunState, is_new_best, is_partial
from tabapp.tui.parts import lines
from tabapp.tui.session import notifications
from tabapp.tui.viewmodels.model_details import model_details
from tabapp.tui.viewmodels.texts import Snapshot, one_line_status, status_content
from tests.run.recording import ENSEMBLE_ROW, LIGHTGBM_ROW, PLAN, finished, recorded, write_run

PARTIAL = "1 of 5 folds"


def partial_rows() -> tuple[ev.LeaderboardRow, ...]:
    return tuple(msgspec.structs.replace(row, folds=1) for row in (ENSEMBLE_ROW, LIGHTGBM_ROW))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = write_run(tmp_path)
    folder.events.unlink()
    folds = {"folds": 1, "planned_folds": 5}
    log = EventLog(folder.events)
    for event in recorded(folder.run):
        changes: dict[str, Any] = {"folds": 1} if isinstance(event, ev.EnsembleChanged) else {}
        changes = {"rows": partial_rows()} if isinstance(event, ev.LeaderboardChanged) else changes
        log.append(msgspec.structs.replace(event, **changes) if not isinstance(event, ev.RunFinished) else
                   finished(folder.run, leaderboard=partial_rows(), **folds, bundle="/runs/model.tabapp"))  # fmt: skip
    log.close()
    return folder


@pytest.fixture
def state(run: RunFolder) -> RunState:
    return run.state()


def test_scores_of_all_folds_are_unmarked() -> None:
    for row in (ENSEMBLE_ROW, msgspec.structs.replace(ENSEMBLE_ROW, folds=0)):
        assert not is_partial(row, 5)
        assert folds_text(row, 5) == ""
        assert score_with_folds(row, 5) == "0.9100"
        assert validation_of(row, 5, PLAN.validation) == PLAN.validation


def test_a_partial_ensemble_is_no_new_best() -> None:
    assert is_new_best(ENSEMBLE_ROW, PLAN, None)
    assert not is_new_best(partial_rows()[0], PLAN, None)


def test_the_result_without_a_screen_names_the_folds(state: RunState, capsys: pytest.CaptureFixture[str]) -> None:
    print_result("r", state)
    out = capsys.readouterr().out
    assert f"The scores cover only {PARTIAL}" in out
    assert "1/5" in out


def test_the_summary_after_a_screen_names_the_folds(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(run)
    assert f"only {PARTIAL} of {PLAN.validation}" in capsys.readouterr().out


def test_the_report_names_the_folds(state: RunState) -> None:
    report = make_report(state)
    assert f"measured by only {PARTIAL} of {PLAN.validation}" in report.summary
    parts = {section.title: repr(section) for section in report.sections}
    assert f"on {PARTIAL}" in parts["Result"]
    assert f"cover only {PARTIAL}" in parts["Leaderboard"]
    assert f"0.9100 ({PARTIAL})" in parts["Ensemble"]


def test_the_feed_names_the_folds(state: RunState) -> None:
    texts = [(line.kind, line.text) for line in state.feed]
    assert ("ensemble", f"1 member → 0.9100 ({PARTIAL})") in texts
    assert texts[-1] == ("warn", f"The run is done; its scores cover only {PARTIAL}")


def test_the_list_of_runs_names_the_folds(run: RunFolder) -> None:
    assert describe_run(run).partial == PARTIAL


def test_screens_name_the_folds(state: RunState) -> None:
    ensemble = state.leaderboard[0]
    assert PARTIAL in status_content(ensemble, None, members=1, folds=5).plain
    assert f"only {PARTIAL}" in model_details(state, ensemble).plain
    assert PARTIAL in one_line_status(Snapshot(state=state, now=0.0, file="shop.csv"))


def test_the_header_and_the_toast_at_the_end_name_the_folds(state: RunState) -> None:
    for wide in (True, False):
        assert lines._ending(state, wide).plain.endswith(f" · {PARTIAL}")  # pyright: ignore[reportPrivateUsage]
    assert state.finished is not None
    assert f"0.9100 ({PARTIAL})" in notifications._ending(state.finished)  # pyright: ignore[reportPrivateUsage]


def test_the_last_event_has_the_folds_as_numbers(run: RunFolder) -> None:
    last = msgspec.json.decode(run.events.read_bytes().splitlines()[-1])
    assert (last["folds"], last["planned_folds"]) == (1, 5)
