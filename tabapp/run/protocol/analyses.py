"""Analyses of finished runs, which the process `tabapp.processes.analyst` computes for views."""

from __future__ import annotations

import asyncio
import subprocess
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from tabapp.children import module_command
from tabapp.errors import ExitCode, TabappError
from tabapp.run.record.undefined import Decoder

MODULE = "tabapp.processes.analyst"
TRAINING_SECONDS = 600.0
"""Default time limit of an analysis that trains models again; the default budget of a run."""


class AnalysisFailed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why there is no result, as a sentence, and the exit code of a command."""

    error: str
    exit_code: int = 1


ResultT = TypeVar("ResultT")


class AnalysisError(TabappError):
    """An analysis has no result."""

    def __init__(self, failed: AnalysisFailed) -> None:
        super().__init__(failed.error)
        self.exit_code = ExitCode(failed.exit_code)


def analyze(kind: type[ResultT] | Any, words: list[str]) -> ResultT:
    """Run an analysis and wait for its result.

    Args:
        words: arguments of the process.

    Raises:
        AnalysisError: there is no result.
    """
    done = subprocess.run(
        module_command(MODULE, *words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return read_result(kind, done.stdout, done.stderr, done.returncode)


async def analyze_in_background(kind: type[ResultT] | Any, words: list[str]) -> ResultT:
    """As `analyze`, without blocking the screen. A canceled task ends the process.

    Raises:
        AnalysisError: there is no result.
    """
    process = await asyncio.create_subprocess_exec(
        *module_command(MODULE, *words), stdin=DEVNULL, stdout=PIPE, stderr=PIPE, limit=1 << 25
    )
    try:
        output, complaints = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    return read_result(kind, output, complaints, process.returncode or 0)


def read_result(kind: type[ResultT] | Any, output: bytes, complaints: bytes, code: int) -> ResultT:
    """The result that a process has printed.

    Args:
        complaints: its stderr.
        code: its exit status.

    Raises:
        AnalysisError: there is no result.
    """
    # A library may print before the result.
    lines = output.splitlines()
    with suppress(msgspec.DecodeError, IndexError):
        return Decoder[ResultT](kind).decode(lines[-1])
    with suppress(msgspec.DecodeError, IndexError):
        raise AnalysisError(msgspec.json.decode(lines[-1], type=AnalysisFailed))
    last = (complaints.decode(errors="replace").strip().splitlines() or [f"exit code {code}"])[-1]
    raise AnalysisError(AnalysisFailed(error=f"The analysis ended without a result ({last[:300]})."))
