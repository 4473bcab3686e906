"""A child process that answers requests: JSON lines to its stdin, and replies from its stdout."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import BinaryIO, ClassVar, Generic, Protocol, TypeVar

import msgspec

from tabapp.errors import UsageError
from tabapp.run.protocol.child import kill, messages_of, start_child
from tabapp.run.record.messages import Vocabulary


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


RequestT = TypeVar("RequestT", bound=msgspec.Struct)
ReplyT = TypeVar("ReplyT", bound=_Numbered)


class JsonProcess(ABC, Generic[RequestT, ReplyT]):
    """Sends requests to a process, which starts on the first one.

    Its input ends with this process, however that dies, and so does it.
    """

    MODULE: ClassVar[str]

    def __init__(self, requests: Vocabulary[RequestT], replies: Vocabulary[ReplyT]) -> None:
        self._requests, self._replies = requests, replies
        self._process: Process | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[ReplyT]] = {}
        self._last = 0
        self._reader: asyncio.Task[None] | None = None
        self._failure: ReplyT | None = None

    @abstractmethod
    def arguments(self) -> list[str]:
        """Command-line arguments of the process."""

    @abstractmethod
    def not_sent(self, reason: str) -> ReplyT:
        """The reply to a request that could not be sent."""

    @abstractmethod
    def ended(self) -> ReplyT:
        """The reply to requests that wait when the process ends."""

    def is_fatal(self, reply: ReplyT) -> bool:
        """Whether a reply means that the process ends; it is then the reply to all further requests."""
        return False

    def log(self) -> BinaryIO | None:
        """Where the stderr of the process goes; None discards it."""
        return None

    async def ask(self, request: RequestT) -> ReplyT:
        """Send a request and wait for its reply."""
        if self._failure is not None:
            return self._failure
        self._last += 1
        number = self._last
        try:
            async with self._starting:
                process = self._process or await self._start()
            answer: asyncio.Future[ReplyT] = asyncio.get_running_loop().create_future()
            self._waiting[number] = answer
            assert process.stdin is not None
            process.stdin.write(self._requests.encode(msgspec.structs.replace(request, id=number)))
            await process.stdin.drain()
        except OSError as error:
            self._waiting.pop(number, None)
            return self._failure or self.not_sent(error.strerror or str(error))
        return await answer

    async def _start(self) -> Process:
        log = self.log()
        try:
            stderr = DEVNULL if log is None else log
            self._process = await start_child(self.MODULE, *self.arguments(), stdin=PIPE, stderr=stderr)
        finally:
            if log is not None:
                log.close()
        self._reader = asyncio.create_task(self._read(self._process))
        return self._process

    async def _read(self, process: Process) -> None:
        try:
            async for reply in messages_of(process, self._replies):
                if isinstance(reply, UsageError):
                    continue
                if self.is_fatal(reply):
                    self._failure = reply
                answer = self._waiting.pop(reply.id, None)
                if answer is not None and not answer.done():
                    answer.set_result(reply)
        finally:
            self._process = None
            gone = self._failure or self.ended()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_result(gone)
            self._waiting.clear()

    async def close(self) -> None:
        """Kill the process and wait for its exit, which must come before the event loop closes."""
        process, self._process = self._process, None
        if process is not None:
            kill(process)
            await process.wait()
        if self._reader is not None:
            await self._reader
