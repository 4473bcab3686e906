"""`--set` fixes hyperparameters of all trials of a model."""

from __future__ import annotations

import pytest

from tabapp.engine.plan.fixed import fixed_of
from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig, command_line
from tabapp.run.options.keywords import config_from_keywords


def test_values_are_read_by_the_type_of_the_hyperparameter():
    config = RunConfig(
        data="a.csv",
        fixed={
            "xgboost.max_depth": "3",
            "xgboost.grow_policy": "lossguide",
            "xgboost.refit": "False",
            "mlp.dropout": "0",
        },
    )
    assert fixed_of(config) == {
        "xgboost": {"max_depth": 3, "grow_policy": "lossguide", "refit": False},
        "mlp": {"dropout": 0.0},
    }


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("xgboost.max_dept", "3", "xgboost has no hyperparameter 'max_dept'; did you mean 'max_depth'?"),
        ("xgboost.max_depth", "deep", "--set xgboost.max_depth=deep cannot be used: expected `int`, got `str`."),
        ("xgboost.grow_policy", "x", "cannot be used: the values are depthwise, lossguide."),
        ("xgbost.max_depth", "3", "There is no model named 'xgbost'; did you mean 'xgboost'?"),
        ("mlp.dropout", "0", "the run does not train mlp"),
        ("xgboost", "3", "does not have the form MODEL.NAME=VALUE."),
    ],
)
def test_what_is_wrong_is_named(key, value, message):
    with pytest.raises(UsageError) as raised:
        fixed_of(RunConfig(data="a.csv", models=("xgboost",), fixed={key: value}))
    assert message in str(raised.value)


def test_none_is_among_the_values():
    with pytest.raises(
        UsageError, match=r"mlp\.numeric=raw cannot be used: the values are quantile, standard, robust, None\."
    ):
        fixed_of(RunConfig(data="a.csv", models=("mlp",), fixed={"mlp.numeric": "raw"}))


def test_python_and_the_equivalent_command_take_the_same_values():
    config = config_from_keywords("a.csv", {"set": {"xgboost.max_depth": 3, "npt:base.n_layers": 4}})
    assert config.fixed == {"xgboost.max_depth": "3", "npt:base.n_layers": "4"}
    assert "--set xgboost.max_depth=3 --set npt:base.n_layers=4" in command_line(config)
    assert config_from_keywords("a.csv", {"set": "xgboost.max_depth=3,npt:base.n_layers=4"}) == config


def test_a_value_of_a_model_is_that_of_its_presets_unless_they_have_their_own():
    presets = ("ft_transformer:paper", "ft_transformer:no-bias", "mlp")
    fixed = {"ft_transformer:no-bias.n_layers": "1", "ft_transformer.n_layers": "2"}
    config = RunConfig(data="a.csv", models=presets, fixed=fixed)
    assert fixed_of(config) == {"ft_transformer:paper": {"n_layers": 2}, "ft_transformer:no-bias": {"n_layers": 1}}
