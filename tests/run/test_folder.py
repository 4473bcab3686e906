from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

from tabapp import files
from tabapp.errors import UsageError
from tabapp.run.options.config import RunConfig
from tabapp.run.record import commands as cmd
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import (
    CommandReader,
    EventLog,
    EventReader,
    LineReader,
    RunBusy,
    RunFolder,
    create_run,
    default_runs_dir,
    find_run,
    list_runs,
)
from tests.faults import FailingOperations
from tests.run.recording import recorded, write_run

CONFIG = RunConfig(data="/data/My Shop (2024).csv", target="bought", name="spring")


def messages_in(path):
    return [event.message for event in EventReader(path).read_new() if isinstance(event, ev.Log)]


def log(message):
    return ev.Log(level="info", message=message)


# -- the folder -----------------------------------------------------------------------------------------------------------


def test_new_run_stores_its_configuration_and_is_named_after_its_data(tmp_path):
    folder = create_run(CONFIG, tmp_path / "not" / "there" / "yet")
    assert folder.config() == CONFIG
    assert "my-shop-2024" in folder.run
    assert folder.state().seq == 0
    assert not folder.is_running()


def test_runs_created_in_the_same_second_have_different_folders(tmp_path):
    assert create_run(CONFIG, tmp_path).path != create_run(CONFIG, tmp_path).path


def test_unwritable_runs_directory_error_names_the_option(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--runs-dir") as caught:
        create_run(CONFIG, tmp_path / "file" / "runs")
    assert "\n" not in str(caught.value)


def test_partially_written_run_is_reported_and_not_listed(tmp_path, monkeypatch):
    with FailingOperations(monkeypatch, 1), pytest.raises(UsageError, match="No space left"):
        create_run(CONFIG, tmp_path)
    assert list_runs(tmp_path) == [], "a folder without a configuration is not listed"


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"data": 3}', b'{"data": "a.csv", "color": "red"}'])
def test_invalid_run_folder_is_reported_in_one_sentence(tmp_path, content):
    if content is not None:
        (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"run\.json") as caught:
        RunFolder(tmp_path).config()
    assert "\n" not in str(caught.value)


def test_environment_sets_the_runs_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path))
    assert default_runs_dir() == tmp_path
    monkeypatch.delenv("TABAPP_RUNS_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_runs_dir() == tmp_path / "data" / "tabapp" / "runs"


# -- finding runs ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def three_runs(tmp_path):
    for run in ("20260101-000000-shop-aaaa", "20260102-000000-shop-bbbb", "20260103-000000-cars-cccc"):
        write_run(tmp_path, run, CONFIG if "bbbb" in run else None)
    (tmp_path / "not-a-run").mkdir()
    return tmp_path


def test_runs_are_listed_newest_first(three_runs):
    assert [folder.run[-4:] for folder in list_runs(three_runs)] == ["cccc", "bbbb", "aaaa"]
    assert list_runs(three_runs / "nowhere") == []


@pytest.mark.parametrize(
    ("text", "end"),
    [("last", "cccc"), ("20260101-000000-shop-aaaa", "aaaa"), ("bbbb", "bbbb"), ("cars", "cccc"), ("spring", "bbbb")],
)
def test_find_run_by_identifier(three_runs, text, end):
    assert find_run(text, three_runs).run.endswith(end)


def test_find_run_by_path(three_runs, tmp_path_factory):
    path = three_runs / "20260101-000000-shop-aaaa"
    assert find_run(str(path), tmp_path_factory.mktemp("elsewhere")).path == path


def test_ambiguous_name_is_rejected_with_the_matching_runs(three_runs):
    with pytest.raises(UsageError, match=r"matches 2 runs: .*bbbb.*aaaa"):
        find_run("shop", three_runs)


def test_misspelled_run_suggests_the_nearest(three_runs):
    with pytest.raises(UsageError, match="did you mean '20260103-000000-cars-cccc'"):
        find_run("20260103-000000-cars-ccc1", three_runs)
    with pytest.raises(UsageError, match=r"There are no runs in .*nowhere yet"):
        find_run("last", three_runs / "nowhere")


# -- the lock -------------------------------------------------------------------------------------------------------------


def test_run_is_locked_by_one_process(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    with folder.lock():
        assert folder.is_running()
        with pytest.raises(RunBusy, match="tabapp attach"), folder.lock():
            pass
    assert not folder.is_running()
    with folder.lock():
        pass


def test_lock_is_released_when_its_holder_is_killed(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from tabapp.run.record.folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).lock():\n    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(folder.path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert folder.is_running()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert not folder.is_running()


# -- events ---------------------------------------------------------------------------------------------------------------


def test_events_are_numbered_from_one_and_read_in_order(tmp_path):
    folder = write_run(tmp_path)
    events = EventReader(folder.events).read_new()
    assert [event.seq for event in events] == list(range(1, len(recorded("x")) + 1))
    assert [type(event) for event in events] == [type(event) for event in recorded("x")]
    times = [event.t for event in events]
    assert times == sorted(times)
    assert min(times) > 1.7e9


def test_event_is_written_when_append_returns(tmp_path):
    path = tmp_path / "events.jsonl"
    writer = EventLog(path)
    for n in range(3):
        written = writer.append(log(str(n)))
        assert path.read_bytes().endswith(encode(written))
    writer.close()


def test_progress_and_resource_events_are_not_synced(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(files, "operations", files.Operations(fsync=synced.append))
    writer = EventLog(tmp_path / "events.jsonl")
    writer.append(ev.FitProgress(fit="a", model="mlp", trial=0, fold=0, step=1, value=0.5))
    writer.append(ev.Resources(cpu_percent=1.0, memory=1, memory_total=2))
    assert synced == []
    writer.append(ev.FitFinished(fit="a", model="mlp", trial=0, fold=0, score=0.5, seconds=1.0))
    assert len(synced) == 1
    writer.close()


def test_partial_last_line_is_truncated_at_every_length(tmp_path):
    path = tmp_path / "events.jsonl"
    writer = EventLog(path)
    writer.append(log("kept"))
    whole = path.read_bytes()
    writer.append(log("torn"))
    writer.close()
    content = path.read_bytes()
    for size in range(len(whole), len(content)):
        path.write_bytes(content[:size])
        assert messages_in(path) == ["kept"], "a reader never returns a partial event"
        writer = EventLog(path)
        assert writer.append(log("after")).seq == 2
        writer.close()
        assert messages_in(path) == ["kept", "after"]
        assert [event.seq for event in EventReader(path).read_new()] == [1, 2]


def test_full_disk_removes_the_partial_line(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    writer = EventLog(path)
    writer.append(log("before"))
    with FailingOperations(monkeypatch, 1), pytest.raises(OSError, match="No space left") as caught:
        writer.append(log("lost"))
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes().endswith(b"\n")
    assert writer.append(log("after")).seq == 2
    writer.close()
    assert messages_in(path) == ["before", "after"]


def test_log_holds_complete_events_in_order_when_any_operation_fails(tmp_path, monkeypatch):
    def write(path):
        writer = EventLog(path)
        for n in range(5):
            writer.append(log(str(n)))
        writer.close()

    n_operations = FailingOperations.count(monkeypatch, lambda: write(tmp_path / "counted"))
    assert n_operations == 10
    for n in range(1, n_operations + 1):
        path = tmp_path / f"events-{n}.jsonl"
        with FailingOperations(monkeypatch, n), pytest.raises(OSError, match="No space left"):
            write(path)
        writer = EventLog(path)
        writer.append(log("resumed"))
        writer.close()
        messages = messages_in(path)
        assert messages[:-1] == [str(i) for i in range(len(messages) - 1)]
        assert messages[-1] == "resumed"
        sequence = [event.seq for event in EventReader(path).read_new()]
        assert sequence == list(range(1, len(sequence) + 1))


def test_reader_follows_a_file_that_grows_byte_by_byte(tmp_path):
    path = tmp_path / "events.jsonl"
    reader = EventReader(path)
    assert reader.read_new() == []
    content = b"".join(encode(log(text)) for text in ("one", "zwei ü", "three"))
    seen: list[str] = []
    with path.open("wb", buffering=0) as file:
        for byte in content:
            file.write(bytes([byte]))
            seen += [event.message for event in reader.read_new() if isinstance(event, ev.Log)]
    assert seen == ["one", "zwei ü", "three"]


def test_reader_skips_unknown_events(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(encode(log("a")) + b'{"ev":"of.tomorrow"}\n' + b"garbage\n" + encode(log("b")))
    assert messages_in(path) == ["a", "b"]


def test_messages_may_contain_any_line_separator(tmp_path):
    path = tmp_path / "events.jsonl"
    writer = EventLog(path)
    message = "form feed \x0c, next line \x85, line separator \u2028, return \r, newline \n, tab \t"
    writer.append(log(message))
    writer.close()
    assert messages_in(path) == [message]


# -- commands -------------------------------------------------------------------------------------------------------------


def test_commands_of_several_views_are_read_in_order(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    reader = CommandReader(folder.commands, resumed=True)
    folder.send(cmd.ChangePlan(options={"metric": "accuracy"}))
    RunFolder(folder.path).send(cmd.Start())
    assert reader.read_new() == [cmd.ChangePlan(options={"metric": "accuracy"}), cmd.Start()]
    assert reader.read_new() == []


def test_resumed_engine_skips_commands_of_earlier_sessions(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    folder.send(cmd.Abort())
    reader = CommandReader(folder.commands, resumed=True)
    assert reader.read_new() == []
    folder.send(cmd.Pause())
    assert reader.read_new() == [cmd.Pause()]


def test_damaged_command_is_rejected_and_the_next_one_is_read(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    rejected: list[str] = []
    reader = CommandReader(folder.commands, resumed=True, reject=rejected.append)
    folder.commands.write_bytes(b"{torn\n[1]\n" + json.dumps({"command": "pause"}).encode() + b"\n{")
    assert reader.read_new() == [cmd.Pause()]
    assert len(rejected) == 2


def test_processes_append_lines_without_interleaving(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    code = (
        "import sys; from pathlib import Path; from tabapp.run.record.commands import StopModel\n"
        "from tabapp.run.record.folder import RunFolder\n"
        "for n in range(200): RunFolder(Path(sys.argv[1])).send(StopModel(model=sys.argv[2] * 300))"
    )
    senders = [subprocess.Popen([sys.executable, "-c", code, str(folder.path), name]) for name in "ab"]
    assert [sender.wait() for sender in senders] == [0, 0]
    lines = LineReader(folder.commands).read_new()
    assert len(lines) == 400
    assert sorted(json.loads(line)["model"][0] for line in lines) == ["a"] * 200 + ["b"] * 200


def test_no_file_descriptor_leaks(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        folder = create_run(CONFIG, tmp_path)
        folder.is_running()
        folder.send(cmd.Start())
        folder.state()
        writer = EventLog(folder.events)
        writer.append(log("x"))
        writer.close()
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after <= before
