"""What requests in progress take: places among the predictions, and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tabapp.serve.limits import busy


@dataclass
class Memory:
    """The bytes that all requests in progress may take together, and those that they take."""

    limit: int
    n_bytes: int = 0


class Share:
    """The part of one request. A single request may exceed the limit: its own limits apply."""

    def __init__(self, whole: Memory) -> None:
        self._whole = whole
        self._n_bytes = 0

    def grow(self, n_bytes: int) -> None:
        """Take more.

        Raises:
            RequestError: other requests take the rest.
        """
        whole = self._whole
        if whole.n_bytes + n_bytes > whole.limit and whole.n_bytes > self._n_bytes:
            raise busy("Other requests need the memory at the moment. Try again later.")
        self._n_bytes += n_bytes
        whole.n_bytes += n_bytes

    def end(self) -> None:
        """Give everything back."""
        self._whole.n_bytes -= self._n_bytes
        self._n_bytes = 0


class Slot:
    """A place among the predictions in progress, free when its block and its work have ended."""

    def __init__(self, free: Callable[[], None], memory: Share) -> None:
        self.memory = memory
        self._free = free
        self._n_holders = 1

    def wait_for(self, task: asyncio.Task[Any]) -> None:
        """Keep the place until a task has ended."""
        self._n_holders += 1
        task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            # Reading the error marks it as seen: nobody waits for a request that has timed out.
            task.exception()
        self.end()

    def end(self) -> None:
        """End the block."""
        self._n_holders -= 1
        if self._n_holders == 0:
            self._free()
