"""Explanation of single rows: the client of the process `tabapp.explainer`, and what a screen shows of one row."""

from __future__ import annotations

import asyncio
import os
import shlex
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from tabapp.children import module_command
from tabapp.errors import UsageError
from tabapp.run import explaining as messages

LONGEST_REPLY = 1 << 25

_Reply = TypeVar("_Reply", bound=messages.Reply)


class ExplainerClient:
    """Requests explanations from `tabapp.explainer`, which starts on the first request.

    Its input ends with this process, however that dies, and so does it.
    """

    def __init__(self, bundle: Path, data: Path, *, fill: bool, trust: Path | None = None) -> None:
        self.bundle, self.data, self.fill, self.trust = bundle, data, fill, trust
        self._process: Process | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[messages.AnyReply]] = {}
        self._last = 0
        self._reader: asyncio.Task[None] | None = None
        self._failure = ""

    async def ask(self, request: messages.AnyRequest) -> messages.AnyReply:
        """Send a request and wait for its reply."""
        if self._failure:
            return messages.Failed(message=self._failure, fatal=True)
        self._last += 1
        number = self._last
        try:
            async with self._starting:
                process = self._process or await self._start()
            answer: asyncio.Future[messages.AnyReply] = asyncio.get_running_loop().create_future()
            self._waiting[number] = answer
            assert process.stdin is not None
            process.stdin.write(messages.REQUESTS.encode(msgspec.structs.replace(request, id=number)))
            await process.stdin.drain()
        except OSError as error:
            self._waiting.pop(number, None)
            return messages.Failed(message=self._failure or f"The row cannot be explained: {error.strerror or error}.")
        return await answer

    async def _start(self) -> Process:
        words = [str(self.bundle), str(self.data), *(["--fill"] if self.fill else [])]
        if self.trust is not None:
            words += ["--trust", str(self.trust)]
        self._process = await asyncio.create_subprocess_exec(
            *module_command("tabapp.explainer", *words),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            limit=LONGEST_REPLY,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._reader = asyncio.create_task(self._read(self._process))
        return self._process

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                try:
                    reply = messages.REPLIES.decode(line)
                except UsageError:
                    # A library may print to stdout.
                    continue
                if isinstance(reply, messages.Failed) and reply.fatal:
                    self._failure = reply.message
                answer = self._waiting.pop(reply.id, None)
                if answer is not None and not answer.done():
                    answer.set_result(reply)
        finally:
            self._process = None
            gone = messages.Failed(message=self._failure or "The process that explains rows has ended.", fatal=True)
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


class RowExplanation:
    """One row of a file: its changed values, and what is known of their prediction.

    Attributes:
        row: counted from 0.
        values: changed cells as text by column, None for a missing one.
        fixed: columns that a search for changes keeps.
        original: the cells of the file.
        predicted, explained, curve, changes: the latest replies; None before the first.
        goal: what `changes` reach.
        working: what is being computed, in words; empty when idle.
        trouble: the last error as a sentence.
    """

    def __init__(self, client: ExplainerClient, row: int, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self._turn = 0
        self.row = row
        self.values: dict[str, str | None] = {}
        self.fixed: set[str] = set()
        self.original: messages.Values = {}
        self.label: str | None = None
        self.predicted: messages.RowPredicted | None = None
        self.explained: messages.RowExplained | None = None
        self.curve: messages.CurveDrawn | None = None
        self.changes: messages.ChangesFound | None = None
        self.goal = ""
        self.working = ""
        self.trouble = ""

    @property
    def is_current(self) -> bool:
        """Whether the contributions are those of the changed values."""
        cells = self.explained.cells if self.explained is not None else None
        return cells is not None and cells == {**self.original, **self.values}

    def command(self) -> str:
        """The command that gives the same explanation."""
        client = self._client
        words = ["tabapp", "explain", str(client.bundle), str(client.data), "--row", str(self.row)]
        for name, value in self.values.items():
            words += ["--set", f"{name}={value or ''}"]
        if client.trust is not None:
            words += ["--trust", str(client.trust)]
        return shlex.join([*words, *(["--missing-columns", "fill"] if client.fill else [])])

    async def show(self, column: str | None = None) -> None:
        """Predict and explain the row as changed, then draw the curve of a column."""
        self._turn += 1
        turn = self._turn
        self.working = "loading the bundle" if self.explained is None else "predicting"
        self._changed()
        predicted = await self._ask(messages.PredictRow(row=self.row, values=self.values), messages.RowPredicted)
        if turn != self._turn:
            return
        if predicted is not None:
            self.predicted = predicted
            self.working = "explaining"
            self._changed()
            request = messages.ExplainRow(row=self.row, values=self.values, label=self.label)
            explained = await self._ask(request, messages.RowExplained)
            if explained is not None and turn == self._turn:
                self._take(explained)
        if turn == self._turn:
            self.working = ""
            self._changed()
            if predicted is not None and column is not None:
                await self.draw(column)

    def _take(self, explained: messages.RowExplained) -> None:
        self.explained = explained
        self.label = explained.label
        if not self.original:
            self.original = {name: cell for name, cell in explained.cells.items() if name not in self.values}

    async def draw(self, column: str) -> None:
        """Draw the curve of a column."""
        request = messages.DrawCurve(row=self.row, values=self.values, column=column, label=self.label)
        found = await self._ask(request, messages.CurveDrawn)
        if found is not None:
            self.curve = found
            self._changed()

    async def search(self, goal: str) -> None:
        """Find the nearest changes that reach a class or a number."""
        self.goal, self.changes, self.working = goal, None, "searching for changes"
        self._changed()
        request = messages.FindChanges(row=self.row, values=self.values, goal=goal, fixed=tuple(sorted(self.fixed)))
        self.changes = await self._ask(request, messages.ChangesFound)
        self.working = ""
        self._changed()

    async def _ask(self, request: messages.AnyRequest, kind: type[_Reply]) -> _Reply | None:
        reply = await self._client.ask(request)
        self.trouble = ""
        if isinstance(reply, messages.Failed):
            self.trouble = reply.message
        return reply if isinstance(reply, kind) else None
