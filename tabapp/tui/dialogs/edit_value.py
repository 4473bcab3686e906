"""Dialog: edit the value of a field of the plan; it stays open until the engine has accepted the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static

from tabapp.errors import TabappError
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Dialog, typing_help
from tabapp.tui.viewmodels.texts import MUTED

KEYS = "enter  confirm    empty  default    f1  help    esc  cancel"
Send = Callable[[Any, Callable[[str], None]], None]


class EditValue(Dialog):
    """Enter a value, of which an empty text is the default.

    Args:
        read: returns the value of the text, or raises a TabappError.
        send: requests the change, and calls back with why it is refused or an empty text.
        hint: what to type, shown while nothing is.
    """

    KEY_HELP = (("enter", "Confirm the value; an empty line is the default. An invalid one stays, with the reason."),)

    def __init__(
        self, title: str, message: str, value: str, read: Callable[[str], Any], send: Send, *, hint: str = ""
    ) -> None:
        super().__init__(title)
        self._message = message
        self._value = value
        self._read = read
        self._send = send
        self._hint = hint
        self._waits = False

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="ask"):
            yield Static(Content(self._message), id="message")
            yield Input(self._value, placeholder=self._hint, id="typed", compact=True)
            yield Static("", id="problem")
            yield Static(Content.styled(KEYS, MUTED))

    def about(self) -> Content:
        return Content("\n\n").join(part for part in (Content(self._message), typing_help(self._hint)) if part)

    @on(Input.Submitted)
    def submit(self) -> None:
        """Request the typed value, if it is valid."""
        if self._waits:
            return
        try:
            value = self._read(self.query_one(Input).value)
        except TabappError as error:
            self._say(str(error), "$error")
            return
        self._waits = True
        self._say("The plan is being updated…", MUTED)
        self._send(value, self._answered)

    def _answered(self, refusal: str) -> None:
        self._waits = False
        if not self.is_attached:
            return
        if refusal:
            self._say(refusal, "$error")
        else:
            self.dismiss(self.query_one(Input).value)

    def _say(self, text: str, style: str) -> None:
        self.query_one("#problem", Static).update(Content.styled(text, style))
