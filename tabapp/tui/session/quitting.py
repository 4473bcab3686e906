"""Leaving the screen: what becomes of a run that is going on is the user's to say."""

from __future__ import annotations

import time
from pathlib import Path

from tabapp.run import commands as cmd
from tabapp.run.progress import progress_of
from tabapp.run.state import format_score
from tabapp.tui.chrome.actions import has_started, phase_of
from tabapp.tui.dialogs.basic import Decision, Option
from tabapp.tui.session.host import Host
from tabapp.tui.viewmodels.texts import clock_time, short_path

GRACE_SECONDS = 5.0
UNSTARTED_GRACE_SECONDS = 1.0


class Leaving:
    """Asks, tells the engine, and closes the app once the engine has done what was asked, or has had its time.

    Attributes:
        discarded: the user wants nothing of the run.
    """

    def __init__(self, app: Host, runs_dir: Path | None) -> None:
        self._app = app
        self._runs_dir = runs_dir
        self._leave_by: float | None = None
        self._dialog: Decision | None = None
        self.discarded = False

    def request(self) -> None:
        """Leave, or ask first what shall become of a run that is going on."""
        app = self._app
        state = app.snapshot().state
        if phase_of(state) == "during" and app.trouble is None:
            self._ask()
        elif not has_started(state) and app.engine.is_ours:
            app.send(cmd.Abort())
            self._leave_by = time.monotonic() + UNSTARTED_GRACE_SECONDS
        else:
            app.exit()

    def _ask(self) -> None:
        self._dialog = Decision(*self._question(), stay="Stay here")
        self._app.push_screen(self._dialog, self._decided)

    def ask_anew(self) -> None:
        """Bring an open question up to what has happened since it was asked."""
        if self._dialog is not None and self._dialog.is_mounted:
            self._dialog.ask(*self._question())

    def _question(self) -> tuple[str, str, list[Option]]:
        """A title, the figures of the run, and what can be done."""
        snapshot = self._app.snapshot()
        state, progress = snapshot.state, progress_of(snapshot.state, snapshot.now)
        going_on = phase_of(state) == "during" and self._app.trouble is None
        facts = [f"{progress.share:.0%}"] if going_on and progress is not None and progress.share is not None else []
        facts += [f"best {format_score(state.best.score)}"] if state.best is not None else []
        if going_on and progress is not None and progress.left is not None:
            facts.append(f"~{clock_time(progress.left)} left")
        if self._runs_dir is not None:
            facts.append(f"kept in {short_path(self._runs_dir)}")
        # The id without its date is enough to find the run by, and short enough to remember.
        attach = f"tabapp attach {self._app.folder.run.split('-', 2)[-1]}"
        if not going_on:
            title = "The run has ended" if state.finished is not None else "The engine has stopped"
            return title, " · ".join(facts), [Option("keep", "Leave", attach, "q")]
        options = [
            Option("keep", "Keep running in the background", attach, "k"),
            Option("finish", "Finish now", "stop, save the best as the bundle", "f"),
            Option("discard", "Discard and quit", "stop without a bundle", "d"),
        ]
        return "Run in progress", " · ".join(facts), options

    def _decided(self, answer: str | None) -> None:
        self._dialog = None
        match answer:
            case "keep":
                self._app.exit()
            case "finish":
                self._app.finish()
                self._leave_by = float("inf")
            case "discard":
                self._app.send(cmd.Abort())
                self.discarded = True
                self._leave_by = time.monotonic() + GRACE_SECONDS
            case _:
                pass

    def leave_if_over(self) -> None:
        """Close the app if it waits for the engine and that has ended, or its time is up."""
        if self._leave_by is None:
            return
        app = self._app
        ended = app.snapshot().state.finished is not None or app.engine.return_code is not None
        if ended or app.trouble is not None:
            app.exit()
        elif time.monotonic() > self._leave_by:
            app.engine.terminate()
            app.exit()
