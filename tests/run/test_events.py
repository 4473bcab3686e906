from __future__ import annotations

import json

import msgspec
import pytest

from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import all_kinds, decode, encode
from tests.run.recording import analyses, finished, recorded, steps, targets

KINDS = all_kinds()


@pytest.mark.parametrize(
    "event", [*recorded("a-run"), *analyses(), *steps(), *targets()], ids=lambda event: type(event).__name__
)
def test_event_round_trips_through_json(event):
    event = msgspec.structs.replace(event, seq=7, t=1700000000.125)
    line = encode(event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == event
    fields = json.loads(line)
    assert (fields["v"], fields["seq"], fields["t"]) == (ev.VERSION, 7, 1700000000.125)
    assert fields["ev"] == type(event).__struct_config__.tag


def test_recording_contains_every_kind_of_event():
    assert {type(event) for event in [*recorded("a-run"), *analyses(), *steps(), *targets()]} == set(KINDS)


def test_unknown_event_is_skipped():
    assert decode(b'{"ev":"models.danced","v":9,"seq":3,"t":1.0}') is None


@pytest.mark.parametrize(
    "line", [b"", b"{", b'{"ev":"log"', b"[]", b"\xff\xfe", b'{"ev":"log","level":"loud","message":""}']
)
def test_damaged_line_is_skipped(line):
    assert decode(line) is None


def test_field_of_a_later_version_is_ignored():
    line = b'{"ev":"log","v":2,"seq":1,"t":1.0,"level":"info","message":"hello","color":"red"}'
    assert decode(line) == ev.Log(v=2, seq=1, t=1.0, level="info", message="hello")


def test_nan_becomes_null():
    fields = json.loads(encode(finished("a-run", test_score=float("nan"))))
    assert fields["test_score"] is None


def test_last_event_has_the_documented_fields():
    fields = json.loads(encode(finished("a-run")))
    assert fields["ev"] == "run.finished"
    assert {
        "v", "seq", "t", "ev", "status", "run", "bundle", "task", "target", "metric", "greater_is_better", "best", "test_score",
        "seconds", "leaderboard", "importances", "agreement",
    } <= set(fields)  # fmt: skip
    assert set(fields["best"]) == {"model", "score", "low", "high"}
    assert {
        "rank", "model", "title", "family", "score", "low", "high", "folds", "trials", "fit_seconds", "predict_ms_per_1k",
        "status", "reason", "in_ensemble",
    } <= set(fields["leaderboard"][0])  # fmt: skip
    assert set(fields["importances"][0]) == {
        "feature", "attention", "permutation", "low", "high", "attention_low", "attention_high", "attention_raw",
        "unstable",
    }  # fmt: skip
    assert set(fields["agreement"]) == {"attention_vs_permutation"}


@pytest.mark.parametrize("kind", [ev.FitStarted, ev.FitProgress, ev.FitFinished, ev.FitFailed])
def test_fit_events_identify_the_fit(kind):
    assert {"fit", "model", "trial", "fold"} <= set(kind.__struct_fields__)
