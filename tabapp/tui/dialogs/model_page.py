"""Dialog: the page of a model, as `tabapp models NAME` prints it."""

from __future__ import annotations

from asyncio.subprocess import PIPE
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Markdown

from tabapp.printable import multi_line
from tabapp.run.protocol.child import start_child
from tabapp.tui.dialogs.basic import Dialog


class ModelPage(Dialog):
    """Shows a page that another process writes, which may load the plugin of the model."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,enter,i,question_mark,f1", "dismiss", show=False),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
    ]

    def __init__(self, name: str, title: str) -> None:
        super().__init__(f"Model · {title}")
        self._model = name

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog", classes="reading"):
            yield Markdown("Reading the page…", open_links=False)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(VerticalScroll).focus()
        self.run_worker(self._fetch(), exit_on_error=False)

    async def _fetch(self) -> None:
        try:
            process = await start_child("tabapp", "models", self._model, stderr=PIPE)
            output, problem = await process.communicate()
        except OSError as error:
            output, problem = b"", str(error).encode()
        text = output.decode(errors="replace") or problem.decode(errors="replace") or "There is no page of this model."
        if self.is_attached:
            await self.query_one(Markdown).update(multi_line(text))

    def action_scroll(self, lines: int) -> None:
        """Scroll the page."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)
