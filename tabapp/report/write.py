"""Writes the report of a run to a file, in the format that its name ends with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tabapp import files
from tabapp.errors import UsageError
from tabapp.report.examples import Example
from tabapp.report.make import make_report
from tabapp.report.parts import Report
from tabapp.run.record import events as ev
from tabapp.run.record.folder import EventReader, RunFolder

FORMATS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".json": "json"}


def format_of(path: Path) -> str:
    """The format of a report by the end of its name: html, md or json.

    Raises:
        UsageError: the name ends with something else.
    """
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        raise UsageError(f"The format of {path} is unknown. Choose a name that ends with .html, .md or .json.")
    return found


def report_of(folder: RunFolder, examples: Sequence[Example] = ()) -> Report:
    """The report of a run, finished or not, with explained rows.

    Raises:
        UsageError: the run has not read its table yet.
    """
    state = folder.state()
    if state.read is None:
        raise UsageError(f"The run {folder.run} has not read its table yet, so there is nothing to report.")
    started = [event for event in EventReader(folder.events).read_new() if isinstance(event, ev.RunStarted)]
    environment = {"tabapp": started[-1].version, **started[-1].environment} if started else {}
    return make_report(state, environment=environment, examples=examples)


def rendered(report: Report, form: str) -> str:
    """The report as text.

    Args:
        form: html, md or json.
    """
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n"
    if form == "md":
        from tabapp.report.markdown import to_markdown

        return to_markdown(report)
    from tabapp.report.html import to_html

    return to_html(report)


def write_report(folder: RunFolder, path: Path, form: str | None = None, examples: Sequence[Example] = ()) -> None:
    """Write the report of a run.

    Args:
        form: html, md or json; by the name of the file if None.
        examples: explained rows.

    Raises:
        UsageError: the format is unknown, the run has nothing to report, or the file cannot be written.
    """
    write_rendered(report_of(folder, examples), path, form or format_of(path))


def write_rendered(report: Report, path: Path, form: str) -> None:
    """Write a report in a format.

    Raises:
        UsageError: the file cannot be written.
    """
    text = rendered(report, form)
    try:
        files.write_bytes(path, text.encode(errors="backslashreplace"))
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}). Choose another path.") from None
