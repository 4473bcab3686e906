"""The models that a plan may have, with their cost on the table."""

from __future__ import annotations

import polars as pl
import pytest

from tabapp.data.infer import infer_schema
from tabapp.engine.plan.choices import model_choices, short_source
from tabapp.engine.plan.make_plan import make_plan
from tabapp.models import registry
from tabapp.run.options.config import RunConfig

ROWS = 60


def test_all_models_can_be_chosen_whatever_the_plan_has():
    frame = pl.DataFrame({"x": [f"{i}.5" for i in range(ROWS)], "y": [str(i % 2) for i in range(ROWS)]})
    schema = infer_schema(frame, target="y")
    config = RunConfig(data="a.csv", models=("linear",))
    choices = {choice.name: choice for choice in model_choices(make_plan(config, schema), schema)}
    assert {*registry.names(), *registry.presets()} == choices.keys()
    assert [name for name, choice in choices.items() if choice.is_planned] == ["linear"]
    xgboost = choices["xgboost"]
    assert xgboost.reason is None
    assert xgboost.paper == "Chen & Guestrin 2016"
    assert xgboost.device == "cpu"
    assert xgboost.seconds is not None
    assert xgboost.seconds > 0
    assert xgboost.n_bytes is not None
    assert xgboost.n_bytes > 0


@pytest.mark.parametrize(
    ("paper", "source"),
    [
        ("Kossen et al. 2021, Self-Attention Between Datapoints", "Kossen et al. 2021"),
        ("A plugin of mine", "A plugin of mine"),
        ("", ""),
    ],
)
def test_a_source_is_shortened_to_author_and_year(paper, source):
    assert short_source(paper) == source
