"""Export of the bundle or a report of a run to a path of the user."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tabapp import files
from tabapp.errors import UsageError
from tabapp.tui.dialogs.basic import Ask
from tabapp.tui.paths import can_be_written, exists, is_file, quoted, typed_path
from tabapp.tui.session.host import Host


def ask_for_export(app: Host) -> None:
    """Ask for a path and copy the bundle there, or write a report if the path is one of a report; warn if there is no bundle."""
    finished = app.snapshot().state.finished
    if finished is None:
        app.notify(
            "The bundle is written when the run ends. To finish the run now, press f on screen 1.", severity="warning"
        )
        return
    bundle = Path(finished.bundle) if finished.bundle else app.folder.bundle
    if not is_file(bundle):
        # The file of --out may have been moved; the run keeps its own.
        bundle = app.folder.bundle
    if not is_file(bundle):
        app.notify(f"This run has no bundle. {finished.message}", severity="warning")
        return
    default = f"./{Path(app.config.data).name.split('.')[0]}.tabapp"
    message = (
        "The bundle contains everything that `tabapp predict` needs. "
        "A path that ends with .html, .md or .json gets a report of the run instead."
    )
    asked: set[Path] = set()

    def check(text: str) -> str:
        path = typed_path(text)
        if not text.strip() or not can_be_written(path):
            raise UsageError(f"{quoted(text)} is not a file in a folder that exists; write a path like {default}.")
        if exists(path) and path not in asked:
            asked.add(path)
            raise UsageError(f"{path} exists; press enter once more to replace it.")
        return str(path)

    def export(path: str | None) -> None:
        if path is not None:
            from tabapp.report.write import FORMATS

            write = _report if Path(path).suffix.lower() in FORMATS else _copy
            app.run_worker(write(app, bundle, Path(path)), exit_on_error=False)

    app.push_screen(Ask("Export the bundle or a report", message, default, check), export)


async def _copy(app: Host, bundle: Path, path: Path) -> None:
    try:
        await asyncio.to_thread(lambda: files.write_bytes(path, files.read_regular(bundle)))
        app.notify(f"tabapp predict {path} NEW.csv -o OUT.csv", title=f"Saved {path}", timeout=8)
    except OSError as error:
        app.notify(f"{path} could not be written: {error.strerror}.", title="Not exported", severity="error")


async def _report(app: Host, bundle: Path, path: Path) -> None:
    from tabapp.report.write import write_report

    try:
        await asyncio.to_thread(write_report, app.folder, path)
        app.notify(f"The report of the run is in {path}.", title=f"Saved {path}", timeout=8)
    except UsageError as error:
        app.notify(str(error), title="Not exported", severity="error")
