"""Drives the app in tests: a run folder into which a recording is written, and what is on the screen as text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual import events
from textual._context import visible_screen_stack
from textual.command import CommandInput, CommandList, CommandPalette
from textual.pilot import Pilot

from tabapp.run.options.settings import Settings
from tabapp.run.record import events as ev
from tabapp.run.record.commands import COMMANDS
from tabapp.run.record.folder import RunFolder
from tabapp.tui import app as app_module
from tabapp.tui.app import AttachedApp, TabappApp
from tabapp.tui.session import engine_handle, quitting
from tests.tui import recordings
from tests.tui.recordings import Recorder

WIDE, NARROW = (120, 36), (80, 24)
SIZES = (WIDE, pytest.param(NARROW, marks=pytest.mark.slow))
"""The snapshots show every screen at both sizes in `make test`."""


class FakeProcess:
    """An engine process that does nothing until it is ended."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self.terminated = False

    def poll(self) -> int | None:
        """How it ended, None while it lives."""
        return self.returncode

    def terminate(self) -> None:
        self.terminated = True
        self.returncode = -15


class Driver:
    """An app that runs, its pilot, its folder and the recorder that plays its engine."""

    def __init__(self, app: TabappApp, pilot: Pilot[None], recorder: Recorder, process: FakeProcess) -> None:
        self.app = app
        self.pilot = pilot
        self.recorder = recorder
        self.folder: RunFolder = recorder.folder
        self.process = process

    def text(self) -> str:
        """What is on the screen now, and behind a dialog."""
        visible_screen_stack.set(self.app._background_screens)
        return "\n".join(strip.text.rstrip() for strip in self.app.screen._compositor.render_strips())

    def commands(self) -> list[dict[str, Any]]:
        """The commands that the app has sent, as JSON without the version."""
        if not self.folder.commands.exists():
            return []
        sent = [COMMANDS.decode(line) for line in self.folder.commands.read_bytes().splitlines()]
        return [
            {name: value for name, value in msgspec.to_builtins(command).items() if name != "v"} for command in sent
        ]

    async def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait until something holds; fails with the screen if it never does."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"it never came true; the screen is\n{self.text()}")
            await asyncio.sleep(0.02)

    async def sees(self, *texts: str) -> None:
        """Wait until texts are on the screen."""

        def are_there() -> bool:
            screen = self.text()
            return all(text in screen for text in texts)

        await self.until(are_there)

    async def write(self, *events: ev.Event) -> None:
        """Play events, and wait until the app has folded them."""
        self.recorder.write(*events)
        await self.until(lambda: self.app.snapshot().state.seq == self.recorder.seq)
        self.app.draw_changes()
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        """Press keys one after another."""
        await self.pilot.press(*keys)

    async def paste(self, text: str) -> None:
        """Paste a text into the focused field."""
        self.app.post_message(events.Paste(text))
        await self.pilot.pause()

    async def still(self) -> None:
        """Wait until the screen is drawn the same twice: what is clicked next stands where it was seen."""
        last = ""
        for _ in range(600):
            if (text := self.text()) == last:
                return
            last = text
            await asyncio.sleep(0.05)
            await self.pilot.pause()
        raise AssertionError(f"the screen never stood still:\n{last}")

    async def palette_is_full(self, text: str = "") -> None:
        """Wait until the palette is open and has gathered all it finds for a text; its list changes until then."""
        await self.until(lambda: isinstance(self.app.screen, CommandPalette))
        palette = self.app.screen
        await self.until(lambda: palette.query_one(CommandInput).value == text)
        await self.pilot.pause()
        await self.until(
            lambda: (
                all(worker.is_finished for worker in self.app.workers if worker.node is palette)
                and palette.query_one(CommandList).option_count
            )
        )

    def toasts(self) -> list[str]:
        """The messages that are shown in a corner."""
        return [f"{note.title} {note.message}" for note in self.app._notifications]


@asynccontextmanager
async def drive(
    tmp_path: Path,
    monkeypatch: Any,
    events: list[ev.Event],
    *,
    size: tuple[int, int] = WIDE,
    now: float = 75.0,
    attach: bool = False,
    engine_runs: bool = True,
    start_error: OSError | None = None,
    data: str = "titanic.csv",
    settings: Settings | None = None,
    earlier: Sequence[ev.Event] = (),
) -> AsyncIterator[Driver]:
    """The app on a run whose engine says some events when it starts, or has said them; `earlier` ones are of an earlier engine."""
    monkeypatch.setattr(app_module, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(app_module, "FLUSH_SECONDS", 0.05)
    monkeypatch.setattr(app_module, "LIVENESS_SECONDS", 0.02)
    monkeypatch.setattr(quitting, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(RunFolder, "is_running", lambda self: engine_runs)
    process = FakeProcess()
    has_begun = attach

    def start(folder: RunFolder) -> FakeProcess:
        nonlocal has_begun
        has_begun = True
        if start_error is not None:
            raise start_error
        recorder.write(*events)
        return process

    monkeypatch.setattr(engine_handle, "start_detached_engine", start)
    folder = recordings.make_run(tmp_path, data)
    recorder = Recorder(folder)
    recorder.write(*earlier, *(events if attach else []))
    app_type = AttachedApp if attach else TabappApp
    app = app_type(folder, runs_dir=tmp_path, settings=settings, clock=lambda: recordings.START + now)
    async with app.run_test(size=size, notifications=True) as pilot:
        driver = Driver(app, pilot, recorder, process)
        await driver.until(lambda: has_begun and (not events or app.snapshot().state.seq == recorder.seq))
        app.draw_changes()
        await pilot.pause()
        yield driver
        if app.is_running:
            driver.text()
