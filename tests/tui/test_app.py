"""The life of the app: the start of an engine, its end, attaching, leaving, crashing."""

from __future__ import annotations

import msgspec
import pytest
from textual.widgets import Input

from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder
from tabapp.tui.app import AttachedApp
from tabapp.tui.browse import Shown, show_runs
from tabapp.tui.dialogs.basic import Ask, Choice, Decision
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


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_a_program_that_reads_a_file_is_left_at_once(tmp_path, monkeypatch, key):
    async with drive(tmp_path, monkeypatch, recordings.opening()[:2]) as driver:
        await driver.press(key)
        await driver.until(lambda: not driver.app.is_running)


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


async def test_the_line_of_a_small_terminal_has_the_best_score_of_a_killed_run(tmp_path, monkeypatch):
    events = recordings.running()
    async with drive(tmp_path, monkeypatch, events, size=(110, 12), attach=True, engine_runs=False) as driver:
        await driver.until(lambda: driver.app.trouble is not None)
        best = driver.app.snapshot().state.best
        assert best is not None
        await driver.press("escape")
        await driver.sees(f"✗ No engine is running for this run, and it has no result. · {best.score:.4f} {best.title}")


async def test_an_exit_code_of_the_engine_is_the_commands(tmp_path, monkeypatch):
    failed = ev.RunFinished(
        t=recordings.START + 9, status="failed", run="r", bundle=None, task=None, target=None, metric=None,
        greater_is_better=None, best=None, test_score=None, seconds=9.0, leaderboard=(), importances=(), agreement={},
        exit_code=3, message="The file holds a header only.",
    )  # fmt: skip
    async with drive(tmp_path, monkeypatch, [recordings.opening()[0]]) as driver:
        await driver.write(failed)
        await driver.sees("✗ failed", "The file holds a header only.")
        await driver.press("q")
    assert driver.app.exit_code == 3


async def test_a_killed_engine_offers_to_resume_by_a_key(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), engine_runs=False) as driver:
        driver.folder.log.write_text("line one\nMemoryError in the engine\n")
        await driver.press("1")
        driver.process.returncode = -9
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.sees("SIGKILL", "MemoryError in the engine", "Resume now", "Show the log", "Quit")
        assert "tabapp resume" not in driver.text()
        await driver.press("8")
        await driver.until(lambda: driver.app.screen.VIEW == "log")
        await driver.press("1")
        best = f"{driver.app.snapshot().state.best.score:.4f}"
        await driver.sees(
            f"✗ the engine has stopped · best {best} (",
            "r Resume",
            "n New run",
            "─ Result ─",
            "Interrupted",
            "r resume",
        )
        await driver.press("escape")
        await driver.sees("─ Now ─", "The engine has stopped; r resumes the run.")
        assert "workers busy" not in driver.text()
        assert "F Finish" not in driver.text()
        assert "p Pause" not in driver.text()
        await driver.press("r")
        await driver.until(lambda: driver.app.opened is not None)
        assert driver.app.opened == Opened(driver.folder, start_engine=True, resumed=True)
        assert driver.folder.config().start
        assert driver.commands() == []
    assert driver.app.exit_code == 1


async def test_an_engine_that_dies_before_the_start_is_started_again_without_the_run(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        driver.process.returncode = 1
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.press("r")
        await driver.until(lambda: driver.app.opened is not None)
        assert driver.app.opened == Opened(driver.folder, start_engine=True)
        assert not driver.folder.config().start


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


async def test_the_command_in_the_quit_dialog_names_another_folder_of_runs(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("q")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        shown = " ".join(driver.text().split())
        assert f"tabapp attach {driver.folder.short_id} --runs-dir" in shown
        await driver.press("escape")
        monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path))
        await driver.press("q")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        assert "--runs-dir" not in driver.text()


async def test_start_is_not_offered_once_the_run_has_started(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("2")
        await driver.until(lambda: driver.app.screen.VIEW == "data")
        await driver.pilot.pause()
        assert not driver.app.screen.query_one("#start").display
        assert "Start" not in driver.text()


async def test_an_attached_run_without_an_engine_offers_to_resume(tmp_path, monkeypatch):
    events = recordings.running()
    async with drive(tmp_path, monkeypatch, events, attach=True, engine_runs=False) as driver:
        await driver.sees("No engine is running for this run", "Resume now")
        await driver.press("escape", "q")
    assert driver.app.exit_code == 1


@pytest.mark.parametrize("keys", [["question_mark"], ["slash", "r"]], ids=["a dialog", "a filter"])
async def test_a_dialog_that_opens_by_itself_waits_until_it_can_take_the_keys(tmp_path, monkeypatch, keys):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press(*keys)
        await driver.until(lambda: not driver.app.is_free)
        shown = driver.app.screen
        monkeypatch.setattr(RunFolder, "is_running", lambda self: False)
        await driver.until(lambda: driver.app.trouble is not None)
        for _ in range(3):
            driver.app.draw_changes()
            await driver.pilot.pause()
        assert driver.app.screen is shown
        await driver.press("escape")
        await driver.sees("The engine has stopped", "Resume now")
        assert isinstance(driver.app.screen, Decision)


async def test_a_dialog_about_a_stopped_engine_is_dropped_if_it_works_again(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("question_mark")
        await driver.until(lambda: not driver.app.is_free)
        monkeypatch.setattr(RunFolder, "is_running", lambda self: False)
        await driver.until(lambda: driver.app.trouble is not None)
        monkeypatch.setattr(RunFolder, "is_running", lambda self: True)
        await driver.until(lambda: driver.app.trouble is None)
        await driver.press("escape")
        await driver.until(lambda: driver.app.is_free)
        driver.app.draw_changes()
        await driver.pilot.pause()
        assert driver.app.is_free


async def test_an_engine_that_cannot_start_shows_the_error(tmp_path, monkeypatch):
    error = OSError(12, "Cannot allocate memory")
    async with drive(tmp_path, monkeypatch, [], start_error=error, engine_runs=False) as driver:
        await driver.sees("The engine has stopped", "Cannot allocate memory")
        await driver.press("escape")
        await driver.sees("✗ the engine has stopped")


@pytest.mark.parametrize(
    ("key", "commands", "exit_code"), [("b", [], 0), ("d", ["abort"], 130), ("f", ["finish"], 0), ("escape", [], None)]
)
async def test_quitting_a_run_in_progress_asks_what_to_do(tmp_path, monkeypatch, key, commands, exit_code):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("q")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.sees("Run in progress", "62%", "best 0.8829", "~45s left", "tabapp attach titanic-")
        await driver.press(key)
        await driver.until(lambda: [command["command"] for command in driver.commands()] == commands)
        if key == "f":
            assert driver.app.is_running
            await driver.write(recordings.finished()[-1])
        if exit_code is None:
            await driver.until(lambda: isinstance(driver.app.screen, RunningView))
            assert driver.app.is_running
        else:
            await driver.until(lambda: not driver.app.is_running)
            assert driver.app.exit_code == exit_code


async def test_arrow_keys_choose_in_the_dialog(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True, size=NARROW) as driver:
        await driver.press("q", "down", "enter")
        assert [command["command"] for command in driver.commands()] == ["finish"]


async def test_the_question_is_up_to_date_while_it_is_open(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.running(), attach=True) as driver:
        await driver.press("q")
        await driver.sees("Run in progress", "best 0.8829", "Discard and quit")
        best = driver.app.snapshot().state.leaderboard[0]
        rows = (msgspec.structs.replace(best, score=0.9111), *driver.app.snapshot().state.leaderboard[1:])
        await driver.write(ev.LeaderboardChanged(rows=rows))
        await driver.sees("best 0.9111", "Discard and quit")
        await driver.write(recordings.finished()[-1])
        await driver.sees("The run has ended", "Quit", "Cancel")
        assert "left" not in driver.text().partition("The run has ended")[2].partition("Cancel")[0]
        assert "Discard and quit" not in driver.text()
        await driver.press("d")
        assert isinstance(driver.app.screen, Decision), "what is over cannot be discarded"
        await driver.press("enter")
        await driver.until(lambda: not driver.app.is_running)
        assert driver.commands() == []
    assert driver.app.exit_code == 0


async def test_quitting_before_the_start_ends_the_engine(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.opening()) as driver:
        await driver.press("q")
        assert [command["command"] for command in driver.commands()] == ["abort"]
        await driver.until(lambda: not driver.app.is_running)
        assert driver.process.terminated, "an engine that does not answer must not stay behind"
    assert driver.app.exit_code == 0


async def test_quitting_a_finished_run_asks_nothing(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished()) as driver:
        await driver.press("ctrl+c")
        await driver.until(lambda: not driver.app.is_running)
        assert driver.commands() == []


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
