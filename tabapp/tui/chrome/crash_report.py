"""Report of a crash of the terminal UI: a file, in the run folder if there is one, and a sentence for the user."""

from __future__ import annotations

import tempfile
import traceback
from pathlib import Path

from tabapp import files
from tabapp.run.record.folder import RunFolder


def report_crash(folder: RunFolder | None) -> str:
    """Write the traceback of the current exception and return a message for the user.

    Textual would print the values of all local variables, which may contain the user's data.
    """
    report = Path(tempfile.gettempdir(), "tabapp-crash.txt") if folder is None else folder.path / "crash.txt"
    try:
        files.write_text(report, traceback.format_exc())
        where = f"; see {report}"
    except OSError:
        where = ""
    crashed = f"The terminal UI has crashed because of a bug in tabapp{where}."
    if folder is None:
        return crashed
    return f"{crashed} The run is not affected; `tabapp attach {folder.argument}` opens it again."
