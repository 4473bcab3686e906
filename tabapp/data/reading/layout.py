"""A layout of lines other than CSV, and its text rewritten as CSV.

Each line is rewritten as one line, so that everything after the layout is the same for all tables. A line that holds no cells,
such as a ruler, becomes blank.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Rewritten:
    """A text as CSV.

    Attributes:
        dropped: lines that are no part of a drawn table.
        rulers: number of lines of dashes.
    """

    data: bytes
    dropped: list[str] = field(default_factory=list[str])
    rulers: int = 0


@dataclass(frozen=True)
class Layout:
    """How lines are split.

    Attributes:
        found: a sentence for the user.
        action: what is done.
        shown: the delimiter that is reported.
        cells: the cells of a line: none for a ruler, and None for a line that is outside of the table.
        whole: rewrites a text whose records may have several lines, instead of `cells`.
        delimiter: of the text after rewriting.
    """

    found: str
    action: str
    shown: str
    cells: Callable[[str], list[str] | None] = lambda line: [line]
    whole: Callable[[str], str] | None = None
    delimiter: str = ","

    def rewrite(self, data: bytes) -> Rewritten:
        """A text in this layout as CSV with the same number of lines."""
        text = data.decode("utf-8", "replace")
        if self.whole is not None:
            return Rewritten(self.whole(text).encode())
        done = Rewritten(b"")
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator="\n")
        lines = text.split("\n")
        for number, line in enumerate(lines):
            cells = self.cells(line.rstrip("\r")) if line.strip() else []
            if cells:
                writer.writerow(cells)
                continue
            if number < len(lines) - 1:
                out.write("\n")
            if cells is None:
                done.dropped.append(line.strip())
            elif line.strip():
                done.rulers += 1
        done.data = out.getvalue().encode()
        return done
