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


def end_with_the_terminal() -> None:
    """Watch the terminal in a thread. A run in progress continues, as after the signal."""
    descriptors = [
        stream.fileno() for stream in (sys.__stdin__, sys.__stderr__) if stream is not None and stream.isatty()
    ]
    if descriptors:
        threading.Thread(target=_watch, args=(descriptors,), daemon=True, name="hangup").start()


def _watch(descriptors: list[int]) -> None:
    poll = select.poll()
    for descriptor in descriptors:
        # Without events, only the end of a terminal wakes the thread.
        poll.register(descriptor, 0)
    while found := poll.poll():
        for descriptor, event in found:
            if event & select.POLLHUP:
                # The main thread may wait for the one that writes, so it cannot end the program.
                os._exit(128 + signal.SIGHUP)
            poll.unregister(descriptor)
