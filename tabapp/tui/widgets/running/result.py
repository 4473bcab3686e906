"""The result of a run on one card."""

from __future__ import annotations

from dataclasses import dataclass

from textual.geometry import Size

from tabapp.run.texts.verdict import Verdict
from tabapp.tui.chrome.actions import actions_for
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.viewmodels.texts import MUTED
from tabapp.tui.viewmodels.verdict_lines import verdict_lines

KEYS = {"e": "export", "6": "predict", "R": "report", "5": "explain", "n": "new run", "+": "continue", "r": "resume"}
"""Words for the keys that follow a run, of which those are shown that have an action. A run that ended early is resumed."""
OF_A_BUNDLE = ("e", "6", "R")


@dataclass(frozen=True)
class ResultFacts:
    """A verdict, and whether the run has a bundle that the keys act on."""

    verdict: Verdict
    has_bundle: bool


class Result(Panel[ResultFacts]):
    """The verdict, with the keys that follow. It is as high as its text if the style sheet lets it."""

    def on_facts(self, facts: ResultFacts) -> None:
        set_titles(self, "Result", "esc hides")
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(verdict_lines(self._facts.verdict, width)) + 1 if self._facts is not None and width > 0 else 1

    def draw(self, facts: ResultFacts, width: int, height: int) -> list[Content]:
        lines = verdict_lines(facts.verdict, width)
        room = height - 1
        if len(lines) > room:
            lines = [*lines[: max(0, room - 1)], Content.styled("… w on ★ shows all", MUTED)]
        return [*lines, _keys(facts)]


def _keys(facts: ResultFacts) -> Content:
    usable = {action.shown_key for action in actions_for("run", "after")}
    other_end = "+" if facts.verdict.is_interrupted else "r"
    hidden = {other_end, *(() if facts.has_bundle else OF_A_BUNDLE)}
    shown = [(key, word) for key, word in KEYS.items() if key in usable and key not in hidden]
    return Content("  ").join([Content.assemble((key, "bold $primary"), (f" {word}", MUTED)) for key, word in shown])
