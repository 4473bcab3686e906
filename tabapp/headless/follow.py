"""`--auto`: start the engine, follow its events, and show them as JSON, as plain lines, or live on a terminal."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import msgspec

from tabapp.errors import ExitCode
from tabapp.headless.narration import echo, echo_json, say
from tabapp.headless.summary import print_result
from tabapp.headless.warned import NewWarnings
from tabapp.run.protocol.client import BUSY, describe_death, start_engine
from tabapp.run.record import events as ev
from tabapp.run.record.commands import Interrupt
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import EventReader, RunFolder
from tabapp.run.record.reducing.reduce import reduce
from tabapp.run.record.state import FeedLine, RunState

POLL_SECONDS = 0.05
ABORT_SECONDS = 5.0
ALIVE_SECONDS = 1.0
SILENT_SECONDS = 10.0
"""An engine that runs fits writes an event every few seconds."""


class View(Protocol):
    """Shows the events of a run."""

    def show(self, event: ev.AnyEvent, state: RunState) -> None:
        """Show an event; `state` includes it."""
        ...

    def tick(self, state: RunState) -> None:
        """Update what depends on the time; called after every poll."""
        ...

    def close(self, state: RunState) -> None:
        """Show the result and release the terminal; the run has ended or the view leaves it."""
        ...


class JsonView:
    """Prints every event as a line of JSON on stdout."""

    def show(self, event: ev.AnyEvent, state: RunState) -> None:
        echo_json(encode(event))

    def tick(self, state: RunState) -> None:
        pass

    def close(self, state: RunState) -> None:
        pass


class PlainView:
    """Prints one line for each notable event and for each warning about the data on stderr, and the result on stdout."""

    QUIET_KINDS = frozenset({"fit", "prune"})

    def __init__(self, run: str, *, quiet: bool, verbose: bool) -> None:
        """`run` selects the run in proposed commands."""
        self._run = run
        self._quiet = quiet
        self._verbose = verbose
        self._last_line: FeedLine | None = None
        self._last_ensemble: tuple[int | None, str] = (None, "")
        self._warnings = NewWarnings(every=verbose)

    def show(self, event: ev.AnyEvent, state: RunState) -> None:
        if self._quiet:
            return
        for text in self._warnings.of(event, self._run):
            self._print(event.t, "warn", text)
        if not state.feed or isinstance(event, ev.RunFinished):
            return
        line = state.feed[-1]
        if line is self._last_line:
            return
        self._last_line = line
        if isinstance(event, ev.EnsembleChanged):
            if (line.target, line.text) == self._last_ensemble:
                return
            self._last_ensemble = line.target, line.text
        if (
            isinstance(event, ev.EnsembleChanged | ev.TrialFinished | ev.FitFailed)
            or line.kind not in self.QUIET_KINDS
            or self._verbose
        ):
            self._print(line.t, line.kind, line.text)

    def tick(self, state: RunState) -> None:
        pass

    def close(self, state: RunState) -> None:
        print_result(self._run, state, verbose=self._verbose)

    def _print(self, t: float, kind: str, text: str) -> None:
        echo(f"{time.strftime('%H:%M:%S', time.localtime(t))} {kind:<8} {text}", err=True)


class Interrupts:
    """Signal handler: the first Ctrl+C finishes with the best so far, the second stops at once."""

    def __init__(self, folder: RunFolder, engine: subprocess.Popen[bytes] | None) -> None:
        self._folder = folder
        self._engine = engine
        self.count = 0

    def __call__(self, number: int, frame: object) -> None:
        self.count += 1
        if self._engine is None:
            raise KeyboardInterrupt
        if self.count == 1:
            echo(err=True)
            say("Finishing with the best so far; Ctrl+C again stops at once.")
            self._folder.send(Interrupt())
        else:
            self._engine.kill()


class Silence:
    """Reports once that the engine process is stopped, as by Ctrl+Z or SIGSTOP, when no events arrive."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._reported = False
        self._pid = 0

    def end(self, event: ev.AnyEvent) -> None:
        """Note an event."""
        self._since, self._reported = time.monotonic(), False
        if isinstance(event, ev.RunStarted):
            self._pid = event.pid

    def report(self) -> None:
        """Say how to continue a stopped engine, after a while without events."""
        if self._reported or not self._pid or time.monotonic() - self._since < SILENT_SECONDS:
            return
        # Imported here because most runs never need it.
        import psutil

        self._since = time.monotonic()
        with suppress(psutil.Error, ValueError, OverflowError):
            if psutil.Process(self._pid).status() == psutil.STATUS_STOPPED:
                self._reported = True
                say(f"The engine is suspended; `kill -CONT {self._pid}` continues it.")


@contextmanager
def _handled(interrupts: Interrupts, signals: tuple[signal.Signals, ...]) -> Generator[None]:
    """Install the handler and restore the previous ones at the end. Only the main thread can install signal handlers."""
    if threading.current_thread() is not threading.main_thread():
        signals = ()
    before = {number: signal.signal(number, interrupts) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def make_view(
    folder: RunFolder,
    *,
    plain: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    clock: Callable[[], float] = time.time,
) -> View:
    """The view of a run that the options ask for; on a terminal, a live view whose times are those of `clock`."""
    if as_json:
        return JsonView()
    if plain or quiet or not (sys.stdout.isatty() and sys.stderr.isatty()):
        return PlainView(folder.argument, quiet=quiet, verbose=verbose)
    from tabapp.headless.live import LiveView

    return LiveView(folder.argument, verbose=verbose, clock=clock)


@dataclass(frozen=True)
class Ended:
    """How a followed run ended.

    Attributes:
        state: the last state; its `finished` is None without a result.
        return_code: exit status of the engine process; None when another process started it.
        interrupts: number of received interrupts (Ctrl+C).
    """

    state: RunState
    return_code: int | None
    interrupts: int


def watch(
    folder: RunFolder,
    view: View,
    *,
    start: bool,
    signals: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM),
) -> Ended:
    """Show the events of a run in a view until it ends.

    Args:
        start: start the engine; otherwise the run is active in another process or finished.
        signals: signals that finish the run with the best so far; ignored outside the main thread.
    """
    reader = EventReader(folder.events)
    state = RunState()
    if start:
        for event in reader.read_new():
            state = reduce(state, event)
        # An earlier session of a resumed run may have finished; this one has not.
        state = msgspec.structs.replace(state, finished=None)
    engine = start_engine(folder) if start else None
    interrupts = Interrupts(folder, engine)
    try:
        with _handled(interrupts, signals):
            state = _follow_events(folder, reader, view, state, engine)
            view.close(state)
            if engine is not None and state.finished is not None:
                try:
                    engine.wait(ABORT_SECONDS)
                except subprocess.TimeoutExpired:
                    engine.kill()
                    engine.wait()
    except BaseException:
        # The calling program may continue, but an engine without a view must end.
        if engine is not None and engine.poll() is None:
            engine.terminate()
        raise
    return Ended(state, None if engine is None else engine.returncode, interrupts.count)


def _follow_events(
    folder: RunFolder, reader: EventReader, view: View, state: RunState, engine: subprocess.Popen[bytes] | None
) -> RunState:
    """Show events until the last one, or until no engine is running."""
    gone = False
    alive_at = time.monotonic()
    silence = Silence()
    while True:
        for event in reader.read_new():
            state = reduce(state, event)
            view.show(event, state)
            silence.end(event)
        silence.report()
        if gone or (state.finished is not None and (engine is not None or not folder.is_running())):
            return state
        view.tick(state)
        time.sleep(POLL_SECONDS)
        if engine is not None:
            gone = engine.poll() is not None
        elif time.monotonic() - alive_at > ALIVE_SECONDS or state.seq == 0:
            alive_at = time.monotonic()
            gone = not folder.is_running()


def follow(folder: RunFolder, *, plain: bool, as_json: bool, quiet: bool, verbose: bool, start: bool) -> int:
    """Follow a run to its end; returns its exit code.

    Args:
        start: start the engine; otherwise the run is active in another process or finished.
    """
    ended = watch(folder, make_view(folder, plain=plain, as_json=as_json, quiet=quiet, verbose=verbose), start=start)
    finished = ended.state.finished
    if finished is None:
        if ended.interrupts > 1:
            say(f"Stopped; `tabapp resume {folder.argument}` resumes it.")
            return ExitCode.INTERRUPTED
        if ended.return_code is None:
            say(f"The run was stopped; `tabapp resume {folder.argument}` resumes it.")
        else:
            say(describe_death(ended.return_code, folder))
            if ended.return_code == BUSY:
                return ExitCode.USAGE
        return ExitCode.NO_MODEL
    if finished.message:
        say(finished.message)
    return finished.exit_code
