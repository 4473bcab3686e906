"""Following a run: a scripted process stands in for the engine and really writes, ends and dies."""

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
from tabapp.run import events as ev
from tabapp.run.folder import EventLog, RunFolder
from tests.run.recording import recorded, write_run
from tests.waiting import wait_until

PRELUDE = """
import os, signal, sys, time
from pathlib import Path
from tabapp.run.folder import CommandReader, EventLog, RunFolder
from tests.run.recording import finished, recorded
signal.signal(signal.SIGINT, signal.SIG_IGN)
folder = RunFolder(Path(sys.argv[1]))
log = EventLog(folder.events)
"""


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    """A run that has not begun."""
    made = write_run(tmp_path)
    made.events.unlink()
    return made


@pytest.fixture
def engine(monkeypatch):
    """Makes a script the engine of the next run."""
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


def test_every_event_is_a_line_and_the_last_is_the_end(folder, engine, capfd):
    engine("for event in recorded(folder.run): log.append(event)")
    assert watch(folder, as_json=True) == 0
    out, err = capfd.readouterr()
    assert out == folder.events.read_text()
    assert json.loads(out.splitlines()[-1])["ev"] == "run.finished"
    assert err == ""


@pytest.mark.parametrize("code", [0, 1, 3, 4, 130])
def test_the_command_ends_with_the_code_of_the_run(folder, engine, capsys, code):
    engine(
        f"log.append(finished(folder.run, exit_code={code}, message='so it ended', status='failed')); sys.exit({code})"
    )
    assert watch(folder, quiet=True) == code
    assert capsys.readouterr().err == "tabapp: So it ended.\n"


def test_narration_goes_to_stderr_and_the_result_to_stdout(folder, engine, capsys):
    engine("for event in recorded(folder.run): log.append(event)")
    assert watch(folder) == 0
    out, err = capsys.readouterr()
    assert "Leaderboard" in out
    assert "Read 1,000 rows" in err
    assert "LightGBM #1 fold 1: its process was ended by SIGKILL" in err
    assert "fold 1 0.9000" not in err, "single fits are told only when asked for"


def test_fits_are_told_when_asked_for(folder, engine, capsys):
    engine("for event in recorded(folder.run): log.append(event)")
    watch(folder, verbose=True)
    assert "LightGBM #0 fold 1 0.9000 in 1.0s" in capsys.readouterr().err


def test_an_ensemble_that_stays_the_same_is_told_once(folder, engine, capsys):
    engine(
        "events = recorded(folder.run)\n"
        "ensemble = next(e for e in events if type(e).__name__ == 'EnsembleChanged')\n"
        "for event in [*events[:-1], ensemble, ensemble, events[-1]]: log.append(event)"
    )
    watch(folder)
    assert capsys.readouterr().err.count("member → 0.9100") == 1


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL, likely because memory ran out"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("sys.exit(7)", "ended with code 7"),
        ("", "ended with code 0"),
    ],
)
def test_an_engine_that_dies_is_told_with_how_to_go_on(folder, engine, capsys, script, told):
    engine("for event in recorded(folder.run)[:-1]: log.append(event)\n" + script)
    assert watch(folder, quiet=True) == 1
    out, err = capsys.readouterr()
    assert told in err
    assert f"`tabapp resume {folder.path}`" in err
    assert str(folder.log) in err
    assert "LightGBM" in out, "what was found until then is shown"


def test_what_an_earlier_session_told_is_not_told_again(folder, engine, capsys):
    log = EventLog(folder.events)
    for event in recorded(folder.run):
        log.append(event)
    log.close()
    engine("log.append(recorded(folder.run)[0]); log.append(finished(folder.run, seconds=99.0))")
    assert watch(folder, as_json=False) == 0
    err = capsys.readouterr().err
    assert "Read 1,000 rows" not in err
    assert "Started run" in err


def test_one_interrupt_asks_for_the_best_so_far(folder, engine, capsys):
    engine(
        "commands = CommandReader(folder.commands, resumed=True)\n"
        "for event in recorded(folder.run)[:-1]: log.append(event)\n"
        "while [type(c).__name__ for c in commands.read_new()] != ['Interrupt']: time.sleep(0.01)\n"
        "log.append(finished(folder.run, status='interrupted', exit_code=130, message='Interrupted.'))"
    )
    interrupt_when(lambda: told_trials(folder) > 0)
    assert watch(folder, quiet=True) == 130
    err = capsys.readouterr().err
    assert "Finishing with the best so far; Ctrl+C again stops at once." in err
    assert err.endswith("tabapp: Interrupted.\n")


def test_two_interrupts_stop_at_once(folder, engine, capsys):
    processes = engine("for event in recorded(folder.run)[:-1]: log.append(event)\nsignal.pause()")
    interrupt_when(lambda: told_trials(folder) > 0)
    interrupt_when(lambda: folder.commands.exists())
    assert watch(folder, quiet=True) == 130
    assert processes[0].poll() == -signal.SIGKILL
    assert f"`tabapp resume {folder.path}` resumes it" in capsys.readouterr().err


def test_the_handlers_of_signals_are_put_back(folder, engine):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    engine("log.append(finished(folder.run))")
    watch(folder, quiet=True)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_attaching_follows_an_engine_that_is_elsewhere(folder, capsys):
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


def test_attaching_to_a_run_that_was_stopped_says_how_to_go_on(folder, capsys):
    log = EventLog(folder.events)
    for event in recorded(folder.run)[:-1]:
        log.append(event)
    log.close()
    assert watch(folder, quiet=True, start=False) == 1
    assert "The run was stopped; `tabapp resume" in capsys.readouterr().err


def told_trials(folder: RunFolder) -> int:
    return sum(isinstance(line, ev.TrialFinished) for line in read(folder))


def read(folder: RunFolder) -> list[ev.AnyEvent]:
    lines = folder.events.read_bytes().splitlines() if folder.events.exists() else []
    return [event for line in lines if (event := ev.decode(line)) is not None]


def interrupt_when(condition) -> None:
    """Press Ctrl+C once something holds."""

    def press() -> None:
        wait_until(condition)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
