"""Export of the bundle or a report of a run to a path of the user."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from tabapp import files
from tabapp.errors import TabappError, UsageError
from tabapp.run.protocol.child import start_child
from tabapp.run.protocol.exporting import AnyExportMessage, Compared, ExportOptions, PreviewWritten, run_export
from tabapp.run.record.confining import bundle_of
from tabapp.run.record.outputs import reject_replacing
from tabapp.tui.dialogs.basic import Ask, Choice, Option
from tabapp.tui.paths import can_be_written, exists, is_file, quoted, typed_path
from tabapp.tui.session.background import unattended
from tabapp.tui.session.host import Host
from tabapp.tui.session.preview_bundle import can_be_previewed, preview_text
from tabapp.tui.viewmodels.exports import comparison_text, export_kinds

FORMS = {".onnx": "--onnx", ".sql": "--sql", ".py": "--python"}
"""The option of `tabapp export` for paths with these suffixes."""


def ask_for_export(app: Host, suffix: str = ".tabapp") -> None:
    """Ask for a path and copy the bundle there, or write a report if the path is one of a report; warn if there is no bundle.

    Args:
        suffix: of the proposed path.
    """
    finished = app.whole_state.finished
    if finished is None and can_be_previewed(app.snapshot().state):
        _ask_for_preview(app)
        return
    if finished is None:
        app.notify(
            "There is no bundle yet: the first model has no score on all folds. Then e exports the best models so far.",
            severity="warning",
        )
        return
    bundle = bundle_of(app.folder, finished, is_own=app.is_own)
    if not is_file(bundle):
        app.notify(f"This run has no bundle. {finished.message}", severity="warning")
        return
    default = f"./{Path(app.config.data).name.split('.')[0]}{suffix}"
    message = (
        "The bundle contains everything that `tabapp predict` needs. "
        "A path that ends with .html, .md or .json gets a report of the run instead, "
        "one with .onnx, .sql or .py the model in that form."
    )
    asked: set[Path] = set()

    def export(path: str | None) -> None:
        if path is None:
            return
        from tabapp.report.write import FORMATS

        if Path(path).suffix.lower() in FORMATS:
            app.run_worker(_report(app, bundle, Path(path)), exit_on_error=False)
        elif Path(path).suffix.lower() in FORMS:
            app.run_worker(_convert(app, bundle, Path(path)), exit_on_error=False)
        elif dialog.wants_kinds:
            _ask_for_kind(app, bundle, Path(path))
        else:
            app.run_worker(_copy(app, bundle, Path(path)), exit_on_error=False)

    dialog = ExportDialog(
        "Export the bundle or a report", message, default, lambda text: _checked(app, text, default, asked)
    )
    app.push_screen(dialog, export)


def _ask_for_preview(app: Host) -> None:
    """Ask where to write the best models so far of a run in progress."""
    default = f"./{Path(app.config.data).name.split('.')[0]}-preliminary.tabapp"
    asked: set[Path] = set()
    state = "has stopped" if app.trouble is not None else "continues"
    message = f"The run {state}, so this bundle is preliminary: it has the best models so far. Write it to"

    def checked(text: str) -> str:
        from tabapp.report.write import FORMATS

        suffix = typed_path(text).suffix.lower()
        if suffix in FORMS or suffix in FORMATS:
            raise UsageError(f"A {suffix} file is written once the run has ended; write a path like {default}.")
        return _checked(app, text, default, asked)

    dialog = Ask("Export a preliminary bundle", message, default, checked)

    def export(path: str | None) -> None:
        if path is not None:
            app.run_worker(_preview(app, Path(path)), exit_on_error=False)

    app.push_screen(dialog, export)


async def _preview(app: Host, path: Path) -> None:
    made: list[PreviewWritten] = []

    def receive(message: AnyExportMessage) -> None:
        if isinstance(message, PreviewWritten):
            made.append(message)

    try:
        await unattended(lambda: run_export(app.run_of_target, path, ExportOptions(preview=True), receive))
    except TabappError as error:
        app.notify(str(error), title="Not exported", severity="error")
        return
    then = "" if app.trouble is not None else " The run continues."
    app.notify(f"Preliminary: {preview_text(made[-1])}.{then}", title=f"Saved {path}", timeout=8)


def _checked(app: Host, text: str, default: str, asked: set[Path]) -> str:
    """The path of an export as typed.

    Args:
        asked: files for which the user was asked before they are replaced.

    Raises:
        UsageError: it cannot be written, is a part of the run, or exists and was not asked for yet.
    """
    path = typed_path(text)
    if not text.strip() or not can_be_written(path):
        raise UsageError(f"{quoted(text)} is not a file in a folder that exists; write a path like {default}.")
    reject_replacing(app.folder, path)
    if exists(path) and path not in asked:
        asked.add(path)
        raise UsageError(f"{path} exists; press enter once more to replace it.")
    return str(path)


class ExportDialog(Ask):
    """Asks for a path. Tab instead of Enter asks for the kind of bundle, too."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "choose_kind", show=False, priority=True)]
    KEYS = "enter  export    tab  smaller or faster    f1  help    esc  cancel"
    KEY_HELP = (
        ("enter", "Write the bundle to the path."),
        ("tab", "Write a smaller or faster bundle there: choose among its forms, with their score, size and speed."),
    )
    wants_kinds = False

    def action_choose_kind(self) -> None:
        self.wants_kinds = True
        self.submit()


def _ask_for_kind(app: Host, bundle: Path, path: Path) -> None:
    """Ask whether to copy the bundle or to rebuild it, with the size, speed and score of each kind."""
    kinds = export_kinds(app.snapshot().state, bundle.stat().st_size)
    options = [Option(str(number), kind.label, kind.note) for number, kind in enumerate(kinds)]

    def chosen(value: str | None) -> None:
        if value is None:
            return
        kind = kinds[int(value)]
        write = _copy(app, bundle, path) if kind.options.is_plain else _rebuild(app, kind.options, path)
        app.run_worker(write, exit_on_error=False)

    app.push_screen(Choice("Which bundle?", options, current="0"), chosen)


async def _rebuild(app: Host, options: ExportOptions, path: Path) -> None:
    """Rebuild the bundle in a process of its own, which may take as long as the fits of one fold."""
    compared: list[Compared] = []

    def receive(message: AnyExportMessage) -> None:
        if isinstance(message, Compared):
            compared.append(message)

    app.notify("The export trains models in the background; a message says when the file is there.", title="Exporting")
    try:
        await unattended(lambda: run_export(app.run_of_target, path, options, receive))
    except TabappError as error:
        app.notify(str(error), title="Not exported", severity="error")
        return
    app.notify(comparison_text(compared[-1]), title=f"Saved {path}", timeout=12)


async def _copy(app: Host, bundle: Path, path: Path) -> None:
    try:
        await asyncio.to_thread(lambda: files.write_bytes(path, files.read_regular(bundle)))
        app.notify(f"tabapp predict {shlex.quote(str(path))} NEW.csv -o OUT.csv", title=f"Saved {path}", timeout=8)
    except OSError as error:
        app.notify(f"{path} could not be written: {error.strerror}.", title="Not exported", severity="error")


async def _convert(app: Host, bundle: Path, path: Path) -> None:
    """Write the model in another form by `tabapp export`, in a process of its own."""
    source = app.run_of_target.path if path.suffix.lower() == ".py" else bundle
    app.notify("A message says when the file is there.", title="Exporting")
    try:
        process = await start_child("tabapp", "export", str(source), FORMS[path.suffix.lower()], str(path), "--quiet")
    except OSError as error:
        app.notify(f"The command could not be started: {error.strerror}.", title="Not exported", severity="error")
        return
    _, complaints = await process.communicate()
    if process.returncode:
        lines = complaints.decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"The command ended with code {process.returncode}."
        app.notify(reason.removeprefix("tabapp: ").removeprefix("error: "), title="Not exported", severity="error")
    else:
        app.notify(f"{path} is written.", title=f"Saved {path}", timeout=8)


async def _report(app: Host, bundle: Path, path: Path) -> None:
    from tabapp.report.write import write_report

    try:
        await asyncio.to_thread(write_report, app.folder, path)
        app.notify(f"The report of the run is in {path}.", title=f"Saved {path}", timeout=8)
    except UsageError as error:
        app.notify(str(error), title="Not exported", severity="error")
