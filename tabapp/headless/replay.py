"""`attach RUN --replay 20x` without a screen: shows the events of a run in its own order and pace."""

from __future__ import annotations

import time

from tabapp.errors import ExitCode
from tabapp.headless.follow import POLL_SECONDS, make_view
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.reducing.reduce import reduce
from tabapp.run.record.replaying import ReplayReader
from tabapp.run.record.state import RunState


def replay(folder: RunFolder, speed: float, *, plain: bool, as_json: bool, quiet: bool, verbose: bool) -> int:
    """Replay a run; returns the exit code.

    Raises:
        UsageError: the run has no events.
    """
    reader = ReplayReader(folder, speed)
    view = make_view(folder, plain=plain, as_json=as_json, quiet=quiet, verbose=verbose, clock=lambda: reader.now)
    state = RunState()
    while True:
        for event in reader.read_new():
            state = reduce(state, event)
            view.show(event, state)
        view.tick(state)
        if reader.at_end:
            break
        time.sleep(POLL_SECONDS)
    view.close(state)
    return ExitCode.OK
