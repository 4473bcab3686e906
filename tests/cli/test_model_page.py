"""`tabapp models NAME` shows the page of a model."""

from __future__ import annotations

import json

import pytest

from tabapp.cli.main import run_command_line
from tabapp.models import registry

USAGE = 2


@pytest.mark.parametrize("name", registry.names())
def test_each_model_has_a_page(name, capsys):
    assert run_command_line(["models", name]) == 0
    shown = capsys.readouterr().out
    plugin = registry.find(name).plugin
    assert plugin is not None
    assert shown.startswith(f"# {plugin.title}\n")
    assert plugin.paper in shown
    assert all(f"`{field}`" in shown for field in plugin.params_type.__struct_fields__)


def test_the_page_as_json_has_defaults_and_ranges(capsys):
    assert run_command_line(["models", "xgboost", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    defaults = {each["name"]: each["default"] for each in shown["hyperparameters"]}
    ranges = {each["name"]: (each["low"], each["high"]) for each in shown["search_space"]}
    assert shown["name"] == "xgboost"
    assert defaults["max_depth"] == 6
    assert ranges["max_depth"][0] < ranges["max_depth"][1]


def test_an_unknown_name_is_one_sentence_with_the_nearest_name(capsys):
    assert run_command_line(["models", "xgbost"]) == USAGE
    assert capsys.readouterr().err == "tabapp: There is no model named 'xgbost'; did you mean 'xgboost'?\n"
