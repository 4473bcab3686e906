"""Every field of a file from elsewhere that is a path, a host, a command or a name, with every kind of hostile value."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

from tabapp import files
from tabapp.cli.main import run_command_line
from tabapp.engine.targets.target_runs import load_runs
from tabapp.errors import TabappError, UsageError
from tabapp.models import registry
from tabapp.printable import is_printable
from tabapp.run.options.config import RunConfig, quoted_command
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.confining import OUTSIDE, bundle_of, own_config
from tabapp.run.record.folder import CommandReader, RunFolder, find_listed_run
from tabapp.run.record.reducing.reduce import reduce
from tabapp.run.record.resuming import resumed_config
from tabapp.run.record.state import RunState
from tests.run.recording import PLAN, finished, write_run

HOSTILE = {
    "absolute": "/etc/passwd",
    "parent": "../../../etc/passwd",
    "dots": "..",
    "dot": ".",
    "empty": "",
    "root": "/",
    "NUL": "a\0b",
    "newline": "a\nb",
    "home": "~/.bashrc",
    "user": "~root/.bashrc",
    "long name": "x" * 5_000,
    "long path": "x/" * 5_000,
    "escape": "\x1b]0;title\x07\x1b[2J",
    "direction": "\u202egnp.sh",
    "shell": "; touch /tmp/x; `touch y` $(touch z) '",
    "option": "--out=/etc/passwd",
    "device": "/dev/zero",
    "host": "169.254.169.254:80",
}
VALUES = pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run that is planned, whose run.json somebody else writes."""
    folder = write_run(tmp_path / "runs")
    folder.plan.write_text("{}")
    return folder


def configure(folder: RunFolder, **options: object) -> None:
    content = json.dumps({"data": "/data/shop.csv", **options})
    (folder.path / "run.json").write_text(content)


@VALUES
def test_paths_and_hosts_of_a_configuration_stay_in_the_folder(run: RunFolder, value: str) -> None:
    for name in OUTSIDE:
        configure(run, **{name: value if name != "executor" else "ray"})
        said: list[str] = []
        config = own_config(run, said.append)
        for path in filter(None, (config.data, config.test, config.unlabelled, config.out)):
            assert Path(path).parent == run.path, name
            assert files.is_plain_name(Path(path).name), name
        assert (config.out, config.executor, config.address) == (None, "local", None), name
        assert all(is_printable(sentence) and len(sentence) < 1_000 for sentence in said), name
        assert bool(said) == (name in ("test", "unlabelled", "out")), name
        if name in ("executor", "address"):
            continue
        assert resumed_config(run, None, 9).data == config.data, name


@VALUES
def test_an_executor_of_another_name_is_one_sentence(run: RunFolder, value: str) -> None:
    configure(run, executor=value)
    with pytest.raises(UsageError, match=r"run\.json cannot be understood"):
        own_config(run)


@VALUES
def test_names_in_a_configuration_are_shown_and_searched_as_text(
    run: RunFolder, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(run, name=value, target=value, metric=value, models=[value], device=value, group=value)
    assert run_command_line(["runs", "--json", "--runs-dir", str(run.path.parent)]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["run"] == run.run
    assert run_command_line(["runs", "--runs-dir", str(run.path.parent)]) == 0
    out = capsys.readouterr().out
    assert all(is_printable(line) for line in out.splitlines())
    configure(run)
    for text in ("/etc/passwd", "../runs", f"{value}/nothing"):
        with pytest.raises(UsageError, match="There is no run"):
            find_listed_run(text, run.path.parent)


@VALUES
def test_a_bundle_in_an_event_is_that_of_the_run(run: RunFolder, value: str) -> None:
    configure(run, out=value)
    event = finished(run.run, bundle=value)
    assert bundle_of(run, event, is_own=run.is_own()) == run.bundle


@VALUES
def test_the_folder_of_a_target_is_in_the_run(run: RunFolder, value: str) -> None:
    event = ev.TargetStarted(index=0, target=value, targets=(value,), folder=value, seq=1)
    assert reduce(RunState(), event).targets[0].folder == ""
    record = {"targets": [{"target": "a", "folder": value}], "round": 1}
    run.targets.write_text(json.dumps(record))
    with pytest.raises(UsageError, match="names other folders"):
        load_runs(run)


@VALUES
def test_a_command_in_an_event_runs_nothing_but_tabapp(value: str) -> None:
    for text in (value, f"tabapp {value}", f"tabapp --auto x {value}", f"tabapp\n{value}"):
        plan = reduce(RunState(), msgspec.structs.replace(PLAN, command=text, seq=1)).plan
        assert plan is not None
        words = shlex.split(plan.command)
        assert words[:1] in ([], ["tabapp"])
        assert shlex.join(words) == plan.command
    assert quoted_command(PLAN.command) == PLAN.command


@VALUES
def test_a_command_file_changes_nothing_outside_of_the_folder(tmp_path: Path, value: str) -> None:
    from tabapp.run.record.confining import reject_outside

    path = tmp_path / "commands.jsonl"
    for name in OUTSIDE:
        path.write_text(json.dumps({"command": "plan", "options": {name: value}, "v": 1}) + "\n")
        (command,) = CommandReader(path, resumed=False).read_new()
        assert isinstance(command, cmd.ChangePlan)
        with pytest.raises(UsageError):
            reject_outside(command.options)


@VALUES
def test_no_model_is_a_file(value: str) -> None:
    found = registry.find(value)
    assert found.plugin is None
    assert "is installed" in (found.reason or "")
    with pytest.raises(TabappError):
        registry.check_names([value])


@VALUES
def test_a_name_is_a_single_part_of_a_path(value: str, tmp_path: Path) -> None:
    is_plain = files.is_plain_name(value)
    assert is_plain == (value in (HOSTILE["newline"], HOSTILE["escape"], HOSTILE["direction"], HOSTILE["host"]))
    if is_plain:
        assert (tmp_path / value).parent == tmp_path
        assert not (tmp_path / value).exists()


def test_the_fields_of_a_configuration_are_all_considered() -> None:
    """A new field that names something outside of the folder must be added to `OUTSIDE`."""
    texts = {name for name, kind in get_type_hints(RunConfig).items() if "str" in str(kind)}
    inside = {
        "target", "task", "metric", "quality", "models", "exclude", "validation", "group", "time", "weight", "ignore", "kinds",
        "other_targets", "monotonic", "positive", "device", "name", "delimiter", "encoding", "decimal", "null",
        "keep_null", "fixed",
    }  # fmt: skip
    assert texts | {"executor"} <= inside | set(OUTSIDE)
