"""Prediction of a file with the bundle of the run, in a `tabapp predict` process whose messages are read."""

from __future__ import annotations

import asyncio
import shlex
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from pathlib import Path

from tabapp.errors import UsageError
from tabapp.run.protocol.child import kill, messages_of, start_child
from tabapp.run.protocol.prediction import (
    PREDICTION,
    AnyPredictionMessage,
    Checked,
    Predicted,
    Progressed,
    StageStarted,
)

OUTPUT_SUFFIXES = (".csv", ".parquet", ".arrow", ".jsonl")


class Prediction:
    """A file to predict, its options and the progress. At most one process runs at a time.

    Attributes:
        output: where predictions go.
        keep: include the columns of the file before the predictions.
        fill: treat missing and changed columns as missing values.
        trust: file of the public key that must have signed the bundle; None checks no signature.
        stage: the current step in words, empty when idle. `share` is the share of rows already predicted.
        trouble: the last error as a sentence.
        imputed: what the last imputation filled, as a sentence.
        is_outdated: `predicted` is of the preliminary bundle, which this one has replaced.
        wanted: prediction starts as soon as the file is checked.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.file: Path | None = None
        self.output: Path | None = None
        self.keep = False
        self.fill = False
        self.trust: Path | None = None
        self.stage = ""
        self.share: float | None = None
        self.trouble = ""
        self.checked: Checked | None = None
        self.predicted: Predicted | None = None
        self.imputed = ""
        self.is_outdated = False
        self.wanted = False
        self.recent: list[Path] = []
        self._process: Process | None = None
        self._turn = 0
        self._checks = False

    @property
    def turn(self) -> int:
        """Changes when work begins or is stopped."""
        return self._turn

    @property
    def at_work(self) -> bool:
        """Whether a process is running."""
        return bool(self.stage)

    @property
    def is_checking(self) -> bool:
        """Whether the running process checks the file rather than predicting it."""
        return self.at_work and self._checks

    def choose(self, file: Path) -> None:
        """Choose another file and stop work on the current one."""
        self.stop()
        self.file = file
        self.output = default_output(file)
        self.recent = [file, *(path for path in self.recent if path != file)]
        self.checked, self.predicted, self.trouble, self.imputed, self.fill = None, None, "", "", False
        self.is_outdated = False
        # Whatever is done with a new file, such as making a preliminary bundle, is done to check it.
        self._checks = True

    def take_over(self, other: Prediction) -> None:
        """Choose the file of other work with its options and results; a prediction that was wanted there begins after the check."""
        assert other.file is not None
        other.stop()
        self.choose(other.file)
        self.predicted, self.imputed, self.is_outdated = other.predicted, other.imputed, other.predicted is not None
        self.output, self.keep, self.fill, self.wanted = other.output, other.keep, other.fill, other.wanted

    def words(self, bundle: Path) -> list[str]:
        """The words of the command that predicts the file."""
        words = ["tabapp", "predict", str(bundle), str(self.file), "-o", str(self.output)]
        words += ["--keep"] if self.keep else []
        words += ["--missing-columns", "fill"] if self.fill else []
        return [*words, *self._trust_words]

    @property
    def _trust_words(self) -> list[str]:
        return [] if self.trust is None else ["--trust", str(self.trust)]

    def command(self, bundle: Path) -> str:
        """The command as typed in a shell."""
        return shlex.join(self.words(bundle))

    async def check(self, bundle: Path) -> None:
        """Check the file against the training schema."""
        assert self.file is not None
        self.checked = None
        words = ["tabapp", "predict", str(bundle), str(self.file), "--check", "--json", *self._trust_words]
        await self._run("checking the file", words)

    async def predict(self, bundle: Path) -> None:
        """Predict the file and write the predictions."""
        self.predicted, self.imputed, self.is_outdated = None, "", False
        await self._run("starting", [*self.words(bundle), "--json"])

    async def impute(self, words: Sequence[str]) -> None:
        """Fill the missing cells of the file by a `tabapp impute` command."""
        self.imputed = ""
        await self._run("imputing missing cells", words)

    async def _run(self, stage: str, words: Sequence[str]) -> None:
        self.stop()
        self._turn += 1
        turn = self._turn
        self._checks = "--check" in words
        self.stage, self.share, self.trouble = stage, None, ""
        self._changed()
        try:
            process = self._process = await start_child(*words)
        except OSError as error:
            self.stage, self.trouble = "", f"The command could not be started: {error.strerror or error}."
            self._changed()
            return
        assert process.stderr is not None
        complaints, _ = await asyncio.gather(process.stderr.read(), self._hear(process, turn))
        code = await process.wait()
        if turn != self._turn:
            return
        self._process, self.stage, self.share = None, "", None
        text = complaints.decode(errors="replace")
        if "impute" in words[:2]:
            self.imputed = "" if code else _sentence(text, code, "")
            has_result = not code
        else:
            has_result = self.checked is not None if self._checks else self.predicted is not None
        self.trouble = "" if has_result else _sentence(text, code, self.trouble)
        self._changed()

    async def _hear(self, process: Process, turn: int) -> None:
        async for message in messages_of(process, PREDICTION):
            if turn != self._turn:
                continue
            if isinstance(message, UsageError):
                # This matters only if there is no result in the end.
                self.trouble = str(message)
            else:
                self._take(message)
            self._changed()

    def _take(self, message: AnyPredictionMessage) -> None:
        match message:
            case StageStarted():
                self.stage = message.stage
            case Progressed():
                self.share = message.share
            case Checked():
                self.checked = message
            case Predicted():
                self.predicted = message

    def stop(self) -> None:
        """Stop the running process, if any. It writes its output only at the end, so nothing is left behind."""
        self._turn += 1
        if self._process is not None and self._process.returncode is None:
            kill(self._process)
        self._process, self.stage, self.share = None, "", None

    async def close(self) -> None:
        """Stop the running process and wait for its exit."""
        process = self._process
        self.stop()
        if process is not None:
            await process.wait()


def default_output(file: Path, what: str = "predictions") -> Path:
    """Default output path next to the file: new.csv.gz → new-predictions.csv, new.parquet → new-predictions.parquet."""
    suffix = ".parquet" if file.suffix.lower() in (".parquet", ".pq") else ".csv"
    return file.with_name(f"{file.name.split('.')[0] or file.name}-{what}{suffix}")


def _sentence(complaints: str, code: int, rejected: str) -> str:
    """Why the command had no result: its last line on stderr, an output line that was rejected, or its exit code."""
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    if not lines and rejected:
        return rejected
    if not lines:
        return f"The command was killed (signal {-code})." if code < 0 else f"The command ended with code {code}."
    return lines[-1].removeprefix("tabapp: ").removeprefix("error: ")
