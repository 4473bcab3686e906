"""Names, notes, tags and pins of runs: their file, and where they are found."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from tabapp.errors import UsageError
from tabapp.run.lists.description import describe_run, version_of
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import create_run, find_run
from tabapp.run.record.labels import FILE, RunLabels, parse_name, parse_tags, read_labels, save_labels
from tests.run.recording import write_run


def test_labels_are_read_back_and_belong_to_their_owner_only(tmp_path):
    assert read_labels(tmp_path) == RunLabels()
    labels = RunLabels(name="second try", note="more trees", tags=("trees", "slow"), pinned=True)
    save_labels(tmp_path, labels)
    assert read_labels(tmp_path) == labels
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"nmae": "a"}', "'nmae' is not a key; did you mean 'name'?"),
        ('{"color": "a"}', "'color' is not a key; the keys are name, note, tags, pinned."),
        ('{"tags": "a"}', "Expected array, got str"),
        ("{", "truncated"),
        ("[" * 60_000, "cannot be understood"),
        ('{"note": "' + "x" * 70_000 + '"}', "more than 65,536 bytes"),
    ],
)
def test_labels_that_are_not_understood_are_named_and_not_replaced(tmp_path, content, message):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        read_labels(tmp_path)
    assert str(tmp_path / FILE) in str(error.value)
    with pytest.raises(UsageError):
        save_labels(tmp_path, RunLabels(name="new"))
    assert (tmp_path / FILE).read_text() == content


def test_tags_and_names_that_are_typed():
    assert parse_tags(" #a, b a  #c#d,") == ("a", "b", "c#d")
    assert parse_name("  long shot ") == "long shot"
    for name in ("a/b", "..", "last", "x" * 101):
        with pytest.raises(UsageError):
            parse_name(name)


def test_a_new_name_finds_the_run_and_a_list_shows_it(tmp_path):
    folder = create_run(RunConfig(data="/data/shop.csv", name="first"), tmp_path)
    assert describe_run(folder).title == "first"
    before = version_of(folder)
    save_labels(folder.path, RunLabels(name="best of all", tags=("a",)))
    assert version_of(folder) != before
    assert describe_run(folder).title == "best of all"
    assert describe_run(folder).labels.tags == ("a",)
    assert find_run("best of all", tmp_path) == folder
    (folder.path / FILE).write_text('{"nmae": "a"}')
    assert describe_run(folder).title == "first"
    assert "'nmae' is not a key" in describe_run(folder).labels_problem


def test_the_time_of_a_run_counts_neither_its_plan_nor_the_time_between_sessions(tmp_path):
    """The run was planned for 50 s, fitted for 20 s, was killed, and was resumed a day later for 10 s."""
    folder = write_run(tmp_path)
    events = [json.loads(line) for line in folder.events.read_bytes().splitlines()]
    first, plan, board = (
        next(e for e in events if e["ev"] == name) for name in ("run.started", "plan.made", "leaderboard.changed")
    )
    lines: list[dict[str, object]] = []

    def add(event: dict[str, object], t: float, elapsed: float) -> None:
        lines.append({**event, "seq": len(lines) + 1, "t": t, "elapsed": elapsed})

    fitting = {"v": 1, "ev": "stage.changed", "stage": "fitting"}
    better = json.loads(json.dumps(board))
    for row in better["rows"]:
        row["score"] = row["score"] and row["score"] + 0.05
    add(first, 1000.0, 0.1)
    add(plan, 1001.0, 1.0)
    add({**fitting, "stage": "ready"}, 1001.0, 1.0)
    add(fitting, 1051.0, 51.0)
    add(board, 1071.0, 71.0)
    add({**first, "resumed": True}, 90_000.0, 0.1)
    add(fitting, 90_000.0, 0.1)
    add(better, 90_010.0, 10.1)
    folder.events.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    found = describe_run(folder)
    assert found.seconds == pytest.approx(30.0, abs=0.5)
    assert [round(time) for time, _ in found.curve] == [20, 30]
    assert found.started == 90_000.0
