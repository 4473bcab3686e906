"""The preliminary bundle of a run in progress: the best models so far, made when a screen needs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tabapp.errors import TabappError
from tabapp.run.protocol.exporting import AnyExportMessage, ExportOptions, PreviewWritten, StageStarted, run_export
from tabapp.run.record.events import EnsembleChanged
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.state import RunState, format_score
from tabapp.tui.session.background import unattended

PREVIEW = "preview.tabapp"


def can_be_previewed(state: RunState) -> bool:
    """Whether a run in progress has a model with a score on all of its folds, so that a preliminary bundle can be made."""
    return state.finished is None and state.ensemble is not None


def preview_of(folder: RunFolder) -> Path:
    """The file of the preliminary bundle of a run."""
    return folder.path / PREVIEW


def preview_text(made: PreviewWritten) -> str:
    """What is in a preliminary bundle, such as "ensemble of 3, ROC AUC 0.8744"."""
    what = f"ensemble of {made.members}" if made.members > 1 else "one model"
    folds = "" if made.folds == made.planned_folds else f" ({made.folds} of {made.planned_folds} folds)"
    return f"{what}, {made.metric} {format_score(made.score)}{folds}"


class PreviewBundle:
    """Makes the preliminary bundle of a run, again whenever the ensemble has changed since.

    Attributes:
        made: what is in the file; None before it is made.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._of: EnsembleChanged | None = None
        self.made: PreviewWritten | None = None

    async def make(self, state: RunState, show: Callable[[str], None]) -> str:
        """Make the bundle of the ensemble of a state; returns why there is none, empty if there is one.

        Args:
            show: receives the stage in words, on another thread.
        """
        ensemble, path = state.ensemble, preview_of(self._folder)
        if self.made is not None and ensemble == self._of and path.is_file():
            return ""

        def receive(message: AnyExportMessage) -> None:
            if isinstance(message, StageStarted):
                show(message.stage)
            elif isinstance(message, PreviewWritten):
                self.made, self._of = message, ensemble

        try:
            await unattended(lambda: run_export(self._folder, path, ExportOptions(preview=True), receive))
        except TabappError as error:
            return str(error)
        return ""

    def remove(self) -> None:
        """Remove the file, which the bundle of the run replaces at its end."""
        with suppress(OSError):
            preview_of(self._folder).unlink(missing_ok=True)
