"""The app that replays a run: the screens of a run in progress, without an engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual.binding import BindingType

from tabapp.run.options.settings import Settings
from tabapp.run.record.commands import AnyCommand
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.replaying import ReplayReader
from tabapp.tui.app import AttachedApp
from tabapp.tui.chrome.actions import bindings_for
from tabapp.tui.session.engine_handle import EngineHandle
from tabapp.tui.viewmodels.texts import ReplayPlace, Snapshot


class _ReplayHandle(EngineHandle):
    """Takes the place of an engine, which seems to run: a replay may go back from its end."""

    def is_alive(self) -> bool:
        return True


class ReplayApp(AttachedApp):
    """Shows the events of a run when their time has come. Commands have no effect.

    Args:
        speed: seconds of the run per second.

    Raises:
        UsageError: the run has no events.
    """

    DEFAULT_MODE: ClassVar[str] = "run"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for("everywhere"), *bindings_for("replay")]

    def __init__(self, folder: RunFolder, speed: float, *, runs_dir: Path, settings: Settings | None = None) -> None:
        self._replay = reader = ReplayReader(folder, speed)
        super().__init__(folder, runs_dir=runs_dir, settings=settings, clock=lambda: reader.now, reader=reader)
        self.engine = _ReplayHandle(folder)

    def snapshot(self) -> Snapshot:
        reader = self._replay
        place = ReplayPlace(
            reader.position, reader.length, reader.events_seen, reader.n_events, reader.speed, reader.is_paused
        )
        return replace(super().snapshot(), replay=place)

    def send(self, command: AnyCommand) -> None:
        self.notify("This is a replay, so the command has no effect.", severity="warning")

    def action_replay_pause(self) -> None:
        """Pause the replay, or continue it."""
        self._replay.pause()
        self.draw_changes()

    def action_replay_seek(self, seconds: float) -> None:
        """Go forward by seconds of the run, or back."""
        self._replay.seek(self._replay.position + seconds)
        self._jumped()

    def action_replay_step(self, events: int) -> None:
        """Pause, and go to a later or an earlier event."""
        if not self._replay.is_paused:
            self._replay.pause()
        self._replay.step(events)
        self._jumped()

    def action_replay_speed(self, factor: float) -> None:
        """Multiply the speed."""
        self._replay.set_speed(self._replay.speed * factor)
        self.draw_changes()

    def action_replay_leave(self) -> None:
        """Show the run itself."""
        self.open_run(self.folder, start_engine=False)

    def _jumped(self) -> None:
        """Show no messages for the events in between."""
        self._follower.caught_up = False
        self.draw_changes()

    def action_request_quit(self) -> None:
        self.exit()
