"""The Diagnose screen: the list of analyses, the queue, and results with their charts."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from textual.widgets import Input

from tabapp.findings import Interaction, ReliabilityBin
from tabapp.run.analyses.attention import AttentionReady
from tabapp.run.analyses.between_rows import BetweenRowsReady
from tabapp.run.analyses.fairness import FairnessReady
from tabapp.run.analyses.interactions import InteractionsReady
from tabapp.run.analyses.threshold import ThresholdChosen
from tabapp.run.protocol.analyses import AnalysisError, AnalysisFailed, Diagnose
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder
from tabapp.run.record.state import RunState
from tabapp.tui.dialogs.basic import Ask, Choice, Decision, Reading
from tabapp.tui.session import analysis_queue
from tabapp.tui.session.analysis_queue import Job
from tabapp.tui.viewmodels.diagnosis_entries import entries
from tests.run.recording import LIGHTGBM_ROW, analyses
from tests.tui import evaluations, recordings
from tests.tui.driver import NARROW, SIZES, drive

RESULTS = {"rows": 1, "robustness": 1, "learning-curve": 2, "fairness": 4, "threshold": 0}


class Analyst:
    """The processes of analyses: each ends when the test lets it, or when it is canceled."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.models: list[str | None] = []
        self.may_end = asyncio.Event()
        self.canceled: list[str] = []
        self.failure = ""

    async def analyze(self, kind, request, *folders):
        self.asked.append((request.option, request.value))
        self.models.append(request.model)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.canceled.append(request.option)
            raise
        if self.failure:
            raise AnalysisError(AnalysisFailed(error=self.failure))
        return analyses()[RESULTS[request.option]]


@pytest.fixture
def analyst(monkeypatch):
    made = Analyst()
    monkeypatch.setattr(analysis_queue, "analyze_in_background", made.analyze)
    monkeypatch.setattr(analysis_queue, "LOOK_AGAIN_SECONDS", 0.02)
    return made


def explained(*more):
    return [*recordings.finished(), evaluations.slices(), evaluations.effects(), *more]


def table(driver):
    return driver.app.screen.query_one("#analyses")


def shown(driver, key):
    """Mark, title and note of a row."""
    row = next(row for row in table(driver).rows if row.key.startswith(key))
    return [cell.plain for cell in row.cells]


def recorded(folder: RunFolder) -> list[ev.AnyEvent]:
    return [event for event in EventReader(folder.events).read_new() if isinstance(event, ev.AnalysisStep)]


@pytest.mark.parametrize("size", SIZES)
async def test_two_analyses_run_one_after_the_other(tmp_path, monkeypatch, analyst, size):
    async with drive(tmp_path, monkeypatch, explained(), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("9")
        await driver.sees("Robustness", "Learning curve by rows", "Groups of a column")
        table(driver).move_to_key("robustness.ready ")
        await driver.press("enter", "down", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        await driver.sees("the model to train again", "The best model")
        await driver.press("enter")
        await driver.until(lambda: shown(driver, "row_curve")[2] == "next")
        assert shown(driver, "robustness")[2] == "starting"
        assert analyst.asked == [("robustness", None)], "one at a time"
        await driver.press("1")
        analyst.may_end.set()
        await driver.until(lambda: analyst.asked == [("robustness", None), ("learning-curve", None)])
        await driver.until(lambda: sum("9 shows it" in toast for toast in driver.toasts()) == 2)
        assert driver.app.screen.VIEW == "run", "no result opens over what the user does"
        assert analyst.models == [None, None]
        assert not driver.app.analyses.jobs


async def test_a_result_leaves_the_dialog_that_is_open_and_its_keys_alone(tmp_path, monkeypatch, analyst):
    async with drive(tmp_path, monkeypatch, explained(), attach=True, engine_runs=False) as driver:
        await driver.press("9")
        await driver.sees("Robustness")
        table(driver).move_to_key("robustness.ready ")
        await driver.press("enter")
        await driver.until(lambda: analyst.asked)
        await driver.press("question_mark", "slash")
        dialog = driver.app.screen
        analyst.may_end.set()
        await driver.until(lambda: driver.toasts())
        await driver.press("g", "h")
        assert driver.app.screen is dialog
        assert dialog.query_one(Input).value == "gh"


async def test_the_running_one_is_canceled_and_the_queued_one_removed(tmp_path, monkeypatch, analyst):
    async with drive(tmp_path, monkeypatch, explained(), attach=True, engine_runs=False) as driver:
        await driver.press("9")
        for option in ("robustness", "learning-curve", "fairness"):
            value = "Sex" if option == "fairness" else None
            driver.app.analyses.add(driver.app.folder, Diagnose(option, value))
        assert (
            driver.app.analyses.add(driver.app.folder, Diagnose("robustness")) == "This analysis is already asked for."
        )
        await driver.until(lambda: len(analyst.asked) == 1)
        driver.app.draw_changes()
        await driver.until(lambda: shown(driver, "fairness")[1:] == ["Groups of a column: Sex", "queued, 2"])
        table(driver).move_to_key("fairness.ready Sex")
        await driver.press("x")
        await driver.until(lambda: len(driver.app.analyses.jobs) == 2)
        table(driver).move_to_key("robustness.ready ")
        await driver.press("x")
        await driver.until(lambda: len(analyst.asked) == 2)
        assert analyst.canceled == ["robustness"]
        assert analyst.asked[1] == ("learning-curve", None), "the next one starts"
        (ended,) = recorded(driver.app.folder)
        assert (ended.option, ended.status) == ("robustness", "canceled")
        await driver.press("8")
        await driver.sees("Analysis canceled: Robustness")
        analyst.may_end.set()
        await driver.until(lambda: not driver.app.analyses.jobs)


async def test_quitting_asks_while_an_analysis_is_not_done(tmp_path, monkeypatch, analyst):
    async with drive(tmp_path, monkeypatch, explained(), attach=True, engine_runs=False) as driver:
        driver.app.analyses.add(driver.app.folder, Diagnose("robustness"))
        await driver.until(lambda: analyst.asked)
        await driver.press("q")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.sees("1 analysis asked for on screen 9 would have no result")
        await driver.press("escape")
        await driver.until(lambda: not isinstance(driver.app.screen, Decision))
        assert driver.app.is_running
        await driver.press("q")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.press("q")
        await driver.until(lambda: not driver.app.is_running)
    assert analyst.canceled == ["robustness"]
    assert [event.status for event in recorded(driver.app.folder)] == ["canceled"]


async def test_an_analysis_asked_for_during_the_run_waits_for_its_end(tmp_path, monkeypatch, analyst):
    async with drive(tmp_path, monkeypatch, recordings.running()) as driver:
        await driver.press("9")
        table(driver).move_to_key("robustness.ready ")
        await driver.press("enter")
        await driver.until(lambda: shown(driver, "robustness")[2] == "after the run")
        assert any("starts when the run has ended" in toast for toast in driver.toasts())
        await driver.sees("It waits for the end of the run")
        assert not analyst.asked


async def test_a_failure_stays_in_the_list_with_its_reason(tmp_path, monkeypatch, analyst):
    analyst.failure = "The run has no models."
    analyst.may_end.set()
    async with drive(tmp_path, monkeypatch, explained(), attach=True, engine_runs=False) as driver:
        await driver.press("9")
        table(driver).move_to_key("robustness.ready ")
        await driver.press("enter")
        await driver.until(lambda: shown(driver, "robustness")[::2] == ["✗", "no result"])
        await driver.sees("The run has no models.")
        await driver.press("x")
        await driver.until(lambda: shown(driver, "robustness")[0] == "·")


async def test_costs_are_checked_where_they_are_typed(tmp_path, monkeypatch, analyst):
    async with drive(tmp_path, monkeypatch, explained(), attach=True, engine_runs=False) as driver:
        await driver.press("9")
        table(driver).move_to_key("threshold.chosen ")
        await driver.press("enter", *"costs", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, Ask))
        await driver.press("5", "enter")
        await driver.sees("not KEY=PRICE")
        assert driver.app.screen.query_one("#typed").value == "5", (
            "the proposed text was selected, and what was typed is kept"
        )
        await driver.press("backspace", *"fn=3,fp=1", "enter")
        await driver.until(lambda: analyst.asked == [("threshold", "cost:fn=3,fp=1")])
        analyst.may_end.set()
        await driver.until(lambda: not driver.app.analyses.jobs)


@pytest.mark.parametrize("size", SIZES)
async def test_the_line_of_the_threshold_moves_and_enter_keeps_it(tmp_path, monkeypatch, analyst, size):
    chosen = next(event for event in analyses() if isinstance(event, ThresholdChosen))
    async with drive(tmp_path, monkeypatch, explained(chosen), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("9")
        table(driver).move_to_key("threshold.chosen ")
        await driver.sees("at least 0.310")
        await driver.press("tab")
        assert driver.app.focused.id == "result"
        await driver.sees("0.310  F1 0.7100", "recall 90%  precision 67%", "in force")
        await driver.press("right", "right", "right")
        await driver.sees("0.500  F1 0.6000", "recall 60%  precision 75%", "enter keeps this threshold")
        await driver.press("left")
        await driver.sees("in force")
        await driver.press("left", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.sees("Keep 0.200", "The bundle has the threshold 0.310")
        await driver.press("k")
        await driver.until(lambda: analyst.asked == [("threshold", "f1@0.2")])
        analyst.may_end.set()
        await driver.until(lambda: not driver.app.analyses.jobs)


async def test_arrows_step_through_attention_maps(tmp_path, monkeypatch):
    attention = next(event for event in analyses() if isinstance(event, AttentionReady))
    async with drive(tmp_path, monkeypatch, explained(attention), attach=True, engine_runs=False) as driver:
        await driver.press("9")
        table(driver).move_to_key("attention.ready ft_transformer")
        # 0.5 for age with a chance of 0.25, and 0.3 for city with one of 0.5.
        await driver.sees("Attention · layer 1", "[CLS]", "2.00", "0.60", "map 1 of 6")
        await driver.press("right", "right")
        await driver.sees("Attention · layer 1 · head 2", "map 3 of 6")
        await driver.press("right")
        await driver.sees("Attention · layer 2", "map 4 of 6")
        await driver.press("left", "left", "left", "left")
        await driver.sees("Attention · layer 2 · head 2")


async def test_rates_of_groups_have_a_track_each(tmp_path, monkeypatch):
    groups = next(event for event in analyses() if isinstance(event, FairnessReady))
    async with drive(tmp_path, monkeypatch, explained(groups), attach=True, engine_runs=False) as driver:
        await driver.press("9")
        table(driver).move_to_key("fairness.ready city")
        await driver.sees("selection rate  0.16 … 0.34", "├", "0.3", "= west")
        assert shown(driver, "fairness")[2].startswith("1 clear")


async def test_interactions_are_a_heat_map(tmp_path, monkeypatch):
    pairs = (("Age", "Sex", 0.35, 0.04), ("Age", "Fare", 0.2, 0.01), ("Fare", "Sex", 0.9, 0.001))
    found = InteractionsReady(
        model="catboost", label="yes", columns=("Age", "Sex", "Fare"),
        pairs=tuple(Interaction(a=a, b=b, h=h, size=size) for a, b, h, size in pairs),
    )  # fmt: skip
    async with drive(tmp_path, monkeypatch, explained(found), attach=True, engine_runs=False) as driver:
        await driver.press("9")
        table(driver).move_to_key("interactions.ready ")
        await driver.sees("The number is H", "Age × Sex")
        await driver.sees("Age      —  0.35  0.20")


def with_npt() -> list[ev.AnyEvent]:
    """A run whose first model predicts from rows."""
    events = explained()
    plan = next(event for event in events if isinstance(event, ev.PlanMade))
    scored = next(
        row.model for event in reversed(events) if isinstance(event, ev.LeaderboardChanged) for row in event.rows[1:]
    )
    models = tuple(msgspec.structs.replace(each, predicts_from_rows=each.name == scored) for each in plan.models)
    changed = msgspec.structs.replace(plan, models=models)
    return [changed if event is plan else event for event in events]


@pytest.mark.parametrize("size", SIZES)
async def test_r_asks_which_rows_predictions_rest_on(tmp_path, monkeypatch, analyst, size):
    async with drive(tmp_path, monkeypatch, with_npt(), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("5", "r")
        await driver.until(lambda: analyst.asked == [("rows", None)])
        await driver.until(lambda: driver.app.screen.VIEW == "diagnose")
        await driver.until(lambda: table(driver).key == "between_rows.ready ")
        await driver.press("5", "r")
        await driver.until(lambda: driver.app.screen.VIEW == "diagnose")
        assert len(analyst.asked) == 1, "it is asked for once"
        analyst.may_end.set()
        await driver.until(lambda: not driver.app.analyses.jobs)


@pytest.mark.parametrize("size", SIZES)
async def test_weights_between_rows_are_a_heat_map(tmp_path, monkeypatch, size):
    found = next(event for event in analyses() if isinstance(event, BetweenRowsReady))
    async with drive(tmp_path, monkeypatch, explained(found), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("5", "r")
        await driver.until(lambda: driver.app.screen.VIEW == "diagnose")
        await driver.until(lambda: table(driver).key.startswith("between_rows.ready"))
        await driver.sees("predicts from other rows", "██▒▒", "chart 1 of 3")
        await driver.press("right")
        await driver.sees("layer 1")
        await driver.press("right")
        await driver.sees("chart 3 of 3")


async def test_calibration_is_in_the_list_where_it_exists(tmp_path, monkeypatch):
    bins = (ReliabilityBin(predicted=0.2, observed=0.25, low=0.15, high=0.35, count=40),
            ReliabilityBin(predicted=0.8, observed=0.7, low=0.6, high=0.8, count=60))  # fmt: skip
    found = ev.EvaluationReady(n_rows=100, positive="1", calibration=bins, calibration_error=0.08)
    async with drive(tmp_path, monkeypatch, explained(found), attach=True, engine_runs=False) as driver:
        await driver.press("9")
        table(driver).move_to_key("calibration")
        await driver.sees("The calibration error is 0.08", "0.700 (0.600 to 0.800)", "predicted → · ↑ came true")


async def test_an_analysis_of_another_process_is_shown(tmp_path, monkeypatch, analyst):
    """The other process holds the lock; the analyses of this view wait until it has left the run."""
    is_running = [True]
    steps = [ev.AnalysisStarted(option="robustness"), ev.AnalysisProgress(option="robustness", share=0.4)]
    async with drive(tmp_path, monkeypatch, explained(*steps), attach=True, engine_runs=False) as driver:
        monkeypatch.setattr(RunFolder, "is_running", lambda self: is_running[0])
        await driver.press("9")
        await driver.until(lambda: shown(driver, "robustness")[2] == "40%")
        table(driver).move_to_key("robustness.ready ")
        driver.app.clear_notifications()
        await driver.press("x")
        await driver.until(lambda: any("Another process runs this analysis" in toast for toast in driver.toasts()))
        driver.app.analyses.add(driver.app.folder, Diagnose("fairness", "Sex"))
        await driver.until(lambda: shown(driver, "fairness")[2] == "next")
        assert not analyst.asked
        is_running[0] = False
        await driver.until(lambda: analyst.asked == [("fairness", "Sex")])
        analyst.may_end.set()
        await driver.until(lambda: not driver.app.analyses.jobs)


def test_a_killed_process_leaves_nothing_running():
    state = RunState(underway=None)
    begun = msgspec.structs.replace(state, plan=recordings.plan(), underway=_underway("robustness"))
    alive = {each.title: each.status for each in entries(begun, (), is_busy=True)}
    dead = {each.title: each.status for each in entries(begun, (), is_busy=False)}
    assert (alive["Robustness"], dead["Robustness"]) == ("running", "open")


def _underway(option: str):
    from tabapp.run.record.state import AnalysisUnderway

    return AnalysisUnderway(option=option, value=None, model=None, since=0.0)


def test_what_is_not_possible_says_why():
    ready = recordings.importances(0.0)
    without = RunState(plan=recordings.plan(), importances=msgspec.structs.replace(ready, attention_model=None))
    found = {each.title: each for each in entries(without, (), is_busy=False)}
    assert found["Attention compared"].status == "impossible"
    assert found["Attention compared"].text == "Not possible: it needs a network with attention."
    assert found["Learning curve by time"].status == "impossible"
    assert found["Threshold"].status == "open"
    offered = {
        each.title: each.status
        for each in entries(RunState(plan=recordings.plan(), importances=ready), (), is_busy=False)
    }
    assert offered["Attention compared"] == "open"
    unplanned = {each.title: each.text for each in entries(RunState(), (), is_busy=False)}
    assert unplanned["Robustness"] == "There is no plan yet."


def test_a_result_stays_while_its_analysis_runs_again():
    chosen = next(event for event in analyses() if isinstance(event, ThresholdChosen))
    state = RunState(plan=recordings.plan(), analyses={"threshold.chosen ": chosen})
    job = Job(1, RunFolder.__new__(RunFolder), Diagnose("threshold", "accuracy"), "running")
    (entry,) = [each for each in entries(state, [job], is_busy=False) if each.title.startswith("Threshold")]
    assert (entry.status, entry.result, entry.job) == ("running", chosen, 1)


@pytest.mark.parametrize("size", [NARROW])
async def test_help_of_the_screen(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, explained(), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("9", "question_mark")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.until(lambda: "one after the other" in driver.app.screen._text.plain)


def test_the_title_of_the_attention_of_a_model_has_its_name():
    rows = (msgspec.structs.replace(LIGHTGBM_ROW, model="ft_transformer", title="FT-Transformer"),)
    state = RunState(plan=recordings.plan(), leaderboard=rows)
    folder = RunFolder.__new__(RunFolder)
    jobs = [Job(i, folder, Diagnose("attention", m), "queued") for i, m in enumerate(("ft_transformer", "gone"))]
    found = [each.title for each in entries(state, jobs, is_busy=False) if each.title.startswith("Attention of")]
    assert found == ["Attention of FT-Transformer", "Attention of a model: gone"]
