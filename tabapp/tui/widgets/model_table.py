"""A table of models in which those that were not started are folded into one line."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp.run.record import events as ev
from tabapp.run.record.state import RunState
from tabapp.tui.content import Content
from tabapp.tui.parts.table import Table
from tabapp.tui.viewmodels.texts import MUTED, count

FOLD_KEY = "not started"
"""Key of the line of folded models; names of models have no spaces."""
LEAST_FOLDED = 2


def split_not_started(
    rows: Sequence[ev.LeaderboardRow],
) -> tuple[list[ev.LeaderboardRow], list[ev.LeaderboardRow]]:
    """The rows to show and those to fold: models of which no fit started within the budget.

    A single such model is not folded, for its line would take the same room.
    """
    folded = [row for row in rows if row.not_started]
    if len(folded) < LEAST_FOLDED:
        return list(rows), []
    return [row for row in rows if not row.not_started], folded


class ModelTable(Table):
    """Base of the leaderboard and of the list of models.

    Attributes:
        unfolded: the models not started are shown one by one.
    """

    unfolded = False

    @property
    def model(self) -> str | None:
        """The model under the cursor; None on the line of folded models."""
        return None if self.key == FOLD_KEY else self.key

    def toggle_fold(self) -> bool:
        """Show or hide the models not started if the cursor is on their line; returns whether it is."""
        if self.key == FOLD_KEY:
            self.unfolded = not self.unfolded
        return self.key == FOLD_KEY

    def unfold_for(self, model: str, state: RunState) -> None:
        """Show the models not started if a model is among them."""
        _, folded = split_not_started(state.leaderboard)
        if any(row.model == model for row in folded):
            self.unfolded = True

    def fold_line(self, number: int, *, short: bool = False) -> Content:
        """The name of the line with the number of folded models."""
        models = f"{number} more" if short else count(number, "model")
        return Content.styled(f"{'▾' if self.unfolded else '▸'} {models}", MUTED)
