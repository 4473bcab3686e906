"""Record a real run in a terminal: python tools/record_terminal.py [--cast FILE] [--gif FILE].

The script opens `tabapp` on the public table of `make demo` in a pseudo-terminal and presses keys when the screen shows what they
need. It writes what the terminal received: an asciinema v2 cast for the documentation site, and an animated GIF for the README.
Pauses are shortened in both.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agg_python_bindings import TerminalEmulator
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
CAST = ROOT / "assets" / "recording" / "first-run.cast"
GIF = ROOT / "assets" / "recording" / "first-run.gif"

COLUMNS, ROWS = 110, 32
BUDGET = "35s"
WAIT_SECONDS = 180.0
KEY_SECONDS = 0.12
"""Pause between two keys, as a person types them."""
LONGEST_PAUSE = 1.2
"""Longer waits are shortened to this in the recording."""
MERGE_SECONDS = 0.05
"""Output that follows so soon is one event, which keeps the file small."""

GIF_COLORS = 20
GIF_WIDTH = 720
GIF_FRAME_SECONDS = 1.2
MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class Step:
    """Wait until the screen shows `text`, look at it for `look` seconds, then press `keys` one after another."""

    text: str
    keys: tuple[str, ...]
    look: float = 1.5


DOWN, CTRL_R = "\x1b[B", "\x12"
LEAVE_SCREEN = "\x1b[?1049l"
SCRIPT = (
    Step("diagnosis", (DOWN, DOWN, DOWN), look=2.0),
    Step("diagnosis", (CTRL_R,), look=1.0),
    Step("#0", (DOWN,), look=3.0),
    Step("Ensemble", ("3",), look=4.0),
    Step("Hyperparameters", ("4",), look=2.5),
    Step("Trials", ("1",), look=2.5),
    Step("done in", ("5",), look=2.0),
    Step("mportance", ("q",), look=3.0),
)


class Recorder:
    """A program in a pseudo-terminal, with everything that it writes and a terminal emulator that understands it."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path) -> None:
        self.events: list[tuple[float, str]] = []
        self._screen = TerminalEmulator(COLUMNS, ROWS)
        self._rest = b""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._start = time.monotonic()

    def text(self) -> str:
        return "\n".join(self._screen.text_raw())

    def read(self, seconds: float) -> bool:
        """Read what the program writes within some seconds; False once it has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._terminal], [], [], left)[0]:
                break
            try:
                data = os.read(self._terminal, 65536)
            except OSError:
                return False
            if not data:
                return False
            self._take(data)
        return True

    def _take(self, data: bytes) -> None:
        data = self._rest + data
        text = data.decode(errors="ignore")
        # A character may be cut at the end of what was read.
        self._rest = data[len(text.encode()) :] if data.endswith(data[len(text.encode()) :]) else b""
        if text:
            self.events.append((time.monotonic() - self._start, text))
            self._screen.feed_str(text)

    def play(self, step: Step) -> None:
        """Do one step.

        Raises:
            SystemExit: the text did not appear in time, or the program ended.
        """
        end = time.monotonic() + WAIT_SECONDS
        while step.text not in self.text():
            if not self.read(0.2) or time.monotonic() > end:
                raise SystemExit(f"the screen never showed {step.text!r}:\n{self.text()}")
        self.read(step.look)
        for key in step.keys:
            os.write(self._terminal, key.encode())
            self.read(KEY_SECONDS)

    def finish(self) -> None:
        """Wait until the program has ended."""
        end = time.monotonic() + WAIT_SECONDS
        while self.read(0.5):
            if time.monotonic() > end:
                os.kill(self._pid, signal.SIGKILL)
                raise SystemExit(f"the program did not end:\n{self.text()}")
        os.waitpid(self._pid, 0)


def until_left(events: list[tuple[float, str]]) -> Iterator[tuple[float, str]]:
    """The events up to the one that leaves the screen, included."""
    for moment, text in events:
        yield moment, text
        if LEAVE_SCREEN in text:
            return


def shortened(events: list[tuple[float, str]]) -> Iterator[tuple[float, str]]:
    """The same events with long pauses cut and output close in time joined."""
    clock, last, pending = 0.0, 0.0, ""
    for moment, text in events:
        pause = min(moment - last, LONGEST_PAUSE)
        if pending and pause > MERGE_SECONDS:
            yield clock, pending
            pending = ""
        clock += pause
        last = moment
        pending += text
    if pending:
        yield clock, pending


def write_cast(events: list[tuple[float, str]], path: Path) -> None:
    """Write an asciinema v2 cast."""
    header = {
        "version": 2,
        "width": COLUMNS,
        "height": ROWS,
        "title": "tabapp: a first run (pauses shortened)",
        "env": {"TERM": "xterm-256color"},
    }
    lines = [
        json.dumps(header),
        *(json.dumps([round(moment, 3), "o", text], ensure_ascii=False) for moment, text in events),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_gif(events: list[tuple[float, str]], path: Path) -> None:
    """Draw the cast as an animated GIF with the renderer of asciinema's agg."""
    screen = TerminalEmulator(COLUMNS, ROWS)
    frames: list[Image.Image] = []
    durations: list[int] = []
    shown = ""
    with tempfile.TemporaryDirectory() as folder:
        following = [moment for moment, _ in events[1:]] + [events[-1][0] + 3 * GIF_FRAME_SECONDS]
        since = 0.0
        for (_, text), until in zip(events, following, strict=True):
            screen.feed_str(text)
            if until - since < GIF_FRAME_SECONDS:
                continue
            picture = Path(folder) / f"{len(frames)}.png"
            screen.screenshot(str(picture))
            drawn = Image.open(picture).convert("RGB")
            drawn = drawn.resize((GIF_WIDTH, round(drawn.height * GIF_WIDTH / drawn.width)), Image.Resampling.LANCZOS)
            duration = round(1000 * (until - since))
            since = until
            if "\n".join(screen.text_raw()) == shown:
                durations[-1] += duration
                continue
            shown = "\n".join(screen.text_raw())
            frames.append(drawn.quantize(GIF_COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE))
            durations.append(duration)
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cast", type=Path, default=CAST)
    parser.add_argument("--gif", type=Path, default=GIF)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tabapp-recording-") as place:
        folder = Path(place)
        subprocess.run([sys.executable, "-m", "tools.demo_data", folder], cwd=ROOT, check=True, capture_output=True)
        environment = {
            **{name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "LINES"}},
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "TEXTUAL_ANIMATIONS": "none",
            "TABAPP_RUNS_DIR": str(folder / "runs"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        command = [sys.executable, "-m", "tabapp", "breast_cancer.csv", "--target", "diagnosis", "--budget", BUDGET]
        recorder = Recorder(command, environment, folder)
        for step in SCRIPT:
            recorder.play(step)
        recorder.finish()
    # What follows the screen names the run folder with its absolute path.
    shown = [(moment, text.partition(LEAVE_SCREEN)[0]) for moment, text in until_left(recorder.events)]
    text = "".join(part for _, part in shown)
    if str(folder) in text or str(ROOT) in text or str(Path.home()) in text:
        raise SystemExit("the recording shows a path of this machine")
    events = list(shortened(shown))
    write_cast(events, arguments.cast)
    write_gif(events, arguments.gif)
    for path in (arguments.cast, arguments.gif):
        n_bytes = path.stat().st_size
        print(f"{path}: {n_bytes / 1000:.0f} kB, {events[-1][0]:.0f} s")
        if n_bytes > MAX_BYTES:
            raise SystemExit(f"{path} is larger than {MAX_BYTES / 1000:.0f} kB")


if __name__ == "__main__":
    main()
