"""Plans as TOML: what is written is read back, and errors name the line."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig
from tabapp.run.options.plan_file import columns_named, defaults, plan_toml, preset_toml, read_plan

CONFIG = RunConfig(
    data="x.csv",
    target=("a, b", "c"),
    metric="cost:fn=5,fp=1",
    positive='"quoted"\x7f\n',
    budget=90.0,
    folds=7,
    models=("npt:small", "lightgbm"),
    fixed={"ft_transformer.n_layers": "2"},
    kinds={"zip code": "categorical", "täg=1": "text"},
    null=("-999", "BMI=0"),
    monotonic={"age": "+"},
    hide_cells=0.25,
    max_memory=1 << 33,
    seed=5,
)


@pytest.mark.parametrize("config", [CONFIG, RunConfig(data="x.csv")])
@pytest.mark.parametrize("write", [plan_toml, preset_toml])
def test_a_written_plan_is_read_back(write: Callable[[RunConfig], str], config: RunConfig) -> None:
    found = read_plan(write(config), "The plan")
    read = msgspec.convert({"data": "x.csv", **defaults(), **found}, RunConfig)
    assert read == config


def test_a_preset_has_only_what_differs_from_the_defaults():
    assert preset_toml(RunConfig(data="x.csv", budget=120.0, seed=0, name="n"), ("name",)) == 'budget = "2m"\n'
    assert preset_toml(RunConfig(data="x.csv")) == ""


def test_a_plan_for_an_editor_explains_every_option():
    text = plan_toml(RunConfig(data="x.csv", folds=7), ("executor",))
    assert "# Number of cross-validation folds" in text
    assert "\nfolds = 7\n" in text
    assert "\n# seed =\n" in text
    assert "executor" not in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("folds = ", "The plan is not TOML"),
        ("\nfold = 3", r"line 2 sets fold, which is no option; did you mean 'folds'\?"),
        ("folds = 1", "line 1: --folds 1 is not valid. Use a whole number, 2 to 50."),
        ('folds = "x"', "line 1: --folds 'x' is not valid"),
        ('budget = "soon"', "line 1: The budget 'soon' is not a duration"),
        ('quality = "bets"', r"--quality 'bets' is not known; did you mean 'best'\?"),
        ('[monotonic]\nage = "up"', "is not valid. Use age="),
        ('validation = "holdout"\nfolds = 3', "which has no --folds"),
        ('address = "10.0.0.1"', "is the address of a Ray cluster"),
    ],
)
def test_what_is_wrong_in_a_plan_is_said_as_on_the_command_line(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_plan(text, "The plan")


def test_the_columns_that_options_name():
    assert columns_named(
        {"target": "y", "kinds": {"a": "text"}, "fixed": {"m.n": "1"}, "ignore": ["b", "c"], "seed": 1}
    ) == {
        "target": ["y"],
        "kinds": ["a"],
        "ignore": ["b", "c"],
    }
