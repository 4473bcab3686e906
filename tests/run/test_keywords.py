"""Keyword options match the options of the command line and accept the same values."""

from __future__ import annotations

import inspect
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import tabapp
from tabapp.cli.commands.run import run
from tabapp.errors import UsageError
from tabapp.run.options.config import OPTIONS, RunConfig
from tabapp.run.options.keywords import config_from_keywords

VIEW_OPTIONS = {"auto", "runs_dir", "plain", "json", "quiet", "verbose", "web", "port"}


def long_options() -> set[str]:
    """Every long option of a run on the command line, with underscores."""
    options = [parameter for parameter in run.params if parameter.param_type_name == "option"]
    names = [next(name for name in option.opts if name.startswith("--")) for option in options]
    return {name.removeprefix("--").replace("-", "_") for name in names}


def test_keywords_are_the_long_options_of_a_run():
    assert set(OPTIONS) == long_options() - VIEW_OPTIONS
    fields = {option.field for option in OPTIONS.values()}
    assert fields | {"data", "start", "other_targets"} == set(RunConfig.__struct_fields__)


def test_parameters_of_fit_have_the_defaults_of_a_run():
    defaults = RunConfig(data="t.csv")
    named = {
        name: parameter
        for name, parameter in inspect.signature(tabapp.fit).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in ("progress", "runs_dir", "target")
    }
    assert set(named) <= set(OPTIONS)
    given = {name: parameter.default for name, parameter in named.items()}
    assert config_from_keywords("t.csv", given) == defaults


@pytest.mark.parametrize(
    ("keywords", "fields"),
    [
        ({"budget": "2m"}, {"budget": 120.0}),
        ({"budget": 30}, {"budget": 30.0}),
        ({"budget": timedelta(minutes=1.5)}, {"budget": 90.0}),
        ({"models": ["linear", "mlp"]}, {"models": ("linear", "mlp")}),
        ({"models": "linear, mlp"}, {"models": ("linear", "mlp")}),
        ({"kind": {"zip": "categorical"}}, {"kinds": {"zip": "categorical"}}),
        ({"kind": "zip=categorical,age=numeric"}, {"kinds": {"zip=categorical,age": "numeric"}}),
        ({"target": ["a", "b,c"], "ignore": "a,b"}, {"target": ("a", "b,c"), "ignore": ("a,b",)}),
        ({"target": ["a"], "null": ["n,a"]}, {"target": "a", "null": ("n,a",)}),
        ({"null": {"g": "n,a", "h": ["-", "?"]}}, {"null": ("g=n,a", "h=-", "h=?")}),
        ({"memory_limit": "1GiB"}, {"memory_limit": 2**30}),
        ({"workers": "auto"}, {}),
        ({"workers": np.int64(3)}, {"workers": 3}),
        ({"seed": np.int32(7), "trials": 2}, {"seed": 7, "trials": 2}),
        ({"out": Path("a.tabapp")}, {"out": "a.tabapp"}),
        ({"metric": None, "group": None}, {}),
    ],
    ids=str,
)
def test_keyword_values_are_converted(keywords, fields):
    assert config_from_keywords("t.csv", keywords) == RunConfig(data="t.csv", **fields)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"bugdet": "2m"}, "There is no option 'bugdet'; did you mean 'budget'?"),
        ({"kinds": {}}, "did you mean 'kind'"),
        ({"start": False}, "There is no option 'start'"),
        ({"data": "x.csv"}, "There is no option 'data'"),
        ({"task": "regresion"}, "task='regresion' is not known; did you mean 'regression'?"),
        ({"quality": 3}, "use one of fast, balanced, best"),
        ({"budget": "soon"}, "is not a duration"),
        ({"budget": -1}, "budget"),
        ({"trials": 0}, "trials=0 is not valid. Use a whole number, 1 or more."),
        ({"trials": 1.5}, "trials=1.5 cannot be used: expected `int"),
        ({"seed": -1}, "seed=-1 is not valid. Use a whole number, 0 to 2147483647."),
        ({"folds": 1}, "folds=1 is not valid. Use a whole number, 2 to 50."),
        ({"kind": "zip"}, "does not have the form COLUMN=KIND"),
        ({"target": 3}, "target=3 cannot be used: expected `str"),
        ({"models": 3}, "models=3 cannot be used"),
    ],
    ids=str,
)
def test_invalid_keyword_is_rejected_by_name(keywords, message):
    with pytest.raises(UsageError) as raised:
        config_from_keywords("t.csv", keywords)
    assert "--" not in str(raised.value)
    assert message in str(raised.value)
