"""Shows the front door and runs one after another, since each screen can open another run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tabapp.run.options.settings import Settings
from tabapp.run.record.folder import RunFolder
from tabapp.tui.app import AttachedApp, ResumedApp, TabappApp
from tabapp.tui.hangup import ending_with_the_terminal
from tabapp.tui.replay import ReplayApp
from tabapp.tui.session.opened import Opened


@dataclass(frozen=True)
class Shown:
    """A run that was shown, whether its engine was started, and the exit code for the command."""

    folder: RunFolder
    start_engine: bool
    exit_code: int


def show_door(*, runs_dir: Path, settings: Settings) -> list[Shown]:
    """Show the front door and the runs opened from it until the user quits; returns them in the order shown.

    Raises:
        TabappError: the folder of the chosen run cannot be read.
    """
    from tabapp.tui.door.app import DoorApp

    with ending_with_the_terminal():
        door = DoorApp(runs_dir=runs_dir, settings=settings)
        door.run()
        return [] if door.opened is None else _show(door.opened, runs_dir, settings)


def show_runs(
    folder: RunFolder,
    *,
    runs_dir: Path,
    start_engine: bool,
    resumed: bool = False,
    settings: Settings | None = None,
    replay: float | None = None,
) -> list[Shown]:
    """Show a run and the runs opened from it until the user quits; returns them in the order shown.

    Args:
        runs_dir: the folder of the run, for suggested commands.
        settings: the user's configuration.
        start_engine: start the engine of a new run; False watches a run whose engine runs elsewhere or has ended.
        resumed: show the leaderboard first, not the plan.
        replay: replay the first run at this multiple of its speed.

    Raises:
        TabappError: the run folder cannot be read.
    """
    with ending_with_the_terminal():
        return _show(Opened(folder, start_engine, resumed, replay), runs_dir, settings)


def _show(opened: Opened, runs_dir: Path, settings: Settings | None) -> list[Shown]:
    shown: list[Shown] = []
    while True:
        folder = opened.folder
        if opened.replay is not None:
            app = ReplayApp(folder, opened.replay, runs_dir=runs_dir, settings=settings)
        else:
            kind = AttachedApp if not opened.start_engine else ResumedApp if opened.resumed else TabappApp
            app = kind(folder, runs_dir=runs_dir, settings=settings)
        app.run()
        shown.append(Shown(folder, opened.start_engine, app.return_code or app.exit_code))
        if app.opened is None:
            return shown
        opened = app.opened
