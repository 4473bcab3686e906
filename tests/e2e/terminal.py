"""A real terminal for tests: a separate tmux server sends keys and captures the screen."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.waiting import HANG_SECONDS

CAPTURES = Path(__file__).parent / "captures"
BRAILLE_AND_BLOCKS = r"[▁-▏⠀-⣿]"
PYTHON = shlex.quote(sys.executable)
TABAPP = f"{PYTHON} -m tabapp"


class Terminal:
    """A separate tmux session that runs one command."""

    def __init__(self, folder: Path, width: int = 120, height: int = 36) -> None:
        # A short path, because the path of a Unix socket is limited to about 100 characters.
        self._place = tempfile.TemporaryDirectory(prefix="tabapp-tmux-")
        self._socket = str(Path(self._place.name) / "socket")
        self._folder = folder
        self._size = (width, height)

    def tmux(self, *words: str) -> str:
        """Run a tmux command and return its output."""
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], capture_output=True, text=True, timeout=HANG_SECONDS
        )
        return done.stdout

    def start(self, command: str, **environment: str) -> None:
        """Run a shell command, then print its exit code as `EXIT=`."""
        settings = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", **environment}
        set_words = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
        shell = f"export {set_words}; {command}; echo EXIT=$?; sleep 120"
        width, height = map(str, self._size)
        words = ["-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "-c", str(self._folder)]
        self.tmux(*words, f"env -u NO_COLOR -u COLUMNS -u LINES sh -c {shlex.quote(shell)}")

    def run(self, *arguments: str) -> None:
        """Start tabapp."""
        self.start(f"{TABAPP} {shlex.join(arguments)}")

    def screen(self, *, colors: bool = False) -> str:
        """Capture the screen, with escape sequences if `colors`."""
        return self.tmux("capture-pane", "-p", *(["-e"] if colors else []))

    def wait(self, *texts: str, seconds: float = HANG_SECONDS) -> str:
        """Wait until the screen shows all texts; returns the screen."""
        self.until(lambda: all(text in self.screen() for text in texts), " and ".join(texts), seconds)
        return self.screen()

    def until(self, condition: Callable[[], object], what: str, seconds: float = HANG_SECONDS) -> None:
        """Wait until a condition is true; a timeout fails with the screen."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"{what!r} did not appear:\n{self.screen()}")
            time.sleep(0.1)

    def still(self) -> str:
        """The screen when only its numbers still change."""
        last, screen = "", self.screen()
        for _ in range(50):
            if normalized(screen) == last:
                break
            last = normalized(screen)
            time.sleep(0.5)
            screen = self.screen()
        return screen

    def keys(self, *names: str) -> None:
        """Send keys by their tmux names."""
        self.tmux("send-keys", *names)

    def resize(self, width: int, height: int) -> None:
        """Resize the terminal."""
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def close(self) -> None:
        """Stop the server and the command in it."""
        self.tmux("kill-server")
        self._place.cleanup()


def normalized(screen: str, *places: Path) -> str:
    """Replace what differs between runs: numbers become 0, blocks and braille ▒, paths and identifiers a fixed word."""
    for place in sorted((str(place) for place in places), key=len, reverse=True):
        screen = screen.replace(place, "PLACE")
    screen = re.sub(r"\d{8}-\d{6}-([a-z]+)-[0-9a-f]{4}", r"RUN-\1", screen)
    screen = re.sub(r"[a-z]+-[0-9a-f]{4}(?= )", "RUN", screen)
    screen = re.sub(r"-?\d+(\.\d+)?(ms\b)?", lambda found: "0s" if found[2] else "0", screen)
    screen = re.sub(rf"{BRAILLE_AND_BLOCKS}+", "▒", screen)
    screen = re.sub(r"━+", "━", screen)
    screen = re.sub(r"[╭╮╰╯─│]+", "─", screen)
    # How much of the target's name fits depends on the digits of the times beside it.
    screen = re.sub(r"› \w+…", "› …", screen)
    lines = [re.sub(r" +", " ", line).strip() for line in screen.splitlines()]
    return "\n".join(line for line in lines if line.strip(" ─")) + "\n"


def check_capture(name: str, screen: str, *places: Path) -> None:
    """Compare a screen with its stored capture; TABAPP_UPDATE_CAPTURES=1 stores it instead."""
    shown = normalized(screen, *places)
    golden = CAPTURES / f"{name}.txt"
    if os.environ.get("TABAPP_UPDATE_CAPTURES"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(shown)
        return
    assert shown == golden.read_text(), f"{golden.name} differs; TABAPP_UPDATE_CAPTURES=1 updates it"
