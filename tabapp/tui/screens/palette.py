"""The command palette: all actions of the current screen and all models on the leaderboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tabapp.printable import one_line
from tabapp.tui.chrome.actions import actions_for
from tabapp.tui.content import Content
from tabapp.tui.screens.base import RunView


class ActionProvider(Provider):
    """Finds actions by name ("noun: verb")."""

    def _commands(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        view = cast(RunView, self.screen)
        snapshot = view.snapshot
        for action in actions_for(view.VIEW, snapshot.phase):
            if action.id != "app.palette":
                yield f"{action.name}  ({action.shown_key})", action.help, partial(view.run_action, action.action)
        for row in snapshot.state.leaderboard:
            jump = partial(view.tabapp.go_to_model, row.model)
            yield f"model: {one_line(row.title)}", "Go to this model on the leaderboard.", jump

    async def discover(self) -> Hits:
        for name, help_text, run in self._commands():
            yield DiscoveryHit(Content(name), run, text=name, help=help_text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, help_text, run in self._commands():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, help=help_text)
