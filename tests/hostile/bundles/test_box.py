"""The process that loads a bundle: whatever happens to it, the program that started it reports one sentence."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tabapp.bundle.confined import box_limits as limits
from tabapp.bundle.confined import box_process
from tabapp.bundle.confined.box import load_boxed
from tabapp.bundle.writing.write import write_bundle
from tabapp.errors import BundleError
from tests.bundle.making import make_contents, register_linear, text_table
from tests.waiting import HANG_SECONDS

linux = pytest.mark.skipif(sys.platform != "linux", reason="the restrictions are those of Linux")


@pytest.fixture(autouse=True)
def linear_plugin(monkeypatch):
    register_linear(monkeypatch)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxed")
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        write_bundle(folder / "model.tabapp", make_contents(folder, "binary"))
    return folder / "model.tabapp"


def assert_one_sentence(error: BundleError, path: Path) -> None:
    assert "\n" not in str(error)
    assert str(path) in str(error)
    assert error.exit_code == 5


def test_a_killed_process_is_one_sentence(bundle):
    predictor = load_boxed(bundle).predictor
    os.kill(predictor._process.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(BundleError, match="SIGKILL") as caught:
            predictor.predict_frame(text_table("binary", n_rows=5))
        assert_one_sentence(caught.value, bundle)


def test_a_process_that_cannot_import_its_packages_does_not_blame_the_bundle(bundle, tmp_path, monkeypatch):
    (tmp_path / "msgspec.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with pytest.raises(BundleError, match="cannot import its packages") as caught:
        load_boxed(bundle)
    assert "malicious" not in str(caught.value)
    assert_one_sentence(caught.value, bundle)


def test_a_process_that_hangs_is_ended(bundle, monkeypatch):
    predictor = load_boxed(bundle).predictor
    monkeypatch.setattr(limits, "predict_seconds", lambda n_rows: 0.05)
    os.kill(predictor._process.pid, signal.SIGSTOP)
    with pytest.raises(BundleError, match="took longer") as caught:
        predictor.predict_frame(text_table("binary", n_rows=5))
    assert_one_sentence(caught.value, bundle)


@pytest.mark.parametrize("reply", [b"\x01" * 64, b"\xff" * 64, bytes(8), (3).to_bytes(8, "little") + b"abc"])
def test_an_answer_that_is_not_valid_is_one_sentence(tmp_path, monkeypatch, reply):
    program = f"import os, sys, time; os.write(1, {reply!r}); sys.stdin.read()"
    monkeypatch.setattr(box_process, "module_command", lambda *_: [sys.executable, "-c", program])
    process = box_process.BoxProcess("x.tabapp", tmp_path)
    with pytest.raises(BundleError, match="not valid") as caught:
        process.answer(box_process.messages.Ready)
    assert_one_sentence(caught.value, Path("x.tabapp"))


FORBIDDEN = {
    "socket": "import socket; socket.socket()",
    "program": "import subprocess; subprocess.run(['/bin/true'])",
    "fork": "os.fork()",
    "write": "open(sys.argv[1] + '/new', 'w')",
    "overwrite": "open(sys.argv[1] + '/old', 'r+')",
    "remove": "os.unlink(sys.argv[1] + '/old')",
    "mode": "os.chmod(sys.argv[1] + '/old', 0o777)",
    "read": "open(sys.argv[1] + '/old').read()",
    "signal": "os.kill(os.getppid(), 0)",
}


@pytest.fixture(scope="module")
def denials(tmp_path_factory):
    """What a restricted process reports of each action: "denied", "allowed", or "unavailable" if the kernel cannot deny it."""
    folder = tmp_path_factory.mktemp("forbidden")
    (folder / "old").write_text("kept")
    program = f"""
import json, os, subprocess, sys, threading
from tabapp.bundle.confined import sandbox
from tabapp.bundle.confined.call_filter import restrict_calls
files = sandbox.restrict_files(sandbox.paths_of_libraries())
calls = restrict_calls()
ran = []
thread = threading.Thread(target=lambda: ran.append(1)); thread.start(); thread.join()
assert ran == [1]
pid, found = os.getpid(), {{}}
for action, code in {FORBIDDEN!r}.items():
    try:
        exec(code)
    except PermissionError:
        found[action] = "denied"
    else:
        if os.getpid() != pid:
            os._exit(0)
        found[action] = "allowed" if (files if action == "read" else calls) else "unavailable"
print(json.dumps(found))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, str(folder)],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    found = json.loads(done.stdout)
    if "unavailable" not in found.values():
        assert (folder / "old").read_text() == "kept"
        assert not (folder / "new").exists()
    return found


@linux
@pytest.mark.parametrize("action", FORBIDDEN)
def test_the_kernel_denies(action, denials):
    if denials[action] == "unavailable":
        pytest.skip("the kernel does not offer it")
    assert denials[action] == "denied"


@linux
def test_a_process_that_sleeps_forever_is_ended_at_its_time_limit(tmp_path, monkeypatch):
    """A deadlock takes no processor time; only processes that wait for a processor or a disk get a multiple of the limit."""
    monkeypatch.setattr(limits, "IDLE_FACTOR", 1e6)
    program = "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"
    monkeypatch.setattr(box_process, "module_command", lambda *_: [sys.executable, "-c", program])
    process = box_process.BoxProcess("x.tabapp", tmp_path)
    process.start(box_process.messages.Prepare(()), 1.0)
    with pytest.raises(BundleError, match="took longer than 1 s") as caught:
        process.answer(box_process.messages.Ready)
    assert_one_sentence(caught.value, Path("x.tabapp"))


@linux
def test_a_process_that_computes_forever_is_ended_at_its_time_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "IDLE_FACTOR", 1e6)
    monkeypatch.setattr(box_process, "module_command", lambda *_: [sys.executable, "-c", "while True: pass"])
    process = box_process.BoxProcess("x.tabapp", tmp_path)
    process.start(box_process.messages.Prepare(()), 0.5)
    with pytest.raises(BundleError, match="took longer"):
        process.answer(box_process.messages.Ready)


@linux
def test_a_process_that_gets_too_little_processor_time_blames_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(box_process, "module_command", lambda *_: [sys.executable, "-c", "while True: pass"])
    process = box_process.BoxProcess("x.tabapp", tmp_path)
    process.start(box_process.messages.Prepare(()), 60.0)
    monkeypatch.setattr(limits, "IDLE_FACTOR", 0.01)
    with pytest.raises(BundleError, match=r"did not end within .* The machine is busy") as caught:
        process.answer(box_process.messages.Ready)
    assert_one_sentence(caught.value, Path("x.tabapp"))


def test_the_end_of_a_process_is_noticed_while_another_holds_its_pipes(tmp_path, monkeypatch):
    """A program that forks in one thread while another starts the process passes the pipes on."""
    program = "import os, sys; sys.stdin.read() if os.fork() == 0 else os._exit(3)"
    monkeypatch.setattr(box_process, "module_command", lambda *_: [sys.executable, "-c", program])
    process = box_process.BoxProcess("x.tabapp", tmp_path)
    with pytest.raises(BundleError, match=r"exit code 3") as caught:
        process.answer(box_process.messages.Ready)
    assert_one_sentence(caught.value, Path("x.tabapp"))


RESERVED = """
import numpy as np
from catboost import CatBoostRegressor

from tabapp.bundle.confined.sandbox import private_memory

before = private_memory()
CatBoostRegressor(iterations=2, thread_count=1, allow_writing_files=False, verbose=False).fit(np.eye(8), np.arange(8.0))
print(private_memory() - before)
"""


@linux
def test_catboost_leaves_the_allowed_memory_to_the_other_models(tmp_path):
    pytest.importorskip("catboost")
    found = subprocess.run(
        [sys.executable, "-c", RESERVED],
        env=box_process.environment(tmp_path, "cpu"),
        check=True,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        cwd=tmp_path,
    )
    assert int(found.stdout) < limits.load_memory(0) / 2


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do not read the variables")
def test_the_process_reuses_the_memory_of_large_blocks(tmp_path, monkeypatch):
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)
    code = """
import mmap, resource
for _ in range(10):
    blocks = [b"x" * 2**24 for _ in range(4)]
    blocks.clear()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt * mmap.PAGESIZE)
"""

    def touched_bytes(environment):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        return int(done.stdout)

    # 40 blocks of 16 MiB, of which four exist at a time.
    assert touched_bytes(box_process.environment(tmp_path, "cpu")) < touched_bytes(dict(os.environ)) - 400e6
