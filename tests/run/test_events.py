from __future__ import annotations

import json
import typing

import msgspec
import pytest

from tabapp.run import events as ev
from tests.run.recording import finished, recorded

KINDS = typing.get_args(ev.AnyEvent)


@pytest.mark.parametrize("event", recorded("a-run"), ids=lambda event: type(event).__name__)
def test_an_event_is_the_same_after_a_line_of_json(event):
    event = msgspec.structs.replace(event, seq=7, t=1700000000.125)
    line = ev.encode(event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert ev.decode(line) == event
    told = json.loads(line)
    assert (told["v"], told["seq"], told["t"]) == (ev.VERSION, 7, 1700000000.125)
    assert told["ev"] == type(event).__struct_config__.tag


def test_the_recording_has_every_kind_of_event():
    assert {type(event) for event in recorded("a-run")} == set(KINDS)


def test_a_stranger_among_events_is_passed_over():
    assert ev.decode(b'{"ev":"models.danced","v":9,"seq":3,"t":1.0}') is None


@pytest.mark.parametrize(
    "line", [b"", b"{", b'{"ev":"log"', b"[]", b"\xff\xfe", b'{"ev":"log","level":"loud","message":""}']
)
def test_a_damaged_line_is_passed_over(line):
    assert ev.decode(line) is None


def test_a_field_of_a_later_version_is_passed_over():
    line = b'{"ev":"log","v":2,"seq":1,"t":1.0,"level":"info","message":"hello","colour":"red"}'
    assert ev.decode(line) == ev.Log(v=2, seq=1, t=1.0, level="info", message="hello")


def test_numbers_that_json_cannot_say_become_null():
    told = json.loads(ev.encode(finished("a-run", test_score=float("nan"))))
    assert told["test_score"] is None


def test_the_last_event_says_what_the_interface_fixes():
    told = json.loads(ev.encode(finished("a-run")))
    assert told["ev"] == "run.finished"
    assert {
        "v", "seq", "t", "ev", "status", "run", "bundle", "task", "target", "metric", "greater_is_better", "best", "test_score",
        "seconds", "leaderboard", "importances", "agreement",
    } <= set(told)  # fmt: skip
    assert set(told["best"]) == {"model", "score", "low", "high"}
    assert {
        "rank", "model", "title", "family", "score", "low", "high", "folds", "trials", "fit_seconds", "predict_ms_per_1k",
        "status", "reason", "in_ensemble",
    } <= set(told["leaderboard"][0])  # fmt: skip
    assert set(told["importances"][0]) == {"feature", "attention", "permutation", "low", "high"}
    assert set(told["agreement"]) == {"attention_vs_permutation"}


@pytest.mark.parametrize("kind", [ev.FitStarted, ev.FitProgress, ev.FitFinished, ev.FitFailed])
def test_what_is_told_of_a_fit_names_it(kind):
    assert {"fit", "model", "trial", "fold"} <= set(kind.__struct_fields__)
