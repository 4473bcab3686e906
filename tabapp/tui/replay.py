"""The app that replays a run: the screens of a run in progress, without an engine."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tabapp.run.options.settings import Settings
from tabapp.run.record.commands import AnyCommand
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.replaying import ReplayReader
from tabapp.tui.app import AttachedApp
from tabapp.tui.session.engine_handle import EngineHandle


class _ReplayHandle(EngineHandle):
    """Takes the place of an engine, which seems to run until the last event."""

    def __init__(self, folder: RunFolder, reader: ReplayReader) -> None:
        super().__init__(folder)
        self._reader = reader

    def is_alive(self) -> bool:
        return not self._reader.at_end


class ReplayApp(AttachedApp):
    """Shows the events of a run when their time has come. Commands have no effect.

    Args:
        speed: seconds of the run per second.

    Raises:
        UsageError: the run has no events.
    """

    DEFAULT_MODE: ClassVar[str] = "run"

    def __init__(self, folder: RunFolder, speed: float, *, runs_dir: Path, settings: Settings | None = None) -> None:
        reader = ReplayReader(folder, speed)
        super().__init__(folder, runs_dir=runs_dir, settings=settings, clock=lambda: reader.now, reader=reader)
        self.engine = _ReplayHandle(folder, reader)

    def send(self, command: AnyCommand) -> None:
        self.notify("This is a replay, so the command has no effect.", severity="warning")

    def action_request_quit(self) -> None:
        self.exit()
