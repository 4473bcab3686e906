"""Predicting a file with the bundle of the run: the command `tabapp predict` in a process of its own, and what it tells."""

from __future__ import annotations

import asyncio
import os
import shlex
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tabapp.children import module_command

LONGEST_LINE = 1 << 25
OUTPUT_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True)
class Found:
    """A difference between a column of the file and training; `finding` as `tabapp predict --check --json` names it."""

    finding: str
    column: str
    refused: bool
    message: str


@dataclass(frozen=True)
class Checked:
    """The file held against the training data: its rows, and whether it is refused as it stands."""

    rows: int
    refused: bool
    findings: tuple[Found, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Predicted:
    """What was written, and its first rows as text."""

    output: str
    rows: int
    columns: tuple[str, ...]
    preview: tuple[tuple[str | None, ...], ...]
    notes: tuple[str, ...]


class Predicting:
    """A file, how it is to be predicted, and how far that is. At most one process is at work.

    Attributes:
        output: where predictions go.
        keep: the file's columns stand in front of them.
        fill: missing and changed columns are taken as missing.
        stage: what is going on, in words; empty when nothing is. `share` is how much of the rows is predicted.
        trouble: one sentence on what went wrong last.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.file: Path | None = None
        self.output: Path | None = None
        self.keep = False
        self.fill = False
        self.stage = ""
        self.share: float | None = None
        self.trouble = ""
        self.checked: Checked | None = None
        self.predicted: Predicted | None = None
        self.recent: list[Path] = []
        self._process: Process | None = None
        self._turn = 0
        self._checks = False

    @property
    def at_work(self) -> bool:
        """Whether a process is at work."""
        return bool(self.stage)

    @property
    def is_checking(self) -> bool:
        """Whether the process at work looks at the file, rather than predicts it."""
        return self.at_work and self._checks

    def choose(self, file: Path) -> None:
        """Take another file."""
        self.stop()
        self.file = file
        self.output = default_output(file)
        self.recent = [file, *(path for path in self.recent if path != file)]
        self.checked, self.predicted, self.trouble, self.fill = None, None, "", False

    def words(self, bundle: Path) -> list[str]:
        """The command that predicts the file."""
        words = ["tabapp", "predict", str(bundle), str(self.file), "-o", str(self.output)]
        words += ["--keep"] if self.keep else []
        return [*words, *(["--missing-columns", "fill"] if self.fill else [])]

    def command(self, bundle: Path) -> str:
        """The same as people type it."""
        return shlex.join(self.words(bundle))

    async def check(self, bundle: Path) -> None:
        """Hold the file against the training data."""
        assert self.file is not None
        self.checked = None
        await self._run("looking at the file", ["tabapp", "predict", str(bundle), str(self.file), "--check", "--json"])

    async def predict(self, bundle: Path) -> None:
        """Predict and write."""
        self.predicted = None
        await self._run("starting", [*self.words(bundle), "--json"])

    async def _run(self, stage: str, words: Sequence[str]) -> None:
        self.stop()
        self._turn += 1
        turn = self._turn
        self._checks = "--check" in words
        self.stage, self.share, self.trouble = stage, None, ""
        self._changed()
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *module_command(*words),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                limit=LONGEST_LINE,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        except OSError as error:
            self.stage, self.trouble = "", f"The command could not be started: {error.strerror or error}."
            self._changed()
            return
        assert process.stdout is not None
        assert process.stderr is not None
        complaints, _ = await asyncio.gather(process.stderr.read(), self._hear(process.stdout, turn))
        code = await process.wait()
        if turn != self._turn:
            return
        self._process, self.stage, self.share = None, "", None
        told = self.checked is not None if self._checks else self.predicted is not None
        if not told:
            self.trouble = _sentence(complaints.decode(errors="replace"), code)
        self._changed()

    async def _hear(self, lines: asyncio.StreamReader, turn: int) -> None:
        while line := await lines.readline():
            with suppress(msgspec.DecodeError, msgspec.ValidationError, KeyError):
                content = msgspec.json.decode(line, type=dict[str, Any])
                if turn == self._turn:
                    self._take(content)
                    self._changed()

    def _take(self, content: dict[str, Any]) -> None:
        match content["event"]:
            case "stage":
                self.stage = content["stage"]
            case "progress":
                self.share = content["share"]
            case "checked":
                self.checked = msgspec.convert(content, Checked)
            case "predicted":
                self.predicted = msgspec.convert(content, Predicted)
            case _:
                pass

    def stop(self) -> None:
        """End the process that is at work, if one is. What it would have written is not there: it writes in one go at the end."""
        self._turn += 1
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        self._process, self.stage, self.share = None, "", None

    async def close(self) -> None:
        """End the process that is at work and wait for its end."""
        process = self._process
        self.stop()
        if process is not None:
            await process.wait()


def default_output(file: Path) -> Path:
    """Beside the file: new.csv.gz → new-predictions.csv, new.parquet → new-predictions.parquet."""
    suffix = ".parquet" if file.suffix.lower() in (".parquet", ".pq") else ".csv"
    return file.with_name(f"{file.name.split('.')[0] or file.name}-predictions{suffix}")


def _sentence(complaints: str, code: int) -> str:
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    if not lines:
        return f"The command was killed (signal {-code})." if code < 0 else f"The command ended with code {code}."
    return lines[-1].removeprefix("tabapp: ").removeprefix("error: ")
