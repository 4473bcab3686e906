"""Client of the process that reads table rows: started on the first request, stopped with the screen."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from tabapp.children import module_command
from tabapp.errors import UsageError
from tabapp.run import paging
from tabapp.run.client import open_log
from tabapp.run.folder import RunFolder

LONGEST_ANSWER = 1 << 25


class Pager:
    """Requests rows from `tabapp.pager`.

    Its input ends with this process, however that dies, and so does it.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._process: Process | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[paging.AnyReply]] = {}
        self._last = 0
        self._reader: asyncio.Task[None] | None = None

    async def ask(self, request: paging.AnyRequest) -> paging.AnyReply:
        """Send a request and wait for its reply."""
        try:
            async with self._starting:
                process = self._process or await self._start()
            self._last += 1
            number = self._last
            answer: asyncio.Future[paging.AnyReply] = asyncio.get_running_loop().create_future()
            self._waiting[number] = answer
            assert process.stdin is not None
            process.stdin.write(paging.REQUESTS.encode(msgspec.structs.replace(request, id=number)))
            await process.stdin.drain()
        except OSError as error:
            return paging.Failed(message=f"The rows cannot be read: {error.strerror or error}.")
        return await answer

    def _log(self) -> BinaryIO:
        try:
            return open_log(self._folder)
        except UsageError:
            # The run of a read-only folder can be looked at, too.
            return Path(os.devnull).open("ab")

    async def _start(self) -> Process:
        with self._log() as log:
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
                reply = paging.REPLIES.decode(line)
                answer = self._waiting.pop(reply.id, None)
                if answer is not None and not answer.done():
                    answer.set_result(reply)
        finally:
            self._process = None
            gone = paging.Failed(message=f"The pager process has ended; see {self._folder.log}.")
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_result(gone)
            self._waiting.clear()

    async def close(self) -> None:
        """Kill the process and wait for its exit, which must come before the event loop closes."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._reader is not None:
            await self._reader
