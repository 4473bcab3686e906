"""Progress of a run in a terminal, in a notebook, or nowhere."""

from __future__ import annotations

import html
import sys
import time
import warnings
from io import StringIO
from typing import Any, Literal

from tabapp.errors import TableWarning, UsageError
from tabapp.headless.follow import PlainView, View
from tabapp.headless.live import REFRESH_PER_SECOND, LiveView, render
from tabapp.headless.narration import say, sentence
from tabapp.headless.warned import NewWarnings
from tabapp.printable import one_line
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.score_text import validation_of
from tabapp.run.record.state import RunState, format_score
from tabapp.streams import is_unicode

Progress = bool | Literal["auto"]

NOTEBOOK_WIDTH = 110


def check_progress(progress: object) -> None:
    """Reject a value that is none of True, False and "auto".

    Raises:
        UsageError: names the value.
    """
    if progress not in (True, False, "auto"):
        raise UsageError(f"progress={progress!r} is not known; use True, False or 'auto'.")


def view_for(run: str, progress: Progress) -> View:
    """The view that shows a run: in a notebook where there is one, else on stderr.

    Args:
        run: names the run in commands.
        progress: False shows nothing; "auto" shows nothing where stderr is not a terminal.
    """
    if progress is False:
        return Silent(run)
    if (display := _notebook_display()) is not None:
        return NotebookView(run, display)
    if sys.stderr.isatty():
        return (
            TerminalView(run, verbose=False) if is_unicode(sys.stderr) else PlainLines(run, quiet=False, verbose=False)
        )
    return PlainLines(run, quiet=False, verbose=False) if progress is True else Silent(run)


def _notebook_display() -> Any:
    """IPython's `display` in the kernel of a notebook; None elsewhere. IPython is not imported for the answer."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display  # pyright: ignore[reportMissingImports]

    return display


class Silent:
    """Shows no progress. What is wrong with the data becomes warnings of Python."""

    def __init__(self, run: str) -> None:
        """`run` selects the run in proposed commands."""
        self._run = run
        self._warnings = NewWarnings()

    def show(self, event: ev.AnyEvent, state: RunState) -> None:
        for text in self._warnings.of(event, self._run):
            warnings.warn(sentence(text), TableWarning, stacklevel=_level_of_caller())

    def tick(self, state: RunState) -> None:
        pass

    def close(self, state: RunState) -> None:
        pass


class TerminalView(LiveView):
    """The live leaderboard of `tabapp --auto`, and one line at the end."""

    def close(self, state: RunState) -> None:
        self._live.stop()
        _say_result(state)


class PlainLines(PlainView):
    """A line on stderr for every event worth one."""

    def close(self, state: RunState) -> None:
        _say_result(state)


class NotebookView:
    """The live leaderboard with the warnings about the data as preformatted text below a notebook cell, redrawn in place."""

    def __init__(self, run: str, display: Any) -> None:
        """`run` selects the run in proposed commands."""
        self._run = run
        self._display = display
        self._handle: Any = None
        self._drawn = 0.0
        self._warnings = NewWarnings()
        self._lines: list[str] = []

    def show(self, event: ev.AnyEvent, state: RunState) -> None:
        self._lines += self._warnings.of(event, self._run)

    def tick(self, state: RunState) -> None:
        now = time.monotonic()
        if now - self._drawn >= 1 / REFRESH_PER_SECOND:
            self._drawn = now
            self._draw(state)

    def close(self, state: RunState) -> None:
        self._draw(state)

    def _draw(self, state: RunState) -> None:
        from rich.console import Console

        text = StringIO()
        console = Console(file=text, width=NOTEBOOK_WIDTH, color_system=None)
        for line in self._lines:
            console.print(f"⚠ {one_line(line)}", markup=False, highlight=False)
        console.print(render(state, time.time()))
        content = {"text/plain": text.getvalue(), "text/html": f"<pre>{html.escape(text.getvalue())}</pre>"}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def _level_of_caller() -> int:
    """The `stacklevel` of a warning that is about the line of the user's program which calls tabapp."""
    level, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    # Decorators of the interface are context managers.
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("tabapp", "contextlib"):
        level, frame = level + 1, frame.f_back
    return level


def _say_result(state: RunState) -> None:
    best, plan = state.best, state.plan
    if best is None or plan is None or state.finished is None:
        return
    interval = f"({format_score(best.low)} … {format_score(best.high)})"
    say(
        f"{best.title}: {plan.metric_title} {format_score(best.score)} {interval}, "
        f"{validation_of(best, plan.folds, plan.validation)}, "
        f"{format_duration(state.finished.seconds)}"
    )
