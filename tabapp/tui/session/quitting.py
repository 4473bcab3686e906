"""Quitting the app: the user decides whether a run in progress continues, finishes or is discarded."""

from __future__ import annotations

import time

from tabapp.run.options.units import format_duration
from tabapp.run.record import commands as cmd
from tabapp.run.record.folder import with_runs_dir
from tabapp.run.texts.progress import progress_of
from tabapp.tui.chrome.actions import has_started, phase_of
from tabapp.tui.dialogs.basic import Decision, Option
from tabapp.tui.session.host import Host
from tabapp.tui.viewmodels.texts import best_text, count, short_command

GRACE_SECONDS = 5.0
UNSTARTED_GRACE_SECONDS = 1.0


class Quitting:
    """Asks what to do with the run, sends it to the engine, and exits once the engine is done or a grace period is over.

    Attributes:
        discarded: the user discarded the run.
    """

    def __init__(self, app: Host) -> None:
        self._app = app
        self._exit_by: float | None = None
        self._dialog: Decision | None = None
        self.discarded = False

    def request(self) -> None:
        """Exit, or ask what to do with a run in progress."""
        app = self._app
        state = app.whole_state
        if phase_of(state) == "during" and app.trouble is None:
            self._ask()
        elif not has_started(state) and app.engine.is_ours:
            app.send(cmd.Abort())
            self._exit_by = time.monotonic() + UNSTARTED_GRACE_SECONDS
        elif pending := app.analyses.pending:
            self._ask_about_analyses(len(pending))
        else:
            app.exit()

    def _ask_about_analyses(self, number: int) -> None:
        message = f"{count(number, 'analysis', 'analyses')} asked for on screen 9 would have no result."
        options = [Option("quit", "Quit and drop them", key="q")]
        dialog = Decision("Analyses are not done", message, options, stay="Stay")
        self._app.push_screen(dialog, lambda answer: self._app.exit() if answer else None)

    def _ask(self) -> None:
        self._dialog = Decision(*self._question(), stay="Cancel")
        self._app.push_screen(self._dialog, self._on_answer)

    def update_question(self) -> None:
        """Update an open dialog to the current state of the run."""
        if self._dialog is not None and self._dialog.is_mounted:
            self._dialog.ask(*self._question())

    def _question(self) -> tuple[str, str, list[Option]]:
        """Title, facts and options of the dialog."""
        state = self._app.whole_state
        progress = progress_of(state, self._app.snapshot().now)
        in_progress = phase_of(state) == "during" and self._app.trouble is None
        facts = [f"{progress.share:.0%}"] if in_progress and progress is not None and progress.share is not None else []
        facts += [f"best {best_text(state)}"] if state.best is not None else []
        if in_progress and progress is not None and progress.left is not None:
            facts.append(f"~{format_duration(int(progress.left))} left")
        if pending := self._app.analyses.pending:
            facts.append(f"{count(len(pending), 'queued analysis', 'queued analyses')} would be dropped")
        # The id without its date identifies the run and is easy to remember. The message wraps a command of any length.
        attach = with_runs_dir(f"tabapp attach {self._app.folder.short_id}", self._app.folder.path.parent)
        message = "\n".join([*([" · ".join(facts)] if facts else []), f"{short_command(attach)} returns to it."])
        if not in_progress:
            title = "The run has ended" if state.finished is not None else "The engine has stopped"
            return title, message, [Option("keep", "Quit", "", "q")]
        options = [
            Option("keep", "Keep running in the background", "", "b"),
            Option("finish", "Finish now", "stop fitting and save the bundle", "f", dangerous=True),
            Option("discard", "Discard and quit", "stop the run without a bundle", "d", dangerous=True),
        ]
        return "Run in progress", message, options

    def _on_answer(self, answer: str | None) -> None:
        self._dialog = None
        match answer:
            case "keep":
                self._app.exit()
            case "finish":
                if self._app.whole_state.targets:
                    # Finishing ends the fits of one target only.
                    self._app.send(cmd.Interrupt())
                else:
                    self._app.finish()
                self._exit_by = float("inf")
            case "discard":
                self._app.send(cmd.Abort())
                self.discarded = True
                self._exit_by = time.monotonic() + GRACE_SECONDS
            case _:
                pass

    def exit_if_over(self) -> None:
        """Exit if the engine for which the app waits has ended, or if its grace period is over."""
        if self._exit_by is None:
            return
        app = self._app
        ended = app.whole_state.finished is not None or app.engine.return_code is not None
        if ended or app.trouble is not None:
            app.exit()
        elif time.monotonic() > self._exit_by:
            app.engine.terminate()
            app.exit()
