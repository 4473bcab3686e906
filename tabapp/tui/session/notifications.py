"""Toasts and dialogs for a new best score, a refused plan, the end of the run and a stopped engine."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tabapp.run.protocol.client import log_tail
from tabapp.run.record import events as ev
from tabapp.run.record.score_text import score_with_folds
from tabapp.run.record.state import format_score
from tabapp.tui.chrome.actions import has_started
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Decision, Option, Reading
from tabapp.tui.session import next_run
from tabapp.tui.session.host import Host
from tabapp.tui.session.run_follower import RunFollower
from tabapp.tui.viewmodels.texts import model_name

TOAST_EVERY_SECONDS = 8.0
TAIL_LINES = 4


def _ending(event: ev.RunFinished) -> str:
    """The result of a run and the next steps."""
    if event.message:
        return event.message
    best = next((row for row in event.leaderboard if row.rank == 1), None)
    found = f"★ {model_name(best)}  {score_with_folds(best, event.planned_folds)}. " if best is not None else ""
    return found + (
        "Press e to export the bundle, or 6 to predict a file with it." if event.bundle else "There is no bundle."
    )


class Notifications:
    """Shows toasts and dialogs for events; a new best score at most every few seconds.

    Its dialogs open by themselves, so they wait until no other dialog is open and no text is typed, whose keys they would take.
    """

    def __init__(self, app: Host) -> None:
        self._app = app
        self._last_toast = -TOAST_EVERY_SECONDS
        self._bests_known: tuple[int | None, int] = (None, 0)
        """The place of the current target in a run with several, and the number of its best scores so far."""
        self._waiting: deque[Callable[[], Any]] = deque()

    def show_event(self, event: ev.AnyEvent) -> None:
        """Show a toast or a dialog for an event that needs attention."""
        match event:
            case ev.PlanRefused():
                self._app.notify(event.message, title="The plan is unchanged", severity="warning", timeout=8)
            case ev.RunFinished(status="failed"):
                text = Content.assemble(("✗ ", "bold $error"), event.message)
                self._open(lambda: self._app.push_screen(Reading("The run has failed", text)))
            case ev.RunFinished():
                if self._app.settings.bell:
                    self._app.bell()
                if event.status == "ok" and self._is_on_run():
                    return
                self._app.notify(
                    _ending(event),
                    title="The run has ended",
                    severity="information" if event.status == "ok" else "warning",
                    timeout=8,
                )
            case _:
                pass

    def show_best(self, following: RunFollower) -> None:
        """Show a new best score once, unless it was reached before this view caught up."""
        state = following.state
        (target, known), self._bests_known = self._bests_known, (state.target_index, len(state.history))
        best = state.best
        is_new = following.caught_up and target == state.target_index and len(state.history) > max(known, 1)
        if not is_new or best is None or time.monotonic() - self._last_toast < TOAST_EVERY_SECONDS:
            return
        self._last_toast = time.monotonic()
        if not self._is_on_run():
            self._app.notify(f"★ {model_name(best)}  {format_score(best.score)}", title="New best", timeout=3)
        self._app.flash()

    def _is_on_run(self) -> bool:
        """Whether the Run screen is shown, which repeats these messages in its events and its verdict."""
        return self._app.current_mode == "run"

    def show_trouble(self, trouble: str) -> None:
        """Show that the engine has stopped, and offer what can be done about it."""
        self._open(lambda: self._ask_about(trouble))

    def _open(self, dialog: Callable[[], Any]) -> None:
        self._waiting.append(dialog)
        self.open_waiting()

    def open_waiting(self) -> None:
        """Open the next dialog that waits, if it can take the keys."""
        if self._waiting and self._app.is_free:
            self._waiting.popleft()()

    def _ask_about(self, trouble: str) -> None:
        if self._app.trouble is None:  # Another process has resumed the run meanwhile.
            return
        tail = log_tail(self._app.folder.log, TAIL_LINES)
        said = f"\n\nThe end of its log:\n{tail}" if tail else ""
        started = has_started(self._app.whole_state)
        kept = "Completed fits are kept." if started else "The run has not started."
        resume = "continues from the last complete fit" if started else "reads the table again"
        dialog = Decision(
            "The engine has stopped",
            f"{trouble}\n{kept}{said}",
            [
                Option("resume", "Resume now", resume, "r"),
                Option("log", "Show the log", "", "8"),
                Option("quit", "Quit", "", "q"),
            ],
            stay="Look at the results so far" if started else "Look at the plan",
        )
        self._app.push_screen(dialog, self._on_trouble_answered)

    async def _on_trouble_answered(self, answer: str | None) -> None:
        match answer:
            case "resume" if has_started(self._app.whole_state):
                next_run.resume(self._app, self._app.folder)
            case "resume":
                # A plan that waits for its start is read again, not started.
                self._app.open_run(self._app.folder, start_engine=True)
            case "log":
                await self._app.action_view("log")
            case "quit":
                self._app.exit()
            case _:
                pass
