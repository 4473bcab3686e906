"""`--auto` on a terminal: a live leaderboard with Rich, and the result at the end."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tabapp.headless.summary import (
    LEADERBOARD_HEADER,
    LEADERBOARD_RIGHT,
    fold_not_started,
    leaderboard_cells,
    print_result,
)
from tabapp.headless.warned import NewWarnings
from tabapp.printable import one_line
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.state import RunState
from tabapp.run.texts.progress import progress_of
from tabapp.run.texts.provisional import provisional_scores

REFRESH_PER_SECOND = 4
FEED_LINES = 4


def progress_line(state: RunState, now: float) -> tuple[float, str]:
    """The share for the progress bar, in [0, 1], and the stage with elapsed and remaining seconds."""
    words = "paused" if state.paused else state.stage
    progress = progress_of(state, now)
    if progress is None:
        return 0.0, words
    words += f" · {format_duration(int(progress.elapsed))} elapsed"
    return (
        progress.share or 0.0,
        words if progress.left is None else f"{words} · ~{format_duration(int(progress.left))} left",
    )


def render(state: RunState, now: float, *, verbose: bool = False) -> Group:
    """The whole live view as one Rich renderable."""
    share, words = progress_line(state, now)
    head = Text.assemble((one_line(state.name or "tabapp"), "bold"), "  ", (words, "dim"))
    if state.plan is not None:
        plan = state.plan
        head = Text.assemble(
            (one_line(plan.target), "bold"),
            one_line(f" · {plan.task} · {plan.metric_title} · {plan.validation}  "),
            (words, "dim"),
        )
    parts: list[object] = [head, ProgressBar(total=1.0, completed=share, width=60)]
    if state.leaderboard and state.plan is not None:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for i, name in enumerate(LEADERBOARD_HEADER):
            table.add_column(name, justify="right" if i in LEADERBOARD_RIGHT else "left", no_wrap=True)
        rows, folded = fold_not_started(state.leaderboard, verbose=verbose)
        provisional = provisional_scores(state)
        for row in rows:
            style = "bold" if row.rank == 1 else "red" if row.status == "failed" else "dim" if row.score is None else ""
            cells = leaderboard_cells(row, state.plan.folds, provisional.get(row.model))
            table.add_row(*(Text(one_line(cell)) for cell in cells), style=style)
        parts.append(table)
        if folded:
            parts.append(Text(folded, style="dim"))
    for line in state.feed[-FEED_LINES:]:
        clock = time.strftime("%H:%M:%S", time.localtime(line.t))
        text = one_line(f"{clock} {line.kind:<8} {line.text}")
        parts.append(Text(text, style="dim", overflow="ellipsis", no_wrap=True))
    return Group(*parts)  # type: ignore[arg-type]


class LiveView:
    """A live view that redraws at most `REFRESH_PER_SECOND` times a second, below the warnings about the data."""

    def __init__(self, run: str, *, verbose: bool, clock: Callable[[], float] = time.time) -> None:
        self._run = run
        self._verbose = verbose
        self._clock = clock
        self._live = Live(console=Console(stderr=True), refresh_per_second=REFRESH_PER_SECOND, transient=True)
        self._live.start()
        self._drawn = 0.0
        self._warnings = NewWarnings(every=verbose)

    def show(self, event: ev.AnyEvent, state: RunState) -> None:
        for text in self._warnings.of(event, self._run):
            self._live.console.print(Text(f"⚠ {one_line(text)}", style="yellow"))

    def tick(self, state: RunState) -> None:
        now = time.monotonic()
        if now - self._drawn >= 1 / REFRESH_PER_SECOND:
            self._drawn = now
            self._live.update(render(state, self._clock(), verbose=self._verbose))

    def close(self, state: RunState) -> None:
        self._live.stop()
        print_result(self._run, state, verbose=self._verbose)
