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
from tabapp.run import commands as cmd
from tabapp.run import events as ev
from tabapp.run.config import RunConfig
from tabapp.run.folder import (
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


def told(path):
    return [event.message for event in EventReader(path).read_new() if isinstance(event, ev.Log)]


def log(message):
    return ev.Log(level="info", message=message)


# -- the folder -----------------------------------------------------------------------------------------------------------


def test_a_new_run_holds_its_configuration_and_says_what_it_is_about(tmp_path):
    folder = create_run(CONFIG, tmp_path / "not" / "there" / "yet")
    assert folder.config() == CONFIG
    assert "my-shop-2024" in folder.run
    assert folder.state().seq == 0
    assert not folder.is_running()


def test_two_runs_of_one_second_are_two(tmp_path):
    assert create_run(CONFIG, tmp_path).path != create_run(CONFIG, tmp_path).path


def test_a_place_that_cannot_be_written_is_told_with_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--runs-dir") as caught:
        create_run(CONFIG, tmp_path / "file" / "runs")
    assert "\n" not in str(caught.value)


def test_a_run_that_cannot_be_written_whole_is_told(tmp_path, monkeypatch):
    with FailingOperations(monkeypatch, 1), pytest.raises(UsageError, match="No space left"):
        create_run(CONFIG, tmp_path)
    assert list_runs(tmp_path) == [], "a folder without its configuration is no run"


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"data": 3}', b'{"data": "a.csv", "colour": "red"}'])
def test_a_folder_that_is_no_run_is_told_in_a_sentence(tmp_path, content):
    if content is not None:
        (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"run\.json") as caught:
        RunFolder(tmp_path).config()
    assert "\n" not in str(caught.value)


def test_the_place_for_runs_can_be_chosen_by_the_environment(tmp_path, monkeypatch):
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
def test_a_run_is_found_by_what_identifies_it(three_runs, text, end):
    assert find_run(text, three_runs).run.endswith(end)


def test_a_run_is_found_by_its_path(three_runs, tmp_path_factory):
    path = three_runs / "20260101-000000-shop-aaaa"
    assert find_run(str(path), tmp_path_factory.mktemp("elsewhere")).path == path


def test_a_name_that_fits_several_is_refused_with_their_names(three_runs):
    with pytest.raises(UsageError, match=r"fits 2 runs: .*bbbb.*aaaa"):
        find_run("shop", three_runs)


def test_a_misspelt_run_gets_the_nearest(three_runs):
    with pytest.raises(UsageError, match="did you mean '20260103-000000-cars-cccc'"):
        find_run("20260103-000000-cars-ccc1", three_runs)
    with pytest.raises(UsageError, match="`tabapp runs` lists them"):
        find_run("last", three_runs / "nowhere")


# -- the lock -------------------------------------------------------------------------------------------------------------


def test_one_process_holds_a_run(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    with folder.lock():
        assert folder.is_running()
        with pytest.raises(RunBusy, match="tabapp attach"), folder.lock():
            pass
    assert not folder.is_running()
    with folder.lock():
        pass


def test_a_run_is_free_when_its_holder_is_killed(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from tabapp.run.folder import RunFolder\n"
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


def test_events_are_numbered_from_one_and_read_as_they_were_written(tmp_path):
    folder = write_run(tmp_path)
    events = EventReader(folder.events).read_new()
    assert [event.seq for event in events] == list(range(1, len(recorded("x")) + 1))
    assert [type(event) for event in events] == [type(event) for event in recorded("x")]
    times = [event.t for event in events]
    assert times == sorted(times)
    assert min(times) > 1.7e9


def test_an_event_is_on_disk_when_append_returns(tmp_path):
    path = tmp_path / "events.jsonl"
    writer = EventLog(path)
    for n in range(3):
        written = writer.append(log(str(n)))
        assert path.read_bytes().endswith(ev.encode(written))
    writer.close()


def test_what_matters_is_synced_and_what_only_moves_is_not(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(files, "operations", files.Operations(fsync=synced.append))
    writer = EventLog(tmp_path / "events.jsonl")
    writer.append(ev.FitProgress(fit="a", model="mlp", trial=0, fold=0, step=1, value=0.5))
    writer.append(ev.Resources(cpu_percent=1.0, memory=1, memory_total=2))
    assert synced == []
    writer.append(ev.FitFinished(fit="a", model="mlp", trial=0, fold=0, score=0.5, seconds=1.0))
    assert len(synced) == 1
    writer.close()


def test_a_torn_last_line_is_cut_off_wherever_it_was_torn(tmp_path):
    path = tmp_path / "events.jsonl"
    writer = EventLog(path)
    writer.append(log("kept"))
    whole = path.read_bytes()
    writer.append(log("torn"))
    writer.close()
    content = path.read_bytes()
    for size in range(len(whole), len(content)):
        path.write_bytes(content[:size])
        assert told(path) == ["kept"], "a reader never sees half an event"
        writer = EventLog(path)
        assert writer.append(log("after")).seq == 2
        writer.close()
        assert told(path) == ["kept", "after"]
        assert [event.seq for event in EventReader(path).read_new()] == [1, 2]


def test_a_full_disk_takes_back_the_line_that_was_begun(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    writer = EventLog(path)
    writer.append(log("before"))
    with FailingOperations(monkeypatch, 1), pytest.raises(OSError, match="No space left") as caught:
        writer.append(log("lost"))
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes().endswith(b"\n")
    assert writer.append(log("after")).seq == 2
    writer.close()
    assert told(path) == ["before", "after"]


def test_a_log_holds_whole_events_in_order_whichever_operation_fails(tmp_path, monkeypatch):
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
        messages = told(path)
        assert messages[:-1] == [str(i) for i in range(len(messages) - 1)]
        assert messages[-1] == "resumed"
        sequence = [event.seq for event in EventReader(path).read_new()]
        assert sequence == list(range(1, len(sequence) + 1))


def test_a_reader_follows_a_file_that_grows_byte_by_byte(tmp_path):
    path = tmp_path / "events.jsonl"
    reader = EventReader(path)
    assert reader.read_new() == []
    content = b"".join(ev.encode(log(text)) for text in ("one", "zwei ü", "three"))
    seen: list[str] = []
    with path.open("wb", buffering=0) as file:
        for byte in content:
            file.write(bytes([byte]))
            seen += [event.message for event in reader.read_new() if isinstance(event, ev.Log)]
    assert seen == ["one", "zwei ü", "three"]


def test_a_reader_passes_over_events_it_does_not_know(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(ev.encode(log("a")) + b'{"ev":"of.tomorrow"}\n' + b"garbage\n" + ev.encode(log("b")))
    assert told(path) == ["a", "b"]


def test_lines_may_hold_any_character_that_ends_a_line_elsewhere(tmp_path):
    path = tmp_path / "events.jsonl"
    writer = EventLog(path)
    message = "form feed \x0c, next line \x85, line separator \u2028, return \r, newline \n, tab \t"
    writer.append(log(message))
    writer.close()
    assert told(path) == [message]


# -- commands -------------------------------------------------------------------------------------------------------------


def test_commands_of_several_views_reach_the_engine_in_order(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    reader = CommandReader(folder.commands, resumed=True)
    folder.send(cmd.ChangePlan(options={"metric": "accuracy"}))
    RunFolder(folder.path).send(cmd.Start())
    assert reader.read_new() == [cmd.ChangePlan(options={"metric": "accuracy"}), cmd.Start()]
    assert reader.read_new() == []


def test_a_resumed_engine_skips_the_commands_of_earlier_sessions(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    folder.send(cmd.Abort())
    reader = CommandReader(folder.commands, resumed=True)
    assert reader.read_new() == []
    folder.send(cmd.Pause())
    assert reader.read_new() == [cmd.Pause()]


def test_a_damaged_command_is_rejected_and_the_next_one_read(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    rejected: list[str] = []
    reader = CommandReader(folder.commands, resumed=True, reject=rejected.append)
    folder.commands.write_bytes(b"{torn\n[1]\n" + json.dumps({"command": "pause"}).encode() + b"\n{")
    assert reader.read_new() == [cmd.Pause()]
    assert len(rejected) == 2


def test_lines_are_appended_by_several_processes_without_mixing(tmp_path):
    folder = create_run(CONFIG, tmp_path)
    code = (
        "import sys; from pathlib import Path; from tabapp.run.commands import StopModel\n"
        "from tabapp.run.folder import RunFolder\n"
        "for n in range(200): RunFolder(Path(sys.argv[1])).send(StopModel(model=sys.argv[2] * 300))"
    )
    senders = [subprocess.Popen([sys.executable, "-c", code, str(folder.path), name]) for name in "ab"]
    assert [sender.wait() for sender in senders] == [0, 0]
    lines = LineReader(folder.commands).read_new()
    assert len(lines) == 400
    assert sorted(json.loads(line)["model"][0] for line in lines) == ["a"] * 200 + ["b"] * 200


def test_nothing_is_left_open(tmp_path):
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
