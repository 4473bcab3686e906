"""Child processes that a screen starts without waiting, and whose stdout it reads."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import IO, TypeVar

from tabapp.children import module_command
from tabapp.errors import UsageError
from tabapp.run.record.messages import Vocabulary

LONGEST_LINE = 1 << 25

M = TypeVar("M")


async def start_child(module: str, *arguments: str, stdin: int = DEVNULL, stderr: int | IO[bytes] = PIPE) -> Process:
    """Start a module in a process of its own.

    Raises:
        OSError: the system cannot start another process.
    """
    return await asyncio.create_subprocess_exec(
        *module_command(module, *arguments),
        stdin=stdin,
        stdout=PIPE,
        stderr=stderr,
        limit=LONGEST_LINE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


async def messages_of(process: Process, vocabulary: Vocabulary[M]) -> AsyncGenerator[M | UsageError]:
    """The messages that a process prints; the error in the place of a line that is none, as a library may print to stdout."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        try:
            yield vocabulary.decode(line)
        except UsageError as error:
            yield error


def kill(process: Process) -> None:
    """Kill a process, which may have ended."""
    with suppress(ProcessLookupError):
        process.kill()
