"""The pager process of a screen: `python -m tabapp.processes.pager RUN_DIR`.

It serves rows of the table of a run over stdin and stdout. Screens load no table library, and the engine is busy during a run
and exits after it. The pager reads the table at the first request beyond the first rows, and exits when its standard input
ends.

Requests and replies are the JSON lines of `tabapp.run.protocol.paging`. Only the last of several waiting page requests is answered
in full, and a new search or filter replaces the one in progress; replaced requests get the reply `stale`.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tabapp import files
from tabapp.data.reading.head import first_rows
from tabapp.errors import ExitCode, TabappError, UsageError
from tabapp.run.protocol import paging
from tabapp.run.record.confining import own_config
from tabapp.run.record.folder import RunFolder

if TYPE_CHECKING:
    from tabapp.data.reading.pages import Condition, Pages
    from tabapp.processes.inspected_columns import InspectedColumns

Work = Generator[None, None, paging.AnyReply]
REPLACEABLE = (paging.FindText, paging.FilterRows, paging.Cancel)
"""Requests that end the search or filter in progress."""


class Pager:
    """Answers requests about the table of one run.

    Args:
        run: the run folder.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._config = own_config(RunFolder(run))
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._opened: Pages | None = None
        self._inspected: InspectedColumns | None = None
        self._note = ""

    def serve(self) -> None:
        """Answer requests until standard input ends."""
        threading.Thread(target=self._listen, daemon=True).start()
        work: Work | None = None
        work_id = 0
        while True:
            requests = self._next_requests(wait=work is None)
            last_page = max((i for i, r in enumerate(requests) if isinstance(r, paging.ReadPage)), default=-1)
            for index, request in enumerate(requests):
                if isinstance(request, REPLACEABLE) and work is not None:
                    work = None
                    _answer(work_id, paging.Stale())
                try:
                    if isinstance(request, paging.ReadPage) and index < last_page:
                        _answer(request.id, paging.Stale())
                    elif isinstance(request, paging.FindText | paging.FilterRows):
                        work, work_id = self._begin(request), request.id
                    else:
                        _answer(request.id, self._do(request))
                except TabappError as error:
                    _answer(request.id, paging.Failed(message=str(error)))
            if work is not None:
                try:
                    next(work)
                except StopIteration as end:
                    work = None
                    _answer(work_id, end.value)

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            self._lines.put(line)
        # Exit at once, even during a read: no client waits for the result.
        os._exit(ExitCode.OK)

    def _next_requests(self, *, wait: bool) -> list[paging.AnyRequest]:
        lines = [self._lines.get()] if wait else []
        while not self._lines.empty():
            lines.append(self._lines.get())
        requests: list[paging.AnyRequest] = []
        for line in lines:
            try:
                requests.append(paging.REQUESTS.decode(line))
            except TabappError as error:
                _answer(_id_of(line), paging.Failed(message=str(error)))
        return requests

    def _do(self, request: paging.AnyRequest) -> paging.AnyReply:
        match request:
            case paging.ReadHead():
                return self._head(request.count)
            case paging.OpenTable():
                pages = self._pages()
                return paging.Opened(
                    names=pages.names,
                    rows=pages.whole_height,
                    height=pages.height,
                    widths=pages.widths(),
                    note=self._note,
                )
            case paging.ReadPage():
                numbers, cells = self._pages().page(request.start, request.count, request.first_column, request.columns)
                return paging.Page(numbers=numbers, cells=cells)
            case paging.ReadCell():
                return paging.Cell(text=self._pages().cell(request.row, request.column))
            case paging.SortRows():
                self._pages().sort(request.column, descending=request.descending)
                return paging.Height(height=self._pages().height)
            case paging.InspectColumn():
                return self._columns().inspect(request.column)
            case paging.RateColumns():
                return self._columns().rate()
            case _:
                return paging.Canceled()

    def _begin(self, request: paging.FindText | paging.FilterRows) -> Work:
        pages = self._pages()
        if isinstance(request, paging.FindText):
            return self._find(pages, request)
        from tabapp.data.reading.pages import Condition

        return self._filter(pages, [Condition(**msgspec.structs.asdict(term)) for term in request.conditions])

    def _find(self, pages: Pages, request: paging.FindText) -> Work:
        found = yield from pages.find(request.text, request.start, request.direction)
        return paging.Found() if found is None else paging.Found(row=found[0], column=found[1])

    def _filter(self, pages: Pages, conditions: Sequence[Condition]) -> Work:
        yield from pages.filter(conditions)
        return paging.Height(height=pages.height)

    def _head(self, count: int) -> paging.Head:
        config = self._config
        head = first_rows(Path(config.data), count, delimiter=config.delimiter, encoding=config.encoding)
        return paging.Head() if head is None else paging.Head(names=head.names, cells=head.rows, about=head.about)

    def _pages(self) -> Pages:
        """The table, read on first use.

        Raises:
            TabappError: the table cannot be read.
        """
        if self._opened is None:
            # Imported here because the first rows are shown before the table library is loaded.
            from tabapp.data.reading.pages import Pages

            self._opened = Pages(self._table())
        return self._opened

    def _columns(self) -> InspectedColumns:
        """The columns of the current plan, whose options a screen may have changed.

        Raises:
            TabappError: the table cannot be read, or an option is not valid.
        """
        from tabapp.processes.inspected_columns import InspectedColumns

        config = own_config(RunFolder(self._run))
        if self._inspected is None or not self._inspected.is_for(config):
            self._inspected = InspectedColumns(config)
        return self._inspected

    def _table(self) -> Any:
        from tabapp.data.reading.pages import open_table, saved_rows
        from tabapp.data.reading.read import ReadOptions

        config, path = self._config, Path(self._config.data)
        try:
            frame = open_table(path, ReadOptions.of(config))
        except TabappError as error:
            kept = saved_rows(self._run / "data" / "table.arrow")
            if kept is None:
                raise
            reason = str(error).rstrip(".")
            self._note = (
                f"The file can no longer be read ({reason}). These are the rows that the models were trained on."
            )
            return kept
        if _size_when_read(self._run) not in (None, path.stat().st_size):
            self._note = "The file has changed since the run read it. These are its current rows."
        return frame


def _size_when_read(run: Path) -> int | None:
    try:
        return files.read_json(run / "data" / "fingerprint.json")["bytes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _id_of(line: bytes) -> int:
    """The id of a request that is rejected, so that its sender stops waiting; 0 when it has none."""
    try:
        number = msgspec.json.decode(line, type=dict[str, Any]).get("id", 0)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0
    return number if isinstance(number, int) else 0


def _answer(number: int, reply: paging.AnyReply) -> None:
    sys.stdout.buffer.write(paging.REPLIES.encode(msgspec.structs.replace(reply, id=number)))
    sys.stdout.buffer.flush()


def main(arguments: list[str] | None = None) -> int:
    """Serve one screen; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tabapp.processes.pager", description="The pager process of a screen."
    )
    parser.add_argument("run", type=Path, help="the run folder")
    options = parser.parse_args(arguments)
    # Ctrl+C in a terminal reaches the whole process group; only the screen handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pager = Pager(options.run)
    except UsageError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    pager.serve()
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
