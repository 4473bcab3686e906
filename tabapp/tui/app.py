"""The terminal UI of a run: reads its events, draws its state, and sends its engine commands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App
from textual.binding import BindingType
from textual.command import Provider

from tabapp.errors import ExitCode
from tabapp.run import commands as cmd
from tabapp.run import events as ev
from tabapp.run.commands import AnyCommand
from tabapp.run.folder import RunFolder, default_runs_dir
from tabapp.run.settings import Settings
from tabapp.tui.chrome.actions import TABS, View, bindings_for, has_started, phase_of
from tabapp.tui.chrome.clipboard import copy
from tabapp.tui.chrome.crash_report import report_crash
from tabapp.tui.chrome.keymap import use_keys
from tabapp.tui.chrome.theme import use_theme
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.screens.base import RunView
from tabapp.tui.screens.data import DataView
from tabapp.tui.screens.registry import VIEWS
from tabapp.tui.session.bundle_export import ask_for_export
from tabapp.tui.session.engine_handle import EngineHandle
from tabapp.tui.session.notifications import News
from tabapp.tui.session.plan_changes import Planning
from tabapp.tui.session.quitting import Leaving
from tabapp.tui.session.run_follower import Following
from tabapp.tui.session.start_request import StartRequest
from tabapp.tui.viewmodels.texts import Snapshot

POLL_SECONDS = 0.1
FLUSH_SECONDS = 0.25
LIVENESS_SECONDS = 1.0


@dataclass(frozen=True)
class Opened:
    """A run to be shown next, and whether its engine is to be started."""

    folder: RunFolder
    start_engine: bool


def _action_provider() -> type[Provider]:
    from tabapp.tui.screens.palette import ActionProvider

    return ActionProvider


class TabappApp(App[None], inherit_bindings=False):
    """The app on a run whose engine it starts. Everything it shows comes from the run folder."""

    TITLE = "tabapp"
    COMMANDS: ClassVar = {_action_provider}
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for("everywhere")]
    MODES: ClassVar = VIEWS
    DEFAULT_MODE: ClassVar[str] = "data"
    STARTS_ENGINE: ClassVar[bool] = True
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-low"), (30, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        folder: RunFolder,
        *,
        runs_dir: Path,
        settings: Settings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(css_path=str(package_files("tabapp_assets") / "tabapp.tcss"))
        self.settings = settings or Settings()
        use_theme(self, self.settings)
        use_keys(self, self.settings)
        self.folder = folder
        self.runs_dir = runs_dir
        self.chosen_model: str | None = None
        """The model under the cursor of the last screen that has one; the other screens go along."""
        self.opened: Opened | None = None
        """Another run that the user wants to see; this app is left for it."""
        self.config = folder.config()
        self.planning = Planning(folder)
        self._following = Following(folder)
        self._clock = clock
        self.engine = EngineHandle(folder)
        self._leaving = Leaving(self, runs_dir if runs_dir != default_runs_dir() else None)
        self._start = StartRequest(self)
        self._news = News(self)

    # -- what the screens ask -------------------------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        """A sentence about an engine that is gone; None while all is well."""
        return self._following.trouble

    def snapshot(self) -> Snapshot:
        """Everything there is to draw now."""
        state, now = self._following.state, self._clock()
        moves = (
            phase_of(state) == "during" and not state.paused and self.trouble is None and self.animation_level != "none"
        )
        return Snapshot(
            state=state,
            now=now if self.trouble is None else state.time,
            file=Path(self.config.data).name,
            frame=int(now / FLUSH_SECONDS) if moves else None,
            trouble=self.trouble,
            start=self._start.stage,
            history=self._following.history_until_now(),
        )

    @property
    def exit_code(self) -> int:
        """What the command should end with."""
        state = self._following.state
        if state.finished is not None:
            return state.finished.exit_code
        if self._leaving.discarded:
            return ExitCode.INTERRUPTED
        return 1 if self.trouble is not None else 0

    def copy(self, text: str) -> None:
        """Copy to where the user can paste from, and say where that is."""
        copy(self, text)

    def open_run(self, folder: RunFolder, *, start_engine: bool) -> None:
        """Leave for another run, or for this one with a new engine. What this run's engine does, it goes on doing."""
        if not has_started(self.snapshot().state) and self.engine.is_ours:
            self.send(cmd.Abort())
        self.opened = Opened(folder, start_engine)
        self.exit()

    def send(self, command: AnyCommand) -> None:
        """Send a command to the engine."""
        try:
            self.folder.send(command)
        except OSError as error:
            self.notify(
                f"The command could not be written to {self.folder.commands}: {error.strerror}.", severity="error"
            )

    def start_run(self) -> None:
        """Start the run as planned, or once there is a plan; its screen opens when it has begun."""
        self._start.make()
        self.draw_changes()

    def cancel_start(self) -> None:
        """Withdraw a start that waits for the plan."""
        self._start.cancel()
        self.draw_changes()

    def change_plan(self, options: dict[str, Any]) -> None:
        """Ask the engine for another plan."""
        self.planning.ask(options)
        self.send(cmd.ChangePlan(options=options))

    def finish(self) -> None:
        """Stop fitting and save the best so far."""
        self.send(cmd.Finish())
        self.notify("Finishing: the best so far becomes the bundle.")

    def flash(self) -> None:
        """Highlight a new best score on the present screen for a second."""
        if isinstance(self.screen, RunView):
            self.screen.flash()

    async def go_to_model(self, model: str) -> None:
        """Show a model on the leaderboard."""
        from tabapp.tui.widgets.leaderboard import Leaderboard

        await self.action_view("run")
        leaderboard = self.screen.query_one(Leaderboard)
        leaderboard.unfold_for(model, self._following.state)
        leaderboard.show_snapshot(self.snapshot())
        leaderboard.move_to_key(model)

    # -- life -----------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.set_class(self.console.color_system == "standard" and not self.is_headless, "-sixteen")
        # The first frame comes before the engine, whose start would slow it down.
        self.call_after_refresh(lambda: self.run_worker(self._follow(), name="follow"))
        self.set_interval(FLUSH_SECONDS, self.draw_changes)

    async def _follow(self) -> None:
        if self.STARTS_ENGINE:
            self._start_engine()
        looked = 0.0
        while True:
            for event in await self._following.read():
                self._hear(event)
            self._news.tell_best(self._following)
            self._following.caught_up = True
            if self._start.send_if_planned() and isinstance(self.screen, DataView):
                await self.action_view("run")
            if time.monotonic() - looked >= LIVENESS_SECONDS:
                looked = time.monotonic()
                await self._check_engine()
            self._leaving.leave_if_over()
            await asyncio.sleep(POLL_SECONDS)

    def _start_engine(self) -> None:
        try:
            self.engine.start()
        except OSError as error:
            self._following.trouble = f"The engine could not be started: {error.strerror or error}."
            self._news.tell_trouble(self._following.trouble)

    async def _check_engine(self) -> None:
        following = self._following
        if following.state.finished is not None:
            return
        if self.engine.is_alive():
            following.engine_lives()
            return
        # It may have said its last words after we looked.
        for event in await following.read():
            self._hear(event)
        before = self.trouble
        following.engine_ended(self.engine.return_code)
        if self.trouble is not None and before is None:
            self._news.tell_trouble(self.trouble)

    def _hear(self, event: ev.AnyEvent) -> None:
        self.planning.hear(event)
        if not self._following.caught_up:
            return
        if isinstance(event, ev.PlanRefused) and self._start.stage == "waiting":
            self._start.on_refusal(event)
        else:
            self._news.tell(event)

    def draw_changes(self) -> None:
        """Draw what is new on the present screen."""
        self._leaving.ask_anew()
        stack = self.screen_stack
        if stack and isinstance(stack[0], RunView):
            stack[0].redraw()

    # -- actions ----------------------------------------------------------------------------------------------------

    async def action_view(self, view: View) -> None:
        """Go to a screen."""
        if view in [name for _, name, _ in TABS]:
            await self.switch_mode(view)

    def action_help(self) -> None:
        """Explain the present screen."""
        from tabapp.tui.screens.help import help_content

        if isinstance(self.screen, RunView):
            view, state = self.screen, self._following.state
            focused = view.focused.id if view.focused is not None else None
            self.push_screen(
                Reading("Help", help_content(view.VIEW, focused, state, self.snapshot().phase), at_end="the keys")
            )

    def action_change_theme(self) -> None:
        """Choose other colours."""
        self.search_themes()

    def action_export(self) -> None:
        """Ask where to copy the bundle."""
        ask_for_export(self)

    # Textual's own way to quit goes through our question.
    async def action_quit(self) -> None:
        self.action_request_quit()

    def action_request_quit(self) -> None:
        """Leave; ask first what shall become of a run that is going on."""
        self._leaving.request()

    def _fatal_error(self) -> None:
        self.panic(report_crash(self.folder))


class AttachedApp(TabappApp):
    """The app on a run whose engine is elsewhere, or has ended."""

    DEFAULT_MODE: ClassVar[str] = "run"
    STARTS_ENGINE: ClassVar[bool] = False
