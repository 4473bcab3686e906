"""The engine process of a run: `python -m tabapp.processes.engine RUN_DIR`.

Views start it and follow the run's events; it never talks to them in any other way, so that each of them may come and go.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

from tabapp import files
from tabapp.errors import TabappError
from tabapp.run.disk import is_disk_full, print_traceback
from tabapp.run.options.targets import may_be_several
from tabapp.run.protocol.client import BUSY, DISK_FULL
from tabapp.run.record.folder import RunBusy, RunFolder

PARENT_SECONDS = 0.3


def _watch_parent() -> None:
    """End at once when the process that started this one is gone; the run can be resumed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _chosen_models(folder: RunFolder) -> tuple[str, ...]:
    """The models that the user chose; none if the configuration cannot be read, which the session reports."""
    try:
        return folder.config().models
    except (OSError, TabappError):
        return ()


def _device_at_once(folder: RunFolder) -> str:
    """The device that the user chose for fits that start without waiting for the user, on this machine; "cpu" if there are none."""
    try:
        config = folder.config()
    except (OSError, TabappError):
        return "cpu"
    return config.device if config.start and config.executor != "ray" else "cpu"


def _may_have_several_targets(folder: RunFolder) -> bool:
    """Whether other processes perhaps run the fits, one engine for each target."""
    try:
        return may_be_several(folder.config().target)
    except (OSError, TabappError):
        return False


def main(arguments: list[str] | None = None) -> int:
    """Take the run, do it, and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tabapp.processes.engine", description="The engine process of a run."
    )
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("--watch-parent", action="store_true", help="end when the process that started this one does")
    options = parser.parse_args(arguments)
    if options.watch_parent:
        _watch_parent()
    # Ctrl+C in a terminal reaches the whole process group: the view alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    files.make_files_private()
    folder = RunFolder(options.run)
    try:
        with folder.lock():
            # Imported here: only the process that holds the run loads the engine. The fit server loads its libraries meanwhile.
            from tabapp.engine.fit.servers import start_first

            if not _may_have_several_targets(folder):
                start_first(_chosen_models(folder))
                from tabapp.engine.fit.spares import start_spare

                start_spare(_device_at_once(folder))
            from tabapp.engine.machine.contention import process_age
            from tabapp.engine.session import Session

            session = Session(folder, age=process_age())
            signal.signal(signal.SIGTERM, lambda number, frame: session.interrupt())
            return session.run()
    except RunBusy as error:
        print(error, file=sys.stderr)
        return BUSY
    except TabappError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except Exception as error:
        print_traceback()
        return DISK_FULL if is_disk_full(error, folder.path) else 1


if __name__ == "__main__":
    sys.exit(main())
