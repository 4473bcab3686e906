"""The life of the app: the start of a run, its end, what follows it, attaching, crashing."""

from __future__ import annotations

import msgspec
import pytest
from textual.widgets import Input

from tabapp.run.record.folder import RunFolder
from tabapp.tui.app import AttachedApp
from tabapp.tui.browse import Shown, show_runs
from tabapp.tui.dialogs.basic import Ask, Choice
from tabapp.tui.parts.lines import Tabs
from tabapp.tui.screens.data import DataView
from tabapp.tui.screens.diagnose import DiagnoseView
from tabapp.tui.screens.explain import ExplainView
from tabapp.tui.screens.log import LogView
from tabapp.tui.screens.models import ModelsView
from tabapp.tui.screens.run import RunningView
from tabapp.tui.screens.runs import RunsView
from tabapp.tui.screens.tuning import TuningView
from tabapp.tui.session.opened import Opened
from tests.tui import recordings
from tests.tui.driver import NARROW, SIZES, WIDE, drive


async def test_the_first_frame_names_the_file_before_anything_is_read(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, []) as driver:
        await driver.sees("titanic.csv", "starting…", "Reading the file…")
        await driver.write(*recordings.opening()[:2])
        await driver.sees("reading…")


async def test_ctrl_r_starts_the_run_and_shows_it_once_it_has_begun(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        assert isinstance(driver.app.screen, DataView)
        await driver.press("ctrl+r")
        assert driver.commands() == [{"command": "start"}]
        await driver.sees("starting the run…")
        await driver.press("ctrl+r")
        assert driver.commands() == [{"command": "start"}], "a second press must not send it again"
        assert isinstance(driver.app.screen, DataView)
        await driver.write(*recordings.running()[len(recordings.opening()) :][:3])
        await driver.until(lambda: isinstance(driver.app.screen, RunningView))


async def test_the_start_button_takes_enter(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.app.screen.query_one("#start").focus()
        await driver.press("enter")
        assert driver.commands() == [{"command": "start"}]


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_digits_go_to_the_screens(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size) as driver:
        views = (RunningView, DataView, ModelsView, TuningView, ExplainView, RunsView, LogView, DiagnoseView)
        for key, view in zip("12345789", views, strict=True):
            await driver.press(key)
            await driver.until(lambda view=view: isinstance(driver.app.screen, view))


async def test_digits_before_there_is_a_plan_stay_on_the_data_screen(tmp_path, monkeypatch):
    """They are meant for the dialog of a key such as b, which opens only once there is a plan."""
    opening = recordings.opening()
    async with drive(tmp_path, monkeypatch, opening[:-2]) as driver:
        await driver.until(lambda: driver.app.snapshot().state.schema is not None)
        await driver.press("b", *"123456789", "m")
        await driver.until(lambda: any("digits open the other screens" in toast for toast in driver.toasts()))
        assert isinstance(driver.app.screen, DataView)
        tabs = driver.app.screen.query_one(Tabs)
        await driver.pilot.click(tabs, offset=(tabs.render_line(0).text.index("Log"), 0))
        await driver.until(lambda: isinstance(driver.app.screen, LogView))
        await driver.press("2")
        await driver.until(lambda: isinstance(driver.app.screen, DataView))
        await driver.write(*opening[-2:])
        await driver.press("5")
        await driver.until(lambda: isinstance(driver.app.screen, ExplainView))


async def test_a_message_is_shown_once_however_often_its_key_is_pressed(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("u", "u", "u")
        await driver.until(driver.toasts)
        await driver.pilot.pause()
        assert driver.toasts() == [" There is no change of the plan to undo."]
        driver.app.clear_notifications()
        await driver.press("u")
        await driver.until(driver.toasts)


@pytest.mark.parametrize(
    ("events", "size"),
    [
        pytest.param(recordings.opening, WIDE, marks=pytest.mark.slow),
        pytest.param(recordings.opening, NARROW, marks=pytest.mark.slow),
        pytest.param(recordings.running, WIDE, marks=pytest.mark.slow),
        (recordings.running, (60, 16)),
        pytest.param(recordings.finished, NARROW, marks=pytest.mark.slow),
        (recordings.finished, (200, 60)),
    ],
)
async def test_every_screen_shows_its_essentials_at_every_size(tmp_path, monkeypatch, size, events):
    async with drive(tmp_path, monkeypatch, events(), size=size, attach=True) as driver:
        for key, tab, essentials in (
            ("1", "Run", ["Leaderboard"]),
            ("2", "Data", ["Survived", "Plan"]),
            ("3", "Models", ["Folds", "space compares"]),
            ("4", "Tuning", ["Trials · all models"]),
            ("5", "Explain", ["Importance"]),
            ("7", "Runs", ["Best", "titanic"]),
            ("8", "Log", ["Log · everything"]),
        ):
            await driver.press(key)
            tabs = ["1 Run", "2 Data", "5 Explain", "8 Log"] if size[0] >= 80 else [f"{key} {tab}"]
            await driver.sees("titanic.csv", *tabs, "q Quit", *essentials)
            lines = driver.text().splitlines()
            assert len(lines) <= size[1]
            assert all(len(line) <= size[0] for line in lines)


@pytest.mark.parametrize("size", [(40, 10), (59, 30), (120, 15)])
async def test_a_small_terminal_shows_one_line(tmp_path, monkeypatch, size):
    async with drive(tmp_path, monkeypatch, recordings.running(), size=size, attach=True) as driver:
        await driver.sees("titanic.csv · 62%")
        assert [line for line in driver.text().splitlines() if line.strip()] == [driver.text().splitlines()[0]]
        await driver.pilot.resize_terminal(*NARROW)
        await driver.sees("Leaderboard", "CatBoost")


async def test_the_end_of_the_run_shows_the_next_steps(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running()) as driver:
        await driver.press("3")
        await driver.write(msgspec.structs.replace(recordings.finished()[-1], message="", bundle="b.tabapp"))
        await driver.until(lambda: any("The run has ended" in toast for toast in driver.toasts()))
        toast = next(toast for toast in driver.toasts() if "The run has ended" in toast)
        assert "★ Ensemble  0.8829" in toast
        assert "Press e to export the bundle" in toast


async def test_attaching_to_a_finished_run_shows_its_result(tmp_path, monkeypatch):
    events = recordings.finished()
    async with drive(tmp_path, monkeypatch, events, attach=True, engine_runs=False) as driver:
        await driver.sees("✓ done in 1m 56s", "★ Ensemble", "CatBoost", "Sex")
        assert driver.app.trouble is None
        await driver.press("q")
    assert driver.app.exit_code == 0


@pytest.mark.parametrize("size", SIZES)
async def test_the_header_of_a_run_that_was_discarded_has_its_best_score(tmp_path, monkeypatch, size):
    """Its last event has no best model, since nothing was exported."""
    end = msgspec.structs.replace(
        recordings.finished()[-1], t=recordings.START + 76, status="interrupted", best=None, leaderboard=(), bundle=None
    )
    async with drive(tmp_path, monkeypatch, [*recordings.running(), end], size=size, attach=True) as driver:
        best = driver.app.snapshot().state.best
        assert best is not None
        await driver.sees(f"■ stopped in 1m 56s · best {best.score:.4f}")


async def test_a_plan_of_an_earlier_engine_is_not_changed_before_the_new_one_has_read_the_table(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, [], earlier=recordings.opening()) as driver:
        await driver.press("b")
        await driver.sees("starting", "The plan appears here once the file is read.")
        assert driver.commands() == []
        await driver.write(*recordings.opening())
        await driver.press("b")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))


async def test_a_run_that_has_ended_continues_with_more_time(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished(), attach=True) as driver:
        monkeypatch.setattr(RunFolder, "is_running", lambda self: False)
        await driver.press("1")
        await driver.sees("+ More")
        await driver.press("plus")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        await driver.press(*"90s", "enter")
        await driver.until(lambda: driver.app.opened is not None)
        assert driver.app.opened == Opened(driver.folder, start_engine=True, resumed=True)
        config = driver.folder.config()
        assert config.start
        assert config.budget is not None
        assert config.budget > 90, "the time used so far is added"


async def test_a_run_without_a_time_limit_continues_with_more_trials(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished(), attach=True) as driver:
        monkeypatch.setattr(RunFolder, "is_running", lambda self: False)
        driver.folder.save_config(msgspec.structs.replace(driver.folder.config(), budget=None, trials=3))
        await driver.press("1", "plus")
        await driver.until(lambda: isinstance(driver.app.screen, Ask))
        driver.app.screen.query_one(Input).value = "3"
        await driver.press("enter")
        await driver.sees("Type a number above 3")
        driver.app.screen.query_one(Input).value = "5"
        await driver.press("enter")
        await driver.until(lambda: driver.app.opened is not None)
        assert driver.folder.config().trials == 5


async def test_n_opens_a_new_run_with_all_options_and_leaves_this_one_alone(tmp_path, monkeypatch):
    table = tmp_path / "titanic.csv"
    table.write_text("a,Survived\n1,0\n")
    async with drive(tmp_path, monkeypatch, recordings.finished(), attach=True, data=str(table)) as driver:
        options = {"target": "Survived", "group": "a", "kinds": {"a": "text"}, "models": ("catboost",), "seed": 7}
        given = msgspec.structs.replace(driver.folder.config(), **options, name="first", out=str(tmp_path / "m.tabapp"))
        driver.folder.save_config(given)
        await driver.press("1", "n")
        await driver.until(lambda: driver.app.opened is not None)
        opened = driver.app.opened
        assert (opened.start_engine, opened.resumed) == (True, False)
        assert opened.folder.path.parent == driver.app.runs_dir
        assert opened.folder != driver.folder
        assert opened.folder.config() == msgspec.structs.replace(given, start=False, name=None, out=None)
        assert driver.folder.config() == given


async def test_a_plan_whose_table_is_gone_is_not_cloned(tmp_path, monkeypatch):
    async with drive(
        tmp_path, monkeypatch, recordings.finished(), attach=True, data=str(tmp_path / "gone.csv")
    ) as driver:
        await driver.press("1", "n")
        await driver.until(lambda: any("is no longer there. Press o" in toast for toast in driver.toasts()))
        assert driver.app.opened is None


async def test_start_is_not_offered_once_the_run_has_started(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("2")
        await driver.until(lambda: driver.app.screen.VIEW == "data")
        await driver.pilot.pause()
        assert not driver.app.screen.query_one("#start").display
        assert "Start" not in driver.text()


async def test_a_crash_leaves_a_report_without_local_variables(tmp_path, monkeypatch, capsys):
    def fail(self) -> None:
        secret_cell = "a value of the user's data"
        raise RuntimeError(f"broken {len(secret_cell)}")

    monkeypatch.setattr(RunningView, "redraw", fail)
    folder = recordings.make_run(tmp_path)
    app = AttachedApp(folder, runs_dir=tmp_path)

    async def until_it_breaks() -> None:
        async with app.run_test() as pilot:
            for _ in range(600):
                if app._exception is None:
                    await pilot.pause(0.05)

    with pytest.raises(RuntimeError, match="broken"):
        await until_it_breaks()
    assert app.return_code == 1
    report = (folder.path / "crash.txt").read_text()
    assert "RuntimeError: broken" in report
    assert "a value of the user's data" not in report.replace('secret_cell = "a value of the user\'s data"', "")


def test_showing_runs_returns_the_exit_code(tmp_path, monkeypatch):
    folder = recordings.make_run(tmp_path)
    recordings.Recorder(folder).write(*recordings.finished())

    def run(app: AttachedApp) -> None:
        assert isinstance(app, AttachedApp)

    monkeypatch.setattr(AttachedApp, "run", run)
    assert show_runs(folder, runs_dir=tmp_path, start_engine=False) == [Shown(folder, False, 0)]


async def test_each_new_best_is_shown_once(tmp_path, monkeypatch):
    events = recordings.running()
    async with drive(tmp_path, monkeypatch, events[:200], attach=True) as driver:
        await driver.press("3")
        assert not [toast for toast in driver.toasts() if "New best" in toast], "what was known before is no news"
        await driver.write(*events[200:])
        await driver.until(lambda: any("New best" in toast for toast in driver.toasts()))
        await driver.still()
        assert len([toast for toast in driver.toasts() if "New best" in toast]) == 1


async def test_no_message_covers_the_run_screen_where_the_same_is_written(tmp_path, monkeypatch):
    events = recordings.running()
    async with drive(tmp_path, monkeypatch, events[:200], attach=True) as driver:
        await driver.write(*events[200:])
        await driver.write(msgspec.structs.replace(recordings.finished()[-1], message="", bundle="b.tabapp"))
        await driver.until(lambda: driver.app.whole_state.finished)
        await driver.still()
        assert driver.toasts() == []
