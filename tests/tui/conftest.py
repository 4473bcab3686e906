"""Replaces a wait of Textual's pilot that depends on the processor, skips what nobody sees, and gives each test preferences of its
own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import textual.app
import textual.pilot
from textual._context import active_app
from textual.message_pump import MessagePump
from textual.screen import Screen

from tabapp.tui.session import preferences


def pumps() -> Iterator[MessagePump]:
    app = active_app.get()
    yield app
    yield from app.screen.walk_children(with_self=True)


async def messages_are_processed(min_sleep: float = 0, max_sleep: float = 1) -> None:
    """Wait until no widget of the screen has a message, twice in a row.

    Textual waits for an idle processor instead: up to a second for each key if the app polls a run or a neighbor is busy.
    """
    empty = 0
    for _ in range(200):
        await asyncio.sleep(0.003)
        empty = empty + 1 if all(pump._message_queue.empty() for pump in pumps()) else 0
        if empty == 2:
            return


@pytest.fixture(autouse=True)
def pilot_waits_for_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (textual.pilot, textual.app):
        monkeypatch.setattr(module, "wait_for_idle", messages_are_processed)


def forget_changes(screen: Screen[object]) -> None:
    """In place of painting what has changed."""
    screen._compositor._dirty_regions.clear()
    screen._dirty_widgets.clear()
    screen.app._update_mouse_over(screen)


@pytest.fixture(autouse=True)
def nothing_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Painting for a terminal that is not there would take a third of the time. Tests render the screen when they read it."""
    monkeypatch.setattr(Screen, "_compositor_refresh", forget_changes)


@pytest.fixture(autouse=True)
def own_preferences(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path_factory.mktemp("preferences") / "folder" / "screen.json"
    monkeypatch.setattr(preferences, "preferences_file", lambda: file)
    return file
