"""Dialogs: choose from a list, enter a text, decide by a key, read a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tabapp.errors import TabappError
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED, count


@dataclass(frozen=True)
class Option:
    """An option: returned value, label and note.

    Attributes:
        key: selects it directly in a `Decision`.
        dangerous: ends or deletes something, so that a `Decision` does not open with the cursor on it.
    """

    value: str
    label: str
    note: str = ""
    key: str = ""
    dangerous: bool = False


HEAD = "bold $primary"


class Dialog(ModalScreen[str | None]):
    """A centered box; Escape closes it without an answer, and F1 or ? explains it.

    Attributes:
        KEY_HELP: its keys with what they do, beside Escape.
    """

    CSS_PATH = sheet("dialogs")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+q", "dismiss", show=False),
        Binding("f1,question_mark", "help", show=False),
    ]
    KEY_HELP: ClassVar[Sequence[tuple[str, str]]] = ()

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def on_mount(self) -> None:
        set_titles(self.query_one("#dialog"), self._title)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.dismiss(None)

    def action_help(self) -> None:
        """Show in full what is under the cursor, what can be typed, and the keys."""
        parts = [self.about_row(), self.about()]
        keys = [*self.KEY_HELP, ("esc", "Close without a change.")]
        width = max(len(key) for key, _ in keys) + 2
        lines = [Content.assemble((key.ljust(width), "bold"), what) for key, what in keys]
        parts.append(Content("\n").join([Content.styled("Keys", HEAD), *lines]))
        self.app.push_screen(Reading(f"Help · {self._title}", Content("\n\n").join(part for part in parts if part)))

    def about(self) -> Content:
        """What the dialog asks for, if its rows do not say it."""
        return Content("")

    def about_row(self) -> Content:
        """The row under the cursor, also where it is cut."""
        table = next(iter(self.query(Table)), None)
        row = next((row for row in table.rows if row.key == table.key), None) if table is not None else None
        if table is None or row is None:
            return Content("")
        texts = [
            f"{column.title} {text}" if table.has_header else text
            for column, cell in zip(table.columns, row.cells, strict=True)
            if len(text := cell.plain.strip()) > 1
        ]
        return Content("\n").join([Content.styled("Under the cursor", HEAD), Content(" · ".join(texts))])


def typing_help(hint: str) -> Content:
    """What can be typed, from the hint in an empty line."""
    return Content.assemble(("To type", HEAD), f"\n{hint[:1].upper()}{hint[1:]}.") if hint else Content("")


MOST_NARROW = 60
"""Longest label and note together that fit into a narrow dialog."""


class FilterLine(Input):
    """A line whose first character is no question mark, which explains the dialog instead."""

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return (key != "question_mark" or bool(self.value)) and super().check_consume_key(key, character)


class Choice(Dialog):
    """Choose an option with the arrow keys and Enter; typing filters the list.

    If no option matches, `parse` turns the typed text into an answer or raises a TabappError.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "list('move(-1)')", show=False, priority=True),
        Binding("down", "list('move(1)')", show=False, priority=True),
        Binding("pageup", "list('page(-1)')", show=False, priority=True),
        Binding("pagedown", "list('page(1)')", show=False, priority=True),
        Binding("question_mark", "help", show=False, priority=True),
    ]
    KEY_HELP = (
        ("↑ ↓", "Move."),
        ("enter", "Choose the option under the cursor, or the typed value where none matches."),
    )

    def __init__(
        self,
        title: str,
        options: Sequence[Option],
        *,
        current: str | None = None,
        hint: str = "type to filter",
        parse: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(title)
        self._options = options
        self._current = current
        self._hint = hint
        self._parse = parse

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="choice"):
            yield FilterLine(placeholder=self._hint, id="typed", compact=True)
            columns = [Column("", width=1), Column("name"), Column("note", flexible=True)]
            empty = "No match. Press enter to use the typed text." if self._parse else "No match."
            yield Table(columns, header=False, id="options", empty=empty)
            yield Static("", id="detail")
            yield Static("", id="problem")

    def on_mount(self) -> None:
        widest = max([0, *(len(option.label) + len(option.note) for option in self._options)])
        self.query_one("#dialog").set_class(widest > MOST_NARROW, "-wide")
        self._fill("")
        table = self.query_one(Table)
        table.can_focus = False
        table.styles.height = min(len(self._options), 14)
        self.query_one(Input).focus()
        if self._current is not None:
            table.move_to_key(self._current)

    def _fill(self, typed: str) -> None:
        words = typed.casefold().split()
        rows = [
            Row(
                option.value,
                (
                    Content.styled("●" if option.value == self._current else " ", "$accent"),
                    Content(option.label),
                    Content.styled(option.note, MUTED),
                ),
            )
            for option in self._options
            if all(word in f"{option.label} {option.value}".casefold() for word in words)
        ]
        self.query_one(Table).show(rows)

    @on(Table.Moved)
    def _show_detail(self) -> None:
        """Show the note of the option under the cursor, if its row cuts it."""
        table = self.query_one(Table)
        option = next((option for option in self._options if option.value == table.key), None)
        names = max([0, *(len(each.label) for each in self._options)])
        is_cut = option is not None and len(option.note) > table.size.width - names - 9
        detail = self.query_one("#detail", Static)
        detail.display = is_cut
        detail.update(Content.styled(option.note if option is not None else "", MUTED))

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        self._fill(event.value)
        self.query_one("#problem", Static).update("")

    @on(Input.Submitted)
    def _choose(self, event: Input.Submitted) -> None:
        key = self.query_one(Table).key
        if key is not None:
            self.dismiss(key)
        elif self._parse is not None:
            try:
                self.dismiss(self._parse(event.value))
            except TabappError as error:
                self.query_one("#problem", Static).update(Content.styled(str(error), "$error"))

    @on(Table.Selected)
    def _double_clicked(self, event: Table.Selected) -> None:
        self.dismiss(event.key)

    async def action_list(self, action: str) -> None:
        await self.query_one(Table).run_action(action)

    def about(self) -> Content:
        return typing_help(self._hint)


class Ask(Dialog):
    """Enter a text. `check` returns the answer or raises a TabappError, whose message is shown.

    Attributes:
        KEYS: the keys in its last line.
    """

    KEYS: ClassVar[str] = "enter  confirm    f1  help    esc  cancel"
    KEY_HELP = (("enter", "Confirm the text. An invalid one stays, with the reason."),)

    def __init__(self, title: str, message: str, value: str, check: Callable[[str], str]) -> None:
        super().__init__(title)
        self._message = message
        self._value = value
        self._check = check

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="ask"):
            yield Static(Content(self._message), id="message")
            yield Input(self._value, id="typed", compact=True)
            yield Static("", id="problem")
            yield Static(Content.styled(self.KEYS, MUTED))

    def about(self) -> Content:
        return typing_help(self._message.rstrip(".:"))

    @on(Input.Submitted)
    def submit(self) -> None:
        """Close the dialog with the text as the answer, if it is valid."""
        try:
            self.dismiss(self._check(self.query_one(Input).value))
        except TabappError as error:
            self.query_one("#problem", Static).update(Content.styled(str(error), "$error"))


class Decision(Dialog):
    """Choose by a key, or with the arrow keys and Enter. `stay` labels the option of Escape, which changes nothing.

    The cursor starts on the first option that is not dangerous.
    """

    KEY_HELP = (("letter", "Choose the option beside it."), ("↑ ↓ enter", "Move to an option, and choose it."))

    def __init__(self, title: str, message: str, options: Sequence[Option], *, stay: str = "Cancel") -> None:
        super().__init__(title)
        self._message = message
        self._stay = Option("", stay, key="esc")
        self._options = [*options, self._stay]

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="decision"):
            yield Static(Content(self._message), id="message")
            columns = [Column("key", width=3), Column("label"), Column("note", flexible=True)]
            yield Table(columns, header=False, id="options")

    def on_mount(self) -> None:
        self._fill()
        self._go_to_safe_option()

    def about(self) -> Content:
        lines = [
            Content.assemble(
                (f"{option.key.ljust(5)}{option.label}", "bold"), f": {option.note}" if option.note else ""
            )
            for option in self._options
        ]
        return Content("\n").join([Content(self._message), Content(""), *lines])

    def about_row(self) -> Content:
        return Content("")

    def ask(self, title: str, message: str, options: Sequence[Option]) -> None:
        """Replace the question after the state of the run has changed."""
        asked = (title, message, [*options, self._stay])
        if asked != (self._title, self._message, self._options):
            self._title, self._message, self._options = asked
            self.query_one("#message", Static).update(Content(message))
            known = self.query_one(Table).key
            self._fill()
            if known not in [option.value for option in self._options]:
                self._go_to_safe_option()

    def _go_to_safe_option(self) -> None:
        self.query_one(Table).move_to_key(next(option.value for option in self._options if not option.dangerous))

    def _fill(self) -> None:
        set_titles(self.query_one("#dialog"), self._title)
        table = self.query_one(Table)
        table.styles.height = len(self._options)
        table.show(
            [
                Row(
                    option.value,
                    (
                        Content.styled(option.key, "bold $primary"),
                        Content(option.label),
                        Content.styled(option.note, MUTED),
                    ),
                )
                for option in self._options
            ]
        )

    def on_key(self, event: events.Key) -> None:
        for option in self._options:
            if option.key in (event.key, event.character):
                event.stop()
                self.dismiss(option.value)

    @on(Table.Selected)
    def _selected(self, event: Table.Selected) -> None:
        self.dismiss(event.key or None)


class Reading(Dialog):
    """A scrollable text that shows how many lines follow. Escape, Enter, q and ? close it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,enter,question_mark,f1", "dismiss", show=False),
        Binding("j", "scroll('down')", show=False),
        Binding("k", "scroll('up')", show=False),
        Binding("g", "scroll('home')", show=False),
        Binding("G", "scroll('end')", show=False),
    ]

    def __init__(self, title: str, text: Content, *, at_end: str = "") -> None:
        super().__init__(title)
        self._text = text
        self._at_end = at_end

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="dialog", classes="reading"):
            yield Static(self._text)

    def on_mount(self) -> None:
        box = self.query_one(VerticalScroll)
        box.focus()
        self.watch(box, "scroll_y", self._show_remaining)
        self.watch(box, "virtual_size", self._show_remaining)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_remaining)

    def _show_remaining(self) -> None:
        box = self.query_one(VerticalScroll)
        below = round(box.max_scroll_y - box.scroll_y)
        end = f" · G {self._at_end}" if self._at_end else ""
        set_titles(box, subtitle=f"▼ j {count(below, 'line')} more{end} · esc closes" if below > 0 else "esc closes")

    def action_scroll(self, where: str) -> None:
        box = self.query_one(VerticalScroll)
        {"down": box.scroll_down, "up": box.scroll_up, "home": box.scroll_home, "end": box.scroll_end}[where](
            animate=False
        )
