"""Commands round-trip through JSON lines; invalid lines are rejected with a specific error."""

import json

import pytest

from tabapp.errors import UsageError
from tabapp.run.record import commands as cmd
from tabapp.run.record.messages import VERSION

EXAMPLES = [
    cmd.Start(),
    cmd.ChangePlan(options={"metric": "accuracy"}),
    cmd.Pause(),
    cmd.Resume(),
    cmd.Extend(seconds=-60.0),
    cmd.Finish(),
    cmd.Interrupt(),
    cmd.Abort(),
    cmd.StopModel(model="xgboost"),
    cmd.PauseModel(model="xgboost"),
    cmd.ResumeModel(model="xgboost"),
    cmd.ShareModel(model="xgboost", share=2.0),
    cmd.IncludeModel(model="xgboost", include=False),
]


@pytest.mark.parametrize("command", EXAMPLES, ids=lambda command: type(command).__name__)
def test_command_round_trips_through_json(command):
    line = cmd.COMMANDS.encode(command)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert cmd.COMMANDS.decode(line) == command
    assert json.loads(line)["v"] == VERSION


def test_examples_cover_every_command():
    assert {type(command) for command in EXAMPLES} == set(cmd.COMMANDS.kinds.values())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"command": "stop_modle", "model": "a"}', "Unknown command 'stop_modle'; did you mean 'stop_model'?"),
        (
            b'{"command": "stop_model", "modle": "a"}',
            "The command 'stop_model' has no field 'modle'; did you mean 'model'?",
        ),
        (b'{"command": "stop_model"}', "The command 'stop_model' is invalid: Object missing required field model."),
        (
            b'{"command": "extend", "seconds": "long"}',
            "The command 'extend' is invalid: Expected float, got str - at $.seconds.",
        ),
        (b'{"command": "share_model", "model": "a", "share": true}', "Expected float, got bool"),
        (b'{"command": "share_model", "model": "a", "share": 1e400}', "A command is not valid JSON"),
        (b'{"model": "a"}', "Unknown command None; use one of start, plan"),
        (b"[1]", "Unknown command None; use one of start, plan"),
        (b"{torn", "A command is not valid JSON"),
        (b"\xff\xfe", "A command is not valid JSON"),
    ],
)
def test_invalid_lines_are_rejected_by_name(line, sentence):
    with pytest.raises(UsageError) as caught:
        cmd.COMMANDS.decode(line)
    assert sentence in str(caught.value)
