"""The interface of the app for screens and for the parts of a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from textual.screen import Screen
from textual.worker import Worker

from tabapp.run.options.config import RunConfig
from tabapp.run.options.settings import Settings
from tabapp.run.record.commands import AnyCommand
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.state import RunState
from tabapp.tui.session.analysis_queue import AnalysisQueue
from tabapp.tui.session.engine_handle import EngineHandle
from tabapp.tui.session.plan_changes import Answered, PlanChanges
from tabapp.tui.session.preferences import Preferences
from tabapp.tui.viewmodels.texts import Snapshot


class Host(Protocol):
    """The app on a run, without its implementation, so that nothing below the app imports it."""

    folder: RunFolder
    runs_dir: Path
    config: RunConfig
    is_own: bool
    settings: Settings
    preferences: Preferences
    planning: PlanChanges
    engine: EngineHandle
    analyses: AnalysisQueue

    @property
    def chosen_model(self) -> str | None:
        """The model under the cursor of the shown target, shared by the screens that have one."""
        ...

    @chosen_model.setter
    def chosen_model(self, model: str | None) -> None: ...

    @property
    def trouble(self) -> str | None:
        """A sentence about an engine that has stopped; None while it works."""
        ...

    @property
    def whole_state(self) -> RunState:
        """The state of the whole run, whichever target is shown."""
        ...

    @property
    def run_of_target(self) -> RunFolder:
        """The folder of the run of the shown target."""
        ...

    @property
    def current_mode(self) -> str:
        """The name of the screen that is shown, such as "run"."""
        ...

    @property
    def is_free(self) -> bool:
        """Whether no dialog is open and no text is typed, so that a dialog may open by itself."""
        ...

    def snapshot(self) -> Snapshot:
        """The data to draw now."""
        ...

    def send(self, command: AnyCommand) -> None:
        """Send a command to the engine."""
        ...

    def start_run(self) -> None:
        """Start the run as planned, or once there is a plan."""
        ...

    def cancel_start(self) -> None:
        """Withdraw a start that waits for the plan."""
        ...

    def change_plan(self, options: dict[str, Any], answered: Answered | None = None) -> None:
        """Ask the engine for a different plan. `answered` receives why it is refused, or an empty text."""
        ...

    def undo_plan(self) -> bool:
        """Ask the engine to undo the last change of the plan; returns whether there is one."""
        ...

    def finish(self) -> None:
        """Stop fitting and save the best models so far."""
        ...

    def open_run(self, folder: RunFolder, *, start_engine: bool, resumed: bool = False) -> None:
        """Leave this run for another one, or for this one with a new engine."""
        ...

    def open_replay(self, folder: RunFolder, speed: float) -> None:
        """Leave this run for the replay of a run at a multiple of its speed."""
        ...

    def copy(self, text: str) -> None:
        """Copy a text to the clipboard and report where it went."""
        ...

    def flash(self) -> None:
        """Highlight a new best score for a second."""
        ...

    async def action_view(self, view: Any) -> None:
        """Switch to a screen."""
        ...

    async def go_to_model(self, model: str) -> None:
        """Show a model on the leaderboard."""
        ...

    def exit(self) -> None:
        """Close the app."""
        ...

    def bell(self) -> None:
        """Ring the terminal's bell."""
        ...

    def notify(self, message: str, *, title: str = ..., severity: Any = ..., timeout: float | None = ...) -> None:
        """Show a toast."""
        ...

    def push_screen(self, screen: Screen[Any], callback: Callable[[Any], Any] | None = None) -> Any:
        """Show a dialog and call back with its answer."""
        ...

    def run_worker(self, work: Any, *, exit_on_error: bool = ...) -> Worker[Any]:
        """Run a coroutine beside the app."""
        ...
