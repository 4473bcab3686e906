"""Work in a thread that does not keep the program from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress


async def unattended(work: Callable[[], None]) -> None:
    """Wait for work in a thread that does not keep the program from ending; its process ends with the program."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish(error: Exception | None) -> None:
        if not done.cancelled():
            done.set_result(None) if error is None else done.set_exception(error)

    def run() -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as raised:
            error = raised
        # The loop is closed if the program has ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(finish, error)

    threading.Thread(target=run, daemon=True).start()
    await done
