"""The Runs screen: open, resume, delete, filter."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from textual.widgets import Input

from tabapp.errors import UsageError
from tabapp.run.lists.description import describe_run
from tabapp.run.protocol.analyses import Compare
from tabapp.run.protocol.comparing import ComparedModel, ComparedRun, Comparison, Difference
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.labels import RunLabels, read_labels
from tabapp.tui.app import AttachedApp, ResumedApp, TabappApp
from tabapp.tui.browse import show_runs
from tabapp.tui.dialogs.basic import Ask, Choice, Decision, Reading
from tabapp.tui.replay import ReplayApp
from tabapp.tui.screens import runs as runs_screen
from tabapp.tui.screens.run import RunningView
from tabapp.tui.session.opened import Opened
from tabapp.tui.viewmodels.comparison import comparison_content
from tabapp.tui.widgets.run_preview import PreviewFacts, RunPreview
from tabapp.tui.widgets.run_table import Runs
from tests.recordings import NAMES, events_of
from tests.recordings.replay import ReplayWorker, make_run
from tests.tui import recordings
from tests.tui.driver import SIZES, Driver, FakeProcess, drive


def runs_of(driver) -> Runs:
    return driver.app.screen.query_one(Runs)


def title(folder: RunFolder) -> str:
    """The title of a run without a name."""
    return describe_run(folder).title


def other_runs(runs_dir) -> tuple[RunFolder, RunFolder]:
    """One that ended well, one whose engine is gone."""
    done, stopped = recordings.make_run(runs_dir, "adult.csv"), recordings.make_run(runs_dir, "wine.csv")
    recordings.Recorder(done).write(
        *(msgspec.structs.replace(event, t=event.t - 9000) for event in recordings.finished())
    )
    recordings.Recorder(stopped).write(
        *(msgspec.structs.replace(event, t=event.t - 5000) for event in recordings.running(8))
    )
    return done, stopped


async def at_runs(driver, number: int = 3) -> None:
    await driver.press("7")
    await driver.until(lambda: len(runs_of(driver).rows) == number)


async def put_cursor_on(driver, folder: RunFolder) -> None:
    runs_of(driver).move_to_key(folder.run)
    await driver.until(lambda: runs_of(driver).key == folder.run)


@pytest.mark.parametrize("size", SIZES)
async def test_all_runs_are_listed_the_newest_first(tmp_path, monkeypatch, size):
    done, stopped = other_runs(tmp_path)
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("escape")
        await at_runs(driver)
        assert [row.key for row in runs_of(driver).rows] == [driver.folder.run, stopped.run, done.run]
        await driver.sees("▸", "✓", "■", "adult.csv", "Survived", "0.8829", "3 runs")


def test_what_is_read_of_a_run(tmp_path):
    done, stopped = other_runs(tmp_path)
    facts = describe_run(done)
    assert (facts.status, Path(facts.data).name, facts.target, facts.metric_title) == (
        "ok",
        "adult.csv",
        "Survived",
        "ROC AUC",
    )
    assert facts.best == done.state().best.score
    assert facts.model == "Ensemble"
    assert facts.seconds == 116
    assert list(facts.history) == sorted(facts.history)
    assert describe_run(stopped).status == "stopped"
    (stopped.path / "run.json").write_text("{")
    broken = describe_run(stopped)
    assert broken.status == "unreadable"
    assert "cannot be understood" in broken.reason
    done.events.unlink()
    assert describe_run(done).best is None


async def test_enter_opens_another_run(tmp_path, monkeypatch):
    done, _ = other_runs(tmp_path)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await at_runs(driver)
        await put_cursor_on(driver, done)
        await driver.press("enter")
        await driver.until(lambda: not driver.app.is_running)
        assert driver.app.opened == Opened(done, start_engine=False)
        assert driver.commands() == [], "its engine continues"


async def test_a_double_click_opens_too(tmp_path, monkeypatch):
    other_runs(tmp_path)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await at_runs(driver)
        key = runs_of(driver).rows[2].key
        await driver.pilot.click("#runs", offset=(8, 4), times=2)
        await driver.until(lambda: driver.app.opened is not None)
        assert driver.app.opened.folder.run == key


async def test_an_engine_that_was_never_started_does_not_stay_behind(tmp_path, monkeypatch):
    done, _ = other_runs(tmp_path)
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await at_runs(driver)
        await put_cursor_on(driver, done)
        await driver.press("enter")
        await driver.until(lambda: driver.app.opened is not None)
        assert [command["command"] for command in driver.commands()] == ["abort"]


async def test_two_marked_runs_are_compared(tmp_path, monkeypatch):
    done, stopped = other_runs(tmp_path)
    asked: list[list[str]] = []

    may_end = asyncio.Event()

    async def analyze(kind: object, request: Compare, *folders: Path) -> Comparison:
        asked.append((request, *folders))
        await may_end.wait()
        return Comparison(
            a=ComparedRun(run=done.run, name="a", best="Ensemble of 3", rows=891),
            b=ComparedRun(run=stopped.run, name="b", best="CatBoost", rows=891),
            metric="roc_auc", metric_title="ROC AUC", common_rows=891, matched_by="number in the same file",
            score_a=0.88, score_b=0.86, difference=-0.02, low=-0.03, high=-0.01, better="a",
            leaderboard=(ComparedModel(model="catboost", title="CatBoost", a=0.87, b=0.86),),
            differences=(Difference(part="plan", name="seed", a="0", b="1"),),
        )  # fmt: skip

    monkeypatch.setattr(runs_screen, "analyze_in_background", analyze)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await at_runs(driver)
        await put_cursor_on(driver, done)
        await driver.press("c")
        await driver.until(lambda: any("Mark two runs" in toast for toast in driver.toasts()))
        await driver.press("space")
        await driver.sees("●")
        await put_cursor_on(driver, stopped)
        await driver.press("space")
        await driver.sees(
            "2 marked · c compares them", "Scores of 2 marked runs", f"1 ━ {title(done)}", f"2 ━ {title(stopped)}"
        )
        await driver.press("c")
        await driver.sees(f"comparing {title(done)} with {title(stopped)}…")
        may_end.set()
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.sees(
            f"{title(done)} is significantly better on 891 common rows", "CatBoost", "0.8700", "Different plan", "0 → 1"
        )
        assert asked == [(Compare(), done.path, stopped.path)]
        await driver.press("escape", "space")
        await driver.until(lambda: runs_of(driver).marked == [done.run])


def test_a_row_of_a_comparison_fits_into_a_dialog_at_80_columns():
    long = "a run with a very long name"
    found = Comparison(
        a=ComparedRun(run="1", name=long, best="Ensemble of 3", rows=891),
        b=ComparedRun(run="2", name=long, best="CatBoost", rows=891),
        metric="roc_auc", metric_title="ROC AUC", common_rows=0, matched_by="",
        leaderboard=(ComparedModel(model="x", title="Histogram gradient boosting of many", a=0.0001773, b=0.86),),
    )  # fmt: skip
    lines = comparison_content(found, long, long).plain.splitlines()
    titles, row = next(n for n, line in enumerate(lines) if line.startswith("ROC AUC")), lines[-1]
    assert max(len(lines[titles]), len(row)) <= 64
    assert row.startswith("Histogram gradient boosti…")


@pytest.mark.parametrize(("width", "is_shown"), [(120, False), (200, True)])
async def test_help_explains_the_columns_that_are_shown(tmp_path, monkeypatch, width, is_shown):
    done, _ = other_runs(tmp_path)
    async with drive(tmp_path, monkeypatch, recordings.running(), size=(width, 36), attach=True) as driver:
        await at_runs(driver)
        await put_cursor_on(driver, done)
        await driver.press("question_mark")
        await driver.sees("Under the cursor", "best score of the run")
        assert ("how the best score changed during the run" in driver.text()) == is_shown


def test_scores_by_different_metrics_are_not_listed_as_one():
    found = Comparison(
        a=ComparedRun(run="1", name="a", best="Ensemble of 3", rows=100),
        b=ComparedRun(run="2", name="b", best="CatBoost", rows=400),
        metric="rmse", metric_title="RMSE", note="the targets differ",
        leaderboard=(ComparedModel(model="catboost", title="CatBoost", a=0.0105, b=0.502),),
        differences=(Difference(part="plan", name="metric", a="rmse", b="roc_auc"),),
    )  # fmt: skip
    lines = comparison_content(found, "a", "b").plain.splitlines()
    assert any(line.startswith("each by its own metric") for line in lines)
    assert not any(line.startswith("RMSE") for line in lines)


def test_the_preview_wraps_what_does_not_fit(tmp_path):
    done, stopped = other_runs(tmp_path)
    preview = RunPreview()
    first, second = describe_run(done), describe_run(stopped)
    for facts, words in (
        (PreviewFacts((first,)), f"{first.models} of 6 models · seed 0"),
        (PreviewFacts((first, second)), "The runs read different tables, so their scores may not be comparable."),
    ):
        lines = [line.plain for line in preview.draw(facts, 40, 30)]
        assert words in " ".join(" ".join(lines).split())
        assert not any("…" in line for line in lines)


async def test_runs_that_cannot_be_compared_give_a_sentence_that_stays(tmp_path, monkeypatch):
    done, stopped = other_runs(tmp_path)

    async def analyze(kind: object, request: Compare, *folders: Path) -> Comparison:
        raise UsageError(f"The run {stopped.run} has no result yet.")

    monkeypatch.setattr(runs_screen, "analyze_in_background", analyze)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await at_runs(driver)
        await put_cursor_on(driver, done)
        await driver.press("space")
        await put_cursor_on(driver, stopped)
        await driver.press("c")
        await driver.until(lambda: isinstance(driver.app.screen, Reading))
        await driver.sees("The runs cannot be compared", "has no result yet.")
        await driver.press("escape")
        await driver.sees("3 runs")


async def test_a_run_without_a_score_is_not_compared_and_the_key_that_resumes_it_is_said(tmp_path, monkeypatch):
    done, _ = other_runs(tmp_path)
    unscored = recordings.make_run(done.path.parent, "unscored.csv")
    recordings.Recorder(unscored).write(*recordings.opening())
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True, engine_runs=False) as driver:
        await driver.press("escape")
        await at_runs(driver, 4)
        await put_cursor_on(driver, done)
        await driver.press("space")
        await put_cursor_on(driver, unscored)
        await driver.press("c")
        await driver.until(
            lambda: any("has no score to compare yet. Move to it and press r" in toast for toast in driver.toasts())
        )
        assert not isinstance(driver.app.screen, Reading)


async def test_a_replay_shows_the_run_and_sends_no_command(tmp_path):
    folder = recordings.make_run(tmp_path, "adult.csv")
    recordings.Recorder(folder).write(*recordings.finished())
    app = ReplayApp(folder, 10_000.0, runs_dir=tmp_path)
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        driver = Driver(app, pilot, recordings.Recorder(folder), FakeProcess())
        await driver.until(lambda: app.snapshot().state.finished is not None)
        await driver.sees("Leaderboard", "CatBoost")
        app.finish()
        await driver.until(lambda: any("This is a replay" in toast for toast in driver.toasts()))
        assert driver.commands() == []
        await driver.press("q")
        await driver.until(lambda: not app.is_running)


async def test_v_replays_a_run_in_about_half_a_minute(tmp_path, monkeypatch):
    done, _ = other_runs(tmp_path)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await at_runs(driver)
        await put_cursor_on(driver, done)
        await driver.press("v")
        await driver.until(lambda: driver.app.opened is not None)
        assert driver.app.opened == Opened(done, start_engine=False, replay=4.0)
    assert [runs_screen.replay_speed(seconds) for seconds in (0, 30, 120, 3600)] == [1, 1, 4, 128]


async def test_a_run_that_never_began_has_no_replay(tmp_path, monkeypatch):
    unstarted = recordings.make_run(tmp_path, "wine.csv")
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await at_runs(driver, 2)
        await put_cursor_on(driver, unstarted)
        await driver.press("v")
        await driver.until(lambda: any("has no events to replay" in toast for toast in driver.toasts()))
        assert driver.app.opened is None


async def test_enter_on_the_present_run_goes_to_its_leaderboard(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await at_runs(driver, 1)
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, RunningView))
        assert driver.app.opened is None


def test_the_app_is_run_again_for_a_run_that_was_opened(tmp_path, monkeypatch):
    done, stopped = other_runs(tmp_path)
    shown: list[tuple[str, type[TabappApp]]] = []

    def run(app: TabappApp) -> None:
        shown.append((app.folder.run, type(app)))
        if len(shown) == 1:
            app.opened = Opened(stopped, start_engine=True, resumed=True)
        elif len(shown) < 4:
            app.opened = Opened(done, start_engine=False, replay=2.0 if len(shown) == 2 else None)

    monkeypatch.setattr(TabappApp, "run", run)
    ended = show_runs(done, runs_dir=tmp_path, start_engine=False)
    assert [run.folder for run in ended] == [done, stopped, done, done]
    assert ended[-1].exit_code == 0
    assert shown == [
        (done.run, AttachedApp), (stopped.run, ResumedApp), (done.run, ReplayApp), (done.run, AttachedApp)
    ]  # fmt: skip
    assert ResumedApp.DEFAULT_MODE == "run", "a resumed run shows its leaderboard"


async def test_resuming(tmp_path, monkeypatch):
    done, stopped = other_runs(tmp_path)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True, engine_runs=False) as driver:
        await driver.press("escape")
        await at_runs(driver)
        await put_cursor_on(driver, done)
        await driver.press("r")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        await driver.sees("Continue the run with more time", "10m")
        await driver.press("escape")
        await put_cursor_on(driver, stopped)
        assert not stopped.config().start
        await driver.press("r")
        await driver.until(lambda: driver.app.opened == Opened(stopped, start_engine=True, resumed=True))
        assert stopped.config().start


async def test_a_run_at_work_is_neither_resumed_nor_deleted(tmp_path, monkeypatch):
    done, stopped = other_runs(tmp_path)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True, engine_runs=True) as driver:
        await at_runs(driver)
        await put_cursor_on(driver, done)
        await driver.press("r")
        await driver.until(lambda: any("another process is analyzing it" in toast for toast in driver.toasts()))
        await put_cursor_on(driver, stopped)
        await driver.press("r")
        await driver.until(lambda: any("is running in another process" in toast for toast in driver.toasts()))
        await put_cursor_on(driver, done)
        await driver.press("D")
        await driver.until(lambda: any("finish it before you delete it" in toast for toast in driver.toasts()))
        assert done.path.exists()
        assert not isinstance(driver.app.screen, Decision)


@pytest.mark.parametrize("size", SIZES)
async def test_deleting_asks_first_and_never_takes_the_present_run(tmp_path, monkeypatch, size):
    done, stopped = other_runs(tmp_path)
    done.bundle.write_bytes(b"a bundle")
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True, engine_runs=False) as driver:
        await driver.press("escape")
        await at_runs(driver)
        await put_cursor_on(driver, driver.folder)
        await driver.press("D")
        await driver.sees("This run is open")
        await put_cursor_on(driver, done)
        await driver.press("D")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.sees("undone.", "Its bundle goes too")
        await driver.press("escape")
        assert done.path.exists()
        await driver.press("D", "enter")
        assert done.path.exists(), "the cursor is on Cancel"
        await driver.press("D", "y")
        await driver.until(lambda: len(runs_of(driver).rows) == 2 and not done.path.exists())
        assert stopped.path.exists()
        assert driver.folder.path.exists()


async def test_filter_sort_and_copy(tmp_path, monkeypatch):
    done, stopped = other_runs(tmp_path)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True, engine_runs=False) as driver:
        await driver.press("escape")
        await at_runs(driver)
        await driver.press("slash")
        await driver.paste("status:ok best>.8")
        await driver.press("enter")
        await driver.until(lambda: [row.key for row in runs_of(driver).rows] == [done.run])
        await driver.press("slash", "escape", "s")
        await driver.sees("sorted by best")
        assert runs_of(driver).rows[-1].key == stopped.run, "the shortest run has the lowest score"
        await put_cursor_on(driver, done)
        await driver.press("y")
        assert driver.app.clipboard == f"tabapp attach {done.argument}"


async def test_a_run_that_comes_later_is_found(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await at_runs(driver, 1)
        recordings.Recorder(recordings.make_run(tmp_path, "late.csv")).write(ev.RunStarted(
            run="late", name="", data="late.csv", pid=1, seed=0, budget=None, version="0.1.0"))  # fmt: skip
        await driver.press("f5")
        await driver.until(lambda: len(runs_of(driver).rows) == 2)
        await driver.sees("late.csv")


@pytest.mark.parametrize("name", NAMES)
def test_the_bests_of_a_recorded_run_only_get_better(tmp_path, name):
    folder = make_run(tmp_path, name)
    ReplayWorker(folder, events_of(name)).play_all()
    facts = describe_run(folder)
    bests = facts.history if facts.greater_is_better else tuple(-best for best in facts.history)
    assert len(bests) > 1
    assert list(bests) == sorted(set(bests))
    last = facts.best if facts.greater_is_better else -facts.best
    assert bests[-1] >= last, "an ensemble that is selected anew may be a little worse"


async def test_labels_are_written_with_keys_and_found_by_the_filter(tmp_path, monkeypatch):
    done, _ = other_runs(tmp_path)
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await at_runs(driver)
        await put_cursor_on(driver, done)
        for key, words in (("f2", "long shot"), ("number_sign", "#trees slow"), ("N", "kept for the report")):
            await driver.press(key)
            await driver.until(lambda: isinstance(driver.app.screen, Ask))
            driver.app.screen.query_one(Input).value = words
            await driver.press("enter")
            await driver.until(lambda: not isinstance(driver.app.screen, Ask))
        await driver.press("asterisk")
        await driver.sees("long shot", "#trees #slow", "kept for the report")
        await driver.until(lambda: runs_of(driver).rows[0].key == done.run)
        assert read_labels(done.path) == RunLabels(
            name="long shot", note="kept for the report", tags=("trees", "slow"), pinned=True
        )
        await driver.press("slash")
        await driver.paste("tag:slow name:long")
        await driver.press("enter")
        await driver.until(lambda: [row.key for row in runs_of(driver).rows] == [done.run])
        (done.path / "labels.json").write_text('{"nmae": ""}')
        await driver.press("asterisk")
        await driver.until(lambda: any("did you mean 'name'" in toast for toast in driver.toasts()))
        assert "nmae" in (done.path / "labels.json").read_text()


async def test_three_marked_runs_are_drawn_together_at_every_width(tmp_path, monkeypatch):
    done, stopped = other_runs(tmp_path)
    async with drive(tmp_path, monkeypatch, recordings.running(), size=(80, 24), attach=True) as driver:
        await at_runs(driver)
        assert not driver.app.screen.query_one(RunPreview).display
        for folder in (done, stopped, driver.folder):
            await put_cursor_on(driver, folder)
            await driver.press("space")
        await driver.sees("3 marked", "Scores of 3 marked runs", *(f"{n} ━" for n in (1, 2, 3)), "different tables")
        await driver.press("U")
        await driver.until(lambda: not driver.app.screen.query_one(RunPreview).display)
        await driver.pilot.resize_terminal(120, 36)
        await driver.sees("File    titanic.csv › Survived", "Bundle  none")
