"""The parent's side of the process that reads a bundle: it starts the process, limits its time, and trusts no answer."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tabapp.bundle.confined import box_limits as limits
from tabapp.bundle.confined import box_messages as messages
from tabapp.bundle.confined import sandbox
from tabapp.children import module_command, plain_environment
from tabapp.errors import BundleError, DataError, TabappError, UsageError
from tabapp.plugin_files import plugin_folder
from tabapp.weights import place

if TYPE_CHECKING:
    import psutil

SMALL_REPLY = 2**16
_CHUNK = 2**20
_UNSEEN_SECONDS = 2.0
_NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
_MEMORY = {
    # In KiB. mimalloc, which CatBoost contains, reserves 1 GiB of address space at once by default. Linux counts it as private
    # memory, most of what a bundle with a few boosters is allowed.
    "MIMALLOC_ARENA_RESERVE": str(2**16),
    # Bytes of a block, and of free memory, that the C library keeps. By default it returns large blocks, which Linux clears for
    # the next operation: half of the time of a retrieval network.
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**27),
}
_ADVICE = "The bundle may be damaged or malicious; get it again from a source that you trust."
_ERRORS: dict[str, type[TabappError]] = {"bundle": BundleError, "data": DataError, "usage": UsageError}
_REPLIES = msgspec.msgpack.Decoder(messages.AnyReply)
_Answer = TypeVar("_Answer", bound=messages.Reply)


def environment(scratch: Path, device: str) -> dict[str, str]:
    """The environment of the process: `plain_environment`, and variables of its own.

    Args:
        scratch: its folder of temporary files.
        device: that of its networks.
    """
    places = {name: str(scratch) for name in ("TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    plugins = {"TABAPP_PLUGINS_DIR": str(plugin_folder()), place.FOLDER_VARIABLE: str(place.folder())}
    # Threads that wait for each other by spinning take the processors from those they wait for on a busy machine.
    threads = {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "passive"), "JOBLIB_MULTIPROCESSING": "0"}
    return {**_MEMORY, **plain_environment(), **places, **plugins, **threads, **(_NO_GPU if device == "cpu" else {})}


class BoxProcess:
    """The process, and messages to and from it with time limits.

    Args:
        where: name of the bundle in sentences.
        folder: a folder in which `unpacked`, which the child may read, and `scratch`, which it may change, are made.
        device: the device of the networks, "cpu", "cuda" or "cuda:N". On a CPU, the child sees no GPU.
    """

    def __init__(self, where: str, folder: Path, device: str = "cpu") -> None:
        self.where = where
        self._member = ""
        self._failure = ""
        self._has_answered = False
        self.unpacked = folder / "unpacked"
        scratch = folder / "scratch"
        self.unpacked.mkdir()
        scratch.mkdir()
        self._process = subprocess.Popen(
            module_command("tabapp.bundle.confined.box_child", str(self.unpacked), str(scratch), device),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Libraries quote the file they fail to parse.
            stderr=subprocess.DEVNULL,
            env=environment(scratch, device),
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        os.set_blocking(self._requests.fileno(), False)
        os.set_blocking(self._replies.fileno(), False)
        self.pid = self._process.pid
        self._owner = os.getpid()
        self._allowed = limits.IMPORT_SECONDS
        self._started = self._last_look = self._last_active = time.monotonic()
        self._cpu_at_start = self._cpu_seen = 0.0
        self._watched: psutil.Process | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process can still answer."""
        return not self._failure and self._process.poll() is None

    def kill(self) -> None:
        """Kill the process without closing its pipes, which another thread may be reading."""
        if os.getpid() == self._owner and self._process.returncode is None:
            self._process.kill()

    def start(self, request: messages.Request, allowed: float | limits.Allowance) -> None:
        """Send a request without waiting for its answer.

        Args:
            allowed: what the answer may use; or the time limit of each of its steps, which end with a `Loading` or `Progress`,
                if the process limits itself.

        Raises:
            BundleError: the process has ended or does not read.
        """
        if isinstance(allowed, limits.Allowance):
            self._allow(allowed.step_seconds)
            if os.getpid() == self._owner:
                total = self._cpu_at_start + limits.cpu_seconds(allowed.seconds)
                sandbox.limit_child(self.pid, memory=allowed.memory, cpu_seconds=total)
        else:
            self._allow(allowed)
        self._send(request)

    def answer(
        self,
        kind: type[_Answer],
        *,
        limit: int = SMALL_REPLY,
        members: Mapping[str, int] | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> _Answer:
        """Wait for the answer to the request that was started.

        Args:
            limit: largest size of a reply in bytes.
            members: bytes of each folder of the bundle that the process may report to load, once each.
            progress: called with each share that the process reports.

        Raises:
            BundleError: the process has ended, exceeds its time or answers something else, or the bundle does not load.
            TabappError: the error that the process reports.
        """
        seconds, share, left = self._allowed, 0.0, dict(members or {})
        while True:
            reply = self._receive(limit)
            if isinstance(reply, messages.Failed):
                raise _ERRORS[reply.error](reply.message)
            if isinstance(reply, kind):
                self._member = ""
                return reply
            if isinstance(reply, messages.Loading) and reply.member in left:
                self._member = reply.member
                self._allow(limits.load_seconds(left.pop(reply.member)))
            elif isinstance(reply, messages.Progress) and share < reply.share <= 1:
                share = reply.share
                self._allow(seconds)
                if progress is not None:
                    progress(share)
            else:
                raise self.violation()

    def _allow(self, seconds: float) -> None:
        """Start a step that may take this long."""
        self._allowed = seconds
        self._started = self._last_look = self._last_active = time.monotonic()
        self._cpu_at_start = self._cpu_seen = self._cpu_seconds()

    def _send(self, request: messages.Request) -> None:
        """Send a request.

        Raises:
            BundleError: the process has ended or does not read.
        """
        if self._failure:
            raise BundleError(self._failure)
        if os.getpid() != self._owner:
            raise UsageError(f"{self.where} was loaded by another process; load it again in this one.")
        content = memoryview(messages.encode(request))
        while content:
            self._wait(self._requests.fileno(), select.POLLOUT)
            try:
                content = content[os.write(self._requests.fileno(), content[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._ended() from None

    def _receive(self, limit: int) -> messages.AnyReply:
        """The next reply.

        Args:
            limit: largest size in bytes that is accepted.

        Raises:
            BundleError: the process has ended, exceeds its time, or sends something else.
        """
        length = int.from_bytes(self._read(messages.LENGTH_BYTES), "little")
        if length > limit:
            raise self.violation()
        try:
            return _REPLIES.decode(self._read(length))
        except (msgspec.DecodeError, RecursionError):
            raise self.violation() from None

    def _read(self, n_bytes: int) -> bytearray:
        content = bytearray()
        while len(content) < n_bytes:
            self._wait(self._replies.fileno(), select.POLLIN)
            try:
                chunk = os.read(self._replies.fileno(), min(_CHUNK, n_bytes - len(content)))
            except BlockingIOError:
                continue
            except OSError:
                chunk = b""
            if not chunk:
                raise self._ended()
            content += chunk
            self._has_answered = True
        return content

    def _wait(self, descriptor: int, event: int) -> None:
        """Wait until a pipe is ready.

        A step ends when its process has computed for the time limit, or has slept for as long or for a minute: in a deadlock,
        nothing wakes it. A process that waits for a processor or a disk gets a multiple of the limit.
        """
        poll = select.poll()
        poll.register(descriptor, event)
        while not poll.poll(200):
            # A fork of this program may have inherited the other end, which then stays open when the process ends.
            if self._process.poll() is not None and not poll.poll(0):
                raise self._ended()
            now, used = time.monotonic(), self._cpu_seconds()
            # Between two calls of this method, the process may have worked unseen.
            if used > self._cpu_seen or now - self._last_look > _UNSEEN_SECONDS or not self._is_asleep():
                self._last_active, self._cpu_seen = now, used
            self._last_look = now
            elapsed, computed = now - self._started, used - self._cpu_at_start
            if now - self._last_active >= min(self._allowed, limits.SLEEP_SECONDS) or (
                elapsed >= self._allowed and computed >= self._allowed
            ):
                raise self._failed(f"took longer than {self._allowed:.0f} s")
            if elapsed > limits.IDLE_FACTOR * self._allowed:
                reason = f"did not end within {elapsed:.0f} s, of which a processor worked on it for {computed:.1f} s"
                raise self._failed(reason, "The machine is busy. Try again when it is less busy.")

    def _is_asleep(self) -> bool:
        """Whether no thread of the process runs, waits for a processor or waits for a disk. Only Linux reports it."""
        threads = Path(f"/proc/{self.pid}/task")
        try:
            states = [(thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in threads.iterdir()]
        except (OSError, IndexError):
            return False
        return bool(states) and not set(states) & {"R", "D"}

    def _cpu_seconds(self) -> float:
        import psutil

        try:
            # Finding the process takes longer than reading its times.
            self._watched = self._watched or psutil.Process(self.pid)
            used = self._watched.cpu_times()
        except psutil.Error:
            return 0.0
        return used.user + used.system

    def _doing(self) -> str:
        return f"loading {self._member!r}" if self._member else "predicting with it"

    def _ended(self) -> BundleError:
        """The error of a process that has ended without an answer."""
        self._kill_unless_it_ends()
        code = self._process.returncode or 0
        if code == -signal.SIGXCPU:
            reason = "used more processor time than its size allows"
        elif code < 0:
            name = next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
            reason = f"ended the process that does it ({name})"
        elif code == sandbox.NO_PACKAGES and not self._has_answered:
            reason = "is not possible, because the process that does it cannot import its packages"
            return self._failed(
                reason, "It reads the folders of Python's packages only: install tabapp in one of them."
            )
        else:
            reason = f"ended the process that does it (exit code {code})"
        return self._failed(reason)

    def violation(self) -> BundleError:
        """End the process; the error of an answer that breaks the protocol."""
        return self._failed("gave an answer that is not valid")

    def _failed(self, reason: str, advice: str = _ADVICE) -> BundleError:
        """End the process; this error is raised from now on."""
        self.close()
        self._failure = f"{self.where}: {self._doing()} {reason}. {advice}"
        return BundleError(self._failure)

    def _kill_unless_it_ends(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self.close()

    def close(self) -> None:
        """End the process, unless a fork of this program closes its copy."""
        if os.getpid() == self._owner and self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        self._requests.close()
        self._replies.close()
