"""The reader process of the table, as the screen knows it: started when it is first asked, ended with the screen."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Any

import msgspec

from tabapp.children import module_command
from tabapp.run.folder import RunFolder

LONGEST_ANSWER = 1 << 25


class Pager:
    """Asks `tabapp.pager` for rows. Every answer is a dict; one with "error" holds a sentence, one with "stale" is void.

    Its input ends with this process, however that dies, and so does it.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._process: Process | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last = 0
        self._reader: asyncio.Task[None] | None = None

    async def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        try:
            async with self._starting:
                process = self._process or await self._start()
            self._last += 1
            number = self._last
            answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            self._waiting[number] = answer
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode({"id": number, "ask": what, **arguments}) + b"\n")
            await process.stdin.drain()
        except OSError as error:
            return {"error": f"The rows cannot be read: {error.strerror or error}."}
        return await answer

    async def _start(self) -> Process:
        with self._folder.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *module_command("tabapp.pager", str(self._folder.path)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                limit=LONGEST_ANSWER,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._reader = asyncio.create_task(self._read(self._process))
        return self._process

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                content = msgspec.json.decode(line, type=dict[str, Any])
                answer = self._waiting.pop(content.pop("id"), None)
                if answer is not None and not answer.done():
                    answer.set_result(content)
        finally:
            self._process = None
            gone = {"error": f"The reader of the rows has ended; {self._folder.log} may say why."}
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_result(gone)
            self._waiting.clear()

    async def close(self) -> None:
        """End the process, and wait for its end: what is left of it must not outlive the event loop."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._reader is not None:
            await self._reader
