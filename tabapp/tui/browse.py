"""Shows runs one after another, since the Runs screen can open another run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tabapp.run.options.settings import Settings
from tabapp.run.record.folder import RunFolder
from tabapp.tui.app import AttachedApp, TabappApp
from tabapp.tui.hangup import ending_with_the_terminal
from tabapp.tui.replay import ReplayApp


@dataclass(frozen=True)
class Shown:
    """A run that was shown, whether its engine was started, and the exit code for the command."""

    folder: RunFolder
    start_engine: bool
    exit_code: int


def show_runs(
    folder: RunFolder,
    *,
    runs_dir: Path,
    start_engine: bool,
    settings: Settings | None = None,
    replay: float | None = None,
) -> list[Shown]:
    """Show a run and the runs opened from it until the user quits; returns them in the order shown.

    Args:
        runs_dir: the folder of the run, for suggested commands.
        settings: the user's configuration.
        start_engine: start the engine of a new run; False watches a run whose engine runs elsewhere or has ended.
        replay: replay the first run at this multiple of its speed.

    Raises:
        TabappError: the run folder cannot be read.
    """
    with ending_with_the_terminal():
        shown: list[Shown] = []
        while True:
            if replay is not None:
                app = ReplayApp(folder, replay, runs_dir=runs_dir, settings=settings)
                replay = None
            else:
                app = (TabappApp if start_engine else AttachedApp)(folder, runs_dir=runs_dir, settings=settings)
            app.run()
            shown.append(Shown(folder, start_engine, app.return_code or app.exit_code))
            if app.opened is None:
                return shown
            folder, start_engine = app.opened.folder, app.opened.start_engine
