"""The JSON lines of `tabapp predict --json`: progress, findings and results, written by the command and read by screens."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tabapp.run.record.messages import Message, Vocabulary


class Finding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A difference between a column of DATA and the training schema; see `tabapp.data.new_rows.findings.Match`.

    `refused` findings stop the prediction unless missing columns are filled.
    """

    finding: str
    column: str
    refused: bool
    message: str


class LabelRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The threshold by which a bundle labels rows, where it has another one than the more probable class."""

    target: str
    positive: str
    threshold: float


class Distribution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All predictions of a file.

    Attributes:
        label: the class whose probability is counted; empty for numbers.
        counts: rows by equal bins from `low` to `high`.
        classes: for more than two classes, the rows predicted as each; `counts` is then empty.
    """

    target: str
    label: str = ""
    low: float = 0.0
    high: float = 1.0
    counts: tuple[int, ...] = ()
    classes: tuple[tuple[str, int], ...] = ()


def label_text(positive: str, threshold: float, metric: str = "") -> str:
    """A threshold in a few words, with the title of the metric that chose it if that is known."""
    chosen = f" (best by {metric})" if metric else ""
    return f"labeled {positive} from a probability of {threshold:.4g}{chosen}"


class PredictionMessage(Message, frozen=True, kw_only=True, tag_field="event"):
    """The base of all messages."""


class StageStarted(PredictionMessage, tag="stage", frozen=True, kw_only=True):
    """A stage of the work, in words such as "reading the file"."""

    stage: str


class Progressed(PredictionMessage, tag="progress", frozen=True, kw_only=True):
    """The share of rows predicted so far, in [0, 1]."""

    share: float


class Checked(PredictionMessage, tag="checked", frozen=True, kw_only=True):
    """The result of `--check`: DATA compared with the training schema; `refused` when `predict` would exit with 3."""

    rows: int
    refused: bool
    findings: Sequence[Finding]
    notes: Sequence[str]
    target: str
    labels: tuple[LabelRule, ...] = ()


class Predicted(PredictionMessage, tag="predicted", frozen=True, kw_only=True):
    """The predictions are written to `output`; `preview` holds the first rows as text.

    Attributes:
        inputs, input_rows: feature columns of the file, and their cells in the first rows.
        distributions: one for each target.
    """

    output: str
    rows: int
    columns: Sequence[str]
    preview: Sequence[Sequence[str | None]]
    notes: Sequence[str]
    labels: tuple[LabelRule, ...] = ()
    inputs: Sequence[str] = ()
    input_rows: Sequence[Sequence[str | None]] = ()
    distributions: tuple[Distribution, ...] = ()


AnyPredictionMessage = StageStarted | Progressed | Checked | Predicted

PREDICTION: Vocabulary[AnyPredictionMessage] = Vocabulary("message of predict --json", "event", AnyPredictionMessage)
