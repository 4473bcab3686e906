from __future__ import annotations

import shlex

import click
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabapp.cli.commands.run import run as run_command
from tabapp.errors import UsageError
from tabapp.run.options.config import DEFAULT_BUDGET, OPTIONS, RunConfig, command_line
from tabapp.run.options.option import Choice, Device, Names, Option, Settings
from tabapp.run.options.quantities import Duration, Share, Size, Whole
from tabapp.run.options.units import duration_option, format_duration, parse_budget, parse_bytes

VIEW_ONLY = {"auto", "runs_dir", "plain", "as_json", "quiet", "verbose", "web", "port"}

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
odd = st.text(st.sampled_from("ab,=\"'[]\\;=+-@"), min_size=1, max_size=6)
# Whitespace around the items of lists is stripped.
column_names = (texts | odd).map(str.strip).filter(bool)
listed = st.lists(column_names, max_size=3, unique=True).map(tuple)


def values_of(option: Option) -> st.SearchStrategy[object]:
    """Values of the field of an option."""
    found: st.SearchStrategy[object]
    match option:
        case Choice():
            found = st.sampled_from(option.choices)
        case Whole():
            found = st.integers(option.least, option.most or 1000)
        case Share():
            found = st.floats(0.0, option.most)
        case Duration():
            found = st.integers(1, 10**6).map(float) | st.sampled_from([0.5, 1.5, 90.25])
        case Size():
            found = st.integers(1, 2**40)
        case Device():
            found = st.sampled_from(["auto", "cpu", "cuda:1"])
        case Names():
            found = listed
        case Settings():
            found = st.dictionaries(column_names, st.sampled_from("+-"), max_size=3)
        case _:
            found = texts
    return st.none() | found if option.default is None else found


configs = st.builds(
    RunConfig,
    data=st.just("/data/my table.csv"),
    **{option.field: values_of(option) for option in OPTIONS.values()},
)


def parsed(line: str) -> RunConfig:
    """The configuration that `tabapp` parses from a command line."""
    words = shlex.split(line)
    assert words[0] == "tabapp"
    context = run_command.make_context("run", words[1:])
    options = {name: value for name, value in context.params.items() if name not in VIEW_ONLY}
    assert context.params["auto"]
    return RunConfig(**options)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(configs)
def test_command_line_parses_to_the_same_configuration(config):
    assert parsed(command_line(config)) == config


def test_command_line_omits_defaults():
    assert command_line(RunConfig(data="data.csv")) == "tabapp --auto data.csv"
    assert command_line(RunConfig(data="data.csv", start=False)) == "tabapp --auto data.csv"


def test_every_option_has_a_configuration_field():
    options = {parameter.name for parameter in run_command.params}
    assert options - VIEW_ONLY == set(RunConfig.__struct_fields__) - {"start", "other_targets"}


def test_option_defaults_match_configuration_defaults():
    context = run_command.make_context("run", ["data.csv"])
    defaults = RunConfig(data="data.csv")
    for name, value in context.params.items():
        if name not in VIEW_ONLY:
            assert value == getattr(defaults, name), name


@given(configs)
def test_configuration_round_trips_through_json(config):
    assert msgspec.json.decode(msgspec.json.encode(config), type=RunConfig) == config


def test_unknown_key_is_rejected_by_name():
    with pytest.raises(msgspec.ValidationError, match="bugdet"):
        msgspec.json.decode(b'{"data": "a.csv", "bugdet": 3}', type=RunConfig)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1.5h", 5400), ("45", 45), (" 2 m ", 120)]
)
def test_parse_budget(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-5s", "ten minutes", "5d", "1e3", "inf", "nan", "s", "1m30s"])
def test_parse_budget_rejects_invalid_durations(text):
    with pytest.raises(UsageError, match="not a duration; write it like 90s"):
        parse_budget(text)


@given(st.integers(1, 10**7) | st.floats(0.001, 10**5))
def test_duration_round_trips_to_the_millisecond(seconds):
    assert parse_budget(duration_option(seconds)) == pytest.approx(seconds, abs=6e-4)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, "0s"),
        (0, "0s"),
        (0.000_841_2, "0.84ms"),
        (0.0026, "2.6ms"),
        (0.0994, "99ms"),
        (0.0996, "0.1s"),
        (0.26, "0.3s"),
        (2.0, "2s"),
        (3.06, "3.1s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m"),
        (148, "2m 28s"),
        (600, "10m"),
        (3599.7, "1h"),
        (3845, "1h 4m"),
        (100_000, "27h 46m"),
    ],
)
def test_durations_for_people(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GiB", 2**33), ("8g", 2**33), ("512MiB", 2**29), ("1.5kb", 1536), ("1000", 1000), ("2 TB", 2**41)],
)
def test_parse_bytes(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1GiB", "much", "8XiB", "GiB"])
def test_parse_bytes_rejects_invalid_sizes(text):
    with pytest.raises(UsageError, match="not a size; write it like 8GiB"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("budget", "trials", "seconds"),
    [(None, None, DEFAULT_BUDGET), (30.0, None, 30.0), (None, 5, None), (30.0, 5, 30.0)],
)
def test_trials_replace_the_default_budget(budget, trials, seconds):
    assert RunConfig(data="a.csv", budget=budget, trials=trials).budget_seconds == seconds


def test_option_names_are_unique():
    names = [name for parameter in run_command.params if isinstance(parameter, click.Option) for name in parameter.opts]
    assert len(names) == len(set(names))
