"""A real terminal for tests: a tmux server of its own plays the keys and reads the screen."""

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
    """A tmux session of its own, in which one command runs."""

    def __init__(self, folder: Path, width: int = 120, height: int = 36) -> None:
        # A short path of its own: a socket's name has room for a hundred characters.
        self._place = tempfile.TemporaryDirectory(prefix="tabapp-tmux-")
        self._socket = str(Path(self._place.name) / "socket")
        self._folder = folder
        self._size = (width, height)

    def tmux(self, *words: str) -> str:
        """Ask something of the server."""
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], capture_output=True, text=True, timeout=HANG_SECONDS
        )
        return done.stdout

    def start(self, command: str, **environment: str) -> None:
        """Run a shell command; what it leaves behind is followed by its exit code."""
        settings = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", **environment}
        set_words = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
        shell = f"export {set_words}; {command}; echo EXIT=$?; sleep 120"
        width, height = map(str, self._size)
        words = ["-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "-c", str(self._folder)]
        self.tmux(*words, f"env -u NO_COLOR -u COLUMNS -u LINES sh -c {shlex.quote(shell)}")

    def run(self, *arguments: str) -> None:
        """Start tabapp."""
        self.start(f"{TABAPP} {shlex.join(arguments)}")

    def screen(self, *, colours: bool = False) -> str:
        """What is on the screen now."""
        return self.tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def wait(self, *texts: str, seconds: float = HANG_SECONDS) -> str:
        """Wait until texts are on the screen; returns the screen."""
        self.until(lambda: all(text in self.screen() for text in texts), " and ".join(texts), seconds)
        return self.screen()

    def until(self, condition: Callable[[], object], what: str, seconds: float = HANG_SECONDS) -> None:
        """Wait until something holds; fails with the screen where it never does."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"{what!r} never came:\n{self.screen()}")
            time.sleep(0.1)

    def still(self) -> str:
        """The screen once nothing but its numbers has changed for a moment."""
        last, screen = "", self.screen()
        for _ in range(50):
            if normalised(screen) == last:
                break
            last = normalised(screen)
            time.sleep(0.5)
            screen = self.screen()
        return screen

    def keys(self, *names: str) -> None:
        """Press keys, as tmux names them."""
        self.tmux("send-keys", *names)

    def resize(self, width: int, height: int) -> None:
        """Give the terminal another size."""
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def close(self) -> None:
        """End the server and what runs in it."""
        self.tmux("kill-server")
        self._place.cleanup()


def normalised(screen: str, *places: Path) -> str:
    """A screen without what differs from run to run: numbers become 0, blocks and braille ▒, paths and identifiers a word."""
    for place in sorted((str(place) for place in places), key=len, reverse=True):
        screen = screen.replace(place, "PLACE")
    screen = re.sub(r"\d{8}-\d{6}-([a-z]+)-[0-9a-f]{4}", r"RUN-\1", screen)
    screen = re.sub(r"[a-z]+-[0-9a-f]{4}(?= )", "RUN", screen)
    screen = re.sub(r"-?\d+(\.\d+)?", "0", screen)
    screen = re.sub(rf"{BRAILLE_AND_BLOCKS}+", "▒", screen)
    screen = re.sub(r"━+", "━", screen)
    screen = re.sub(r"[╭╮╰╯─│]+", "─", screen)
    lines = [re.sub(r" +", " ", line).strip() for line in screen.splitlines()]
    return "\n".join(line for line in lines if line.strip(" ─")) + "\n"


def check_capture(name: str, screen: str, *places: Path) -> None:
    """Compare a screen with the one that is kept; with TABAPP_UPDATE_CAPTURES set, keep it."""
    shown = normalised(screen, *places)
    golden = CAPTURES / f"{name}.txt"
    if os.environ.get("TABAPP_UPDATE_CAPTURES"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(shown)
        return
    assert shown == golden.read_text(), f"{golden.name} differs; TABAPP_UPDATE_CAPTURES=1 keeps the new one"
