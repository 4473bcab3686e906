"""Text of the screens: printable whatever it contains, and never markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.content import Content as _Content
from textual.content import Span
from textual.filter import LineFilter

from tabapp.printable import is_printable, multi_line, one_line

if TYPE_CHECKING:
    # The methods of Textual's Content return its own class, which a type checker would not accept as the subclass.
    from textual.content import Content
else:

    class Content(_Content):
        """Textual's Content, which replaces hidden characters of its text; newlines and tabs stay.

        Textual alone removes five control characters and writes all others, ESC included, to the terminal.
        """

        def __init__(
            self,
            text: str = "",
            spans: list[Span] | None = None,
            cell_length: int | None = None,
            strip_control_codes: bool = True,
        ) -> None:
            super().__init__(multi_line(text), spans, cell_length, strip_control_codes)


def flat(content: Content) -> Content:
    """Content as one line; its styles stay, because one character replaces one character."""
    text = content.plain
    return content if is_printable(text) else Content(one_line(text), list(content.spans))


class PrintableFilter(LineFilter):
    """Blanks hidden characters in drawn lines: the last guard, for widgets that draw text themselves, such as Input."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(segment.control or is_printable(segment.text) for segment in segments):
            return segments
        return [segment if segment.control else Segment(_blanked(segment.text), segment.style) for segment in segments]


def _blanked(text: str) -> str:
    return "".join(character if is_printable(character) else " " * cell_len(character) for character in text)
