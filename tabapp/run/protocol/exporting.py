"""Exports that train or measure models: their options, and the messages of the process that does it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tabapp.children import module_command
from tabapp.errors import TabappError, UsageError, error_for, option, spelling_of_children
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.messages import Message, Vocabulary

ROWS_PER_LIMIT = 1000
"""Rows that `ExportOptions.limit_ms` is for by default."""


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to rebuild a bundle.

    Attributes:
        refit: one model for each candidate, trained on all rows, instead of its models of the folds.
        limit_ms: processor time to predict `limit_rows` rows, which the ensemble is selected for; None for no limit.
        distill: train one model of this name to imitate the ensemble.
        half: store weights in half precision where predictions hardly change.
        preview: the best models so far of a run in progress; the other fields do not apply.
    """

    refit: bool = False
    limit_ms: float | None = None
    limit_rows: int = ROWS_PER_LIMIT
    distill: str | None = None
    half: bool = False
    preview: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the bundle of the run is copied as it is."""
        return self.limit_ms is None and self.distill is None and not self.refit and not self.half and not self.preview

    def check(self) -> None:
        """Raises: UsageError: the options contradict each other or are out of range."""
        if self.distill is not None and (self.refit or self.limit_ms is not None):
            raise UsageError(
                f"{option('distill')} trains one model on all rows. Omit {option('refit')} and {option('limit_ms')}."
            )
        if self.limit_ms is not None and not self.limit_ms > 0:
            raise UsageError(f"{option('limit_ms')} {self.limit_ms:g} is not above 0.")
        if self.limit_rows < 1:
            raise UsageError(f"{option('limit_rows', self.limit_rows)} is not above 0.")


class ExportMessage(Message, frozen=True, kw_only=True, tag_field="event"):
    """The base of all messages."""


class StageStarted(ExportMessage, tag="stage", frozen=True, kw_only=True):
    """What the process does now, such as "training catboost on all rows"."""

    stage: str


class ExportRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Size, speed and score of a bundle.

    Attributes:
        models: number of trained models.
        n_bytes: size of the file.
        ms: milliseconds of processor time to predict the rows of `Compared`.
        score: out-of-fold score with its 95 % interval.
    """

    title: str
    models: int
    n_bytes: int
    ms: float
    score: float | None
    low: float | None
    high: float | None


class Compared(ExportMessage, tag="compared", frozen=True, kw_only=True):
    """The bundle of the run and the new one, which is not written yet.

    Attributes:
        threshold_note: what became of the threshold of the run's bundle; empty if it has none.
        notes: further sentences for the user.
    """

    metric: str
    n_rows: int
    rows: Sequence[ExportRow]
    threshold_note: str = ""
    notes: Sequence[str] = ()


class Written(ExportMessage, tag="written", frozen=True, kw_only=True):
    """The new bundle is written."""

    path: str


class PreviewWritten(ExportMessage, tag="preview", frozen=True, kw_only=True):
    """The bundle of the best models so far is written: how many are in it, and their score on `folds` of the `planned_folds`."""

    path: str
    members: int
    metric: str
    score: float | None
    folds: int
    planned_folds: int


class Failed(ExportMessage, tag="failed", frozen=True, kw_only=True):
    """The export failed; `message` is a sentence for the user."""

    message: str
    exit_code: int


AnyExportMessage = StageStarted | Compared | PreviewWritten | Written | Failed

EXPORT: Vocabulary[AnyExportMessage] = Vocabulary("message of the exporter", "event", AnyExportMessage)


def run_export(
    folder: RunFolder, out: Path, options: ExportOptions, receive: Callable[[AnyExportMessage], None]
) -> None:
    """Rebuild the bundle of a run in a process of its own, and write it to a file.

    Args:
        receive: called with each message but `Failed`.

    Raises:
        TabappError: the options are not valid, the run cannot be used, or the file cannot be written.
    """
    options.check()
    command = module_command(
        "tabapp.processes.exporter", str(folder.path), str(out), msgspec.json.encode(options).decode()
    )
    environment = {**os.environ, **spelling_of_children()}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    assert process.stdout is not None
    is_written = False
    try:
        for line in process.stdout:
            message = EXPORT.decode(line)
            if isinstance(message, Failed):
                raise error_for(message.exit_code, message.message)
            is_written = isinstance(message, Written)
            receive(message)
        code = process.wait()
    finally:
        process.kill()
        process.communicate()
    if not is_written:
        reason = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        raise TabappError(f"The export {reason}, and {out} is not written. Free memory, or export fewer models.")
