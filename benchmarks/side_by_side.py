"""Several commands on one GPU at the same time, by CUDA's Multi-Process Service (MPS).

python -m benchmarks.side_by_side --seconds 200 "python -m papers.npt.paper --seconds {seconds} …" "python -m …"

Without MPS, a GPU computes for one process at a time, so that many processes of small networks are hardly faster than one, and
slow down those of large networks. If its daemon does not start, the commands run one after the other, each in its share of the
time, which replaces {seconds}. The daemon uses a folder of its own and ends with the commands; settings of the GPU are not changed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryDirectory

CONTROL = "nvidia-cuda-mps-control"
CONTROL_SECONDS = 20.0
GRACE_SECONDS = 45.0
"""Time for a command to write its results after its seconds are over."""
PROBE = """
import ctypes
cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
"""


@contextmanager
def service() -> Generator[dict[str, str] | None]:
    """The environment in which processes share the GPU by MPS; None if its daemon does not start or serves no process."""
    if shutil.which(CONTROL) is None:
        yield None
        return
    with TemporaryDirectory(prefix="mps-") as folder:
        environment = dict(os.environ)
        for name in ("pipe", "log"):
            (Path(folder) / name).mkdir()
            environment[f"CUDA_MPS_{name.upper()}_DIRECTORY"] = str(Path(folder) / name)

        def control(line: str) -> str:
            done = subprocess.run(
                [CONTROL], input=line, env=environment, stdout=PIPE, text=True, check=True, timeout=CONTROL_SECONDS
            )
            return done.stdout

        served = False
        try:
            # A daemon must not keep a pipe open that someone reads to its end.
            subprocess.run(
                [CONTROL, "-d"],
                env=environment,
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=DEVNULL,
                check=True,
                timeout=CONTROL_SECONDS,
            )
            subprocess.run([sys.executable, "-c", PROBE], env=environment, check=True, timeout=CONTROL_SECONDS)
            served = bool(control("get_server_list\n").strip())
        except (OSError, subprocess.SubprocessError) as error:
            print(f"MPS: {error}", file=sys.stderr, flush=True)
        try:
            yield environment if served else None
        finally:
            try:
                control("quit\n")
            except (OSError, subprocess.SubprocessError) as error:
                print(f"MPS: {error}", file=sys.stderr, flush=True)


def run(commands: Sequence[str], seconds: float, environment: dict[str, str] | None) -> list[int]:
    """Run commands at the same time; returns their exit codes. Those that exceed their time by far are killed."""
    deadline = time.monotonic() + seconds + GRACE_SECONDS
    started = [
        subprocess.Popen(
            shlex.split(command.replace("{seconds}", f"{seconds:g}")), env=environment, start_new_session=True
        )
        for command in commands
    ]
    codes: list[int] = []
    for process in started:
        try:
            codes.append(process.wait(max(0.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            codes.append(process.wait())
    return codes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, required=True, help="time of all commands")
    parser.add_argument("commands", nargs="+")
    options = parser.parse_args()
    with service() as environment:
        print(f"MPS: {'in use' if environment else 'not available'}", file=sys.stderr, flush=True)
        if environment:
            codes = run(options.commands, options.seconds, environment)
        else:
            share = options.seconds / len(options.commands)
            codes = [code for command in options.commands for code in run([command], share, None)]
    for command, code in zip(options.commands, codes, strict=True):
        if code:
            print(f"{command} ended with {code}", file=sys.stderr)
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main())
