"""Requests to explain single predictions, and the replies: JSON lines between a screen and its explainer process
(`tabapp.processes.explainer`).

A reply carries the `id` of its request. `row` counts from 0; `values` are changed cells as text by column, None for a missing one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tabapp.run.record.messages import Message, Vocabulary

Values = Mapping[str, str | None]


class Request(Message, frozen=True, kw_only=True, tag_field="ask"):
    """The base of all requests. `id` is set by the sender."""

    id: int = 0


class PredictRow(Request, tag="predict", frozen=True, kw_only=True):
    """Predict a row with changed values. Reply: `RowPredicted`."""

    row: int
    values: Values


class ExplainRow(Request, tag="explain", frozen=True, kw_only=True):
    """Explain a row with changed values. Reply: `RowExplained`, or `Stale` when a later request of this kind waits.

    `label` is the class whose probability is explained, None for the predicted one.
    """

    row: int
    values: Values
    label: str | None = None


class DrawCurve(Request, tag="curve", frozen=True, kw_only=True):
    """Predict a row at many values of one column. Reply: `CurveDrawn`, or `Stale`."""

    row: int
    values: Values
    column: str
    label: str | None = None


class FindChanges(Request, tag="changes", frozen=True, kw_only=True):
    """Find the nearest changes that reach another output. Reply: `ChangesFound`.

    Attributes:
        goal: a class label, or a number that the prediction passes.
        fixed: columns that keep their values.
    """

    row: int
    values: Values
    goal: str
    fixed: Sequence[str] = ()


AnyRequest = PredictRow | ExplainRow | DrawCurve | FindChanges


class Reply(Message, frozen=True, kw_only=True, tag_field="reply"):
    """The base of all replies. `id` is that of the request."""

    id: int = 0


class RowPredicted(Reply, tag="predicted", frozen=True, kw_only=True):
    """A prediction.

    Attributes:
        prediction: class label, or number as text.
        probabilities: by class label; empty for a regression.
        low, high: the 90 % interval of a regression.
        positive, threshold: the class that the bundle labels rows with from a probability other than 0.5; None without one.
    """

    prediction: str
    probabilities: Mapping[str, float]
    low: float | None = None
    high: float | None = None
    positive: str = ""
    threshold: float | None = None


class NeighborRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A training row on which the prediction rests: its number in the training file, its weight in [0, 1] and its target.

    `cells` are its values as text by column; empty if the training file is not there.
    """

    row: int
    weight: float
    target: str
    cells: Values = msgspec.field(default_factory=dict)


class RowExplained(Reply, tag="explained", frozen=True, kw_only=True):
    """Contributions by column; they add up to the output minus the base.

    Attributes:
        label: the class whose probability `output` is; None for a regression.
        cells: text of each cell by column, with changes, None for a missing one.
        errors: half-widths of the 95 % Monte-Carlo intervals.
        neighbors: largest weight first.
    """

    label: str | None
    prediction: str
    base: float
    output: float
    cells: Values
    contributions: Mapping[str, float]
    errors: Mapping[str, float]
    neighbors: Sequence[NeighborRow] = ()


class CurveDrawn(Reply, tag="curve", frozen=True, kw_only=True):
    """The output at values of a column: numbers in `places`, or levels in `labels`; all empty if there is nothing to vary.

    `current` is the number, or the level, that the row has now.
    """

    column: str
    label: str | None
    places: Sequence[float]
    labels: Sequence[str]
    outputs: Sequence[float]
    current: str | None


class FoundChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change that reaches the goal: new values by column, and the prediction with its probability, or its number, in words."""

    values: Values
    prediction: str
    output: float


class ChangesFound(Reply, tag="changes", frozen=True, kw_only=True):
    """The nearest changes; `note` says why there are none."""

    changes: Sequence[FoundChange]
    note: str = ""


class Stale(Reply, tag="stale", frozen=True, kw_only=True):
    """A later request has replaced this one."""


class Failed(Reply, tag="failed", frozen=True, kw_only=True):
    """The request failed; `message` is a sentence for the user. After `fatal`, the process ends."""

    message: str
    fatal: bool = False


AnyReply = RowPredicted | RowExplained | CurveDrawn | ChangesFound | Stale | Failed

REQUESTS: Vocabulary[AnyRequest] = Vocabulary("explainer request", "ask", AnyRequest)
REPLIES: Vocabulary[AnyReply] = Vocabulary("explainer reply", "reply", AnyReply)
