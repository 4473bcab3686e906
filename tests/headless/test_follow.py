"""Follow a run: a scripted process replaces the engine and writes events, exits or is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tabapp.headless import follow as follow_module
from tabapp.headless.follow import follow
from tabapp.headless.live import LiveView
from tabapp.run.protocol.client import BUSY, DISK_FULL
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import decode
from tabapp.run.record.folder import EventLog, RunFolder
from tabapp.run.record.reducing.reduce import reduce
from tabapp.run.record.state import RunState
from tests.run.recording import recorded, write_run
from tests.waiting import wait_until

PRELUDE = """
import os, signal, sys, time
from pathlib import Path
from tabapp.run.record.folder import CommandReader, EventLog, RunFolder
from tests.run.recording import finished, recorded
signal.signal(signal.SIGINT, signal.SIG_IGN)
folder = RunFolder(Path(sys.argv[1]))
log = EventLog(folder.events)
"""


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    """A run without events."""
    made = write_run(tmp_path)
    made.events.unlink()
    return made


@pytest.fixture
def engine(monkeypatch):
    """Replaces the engine of the next run with a script."""
    started: list[subprocess.Popen[bytes]] = []

    def use(script: str) -> list[subprocess.Popen[bytes]]:
        def start(folder: RunFolder) -> subprocess.Popen[bytes]:
            process = subprocess.Popen([sys.executable, "-c", PRELUDE + script, str(folder.path)])
            started.append(process)
            return process

        monkeypatch.setattr(follow_module, "start_engine", start)
        return started

    yield use
    for process in started:
        process.kill()
        process.wait()


def watch(
    folder: RunFolder, *, as_json: bool = False, quiet: bool = False, verbose: bool = False, start: bool = True
) -> int:
    return follow(folder, plain=True, as_json=as_json, quiet=quiet, verbose=verbose, start=start)


def test_json_prints_every_event_and_ends_with_the_last(folder, engine, capfd):
    engine("for event in recorded(folder.run): log.append(event)")
    assert watch(folder, as_json=True) == 0
    out, err = capfd.readouterr()
    assert out == folder.events.read_text()
    assert json.loads(out.splitlines()[-1])["ev"] == "run.finished"
    assert err == ""


MANY_WARNINGS = """
import msgspec
from tabapp.run.record import events as ev
leak = ev.WarningView(check="leak", column="later", message="It alone predicts y.", action="kept; --ignore later leaves it out")
others = [ev.WarningView(check=f"c{i}", column=f"x{i}", message="It is odd.", action="kept") for i in range(16)]
for event in recorded(folder.run):
    if isinstance(event, ev.SchemaInferred):
        event = msgspec.structs.replace(event, warnings=(leak, *others))
        log.append(event)
    log.append(event)
"""


def test_plain_lines_warn_of_the_data_once_with_the_remedy_and_count_the_rest(folder, engine, capsys):
    engine(MANY_WARNINGS)
    assert watch(folder) == 0
    lines = [line[9:] for line in capsys.readouterr().err.splitlines() if line[9:].startswith("warn ")]
    warned = [line for line in lines if "odd" in line or "later" in line or "more" in line]
    assert warned[0] == "warn     later: It alone predicts y → kept; --ignore later leaves it out"
    assert warned[1:10] == [f"warn     x{i}: It is odd → kept" for i in range(9)]
    assert warned[10:] == [f"warn     and 7 more; `tabapp report {folder.argument}` lists all of them"]


def test_verbose_lines_have_every_warning_and_quiet_ones_none(folder, engine, capsys):
    engine(MANY_WARNINGS)
    watch(folder, verbose=True)
    assert capsys.readouterr().err.count("It is odd → kept") == 16
    assert watch(folder, quiet=True, start=False) == 0
    assert "odd" not in capsys.readouterr().err


def test_the_live_view_prints_warnings_above_its_table(capsys):
    view = LiveView("last", verbose=False)
    state = RunState()
    for event in recorded("shop"):
        state = reduce(state, event)
        view.show(event, state)
    view.close(state)
    assert "⚠ bought: It is rare → kept" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 1, 3, 4, 130])
def test_command_exits_with_the_code_of_the_run(folder, engine, capsys, code):
    engine(
        f"log.append(finished(folder.run, exit_code={code}, message='the run has ended', status='failed')); sys.exit({code})"
    )
    assert watch(folder, quiet=True) == code
    assert capsys.readouterr().err == "tabapp: The run has ended.\n"


def test_narration_goes_to_stderr_and_the_result_to_stdout(folder, engine, capsys):
    engine("for event in recorded(folder.run): log.append(event)")
    assert watch(folder) == 0
    out, err = capsys.readouterr()
    assert "Leaderboard" in out
    assert "Read 1,000 rows" in err
    assert "LightGBM #1 fold 1: its process was ended by SIGKILL" in err
    assert "fold 1" not in err.replace("fold 1: its process", ""), "single fits are shown only with --verbose"


def test_verbose_shows_fits(folder, engine, capsys):
    engine("for event in recorded(folder.run): log.append(event)")
    watch(folder, verbose=True)
    err = capsys.readouterr().err
    assert "LightGBM #0 fold 1 starts: a fold takes about 1 s" in err
    assert "LightGBM #0 fold 1 0.9000 in 1s" in err
    assert "LightGBM #1 fold 1 starts" not in err, "earlier versions record no reason"


def test_unchanged_ensemble_is_reported_once(folder, engine, capsys):
    engine(
        "events = recorded(folder.run)\n"
        "ensemble = next(e for e in events if type(e).__name__ == 'EnsembleChanged')\n"
        "for event in [*events[:-1], ensemble, ensemble, events[-1]]: log.append(event)"
    )
    watch(folder)
    assert capsys.readouterr().err.count("member → 0.9100") == 1


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL, likely because memory ran out"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("sys.exit(7)", "ended with code 7"),
        ("", "ended with code 0"),
    ],
)
def test_engine_death_is_reported_with_the_resume_command(folder, engine, capsys, script, cause):
    engine("for event in recorded(folder.run)[:-1]: log.append(event)\n" + script)
    assert watch(folder, quiet=True) == 1
    out, err = capsys.readouterr()
    assert cause in err
    assert f"`tabapp resume {folder.path}`" in err
    assert str(folder.log) in err
    assert "LightGBM" in out, "earlier results are shown"


def test_a_full_disk_is_named_with_the_resume_command(folder, engine, capsys):
    processes = engine(
        """
import errno
from tabapp import files
from tabapp.processes import engine as worker
from tabapp.engine.fit import servers as server

def full(descriptor, data):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

server.start_first = lambda models: None
files.operations = files.Operations(full, os.fsync, os.replace)
sys.exit(worker.main([str(folder.path)]))
"""
    )
    assert watch(folder, quiet=True) == 1
    assert processes[0].returncode == DISK_FULL == 74
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert f"The disk of {folder.path} is full." in line
    assert f"`tabapp resume {folder.path}`" in line
    assert read(folder) == []


def test_a_full_disk_is_named_although_the_log_has_no_space_either(folder, engine, capsys):
    processes = engine(
        """
import errno
from tabapp import files
from tabapp.processes import engine as worker
from tabapp.engine.fit import servers as server

def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

server.start_first = lambda models: None
files.operations = files.Operations(full, os.fsync, os.replace)
sys.stderr.write = full
sys.exit(worker.main([str(folder.path)]))
"""
    )
    assert watch(folder, quiet=True) == 1
    assert processes[0].returncode == DISK_FULL
    assert f"The disk of {folder.path} is full." in capsys.readouterr().err


def test_an_engine_that_starts_beside_another_is_refused(folder, engine, capsys):
    processes = engine("from tabapp.processes import engine; sys.exit(engine.main([str(folder.path)]))")
    with folder.lock():
        assert watch(folder, quiet=True) == 2
    assert processes[0].returncode == BUSY
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert line == f"tabapp: {folder.busy_sentence}"


def test_a_suspended_engine_is_reported_once(folder, engine, monkeypatch):
    processes = engine(
        "import msgspec\n"
        "first, *rest = recorded(folder.run)\n"
        "log.append(msgspec.structs.replace(first, pid=os.getpid()))\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
        "for event in rest: log.append(event)"
    )
    messages = []

    def say(message):
        messages.append(message)
        os.kill(processes[0].pid, signal.SIGCONT)

    monkeypatch.setattr(follow_module, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(follow_module, "say", say)
    assert watch(folder, quiet=True) == 0
    assert messages == [f"The engine is suspended; `kill -CONT {processes[0].pid}` continues it."]


def test_events_of_an_earlier_session_are_not_repeated(folder, engine, capsys):
    log = EventLog(folder.events)
    for event in recorded(folder.run):
        log.append(event)
    log.close()
    engine("log.append(recorded(folder.run)[0]); log.append(finished(folder.run, seconds=99.0))")
    assert watch(folder, as_json=False) == 0
    err = capsys.readouterr().err
    assert "Read 1,000 rows" not in err
    assert "Started run" in err


def test_first_interrupt_finishes_with_the_best_so_far(folder, engine, capsys):
    engine(
        "commands = CommandReader(folder.commands, resumed=True)\n"
        "for event in recorded(folder.run)[:-1]: log.append(event)\n"
        "while [type(c).__name__ for c in commands.read_new()] != ['Interrupt']: time.sleep(0.01)\n"
        "log.append(finished(folder.run, status='interrupted', exit_code=130, message='Interrupted.'))"
    )
    interrupt_when(lambda: count_finished_trials(folder) > 0)
    assert watch(folder, quiet=True) == 130
    err = capsys.readouterr().err
    assert "Finishing with the best so far; Ctrl+C again stops at once." in err
    assert err.endswith("tabapp: Interrupted.\n")


def test_second_interrupt_stops_at_once(folder, engine, capsys):
    processes = engine("for event in recorded(folder.run)[:-1]: log.append(event)\nsignal.pause()")
    interrupt_when(lambda: count_finished_trials(folder) > 0)
    interrupt_when(lambda: folder.commands.exists())
    assert watch(folder, quiet=True) == 130
    assert processes[0].poll() == -signal.SIGKILL
    assert f"`tabapp resume {folder.path}` resumes it" in capsys.readouterr().err


def test_signal_handlers_are_restored(folder, engine):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    engine("log.append(finished(folder.run))")
    watch(folder, quiet=True)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_attach_follows_an_engine_started_elsewhere(folder, capsys):
    log = EventLog(folder.events)
    events = recorded(folder.run)

    def work() -> None:
        with folder.lock():
            for event in events:
                log.append(event)
                time.sleep(0.005)
        log.close()

    with folder.lock():
        pass
    worker = threading.Thread(target=work)
    worker.start()
    assert watch(folder, quiet=True, start=False) == 0
    worker.join()
    assert "Leaderboard" in capsys.readouterr().out


def test_attach_to_a_stopped_run_reports_the_resume_command(folder, capsys):
    log = EventLog(folder.events)
    for event in recorded(folder.run)[:-1]:
        log.append(event)
    log.close()
    assert watch(folder, quiet=True, start=False) == 1
    assert "The run was stopped; `tabapp resume" in capsys.readouterr().err


def count_finished_trials(folder: RunFolder) -> int:
    return sum(isinstance(line, ev.TrialFinished) for line in read(folder))


def read(folder: RunFolder) -> list[ev.AnyEvent]:
    lines = folder.events.read_bytes().splitlines() if folder.events.exists() else []
    return [event for line in lines if (event := decode(line)) is not None]


def interrupt_when(condition) -> None:
    """Send SIGINT when the condition is true."""

    def interrupt() -> None:
        wait_until(condition)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
