"""The reader process of a screen: `python -m tabapp.pager RUN_DIR`. It shows any rows of the run's table, by JSON lines.

A screen loads no library for tables, and the engine is busy during a run and gone after it; so whoever looks at the rows has this
process, which reads the run's file when it is first asked for more than the first rows, and ends when its standard input does.

Requests are {"id": n, "ask": what, …}; the answer has the same id. Of pages only the last one asked is answered in full: whoever
scrolls on does not wait for what is gone by. A search or a filter is given up for the next one. Answers to what was given up are
{"id": n, "stale": true}, and what cannot be done is {"id": n, "error": sentence}.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tabapp.data.head import first_rows
from tabapp.errors import TabappError
from tabapp.run.config import RunConfig

if TYPE_CHECKING:
    from tabapp.data.pages import Pages

Request = dict[str, Any]
Work = Generator[None, None, dict[str, Any]]


class Pager:
    """Answers requests about one run's table.

    Args:
        run: the run folder.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._config = msgspec.json.decode((run / "run.json").read_bytes(), type=RunConfig)
        self._requests: queue.Queue[Request] = queue.Queue()
        self._opened: Pages | None = None
        self._note = ""

    def serve(self) -> None:
        """Answer until standard input ends."""
        threading.Thread(target=self._listen, daemon=True).start()
        work: Work | None = None
        working_on = 0
        while True:
            for request in _without_stale_pages(self._next_requests(wait=work is None)):
                number = request.get("id", 0)
                try:
                    if request.get("ask") in ("find", "filter", "cancel") and work is not None:
                        work = None
                        _answer(working_on, stale=True)
                    if request.get("stale"):
                        _answer(number, stale=True)
                    elif request.get("ask") in ("find", "filter"):
                        work, working_on = self._begin(request), number
                    else:
                        _answer(number, **self._do(request))
                except TabappError as error:
                    _answer(number, error=str(error))
                except (KeyError, TypeError, ValueError) as error:
                    _answer(number, error=f"The request could not be understood ({error}).")
            if work is not None:
                try:
                    next(work)
                except StopIteration as end:
                    work = None
                    _answer(working_on, **end.value)

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            try:
                self._requests.put(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError:
                continue
        # At once, whatever is being read: nobody waits for it any more.
        os._exit(0)

    def _next_requests(self, *, wait: bool) -> list[Request]:
        requests = [self._requests.get()] if wait else []
        while not self._requests.empty():
            requests.append(self._requests.get())
        return requests

    def _do(self, request: Request) -> dict[str, Any]:
        match request.get("ask"):
            case "head":
                return self._head(request["count"])
            case "open":
                pages = self._pages()
                return {
                    "names": pages.names,
                    "rows": pages.whole_height,
                    "height": pages.height,
                    "widths": pages.widths(),
                    "note": self._note,
                }
            case "page":
                numbers, cells = self._pages().page(
                    request["start"], request["count"], request["first_column"], request["columns"]
                )
                return {"numbers": numbers, "cells": cells}
            case "cell":
                return {"text": self._pages().cell(request["row"], request["column"])}
            case "sort":
                self._pages().sort(request["column"], descending=request.get("descending", False))
                return {"height": self._pages().height}
            case "cancel":
                return {}
            case other:
                raise ValueError(other)

    def _begin(self, request: Request) -> Work:
        pages = self._pages()
        if request["ask"] == "find":
            return self._find(pages, request["text"], request["start"], request["direction"])
        from tabapp.data.pages import Condition

        return self._filter(pages, msgspec.convert(request["conditions"], list[Condition]))

    def _find(self, pages: Pages, text: str, start: int, direction: int) -> Work:
        found = yield from pages.find(text, start, direction)
        return {"row": None} if found is None else {"row": found[0], "column": found[1]}

    def _filter(self, pages: Pages, conditions: list[Any]) -> Work:
        yield from pages.filter(conditions)
        return {"height": pages.height}

    def _head(self, count: int) -> dict[str, Any]:
        config = self._config
        head = first_rows(Path(config.data), count, delimiter=config.delimiter, encoding=config.encoding)
        return {} if head is None else {"names": head.names, "cells": head.rows, "about": head.about}

    def _pages(self) -> Pages:
        """The table; read when it is first needed.

        Raises:
            TabappError: it cannot be read.
        """
        if self._opened is None:
            # Only now: the first rows are shown before the library for tables is loaded.
            from tabapp.data.pages import Pages

            self._opened = Pages(self._table())
        return self._opened

    def _table(self) -> Any:
        from tabapp.data.pages import laid_down, open_table
        from tabapp.data.read import ReadOptions

        config, path = self._config, Path(self._config.data)
        options = ReadOptions(
            delimiter=config.delimiter, encoding=config.encoding, decimal=config.decimal, null=config.null
        )
        try:
            frame = open_table(path, options)
        except TabappError as error:
            kept = laid_down(self._run / "data" / "table.arrow")
            if kept is None:
                raise
            self._note = f"These are the rows that models learned from: the file cannot be read any more ({error})."
            return kept
        if _size_when_read(self._run) not in (None, path.stat().st_size):
            self._note = "The file has changed since the run read it; these are its rows of now."
        return frame


def _size_when_read(run: Path) -> int | None:
    try:
        return msgspec.json.decode((run / "data" / "fingerprint.json").read_bytes())["bytes"]
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        return None


def _without_stale_pages(requests: list[Request]) -> list[Request]:
    """The requests with all pages but the last marked as stale."""
    last = max((index for index, request in enumerate(requests) if request.get("ask") == "page"), default=-1)
    return [
        {**request, "stale": True} if request.get("ask") == "page" and index < last else request
        for index, request in enumerate(requests)
    ]


def _answer(number: int, **content: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode({"id": number, **content}) + b"\n")
    sys.stdout.buffer.flush()


def main(arguments: list[str] | None = None) -> int:
    """Serve one screen."""
    parser = argparse.ArgumentParser(prog="python -m tabapp.pager", description="The reader process of a screen.")
    parser.add_argument("run", type=Path, help="the run folder")
    options = parser.parse_args(arguments)
    # Ctrl+C in a terminal reaches the whole process group: the screen alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pager = Pager(options.run)
    except (OSError, msgspec.DecodeError) as error:
        print(f"{options.run} is no run folder: {error}", file=sys.stderr)
        return 2
    pager.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
