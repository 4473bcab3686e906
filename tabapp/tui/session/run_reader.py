"""Reads the runs of a folder in the background, each again only when it has something new."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tabapp.run.lists.description import RunDescription, Version, describe_run, version_of
from tabapp.run.record.folder import list_runs

DRAW_EVERY = 8


class RunReader:
    """The runs read so far.

    Attributes:
        unread: number of runs that are still being read.
        is_reading: whether `read` is in progress.
    """

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._known: dict[str, tuple[Version, RunDescription]] = {}
        self.unread = 0
        self.is_reading = False

    @property
    def runs(self) -> list[RunDescription]:
        """The descriptions of the runs."""
        return [description for _, description in self._known.values()]

    def get(self, run: str | None) -> RunDescription | None:
        """A run by its id."""
        known = self._known.get(run or "")
        return known[1] if known is not None else None

    def forget(self, run: str) -> None:
        """Drop a run that was deleted, or that is to be read again."""
        self._known.pop(run, None)

    async def read(self, on_change: Callable[[], None]) -> None:
        """Read what is new, unless that is in progress; calls `on_change` from time to time and at the end."""
        if self.is_reading:
            return
        self.is_reading = True
        try:
            await self._read(on_change)
        finally:
            self.is_reading, self.unread = False, 0
        on_change()

    async def _read(self, on_change: Callable[[], None]) -> None:
        folders = await asyncio.to_thread(list_runs, self._runs_dir)
        here = {folder.run for folder in folders}
        self._known = {run: known for run, known in self._known.items() if run in here}
        self.unread = sum(folder.run not in self._known for folder in folders)
        for index, folder in enumerate(folders):
            known = self._known.get(folder.run)
            version = await asyncio.to_thread(version_of, folder)
            if known is None or known[0] != version:
                self._known[folder.run] = (version, await asyncio.to_thread(describe_run, folder))
                self.unread -= known is None
                if index % DRAW_EVERY == 0:
                    on_change()
