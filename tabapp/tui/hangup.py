"""Ends the program when its terminal is gone, also where SIGHUP is ignored, as below some task runners.

The thread in which Textual reads keys would otherwise read the end of the input again and again, and the one that writes the
picture has ended with an error, after which the app waits for it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def ending_with_the_terminal() -> Generator[None]:
    """Watch the terminal in a thread until the end of the block. A run in progress continues, as after the signal."""
    streams = (sys.__stdin__, sys.__stderr__)
    descriptors = [stream.fileno() for stream in streams if stream is not None and stream.isatty()]
    ended, end = os.pipe()
    thread = threading.Thread(target=_watch, args=(descriptors, ended), daemon=True, name="hangup")
    thread.start()
    try:
        yield
    finally:
        os.close(end)
        thread.join()
        os.close(ended)


def _watch(descriptors: list[int], ended: int) -> None:
    poll = select.poll()
    for descriptor in (*descriptors, ended):
        # Without events, only the end of a terminal or of the pipe wakes the thread.
        poll.register(descriptor, 0)
    while True:
        for descriptor, event in poll.poll():
            if descriptor == ended:
                return
            if event & select.POLLHUP:
                # The main thread may wait for the one that writes, so it cannot end the program.
                os._exit(128 + signal.SIGHUP)
            poll.unregister(descriptor)
