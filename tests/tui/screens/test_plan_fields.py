"""The fields of the plan: every option of a run has one, or a reason why not."""

from __future__ import annotations

import pytest

from tabapp.run.options.config import OPTIONS, RunConfig
from tabapp.tui.viewmodels.forecast import forecast, reached
from tabapp.tui.viewmodels.plan_fields import NOT_ON_SCREEN, SHARED, field_names, options_of, plan_fields
from tests.tui import recordings


def test_every_option_of_a_run_can_be_set_on_the_screen_or_has_a_reason():
    """The exceptions belong to the engine's start: it joins a cluster before it reads the table."""
    on_screen = {option for name in field_names() for option in options_of(name)}
    assert on_screen | set(NOT_ON_SCREEN) == set(OPTIONS)
    assert set(NOT_ON_SCREEN) == {"executor", "address"}
    assert not on_screen & set(NOT_ON_SCREEN)
    assert all(reason.endswith(".") for reason in NOT_ON_SCREEN.values())
    assert {OPTIONS[name].section for name in SHARED} == {"Validation", "Model search"}


def test_fields_show_what_the_plan_has_chosen_and_what_the_user_has_set():
    config = RunConfig(
        data="titanic.csv", folds=7, validation="cv", budget=90.0, kinds={"Pclass": "text"}, ignore=("a", "b")
    )
    fields = {field.name: field for field in plan_fields(recordings.plan(budget=90.0), config, frozenset({"folds"}))}
    assert fields["target"].text == "Survived"
    assert not fields["target"].is_set
    assert (fields["models"].text, fields["models"].key) == ("6 of 7", "M")
    assert (fields["kind"].text, fields["ignore"].text) == ("Pclass=text", "a,b")
    assert fields["kind"].is_set
    assert fields["validation"].is_changed
    assert not fields["budget"].is_changed
    assert fields["set"].text == "—"


@pytest.mark.parametrize(
    ("name", "config", "down", "up"),
    [
        ("validation", {}, None, {"validation": "holdout", "folds": None}),
        ("validation", {"folds": 8}, {"validation": "cv", "folds": 5}, {"validation": "cv", "folds": 10}),
        ("validation", {"folds": 7}, {"validation": "cv", "folds": 5}, {"validation": "cv", "folds": 8}),
        ("validation", {"folds": 20}, {"validation": "cv", "folds": 10}, None),
        ("quality", {}, {"quality": "fast"}, {"quality": "best"}),
        ("device", {"device": "cpu"}, {"device": "auto"}, {"device": "cuda"}),
        ("positive", {}, {"positive": "0"}, None),
        ("seed", {}, None, None),
    ],
)
def test_arrow_keys_step_through_usual_values_from_any_value(name, config, down, up):
    fields = plan_fields(recordings.plan(), RunConfig(data="x.csv", **config))
    field = next(field for field in fields if field.name == name)
    steps = [field.beside(-1), field.beside(1)]
    assert [None if step is None else dict(step.options) for step in steps] == [down, up]


def test_a_budget_between_two_steps_goes_to_the_next_one():
    fields = plan_fields(recordings.plan(budget=200.0), RunConfig(data="x.csv", budget=200.0))
    field = next(field for field in fields if field.name == "budget")
    assert (field.beside(-1).options, field.beside(1).options) == ({"budget": 120.0}, {"budget": 300.0})


def test_the_forecast_grows_with_the_budget_and_shrinks_with_the_folds():
    def known(**changes):
        plan = recordings.plan(**changes)
        return reached(plan, [choice for choice in plan.choices if choice.seconds is not None and choice.is_planned])

    # Defaults take 1.5, 3, … 9 seconds a fold, with 5 folds and 2 workers.
    assert known(budget=1.0) == (0, 0)
    # 75 % of 85 % of 2 × 120 s hold 7.5 + 15 + 22.5 + 30 + 37.5 s; the rest is 18.3 s for each, enough for two of them.
    assert known(budget=120.0) == (5, 2)
    assert known(budget=3600.0) == (6, 6)
    assert known(budget=120.0, folds=10) < known(budget=120.0)


def test_the_forecast_is_a_sentence_and_empty_without_times():
    assert forecast(recordings.plan()) == "~5 of 6 models, 2 tuned"
    assert forecast(recordings.plan(quality="fast")) == "~5 of 6 models, with default parameters"
    assert forecast(recordings.plan(budget=None, trials=3)) == "All 6 models, up to 3 trials each, without a time limit"
    assert forecast(recordings.plan(budget=1.0)).startswith("0 of 6 models in time")
    assert forecast(recordings.plan(choices=())) == ""
