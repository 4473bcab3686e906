"""The Run screen: the score over time, what happens now and why, the result at the end."""

from __future__ import annotations

import re

import msgspec
import pytest

from tabapp.run.record import events as ev
from tabapp.run.record.reducing.reduce import replay
from tabapp.run.record.state import EnsembleStep, RunState
from tabapp.tui.parts.table import Column, fit_widths
from tabapp.tui.viewmodels.reasons import why_content
from tabapp.tui.viewmodels.trial_facts import all_trials
from tabapp.tui.widgets.leaderboard import Leaderboard
from tabapp.tui.widgets.running.fold_strips import FoldStrips
from tabapp.tui.widgets.running.now import Now, now_facts
from tabapp.tui.widgets.running.result import Result
from tabapp.tui.widgets.running.score_curve import CurveFacts, ScoreCurve, curve_facts
from tests.recordings import HOPELESS, events_of
from tests.tui import recordings
from tests.tui.driver import NARROW, SIZES, WIDE, drive

REASON = "its first fold improves the ensemble by 3 %, and its other folds take about 9 s"
NEXT = ev.FitsPlanned(
    t=recordings.START + 75,
    next=(ev.PlannedFit(model="resnet", trial=0, fold=0, folds=5, seconds=4.0, reason=REASON),),
    waiting=(
        ev.WaitingModel(model="resnet", seconds=4.0, needed=20.0),
        ev.WaitingModel(
            model="ft_transformer", folds=1, seconds=9.0, needed=36.0, note="its other 4 folds need about 36 s"
        ),
    ),
    in_time=1,
)
ALONE = ev.EnsembleCompared(
    t=recordings.START + 76,
    n_rows=891,
    rows=(ev.PairedDifference(model="catboost", trial=1, score=0.885, advantage=-0.002, low=-0.006, high=0.002),),
)


def lines(panel, facts, width=60, height=10) -> str:
    return "\n".join(line.plain for line in panel.draw(facts, width, height))


def replayed(events: list[ev.Event], *more: ev.Event) -> RunState:
    """The state after events, and some more."""
    return replay([msgspec.structs.replace(event, seq=n) for n, event in enumerate([*events, *more], start=1)])


def halfway(name: str = HOPELESS) -> RunState:
    """The state of a recorded run in which fits are in progress and others are planned."""
    events = events_of(name)
    last = max(n for n, event in enumerate(events) if isinstance(event, ev.FitsPlanned) and event.next)
    return replay(events[: last + 1])


async def test_the_workers_what_is_next_and_why_are_shown(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.write(NEXT)
        await driver.sees(
            "─ Now ─", "next ResNet defaults fold 1/5", "why  ResNet: its first fold improves the ensemble"
        )
        await driver.sees("2 models, 1 would end in time", "of the ensemble", " 0s ")


async def test_a_recorded_run_shows_its_fits_with_the_time_that_is_left():
    state = halfway()
    facts = now_facts(state, state.time)
    assert facts.work
    text = lines(Now("Now"), facts, 70)
    assert "fold" in text
    assert re.search(r"~?\d+ ?(s|min)", text)
    assert facts.then


def test_workers_are_not_counted_once_the_run_has_ended():
    facts = now_facts(replay(recordings.finished()), recordings.START + 200)
    assert (facts.work, facts.n_workers) == ((), 0)
    assert now_facts(replay(recordings.running()), recordings.START + 76).n_workers == 2


@pytest.mark.parametrize(
    ("notes", "in_time", "said"),
    [
        (("", ""), 1, "2 models, 1 would end in time: "),
        (("", "it is long"), 0, "2 models, none would end in time: "),
        (("it is long", "it is long"), 0, "2 models, none may start yet: "),
        (("", ""), None, "2 models: "),
    ],
)
def test_the_models_that_wait_are_counted_by_what_is_known_now(notes, in_time, said):
    events = recordings.running()
    waiting = tuple(
        ev.WaitingModel(model=name, seconds=4.0, needed=20.0, note=note)
        for name, note in zip(("resnet", "tabnet"), notes, strict=True)
    )
    planned = ev.FitsPlanned(waiting=waiting, in_time=in_time)
    assert said in lines(Now("Now"), now_facts(replayed(events, planned), recordings.START + 76), 90)


def test_a_model_that_comes_next_may_start_although_it_would_not_end_in_time():
    """Time that nothing else can use goes to models that have a reason not to start."""
    planned = msgspec.structs.replace(
        NEXT, waiting=(ev.WaitingModel(model="resnet", seconds=4.0, needed=20.0, note="it is long"),), in_time=0
    )
    text = lines(Now("Now"), now_facts(replayed(recordings.running(), planned), recordings.START + 76), 90)
    assert "next ResNet" in text
    assert "1 model, none would end in time: ResNet" in text


async def test_a_model_without_a_score_is_shown_in_its_place_of_the_queue(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.write(NEXT)
        row = next(row for row in driver.app.screen.query_one(Leaderboard).rows if row.key == "resnet")
        text = " ".join(cell.plain for cell in row.cells)
        assert "✗ failed" in text or "place 1 in line" in text


@pytest.mark.parametrize("size", SIZES)
async def test_the_margin_is_shown_at_every_width_and_long_names_are_cut(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        rows = driver.app.snapshot().state.leaderboard
        long = tuple(msgspec.structs.replace(row, title="Histogram gradient boosting of trees") for row in rows)
        await driver.write(ev.LeaderboardChanged(rows=long, t=recordings.START + 76))
        await driver.sees("± 95%", "±0.02")


def test_flexible_columns_leave_room_for_numbers():
    columns = (Column("a", flexible=True, least=4), Column("n", "right"), Column("b", flexible=True, least=5))
    assert fit_widths(columns, [30, 6, 8], 40) == [25, 6, 5]
    assert fit_widths(columns, [3, 6, 8], 40) == [3, 6, 27]
    assert fit_widths(columns, [30, 6, 8], 20)[1] == 6


async def test_the_cursor_follows_the_ensemble_until_it_is_moved(tmp_path, monkeypatch):
    events = recordings.running()
    first = next(n for n, event in enumerate(events) if isinstance(event, ev.LeaderboardChanged))
    async with drive(tmp_path, monkeypatch, events[: first + 1], attach=True) as driver:
        table = driver.app.screen.query_one(Leaderboard)
        await driver.write(*[msgspec.structs.replace(event, seq=0) for event in events[first + 1 :]])
        assert table.key == driver.app.snapshot().state.leaderboard[0].model == "ensemble"
        await driver.press("down", "down")
        chosen = table.key
        rows = driver.app.snapshot().state.leaderboard
        await driver.write(ev.LeaderboardChanged(rows=(rows[0], *rows[2:], rows[1]), t=recordings.START + 76))
        assert table.key == chosen != "ensemble"


async def test_why_names_the_reasons_of_fits_and_of_lost_trials():
    state = halfway()
    row = next(row for row in state.leaderboard if row.model == "lightgbm")
    text = why_content(state, row).plain
    assert "Why its fits were chosen" in text
    assert "folds are done, and its other folds take about" in text
    lost = [trial for trial in state.trials if trial.model == "lightgbm" and trial.pruned]
    assert all(trial.reason in text for trial in lost)


async def test_w_on_a_model_opens_its_reasons(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("down", "w")
        await driver.sees("Why: CatBoost", "Rank 2", "of the weight in the ensemble")


async def test_a_single_model_that_looks_better_has_its_difference_in_its_row(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.write(ALONE)
        await driver.sees("≈ CatBoost", "≈ +0.0020 ±0.0040")


async def test_the_result_stays_until_it_is_hidden_and_comes_back(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished(), now=130.0, attach=True) as driver:
        await driver.sees("─ Result ─", "Columns: Sex", "esc hides")
        assert "w on ★ shows all" not in driver.text()
        await driver.press("escape")
        await driver.sees("─ Now ─", "The run has ended.")
        await driver.press("escape")
        await driver.sees("─ Result ─")


@pytest.mark.parametrize(("size", "least"), [((80, 24), 9), ((120, 36), 9), ((200, 50), 9)])
async def test_the_result_is_as_high_as_its_text_and_leaves_room_for_models(tmp_path, monkeypatch, size, least):
    async with drive(tmp_path, monkeypatch, recordings.finished(), now=130.0, size=size, attach=True) as driver:
        await driver.sees("─ Result ─", "Columns: Sex", "+ continue")
        card = driver.app.screen.query_one(Result)
        assert "w on ★ shows all" not in driver.text()
        assert card.size.height >= card.get_content_height(card.size, card.size, card.size.width)
        assert driver.app.screen.query_one(Leaderboard).size.height >= least


async def test_the_curve_has_a_time_axis_its_band_and_marks_of_what_joined():
    steps = (
        EnsembleStep(seconds=10, score=0.86, low=0.84, high=0.88, n_members=1, joined=("linear",)),
        EnsembleStep(seconds=60, score=0.87, low=0.85, high=0.89, n_members=2, joined=("mlp",)),
        EnsembleStep(seconds=90, score=0.865, low=0.845, high=0.885, n_members=2),
    )
    text = lines(ScoreCurve("Score"), CurveFacts(steps, ("+Linear", "+MLP", ""), 120.0, "AUC", " ↑"))
    assert "0.8900" in text
    assert "0.8400" in text
    assert "▲+Linear" in text
    assert "▲+MLP" in text
    assert " 0s " in text
    assert "2m" in text


def test_the_time_axis_leaves_out_pauses_and_time_between_sessions():
    def changed(t: float, score: float) -> ev.EnsembleChanged:
        member = ev.EnsembleMember(model="linear", trial=0, weight=1.0)
        return ev.EnsembleChanged(t=t, members=(member,), score=score, low=score, high=score)

    started = recordings.opening()[0]
    events = [
        msgspec.structs.replace(started, t=0.0),
        ev.StageChanged(t=10, stage="fitting"),
        changed(20, 0.8),
        ev.StageChanged(t=30, stage="fitting", paused=True),
        ev.StageChanged(t=130, stage="fitting"),
        changed(140, 0.81),
        msgspec.structs.replace(started, t=1000.0, resumed=True),
        ev.StageChanged(t=1001, stage="fitting"),
        changed(1010, 0.82),
    ]
    state = replay([msgspec.structs.replace(event, seq=n) for n, event in enumerate(events, 1)])
    assert [step.seconds for step in state.steps] == [10, 30, 40]
    assert curve_facts(state, 1020.0).end == 50


def test_folds_are_a_strip_in_which_missing_and_running_ones_are_marked():
    state = halfway()
    strips = FoldStrips().of(state)
    complete = next(
        row for row in state.leaderboard if row.model != "ensemble" and state.plan and row.folds == state.plan.folds
    )
    assert len(strips[complete.model]) == complete.folds
    assert set(strips[complete.model]) <= set("▁▂▃▄▅▆▇")
    fit = next(iter(state.active.values()))
    cut = msgspec.structs.replace(state, leaderboard=(), fits={}, trials=())
    row = msgspec.structs.replace(complete, model=fit.model, score=None, trial=None)
    alone = FoldStrips().of(msgspec.structs.replace(cut, leaderboard=(row,)))
    assert alone[fit.model][fit.fold] == "…"
    assert set(alone[fit.model]) == {"…", "·"}


def test_a_trial_with_some_folds_is_running_only_while_a_fold_is_in_progress():
    state = halfway()
    active = {(fit.model, fit.trial) for fit in state.active.values()}
    rows = all_trials(state)
    assert {(row.model, row.trial) for row in rows if row.status == "running"} == active
    ended = all_trials(replay(events_of("wine")[:-40]))
    assert all(row.folds < row.n_folds for row in ended if row.status == "incomplete")


async def test_escape_ends_a_zoom_before_it_hides_the_result(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished(), now=130.0, attach=True) as driver:
        await driver.sees("─ Result ─")
        await driver.press("z")
        await driver.until(lambda: "─ Result ─" not in driver.text())
        await driver.press("escape")
        await driver.sees("─ Result ─")


async def test_preliminary_importances_name_their_model_and_are_marked(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        found = msgspec.structs.replace(recordings.importances(recordings.START + 76), trial=1)
        await driver.write(msgspec.structs.replace(found, preliminary=True))
        await driver.sees("Importance · preliminary", "of CatBoost #1 · 891 rows")
        panel = driver.app.screen.query_one("#importances")
        assert panel.has_class("-stale")
        await driver.write(msgspec.structs.replace(found, t=recordings.START + 77))
        await driver.sees("Importance · CatBoost ─")
        assert not panel.has_class("-stale")


def test_preliminary_importances_stay_if_the_end_has_no_time_for_others():
    found = recordings.importances(1.0)
    events = [
        msgspec.structs.replace(found, preliminary=True),
        msgspec.structs.replace(found, rows=()),
    ]
    state = replay([msgspec.structs.replace(event, seq=n) for n, event in enumerate(events, 1)])
    assert state.importances is not None
    assert state.importances.rows
    final = msgspec.structs.replace(found, seq=3)
    assert replay([msgspec.structs.replace(events[0], seq=1), final]).importances == final


async def test_help_on_the_ensemble_begins_with_the_result(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, [*recordings.finished(), ALONE], now=130.0, attach=True) as driver:
        await driver.press("g", "question_mark")
        await driver.sees("★ Ensemble · ROC AUC ↑", "alone looks better", "Under the cursor")


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (
            WIDE,
            ("✗ failed: The fit ran out of memory (2.0 GiB allowed)", "– skipped: needs at least 1,000 training rows"),
        ),
        (NARROW, ("✗ failed (enter)", "– skipped (enter)")),
    ],
)
async def test_the_leaderboard_says_why_a_model_has_no_score_where_there_is_room(tmp_path, monkeypatch, size, shown):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True, size=size) as driver:
        rows = tuple(
            msgspec.structs.replace(row, reason="It needs at least 1,000 training rows; the table has 891.")
            if row.status == "skipped"
            else row
            for row in driver.app.snapshot().state.leaderboard
        )
        await driver.write(ev.LeaderboardChanged(rows=rows))
        await driver.press("1", "G")
        await driver.sees(*shown)
