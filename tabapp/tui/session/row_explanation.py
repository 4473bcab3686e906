"""Explanation of single rows: the client of the process `tabapp.processes.explainer`, and what a screen shows of one row."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tabapp.run.protocol import row_requests as messages
from tabapp.tui.json_process import JsonProcess

_Reply = TypeVar("_Reply", bound=messages.Reply)


class ExplainerClient(JsonProcess[messages.AnyRequest, messages.AnyReply]):
    """Requests explanations from `tabapp.processes.explainer`."""

    MODULE = "tabapp.processes.explainer"

    def __init__(
        self, bundle: Path, data: Path, *, fill: bool, trust: Path | None = None, training: Path | None = None
    ) -> None:
        super().__init__(messages.REQUESTS, messages.REPLIES)
        self.bundle, self.data, self.fill, self.trust, self.training = bundle, data, fill, trust, training

    def arguments(self) -> list[str]:
        words = [str(self.bundle), str(self.data), *(["--fill"] if self.fill else [])]
        words += [] if self.trust is None else ["--trust", str(self.trust)]
        return words if self.training is None else [*words, "--training", str(self.training)]

    def not_sent(self, reason: str) -> messages.AnyReply:
        return messages.Failed(message=f"The row cannot be explained: {reason}.")

    def ended(self) -> messages.AnyReply:
        return messages.Failed(message="The process that explains rows has ended.", fatal=True)

    def is_fatal(self, reply: messages.AnyReply) -> bool:
        return isinstance(reply, messages.Failed) and reply.fatal


class RowExplanation:
    """One row of a file: its changed values, and what is known of their prediction.

    Attributes:
        row: counted from 0.
        values: changed cells as text by column, None for a missing one.
        fixed: columns that a search for changes keeps.
        original: the cells of the file.
        predicted, explained, curve, changes: the latest replies; None before the first.
        goal: what `changes` reach.
        working: what is being computed, in words; empty when idle.
        trouble: the last error as a sentence.
    """

    def __init__(self, client: ExplainerClient, row: int, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self._turn = 0
        self.row = row
        self.values: dict[str, str | None] = {}
        self.fixed: set[str] = set()
        self.original: messages.Values = {}
        self.label: str | None = None
        self.predicted: messages.RowPredicted | None = None
        self.explained: messages.RowExplained | None = None
        self.curve: messages.CurveDrawn | None = None
        self.changes: messages.ChangesFound | None = None
        self.goal = ""
        self.working = ""
        self.trouble = ""

    @property
    def is_current(self) -> bool:
        """Whether the contributions are those of the changed values."""
        cells = self.explained.cells if self.explained is not None else None
        return cells is not None and cells == {**self.original, **self.values}

    def command(self) -> str:
        """The command that gives the same explanation."""
        client = self._client
        words = ["tabapp", "explain", str(client.bundle), str(client.data), "--row", str(self.row)]
        for name, value in self.values.items():
            words += ["--set", f"{name}={value or ''}"]
        if client.trust is not None:
            words += ["--trust", str(client.trust)]
        if client.training is not None and self.explained is not None and self.explained.neighbors:
            words += ["--training", str(client.training)]
        return shlex.join([*words, *(["--missing-columns", "fill"] if client.fill else [])])

    async def show(self, column: str | None = None) -> None:
        """Predict and explain the row as changed, then draw the curve of a column."""
        self._turn += 1
        turn = self._turn
        self.working = "loading the bundle" if self.explained is None else "predicting"
        self._changed()
        predicted = await self._ask(messages.PredictRow(row=self.row, values=self.values), messages.RowPredicted)
        if turn != self._turn:
            return
        if predicted is not None:
            self.predicted = predicted
            self.working = "explaining"
            self._changed()
            request = messages.ExplainRow(row=self.row, values=self.values, label=self.label)
            explained = await self._ask(request, messages.RowExplained)
            if explained is not None and turn == self._turn:
                self._take(explained)
        if turn == self._turn:
            self.working = ""
            self._changed()
            if predicted is not None and column is not None:
                await self.draw(column)

    def _take(self, explained: messages.RowExplained) -> None:
        self.explained = explained
        self.label = explained.label
        if not self.original:
            self.original = {name: cell for name, cell in explained.cells.items() if name not in self.values}

    async def draw(self, column: str) -> None:
        """Draw the curve of a column."""
        request = messages.DrawCurve(row=self.row, values=self.values, column=column, label=self.label)
        found = await self._ask(request, messages.CurveDrawn)
        if found is not None:
            self.curve = found
            self._changed()

    async def search(self, goal: str) -> None:
        """Find the nearest changes that reach a class or a number."""
        self.goal, self.changes, self.working = goal, None, "searching for changes"
        self._changed()
        request = messages.FindChanges(row=self.row, values=self.values, goal=goal, fixed=tuple(sorted(self.fixed)))
        self.changes = await self._ask(request, messages.ChangesFound)
        self.working = ""
        self._changed()

    async def _ask(self, request: messages.AnyRequest, kind: type[_Reply]) -> _Reply | None:
        reply = await self._client.ask(request)
        self.trouble = ""
        if isinstance(reply, messages.Failed):
            self.trouble = reply.message
        return reply if isinstance(reply, kind) else None
