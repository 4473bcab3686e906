"""Requests for rows of a run's table, and the replies: JSON lines between a screen and its pager.

A reply carries the `id` of its request.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tabapp.run.record.messages import Message, Vocabulary

Cells = Sequence[Sequence[str | None]]
"""Cells as text by row; None for an empty cell."""


class RowCondition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One term of a filter; see `tabapp.data.reading.pages.Condition`. `column` None searches all columns."""

    column: str | None
    operator: str
    value: str
    number: float | None
    negated: bool


class Request(Message, frozen=True, kw_only=True, tag_field="ask"):
    """The base of all requests. `id` is set by the sender."""

    id: int = 0


class ReadHead(Request, tag="head", frozen=True, kw_only=True):
    """Read the first `count` rows directly from the file. Reply: `Head`."""

    count: int


class OpenTable(Request, tag="open", frozen=True, kw_only=True):
    """Read the whole table. Reply: `Opened`."""


class ReadPage(Request, tag="page", frozen=True, kw_only=True):
    """Read a block of cells of the sorted and filtered table. Reply: `Page`, or `Stale` when a later page is waiting."""

    start: int
    count: int
    first_column: int
    columns: int


class ReadCell(Request, tag="cell", frozen=True, kw_only=True):
    """Read one cell in full. Reply: `Cell`."""

    row: int
    column: int


class SortRows(Request, tag="sort", frozen=True, kw_only=True):
    """Sort by a column; None restores the order of the file. Reply: `Height`."""

    column: int | None
    descending: bool = False


class FindText(Request, tag="find", frozen=True, kw_only=True):
    """Find the next row that contains a text, from `start` in `direction` (1 or -1). Reply: `Found`, or `Stale`."""

    text: str
    start: int
    direction: int


class FilterRows(Request, tag="filter", frozen=True, kw_only=True):
    """Keep the rows that meet all conditions. Reply: `Height`, or `Stale` when a later search replaces it."""

    conditions: Sequence[RowCondition]


class Cancel(Request, tag="cancel", frozen=True, kw_only=True):
    """Stop the search or filter in progress. Reply: `Canceled`."""


class InspectColumn(Request, tag="inspect", frozen=True, kw_only=True):
    """Compare a column with the target of the current plan. Reply: `Inspected`."""

    column: str


class RateColumns(Request, tag="rate", frozen=True, kw_only=True):
    """Measure how well each column alone predicts the target of the current plan. Reply: `Rated`."""


AnyRequest = (
    ReadHead | OpenTable | ReadPage | ReadCell | SortRows | FindText | FilterRows | Cancel | InspectColumn | RateColumns
)


class Reply(Message, frozen=True, kw_only=True, tag_field="reply"):
    """The base of all replies. `id` is that of the request."""

    id: int = 0


class Head(Reply, tag="head", frozen=True, kw_only=True):
    """The first rows of the file; empty for a format that has no readable head. `about` estimates the number of rows."""

    names: Sequence[str] = ()
    cells: Cells = ()
    about: int | None = None


class Opened(Reply, tag="opened", frozen=True, kw_only=True):
    """The table is read.

    Attributes:
        rows: of the table; `height` counts those that pass the filter.
        widths: of the columns, in terminal cells.
        note: where the rows come from, when that is not the file as the run read it.
    """

    names: Sequence[str]
    rows: int
    height: int
    widths: Sequence[int]
    note: str


class Page(Reply, tag="page", frozen=True, kw_only=True):
    """Cells, with the row number of each row in the file, counted from 0."""

    numbers: Sequence[int]
    cells: Cells


class Cell(Reply, tag="cell", frozen=True, kw_only=True):
    """The text of a cell; None for an empty one."""

    text: str | None


class Height(Reply, tag="height", frozen=True, kw_only=True):
    """The number of rows that pass the filter."""

    height: int


class Found(Reply, tag="found", frozen=True, kw_only=True):
    """The place of a match; `row` is None when there is none."""

    row: int | None = None
    column: int = 0


class ValueBin(msgspec.Struct, frozen=True, kw_only=True):
    """A range of numbers or one value, and its rows by group of the target."""

    label: str
    counts: Sequence[int]


class Inspected(Reply, tag="inspected", frozen=True, kw_only=True):
    """A column beside the target; see `tabapp.data.inspection.Inspection`. `reading` has sentences on how its cells are read."""

    groups: Sequence[str] = ()
    rows: Sequence[int] = ()
    missing: Sequence[int] = ()
    bins: Sequence[ValueBin] = ()
    distinct: int = 0
    association: float | None = None
    measure: str = ""
    reading: Sequence[str] = ()


class Rated(Reply, tag="rated", frozen=True, kw_only=True):
    """How well each column alone predicts the target, from 0 to 1."""

    associations: dict[str, float]


class Canceled(Reply, tag="canceled", frozen=True, kw_only=True):
    """The search or filter in progress has stopped."""


class Stale(Reply, tag="stale", frozen=True, kw_only=True):
    """A later request has replaced this one."""


class Failed(Reply, tag="failed", frozen=True, kw_only=True):
    """The request failed; `message` is a sentence for the user."""

    message: str


AnyReply = Head | Opened | Page | Cell | Height | Found | Inspected | Rated | Canceled | Stale | Failed

REQUESTS: Vocabulary[AnyRequest] = Vocabulary("pager request", "ask", AnyRequest)
REPLIES: Vocabulary[AnyReply] = Vocabulary("pager reply", "reply", AnyReply)
