"""The terminal UI of a run: reads its events, draws its state, and sends its engine commands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.command import Provider
from textual.widget import Widget
from textual.widgets import Input

from tabapp.errors import ExitCode
from tabapp.printable import one_line
from tabapp.run.options.settings import Settings
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.commands import AnyCommand
from tabapp.run.record.confining import own_config
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.state import RunState, history_until_now
from tabapp.run.record.stopping import stopped
from tabapp.tui.base_app import BaseApp
from tabapp.tui.chrome.actions import TABS, View, bindings_for, has_started, phase_of
from tabapp.tui.chrome.clipboard import copy
from tabapp.tui.chrome.crash_report import report_crash
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.screens.base import RunView
from tabapp.tui.screens.data import DataView
from tabapp.tui.screens.panel_copies import ask_for_panel, copy_table
from tabapp.tui.screens.registry import VIEWS
from tabapp.tui.session.analysis_queue import AnalysisQueue
from tabapp.tui.session.engine_handle import EngineHandle
from tabapp.tui.session.notifications import Notifications
from tabapp.tui.session.opened import Opened
from tabapp.tui.session.plan.start_request import StartRequest
from tabapp.tui.session.plan_changes import Answered, PlanChanges
from tabapp.tui.session.quitting import Quitting
from tabapp.tui.session.run_follower import Reader, RunFollower
from tabapp.tui.session.shown_target import ShownTarget
from tabapp.tui.viewmodels.texts import Snapshot, after_finishing

POLL_SECONDS = 0.1
FLUSH_SECONDS = 0.25
LIVENESS_SECONDS = 1.0
EARLY_DIGIT = (
    "The file is still being read. The digits open the other screens once the plan is shown; a click opens them now."
)


def _action_provider() -> type[Provider]:
    from tabapp.tui.screens.palette import ActionProvider

    return ActionProvider


def _move_focus(widget: Widget | None) -> None:
    if widget is not None:
        widget.focus()


class TabappApp(BaseApp, inherit_bindings=False):
    """The app for a run whose engine it starts. All it shows comes from the run folder."""

    COMMANDS: ClassVar = {_action_provider}
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for("everywhere")]
    MODES: ClassVar = VIEWS
    DEFAULT_MODE: ClassVar[str] = "data"
    STARTS_ENGINE: ClassVar[bool] = True

    def __init__(
        self,
        folder: RunFolder,
        *,
        runs_dir: Path,
        settings: Settings | None = None,
        clock: Callable[[], float] = time.time,
        reader: Reader | None = None,
    ) -> None:
        super().__init__(settings or Settings())
        self.folder = folder
        self.runs_dir = runs_dir
        self._chosen_models: dict[int | None, str | None] = {}
        self.opened: Opened | None = None
        """Another run to show after this app exits."""
        self.config = own_config(folder)
        self.is_own = folder.is_own()
        """Whether this user made the run; else its events name nothing outside of its folder."""
        self.planning = PlanChanges(folder)
        self._follower = RunFollower(folder, reader=reader)
        self._shown = ShownTarget(folder)
        self._clock = clock
        self.engine = EngineHandle(folder)
        self.analyses = AnalysisQueue(self)
        self._quitting = Quitting(self)
        self._start = StartRequest(self)
        self._toasts = Notifications(self)

    # -- for the screens -------------------------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        """A sentence about an engine that has stopped; None while it runs."""
        return self._follower.trouble

    def snapshot(self) -> Snapshot:
        """The data to draw now."""
        state, now = self._shown.state_of(self._follower.state), self._clock()
        if self.trouble is not None:
            state = stopped(state)
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
            history=history_until_now(state),
        )

    @property
    def chosen_model(self) -> str | None:
        """The model under the cursor of the shown target, shared by the screens that have one."""
        return self._chosen_models.get(self._shown.state_of(self._follower.state).target_index)

    @chosen_model.setter
    def chosen_model(self, model: str | None) -> None:
        self._chosen_models[self._shown.state_of(self._follower.state).target_index] = model

    @property
    def whole_state(self) -> RunState:
        """The state of the whole run, whichever target is shown."""
        return self._follower.state

    @property
    def run_of_target(self) -> RunFolder:
        """The folder of the run of the shown target; that of the run if it has a single target."""
        return self._shown.folder_of(self._follower.state)

    @property
    def is_free(self) -> bool:
        """Whether no dialog is open and no text is typed, so that a dialog may open by itself."""
        return isinstance(self.screen, RunView) and not isinstance(self.focused, Input)

    @property
    def exit_code(self) -> int:
        """Exit code for the command."""
        state = self._follower.state
        if state.finished is not None:
            return state.finished.exit_code
        if self._quitting.discarded:
            return ExitCode.INTERRUPTED
        return 1 if self.trouble is not None else 0

    def copy(self, text: str) -> None:
        """Copy a text to the clipboard and report where it went."""
        copy(self, text)

    def open_run(self, folder: RunFolder, *, start_engine: bool, resumed: bool = False) -> None:
        """Show another run, or this one with a new engine. The engine of this run continues."""
        self._leave_for(Opened(folder, start_engine, resumed))

    def open_replay(self, folder: RunFolder, speed: float) -> None:
        """Replay a run at a multiple of its speed. The engine of this run continues."""
        self._leave_for(Opened(folder, start_engine=False, replay=speed))

    def _leave_for(self, opened: Opened) -> None:
        if not has_started(self.whole_state) and self.engine.is_ours:
            self.send(cmd.Abort())
        self.opened = opened
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

    def change_plan(self, options: dict[str, Any], answered: Answered | None = None) -> None:
        """Ask the engine for a different plan."""
        self.planning.add(options, answered)
        self.send(cmd.ChangePlan(options=options))

    def undo_plan(self) -> bool:
        """Ask the engine to undo the last change of the plan; returns whether there is one."""
        options = self.planning.undo()
        if options is not None:
            self.send(cmd.ChangePlan(options=options))
        return options is not None

    def finish(self) -> None:
        """Stop fitting and save the best models so far."""
        self.send(cmd.Finish())
        self.notify(f"Finishing: {after_finishing(self.whole_state)}.")

    def flash(self) -> None:
        """Highlight a new best score on the current screen for a second."""
        if isinstance(self.screen, RunView):
            self.screen.flash()

    async def go_to_model(self, model: str) -> None:
        """Show a model on the leaderboard."""
        from tabapp.tui.widgets.leaderboard import Leaderboard

        await self.action_view("run")
        leaderboard = self.screen.query_one(Leaderboard)
        leaderboard.unfold_for(model, self._follower.state)
        leaderboard.show_snapshot(self.snapshot())
        leaderboard.move_to_key(model)

    # -- life cycle -----------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        # The engine starts after the first frame, which it would slow down.
        self.call_after_refresh(lambda: self.run_worker(self._follow(), name="follow"))
        self.set_interval(FLUSH_SECONDS, self.draw_changes)

    async def _follow(self) -> None:
        if self.STARTS_ENGINE:
            await self._follower.forget_earlier_plan()
            self._start_engine()
        looked = 0.0
        while True:
            for event in await self._follower.read():
                self._on_run_event(event)
            self._toasts.show_best(self._follower)
            self._follower.caught_up = True
            if self._start.send_if_planned() and isinstance(self.screen, DataView):
                await self.action_view("run")
            if time.monotonic() - looked >= LIVENESS_SECONDS:
                looked = time.monotonic()
                await self._check_engine()
            self._quitting.exit_if_over()
            await asyncio.sleep(POLL_SECONDS)

    def _start_engine(self) -> None:
        try:
            self.engine.start()
        except OSError as error:
            self._follower.trouble = f"The engine could not be started: {error.strerror or error}."
            self._toasts.show_trouble(self._follower.trouble)

    async def _check_engine(self) -> None:
        following = self._follower
        if following.state.finished is not None:
            return
        if self.engine.is_alive():
            following.engine_lives()
            return
        # The engine may have written events after the last read.
        for event in await following.read():
            self._on_run_event(event)
        before = self.trouble
        following.engine_ended(self.engine.return_code)
        if self.trouble is not None and before is None:
            self._toasts.show_trouble(self.trouble)

    def _on_run_event(self, event: ev.AnyEvent) -> None:
        if self.planning.on_event(event) or not self._follower.caught_up:
            return
        if isinstance(event, ev.PlanRefused) and self._start.stage == "waiting":
            self._start.on_refusal(event)
        else:
            self._toasts.show_event(event)

    def draw_changes(self) -> None:
        """Redraw what has changed on the current screen, which a dialog may cover."""
        self._quitting.update_question()
        shown = next((screen for screen in reversed(self.screen_stack) if isinstance(screen, RunView)), None)
        if shown is not None:
            shown.redraw()
            self._toasts.open_waiting()

    # -- actions ----------------------------------------------------------------------------------------------------

    async def action_view(self, view: View) -> None:
        """Switch to a screen. The screen of all rows covers the Data screen and makes way for it."""
        if self.current_mode == view and isinstance(self.screen, RunView) and view != self.screen.VIEW:
            self.screen.dismiss()
        elif view in [name for _, name, _ in TABS]:
            await self.switch_mode(view)

    async def action_digit(self, view: View) -> None:
        """Switch to a screen by its digit. Before there is a plan, one that is typed on the Data screen is meant for a dialog that
        cannot open yet.
        """
        snapshot = self.snapshot()
        if snapshot.phase == "reading" and snapshot.state.plan is None and self.current_mode == "data" != view:
            self.notify(EARLY_DIGIT, severity="warning", timeout=4)
        else:
            await self.action_view(view)

    def action_help(self) -> None:
        """Show the help of the current screen."""
        from tabapp.tui.chrome.help_texts import PANELS
        from tabapp.tui.parts.table import Table
        from tabapp.tui.screens.help import Help, help_sections

        if isinstance(self.screen, RunView):
            view, state = self.screen, self._follower.state
            focused = view.focused.id if view.focused is not None else None
            table = view.table_in_focus() if focused not in PANELS or isinstance(view.focused, Table) else None
            self.push_screen(Help(help_sections(view.VIEW, focused, state, self.snapshot().phase, table)))

    def action_glossary(self) -> None:
        """Show what words and signs mean."""
        from tabapp.tui.screens.help import SIGNS, WORDS, listed

        self.push_screen(
            Reading("Words and signs", Content("\n\n").join([listed("Words", WORDS), listed("Signs", SIGNS)]))
        )

    def action_zoom(self) -> None:
        """Fill the screen with the panel in focus, or show all panels again."""
        if isinstance(self.screen, RunView):
            self.screen.toggle_zoom()

    def action_jump(self) -> None:
        """Show a letter on each panel."""
        from tabapp.tui.screens.jump import Jump, places_of

        if isinstance(self.screen, RunView):
            self.push_screen(Jump(places_of(self.screen)), _move_focus)

    def action_copy_table(self, markdown: bool = False) -> None:
        """Copy the table in focus with tabs or as Markdown."""
        copy_table(self, self.screen, markdown=markdown)

    def action_save_panel(self) -> None:
        """Ask where to save the panel in focus."""
        ask_for_panel(self, self.screen)

    def action_open_door(self) -> None:
        """Show the runs and files that can be opened; this run continues below."""
        from tabapp.tui.door.screen import Door

        if isinstance(self.screen, RunView):
            self.push_screen(Door(self.folder.run))

    def action_change_theme(self) -> None:
        """Choose a color theme."""
        self.search_themes()

    def action_export(self) -> None:
        """Ask where to copy the bundle."""
        # The first paint does not wait for what only an action needs.
        from tabapp.tui.session.bundle_export import ask_for_export

        ask_for_export(self)

    # Textual's own quit action asks the same question.
    async def action_quit(self) -> None:
        self.action_request_quit()

    def action_next_target(self) -> None:
        """Show the next target that has results."""
        message = self._shown.move_on(self._follower.state)
        if message:
            self.notify(message, timeout=3)
        self.draw_changes()

    def action_request_quit(self) -> None:
        """Quit, or ask what to do with a run in progress."""
        self._quitting.request()

    def _fatal_error(self) -> None:
        self.panic(Text(one_line(report_crash(self.folder))))


class ResumedApp(TabappApp):
    """The app for a run whose engine it starts again."""

    DEFAULT_MODE: ClassVar[str] = "run"


class AttachedApp(TabappApp):
    """The app for a run whose engine runs elsewhere or has ended."""

    DEFAULT_MODE: ClassVar[str] = "run"
    STARTS_ENGINE: ClassVar[bool] = False
