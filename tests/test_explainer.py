"""The explainer process: rows of a file are predicted, explained and changed over its pipes."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import polars as pl
import pytest

from tabapp.bundle.writing.write import write_bundle
from tabapp.run.protocol import row_requests as messages
from tests.bundle.making import make_contents, register_linear, text_table


class Process:
    """The process, asked one request at a time."""

    def __init__(self, bundle, data, *options):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tabapp.processes.explainer", str(bundle), str(data), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, request, kind):
        self.ask_all(request)
        return self._last(kind)

    def ask_all(self, *requests):
        for number, request in enumerate(requests, start=1):
            self.process.stdin.write(messages.REQUESTS.encode(msgspec.structs.replace(request, id=number)))
        self.process.stdin.flush()
        self.replies = [messages.REPLIES.decode(self.process.stdout.readline()) for _ in requests]
        return self.replies

    def _last(self, kind):
        assert isinstance(self.replies[-1], kind), self.replies[-1]
        return self.replies[-1]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module", params=["binary", pytest.param("regression", marks=pytest.mark.slow)])
def process(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        folder = tmp_path_factory.mktemp(request.param)
        write_bundle(folder / "model.tabapp", make_contents(folder, request.param))
        text_table(request.param, n_rows=12, seed=7).write_csv(folder / "new.csv")
        process = Process(folder / "model.tabapp", folder / "new.csv")
        process.task, process.rows = request.param, pl.read_csv(folder / "new.csv", infer_schema=False)
        yield process
        process.close()


def test_a_row_is_explained_with_and_without_changes(process):
    found = process.ask(messages.ExplainRow(row=3, values={}), messages.RowExplained)
    assert found.cells == {name: process.rows[name][3] for name in ("size", "age", "color", "joined")}
    assert found.base + sum(found.contributions.values()) == pytest.approx(found.output)
    changed = process.ask(messages.ExplainRow(row=3, values={"age": "20"}, label=found.label), messages.RowExplained)
    assert changed.cells == {**found.cells, "age": "20"}
    assert changed.base == found.base
    assert changed.contributions["age"] < found.contributions["age"] or found.label == "no"
    predicted = process.ask(messages.PredictRow(row=3, values={"age": "20"}), messages.RowPredicted)
    if process.task == "binary":
        assert predicted.probabilities[changed.label] == pytest.approx(changed.output)
    else:
        assert float(predicted.prediction) == pytest.approx(changed.output, rel=1e-5)
        assert predicted.low < changed.output < predicted.high


def test_a_curve_passes_through_the_prediction(process):
    explained = process.ask(messages.ExplainRow(row=5, values={}), messages.RowExplained)
    for column in ("age", "color", "joined"):
        request = messages.DrawCurve(row=5, values={}, column=column, label=explained.label)
        found = process.ask(request, messages.CurveDrawn)
        assert found.label == explained.label
        values = found.labels or [f"{place:g}" for place in found.places]
        assert len(values) == len(found.outputs) >= 4
        assert found.outputs[values.index(found.current)] == pytest.approx(explained.output, rel=1e-6)


def test_the_nearest_changes_reach_their_goal(process):
    explained = process.ask(messages.ExplainRow(row=0, values={}), messages.RowExplained)
    other = {"yes": "no", "no": "yes"}
    goal = other[explained.prediction] if process.task == "binary" else f"{explained.output + 60:.3f}"
    found = process.ask(messages.FindChanges(row=0, values={}, goal=goal), messages.ChangesFound)
    assert found.changes
    for change in found.changes:
        after = process.ask(messages.PredictRow(row=0, values=change.values), messages.RowPredicted)
        if process.task == "binary":
            assert after.prediction == change.prediction == goal
        else:
            assert float(after.prediction) >= float(goal) * (1 - 1e-5)
        assert set(change.values) <= set(explained.cells)
    used = next(iter(found.changes[0].values))
    request = messages.FindChanges(row=0, values={}, goal=goal, fixed=(used,))
    others = process.ask(request, messages.ChangesFound)
    assert all(used not in change.values for change in others.changes)
    if process.task == "binary":
        reached = process.ask(messages.FindChanges(row=0, values={}, goal=explained.prediction), messages.ChangesFound)
        assert "already" in reached.note


def test_later_requests_replace_earlier_ones_and_errors_are_sentences(process):
    requests = [messages.ExplainRow(row=row, values={}) for row in (1, 2, 3)]
    *earlier, last = process.ask_all(*requests)
    assert isinstance(last, messages.RowExplained)
    assert all(isinstance(reply, messages.Stale | messages.RowExplained) for reply in earlier)
    for request, words in [
        (messages.PredictRow(row=12, values={}), "no row 12"),
        (messages.PredictRow(row=1, values={"outcome": "1"}), "no feature 'outcome'"),
        (messages.PredictRow(row=1, values={"age": "old"}), "is not a number"),
        (messages.FindChanges(row=1, values={}, goal="maybe"), "maybe"),
    ]:
        assert words in process.ask(request, messages.Failed).message


def test_a_bundle_that_cannot_be_loaded_ends_the_process_with_a_sentence(tmp_path):
    (tmp_path / "new.csv").write_text("a\n1\n")
    process = Process(tmp_path / "none.tabapp", tmp_path / "new.csv")
    reply = messages.REPLIES.decode(process.process.stdout.readline())
    assert isinstance(reply, messages.Failed)
    assert reply.fatal
    assert "none.tabapp" in reply.message
    process.close()
