"""A screen whose terminal is gone: the program ends, whether or not SIGHUP is ignored."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recordings import events_of
from tests.recordings.replay import ReplayWorker, make_run
from tests.waiting import HANG_SECONDS

IN_A_TERMINAL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1] == "ignored" else signal.SIG_DFL)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("handling", ["default", "ignored"])
def test_the_screen_ends_with_its_terminal(tmp_path: Path, handling: str) -> None:
    folder = make_run(tmp_path / "runs", "cancer")
    ReplayWorker(folder, events_of("cancer")).play_all()
    words = [sys.executable, "-P", "-m", "tabapp", "attach", "last", "--runs-dir", str(folder.path.parent)]
    terminal, end = pty.openpty()
    screen = subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL, handling, *words],
        stdin=end,
        stdout=end,
        stderr=end,
        env={**os.environ, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(end)
    try:
        painted = b""
        while b"Leaderboard" not in painted:
            painted += os.read(terminal, 1 << 16)
        os.close(terminal)
        code = screen.wait(HANG_SECONDS)
    finally:
        screen.kill()
        screen.wait()
    assert code in ((129,) if handling == "ignored" else (129, -signal.SIGHUP))
