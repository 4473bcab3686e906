"""The language of the filters."""

from __future__ import annotations

import pytest

from tabapp.tui.viewmodels.query import number, parse

FIELDS = ("model", "status", "score", "seconds", "reason", "learning_rate", "max_depth")
ROWS = {
    "xgb good": {"model": "XGBoost xgboost", "status": "ok", "score": 0.94, "seconds": 30.0, "learning_rate": 0.1},
    "xgb weak": {"model": "XGBoost xgboost", "status": "ok", "score": 0.90, "seconds": 400.0, "learning_rate": 0.01},
    "xgb pruned": {"model": "XGBoost xgboost", "status": "pruned", "score": 0.95, "reason": "below the median"},
    "cat": {"model": "CatBoost catboost", "status": "ok", "score": 0.93, "seconds": 90.0, "max_depth": 6},
    "mlp runs": {"model": "MLP mlp", "status": "running", "score": None},
}


def found(text: str) -> set[str]:
    query = parse(text, FIELDS)
    assert not query.problem
    return {name for name, facts in ROWS.items() if query.fits(facts, f"{facts['model']} {facts['status']}")}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", {*ROWS}),
        ("boost", {"xgb good", "xgb weak", "xgb pruned", "cat"}),
        ("model:xgb score>.93 -pruned", {"xgb good"}),
        ("XGB -status:pruned", {"xgb good", "xgb weak"}),
        ("score>=.93 score<.95", {"xgb good", "cat"}),
        ("score=.94", {"xgb good"}),
        ("seconds>1m", {"xgb weak", "cat"}),
        ("seconds<=90s", {"xgb good", "cat"}),
        ("-score>.92", {"xgb weak", "mlp runs"}),
        ("rate>5e-2", {"xgb good"}),
        ("depth:6", {"cat"}),
        ('reason:"the median"', {"xgb pruned"}),
        ('"catboost ok"', {"cat"}),
        ("status=o", set()),
        ("status=ok", {"xgb good", "xgb weak", "cat"}),
        ("score>", {*ROWS}),
        ("model: -", {*ROWS}),
        ('"mlp', {"mlp runs"}),
    ],
)
def test_what_a_filter_finds(text, names):
    assert found(text) == names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scor_e>1", "did you mean 'score'?"),
        ("zebra:1", "there are learning_rate, max_depth, model"),
        ("score>high", "'high' is not a number to compare score with."),
        ("s>1", "There is no field 's'"),
    ],
)
def test_an_invalid_term_is_reported_and_ignored(text, words):
    query = parse(f"{text} boost", FIELDS)
    assert words in query.problem
    assert [term.value for term in query.terms] == ["boost"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".93", 0.93),
        ("-2", -2.0),
        ("1e-3", 0.001),
        ("90s", 90.0),
        ("5M", 300.0),
        ("1.5h", 5400.0),
        ("x", None),
        ("", None),
    ],
)
def test_numbers_and_times(text, value):
    assert number(text) == value
