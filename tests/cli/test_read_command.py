"""A pasted command is read by the parser of the command line, with its sentences."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from tabapp.cli.read_command import read_command
from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig, command_line
from tabapp.run.protocol.pasted import MODULE, PASTED, Rejected, Understood
from tests.tables import write_wine


@pytest.fixture
def table(tmp_path):
    return write_wine(tmp_path / "my wine.csv")


def test_the_equivalent_command_of_a_plan_gives_its_options(table):
    config = RunConfig(
        data=str(table),
        target="cultivar",
        budget=90.0,
        folds=7,
        models=("npt:small", "lightgbm", "linear"),
        group="magnesium",
        fixed={"lightgbm.num_leaves": "7"},
        kinds={"hue": "categorical"},
        monotonic={"ash": "+"},
        null=("a,b", "hue=0"),
        ignore=("ash", "alcohol"),
    )
    answer = read_command(command_line(config))
    assert msgspec.convert({"data": answer.data, **answer.options}, RunConfig) == config


def test_a_command_of_several_lines_and_other_options_of_a_screen(table):
    answer = read_command(f"tabapp --auto '{table}' \\\n  --trials 3 \\\n  --plain --runs-dir elsewhere\n")
    assert answer.options["trials"] == 3
    assert answer.options["budget"] is None
    assert answer.options["seed"] == 0


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("ls -l", "is not a command of tabapp"),
        ("tabapp 'x", "is not a command: no closing quotation"),
        ("tabapp predict model.tabapp new.csv", "`tabapp predict` starts no run"),
        ("tabapp --help", "shows the help"),
    ],
)
def test_another_text_is_rejected(command, problem):
    with pytest.raises(UsageError, match=problem):
        read_command(command)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("", None),
        ("--fold 3", "There is no option --fold; did you mean '--folds'?"),
        ("--folds x", "--folds 'x' is not valid. Use a whole number, 2 to 50."),
        ("--validation holdout --folds 3", "Remove one of them"),
        ("--test nowhere.csv", "There is no file nowhere.csv"),
    ],
)
def test_the_process_answers_one_line(table, options, sentence):
    done = subprocess.run(
        [sys.executable, "-P", "-m", MODULE],
        input=f"tabapp '{table}' {options}",
        capture_output=True,
        text=True,
        check=True,
    )
    answer = PASTED.decode(done.stdout)
    if sentence is None:
        assert isinstance(answer, Understood)
        assert answer.data == str(table)
    else:
        assert isinstance(answer, Rejected)
        assert sentence in answer.message
