"""Dialog: one column beside the target, with the keys that change what it is used for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from tabapp.run.protocol import paging
from tabapp.run.record import events as ev
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Dialog
from tabapp.tui.viewmodels.column_facts import inspection_text
from tabapp.tui.viewmodels.texts import MUTED

KEYS = "K  kind   t  target   T  also predict   space  include or ignore   n N  next, previous column   esc  close"


class ColumnInspector(Dialog):
    """Shows a column. The answer is the action that a key chooses: kind, target, also, include, next or previous.

    Args:
        warnings: all of the table.
        ask: returns the reply of the pager for the column.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("K", "answer('kind')", show=False),
        Binding("t", "answer('target')", show=False),
        Binding("T", "answer('also')", show=False),
        Binding("space", "answer('include')", show=False),
        Binding("n", "answer('next')", show=False),
        Binding("N", "answer('previous')", show=False),
        Binding("q,enter", "dismiss", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
    ]

    KEY_HELP = (
        ("K", "Change the kind of the column."),
        ("t", "Predict the column."),
        ("T", "Predict it too, or no longer."),
        ("space", "Include it as a feature, or ignore it."),
        ("n N", "Show the next or the previous column."),
        ("↑ ↓", "Scroll."),
    )

    def __init__(
        self,
        column: ev.ColumnView,
        warnings: Sequence[ev.WarningView],
        n_rows: int,
        target: str,
        ask: Callable[[], Awaitable[paging.AnyReply]],
    ) -> None:
        super().__init__(f"Column · {column.name}")
        self._column = column
        self._warnings = warnings
        self._n_rows = n_rows
        self._target = target
        self._ask = ask
        self._facts: paging.Inspected | None = None
        self._trouble = ""

    def about(self) -> Content:
        column = self._column
        return Content.assemble((f"{column.name}, {column.kind}", "bold"), (": ", MUTED), column.reason)

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="inspector"):
            with VerticalScroll(id="inspected"):
                yield Static("", id="facts")
            yield Static(Content.styled(KEYS, MUTED), id="keys")

    def on_mount(self) -> None:
        super().on_mount()
        self.call_after_refresh(self._draw)
        self.run_worker(self._fetch(), exit_on_error=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    async def _fetch(self) -> None:
        reply = await self._ask()
        if isinstance(reply, paging.Inspected):
            self._facts = reply
        elif isinstance(reply, paging.Failed):
            self._trouble = reply.message
        self._draw()

    def _draw(self) -> None:
        if not self.is_attached:
            return
        width = max(40, self.query_one("#inspected").size.width - 2)
        column, warnings = self._column, self._warnings
        text = inspection_text(column, self._facts, warnings, self._n_rows, self._target, width, self._trouble)
        self.query_one("#facts", Static).update(text)

    def action_answer(self, name: str) -> None:
        """Close the dialog with an action."""
        self.dismiss(name)

    def action_scroll(self, lines: int) -> None:
        """Scroll the text."""
        self.query_one("#inspected").scroll_relative(y=lines, animate=False)
