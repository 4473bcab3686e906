"""The upper panel of the Predict screen: input file, output file and progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from textual import events

from tabapp.printable import one_line
from tabapp.run.record.state import RunState
from tabapp.tui.chrome.actions import phase_of
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel
from tabapp.tui.paths import is_file
from tabapp.tui.viewmodels.texts import MUTED, count, keep_end, spinner

BAR_CELLS = 20


@dataclass(frozen=True)
class Facts:
    """The facts of the panel; `lacking` explains why there is no bundle, `trust` is empty if no signature is checked, and
    `preliminary` says which models predict while the run continues."""

    lacking: str
    file: str
    output: str
    keep: bool
    fill: bool
    rows: int | None
    stage: str
    share: float | None
    verdict: tuple[str, str]
    trust: str = ""
    preliminary: str = ""
    frame: int | None = None


class Job(Panel[Facts], can_focus=True):
    """Input file, output file and progress. A click on a line runs the action of its key; enter chooses the file, too."""

    LINES = ("choose", "output", "keep", "fill", "trust")

    _n_lines = 0
    """Lines that are shown and have a key."""

    def on_facts(self, facts: Facts) -> None:
        self.set_class(bool(facts.trust) and not facts.lacking, "-trusted")

    def draw(self, facts: Facts, width: int, height: int) -> Sequence[Content]:
        if facts.lacking:
            return [Content(""), *(Content.styled(line, "$warning") for line in wrap(facts.lacking, width))]
        rows = f" · {count(facts.rows, 'row')}" if facts.rows is not None else ""
        columns = "the columns of the file, then the predictions" if facts.keep else "only the predictions"
        missing = "treated as missing values" if facts.fill else "rejected"
        lines = [
            _line("f", "File", keep_end(facts.file, width - 19 - len(rows)) or "choose the file to predict", rows),
            _line("w", "Output", keep_end(facts.output, width - 19) or "—"),
            _line("i", "Columns", columns),
            _line("m", "Missing columns", missing),
        ]
        if facts.trust:
            lines.append(_line("t", "Trusted key", keep_end(facts.trust, width - 19)))
        self._n_lines = len(lines)
        note = [Content.styled(f"◔ {facts.preliminary}", "$warning")] if facts.preliminary else []
        return [*lines, *note, *self._progress(facts, width)]

    def _progress(self, facts: Facts, width: int) -> list[Content]:
        if not facts.stage:
            text, style = facts.verdict
            return [Content.styled(line, style) for line in wrap(text, width)]
        done = round((facts.share or 0.0) * BAR_CELLS)
        bar = [("━" * done, "$primary"), ("━" * (BAR_CELLS - done), "$surface-lighten-3")]
        share = f" {facts.share:4.0%}" if facts.share is not None else ""
        return [Content.assemble((f"{spinner(facts.frame)} ", "$primary"), *bar, (share, "bold"), f"  {facts.stage}")]

    async def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.y < self._n_lines:
            event.stop()
            await self.run_action(f"screen.{self.LINES[offset.y]}")


def _line(key: str, name: str, value: str, note: str = "") -> Content:
    return Content.assemble(
        (f"{key}  ", "bold $primary"), (f"{name:<16}", MUTED), (one_line(value), "$foreground"), (note, MUTED)
    )


def lacking_bundle(state: RunState, trouble: str | None, bundle: Path) -> str:
    """Why there is no bundle and what to do; empty if there is one, or if a preliminary one can be made."""
    if is_file(bundle) or (trouble is None and phase_of(state) == "during" and state.ensemble is not None):
        return ""
    if trouble is not None:
        return f"This run has no bundle: {trouble}"
    match phase_of(state):
        case "reading" | "ready":
            return "There is no bundle yet: the run writes it when it ends. ctrl+r on screen 2 starts the run."
        case "during":
            return "There is no bundle yet. Once a model has a score on all folds, the best models so far can predict here."
        case _:
            message = state.finished.message if state.finished is not None else ""
            return f"This run has no bundle. {message} Screen 7 has the other runs."
