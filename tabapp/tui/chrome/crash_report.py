"""Report of a crash of the terminal UI: a file in the run folder and a sentence for the user."""

from __future__ import annotations

import traceback

from tabapp import files
from tabapp.run.record.folder import RunFolder


def report_crash(folder: RunFolder) -> str:
    """Write the traceback of the current exception and return a message for the user.

    Textual would print the values of all local variables, which may contain the user's data.
    """
    report = folder.path / "crash.txt"
    try:
        files.write_text(report, traceback.format_exc())
        where = f"; see {report}"
    except OSError:
        where = ""
    return (
        f"The terminal UI has crashed because of a bug in tabapp{where}. "
        f"The run is not affected; `tabapp attach {folder.argument}` opens it again."
    )
