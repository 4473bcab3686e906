"""Analyses of finished runs, which the process `tabapp.processes.analyst` computes for views."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tabapp.children import module_command
from tabapp.errors import ExitCode, TabappError
from tabapp.run.protocol.child import kill, start_child
from tabapp.run.record.undefined import Decoder

MODULE = "tabapp.processes.analyst"
TRAINING_SECONDS = 600.0
"""Default time limit of an analysis that trains models again; the default budget of a run."""


class Compare(msgspec.Struct, tag="compare", frozen=True, forbid_unknown_fields=True):
    """Compare the runs of two folders. Result: `tabapp.run.protocol.comparing.Comparison`."""


class Diagnose(msgspec.Struct, tag="diagnose", frozen=True, forbid_unknown_fields=True):
    """Analyze the run of a folder, and append the result to its events. Result: the event.

    Attributes:
        option, value: of `tabapp diagnose`, without dashes.
        model: the model of an analysis that trains models, by default the best; `seconds` is its time limit.
    """

    option: str
    value: str | None = None
    model: str | None = None
    seconds: float = TRAINING_SECONDS


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


def analyze(kind: type[ResultT] | Any, request: Compare | Diagnose, *folders: Path) -> ResultT:
    """Run an analysis and wait for its result.

    Raises:
        AnalysisError: there is no result.
    """
    done = subprocess.run(
        module_command(MODULE, *_words(request, folders)), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return read_result(kind, done.stdout, done.stderr, done.returncode)


async def analyze_in_background(kind: type[ResultT] | Any, request: Compare | Diagnose, *folders: Path) -> ResultT:
    """As `analyze`, without blocking the screen. A canceled task ends the process.

    Raises:
        AnalysisError: there is no result.
    """
    process = await start_child(MODULE, *_words(request, folders))
    try:
        output, complaints = await process.communicate()
    except asyncio.CancelledError:
        kill(process)
        await process.wait()
        raise
    return read_result(kind, output, complaints, process.returncode or 0)


def _words(request: Compare | Diagnose, folders: Sequence[Path]) -> list[str]:
    return [msgspec.json.encode(request).decode(), *map(str, folders)]


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
