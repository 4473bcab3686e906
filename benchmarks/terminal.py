"""A program in a pseudo-terminal: what it paints, and how long a key takes until its effect is painted."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

COLUMNS, ROWS = 120, 36
TIMEOUT_SECONDS = 20.0


class Terminal:
    """A program in a pseudo-terminal of 120 × 36, which runs until `close`.

    Attributes:
        pid: the process of the program.
        painted: what the terminal has received since the last key.
    """

    def __init__(self, command: Sequence[str], user: Path) -> None:
        """Start a command. `user` replaces the folders of the user's configuration and state, which may change what is painted."""
        self.painted = b""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
            os.environ |= {"XDG_CONFIG_HOME": str(user), "XDG_STATE_HOME": str(user)}
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.execv(command[0], list(command))

    def read(self, seconds: float) -> bytes:
        """What is painted within a time, or until something is.

        Raises:
            EOFError: the program has ended.
        """
        if not select.select([self._terminal], [], [], seconds)[0]:
            return b""
        try:
            return os.read(self._terminal, 1 << 16)
        except OSError:
            raise EOFError(f"The program has ended; the terminal got {self.painted[-2000:]!r}") from None

    def rest(self, seconds: float) -> None:
        """Read for a time."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)

    def press(self, key: bytes, shows: Callable[[bytes], object]) -> float:
        """Press a key; returns the milliseconds until what has been painted since then shows its effect."""
        self.painted = b""
        pressed = time.perf_counter()
        os.write(self._terminal, key)
        while not shows(self.painted):
            if time.perf_counter() - pressed > TIMEOUT_SECONDS:
                raise SystemExit(f"{key!r} had no effect; the terminal got {self.painted[-2000:]!r}")
            self.painted += self.read(0.05)
        return (time.perf_counter() - pressed) * 1000

    def wait(self, text: bytes) -> None:
        """Wait until a text is painted."""
        self.press(b"", lambda painted: text in painted)

    def close(self) -> None:
        """End the program."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)
