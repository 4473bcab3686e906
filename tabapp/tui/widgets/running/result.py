"""The result of a run on one card."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp.run.texts.verdict import Verdict
from tabapp.tui.chrome.actions import actions_for
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.viewmodels.texts import MUTED
from tabapp.tui.viewmodels.verdict_lines import verdict_lines

KEYS = {"e": "export", "6": "predict", "5": "explain", "R": "report", "n": "new run", "+": "continue", "esc": "hide"}
"""Words for the keys that follow a run, of which those are shown that have an action."""


@dataclass(frozen=True)
class ResultFacts:
    """A verdict, and whether the run has a bundle that the keys act on."""

    verdict: Verdict
    has_bundle: bool


class Result(Panel[ResultFacts]):
    """The verdict, with the keys that follow."""

    def on_facts(self, facts: ResultFacts) -> None:
        set_titles(self, "Result")

    def draw(self, facts: ResultFacts, width: int, height: int) -> list[Content]:
        lines = verdict_lines(facts.verdict, width)
        keys = _keys(facts.has_bundle)
        room = height - 1
        if len(lines) > room:
            lines = [*lines[: max(0, room - 1)], Content.styled("… w on ★ shows all", MUTED)]
        return [*lines, keys]


def _keys(has_bundle: bool) -> Content:
    usable = {action.shown_key for action in actions_for("run", "after")}
    shown = [(key, word) for key, word in KEYS.items() if key in usable and (has_bundle or key not in ("e", "6", "R"))]
    return Content("  ").join([Content.assemble((key, "bold $primary"), (f" {word}", MUTED)) for key, word in shown])
