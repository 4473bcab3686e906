"""A fault of the screen itself: a report in the run folder, and a sentence for the user."""

from __future__ import annotations

import traceback

from tabapp import files
from tabapp.run.folder import RunFolder


def report_crash(folder: RunFolder) -> str:
    """Write the traceback of the exception at hand, and return what to tell the user.

    Textual would print it with the values of all local variables, which may hold the user's data.
    """
    report = folder.path / "crash.txt"
    try:
        files.write_text(report, traceback.format_exc())
        where = f"; {report} says where"
    except OSError:
        where = ""
    return (
        f"The screen has failed, which is a fault of tabapp{where}. "
        f"The run is not touched by it; `tabapp attach {folder.argument}` shows it again."
    )
