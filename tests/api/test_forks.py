"""A forked process, in which polars would wait forever, gets an error."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os
import polars as pl
from tabapp import UsageError
from tabapp.api.forks import check_process

def in_a_fork(patience):
    pid = os.fork()
    if pid == 0:
        try:
            check_process(patience)
            print("works", flush=True)
        except UsageError as error:
            print(error, flush=True)
            try:
                check_process(1000)
            except UsageError:
                print("again", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)

in_a_fork(60)
pl.select(a=0, b=1)
check_process()
in_a_fork(0.5)
"""


def test_a_fork_that_lacks_the_threads_of_polars_is_an_error() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    first, second, third = done.stdout.splitlines()
    assert first == "works"
    assert second.startswith("This process was forked from one that had used polars")
    assert third == "again"
