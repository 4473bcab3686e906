"""What fitted models report: with names of columns, over folds, rounded, and as text."""

from __future__ import annotations

import numpy as np

from tabapp.engine.fit.summaries import USED, described, merged
from tabapp.features.arrays import FeatureSpec
from tabapp.models.contract import STEP_ROWS
from tabapp.run.texts.model_summary import LONGEST, summary_rows, value_text

SPEC = FeatureSpec(
    numeric=("age", "age__missing", "pay"),
    categorical=("city",),
    cardinalities=(4,),
    sources=("age", "age", "pay", "city"),
)


class Model:
    def __init__(self, used, **facts):
        self.used, self.facts = used, facts

    def summary(self):
        return self.facts

    def use_of_features(self):
        return self.used


def test_used_columns_are_shares_of_columns():
    found = described(Model(np.array([1.0, 2.0, 0.0, 1.0]), trees=3), SPEC)
    assert found == {"trees": 3, USED: {"age": 0.75, "city": 0.25}}
    # Features after the last one that is used may be left out.
    assert described(Model(np.array([1.0])), SPEC) == {USED: {"age": 1.0}}
    assert described(Model(None, trees=3), SPEC) == {"trees": 3}
    assert described(Model(np.zeros(4)), SPEC) == {}


def test_a_model_that_fails_to_name_its_features_keeps_its_summary():
    class Failing(Model):
        def use_of_features(self):
            raise RuntimeError("no")

    assert described(Failing(None, trees=3), SPEC) == {"trees": 3}


def test_numbers_are_averaged_over_folds_and_equal_values_kept():
    folds = [
        {"trees": 100, "rate": 0.1, "refit": True, "device": "cpu", STEP_ROWS: 8, "loss": None},
        {"trees": 121, "rate": 0.1, "refit": True, "device": "cuda:0", "loss": None},
    ]
    assert merged(folds) == {"trees": 110.5, "rate": 0.1, "refit": True, "device": ["cpu", "cuda:0"]}
    assert merged([]) == {}


def test_shares_are_averaged_and_prompts_of_the_first_fold_shortened():
    folds = [
        {USED: {"age": 0.6, "city": 0.4}, "prompt_selection": [{"age": 0.9, "pay": 0.8, "city": 0.7, "x": 0.1}] * 9},
        {USED: {"age": 0.8}, "prompt_selection": [{"pay": 1.0}]},
    ]
    assert merged(folds) == {
        USED: {"age": 0.7, "city": 0.2},
        "prompt_selection": [{"age": 0.9, "pay": 0.8, "city": 0.7}] * 5,
    }


def test_a_summary_is_text_for_people():
    rows = dict(summary_rows({"parameters": 12345, "pretraining_loss": 0.123456, "refit": False, USED: {"age": 0.7}}))
    assert rows == {
        "weights": "12,345",
        "pretraining loss": "0.1235",
        "trained again on all rows": "no",
        "used columns": "age 0.7",
    }
    assert value_text([{"age": 0.9, "pay": 0.8}, {"city": 1.0}]) == "age 0.9, pay 0.8; city 1"
    assert value_text(["cpu", "cuda:0"]) == "cpu, cuda:0"
    assert len(value_text("x" * 9999)) == LONGEST


def test_anything_in_place_of_a_summary_is_tolerated():
    assert summary_rows(None) == summary_rows([1]) == summary_rows("text") == []
    assert summary_rows({"a": None, "b": {"c": [True, None]}}) == [("a", "—"), ("b", "c yes, —")]
