"""Pager messages and the lines of `predict --json` round-trip through JSON; invalid lines are rejected with a specific error."""

import json

import pytest

from tabapp.errors import UsageError
from tabapp.run.protocol import paging, prediction
from tabapp.run.record.messages import VERSION

CONDITION = paging.RowCondition(column="age", operator=">", value="3", number=3.0, negated=False)
FINDING = prediction.Finding(finding="missing", column="age", refused=True, message="is missing")

EXAMPLES = {
    paging.REQUESTS: [
        paging.ReadHead(count=3),
        paging.OpenTable(),
        paging.ReadPage(start=0, count=2, first_column=0, columns=4),
        paging.ReadCell(row=1, column=2),
        paging.SortRows(column=None),
        paging.FindText(text="a", start=0, direction=-1),
        paging.FilterRows(conditions=[CONDITION]),
        paging.Cancel(id=8),
        paging.InspectColumn(column="age"),
        paging.RateColumns(),
    ],
    paging.REPLIES: [
        paging.Head(names=["a"], cells=[[None]], about=7),
        paging.Opened(names=["a"], rows=2, height=1, widths=[3], note=""),
        paging.Page(numbers=[4], cells=[["x"]]),
        paging.Cell(text=None),
        paging.Height(height=5),
        paging.Found(row=3, column=1),
        paging.Inspected(
            groups=["a"], rows=[2], missing=[0], bins=[], distinct=2, association=0.5, measure="AUC", reading=["plain"]
        ),
        paging.Rated(associations={"age": 0.5}),
        paging.Canceled(),
        paging.Stale(id=9),
        paging.Failed(message="The file cannot be read."),
    ],
    prediction.PREDICTION: [
        prediction.StageStarted(stage="reading"),
        prediction.Progressed(share=0.5),
        prediction.Checked(rows=3, refused=True, findings=[FINDING], notes=["a note"], target="y"),
        prediction.Predicted(
            output="out.csv",
            rows=3,
            columns=["prediction"],
            preview=[["1"]],
            notes=[],
            inputs=["age"],
            input_rows=[["3"]],
        ),
    ],
}
PAIRS = [(vocabulary, message) for vocabulary, messages in EXAMPLES.items() for message in messages]


@pytest.mark.parametrize(("vocabulary", "message"), PAIRS, ids=[type(message).__name__ for _, message in PAIRS])
def test_message_round_trips_through_json(vocabulary, message):
    line = vocabulary.encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert vocabulary.decode(line) == message
    assert json.loads(line)["v"] == VERSION


@pytest.mark.parametrize("vocabulary", EXAMPLES)
def test_examples_cover_every_message(vocabulary):
    assert {type(message) for message in EXAMPLES[vocabulary]} == set(vocabulary.kinds.values())


@pytest.mark.parametrize(
    ("vocabulary", "line", "sentence"),
    [
        (paging.REQUESTS, b'{"ask": "pages"}', "Unknown pager request 'pages'; did you mean 'page'?"),
        (paging.REQUESTS, b'{"ask": "cell", "row": 0, "colum": 1}', "has no field 'colum'; did you mean 'column'?"),
        (
            paging.REPLIES,
            b'{"reply": "height"}',
            "The pager reply 'height' is invalid: Object missing required field height.",
        ),
        (prediction.PREDICTION, b'{"event": "dance"}', "Unknown message of predict --json 'dance'"),
        (prediction.PREDICTION, b"Loading weights", "A message of predict --json is not valid JSON"),
    ],
)
def test_invalid_lines_are_rejected_by_name(vocabulary, line, sentence):
    with pytest.raises(UsageError) as caught:
        vocabulary.decode(line)
    assert sentence in str(caught.value)
