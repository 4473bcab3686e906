"""Decodes bodies: short JSON here, everything else in a confined process, which a body may end without further damage."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from tabapp.bundle.files.unpack import temporary_folder
from tabapp.children import module_command, plain_environment
from tabapp.data.schema import Schema
from tabapp.serve.bodies import TEXT_COPIES, Body, decode_json, is_short, too_large
from tabapp.serve.decoder_messages import LENGTH_BYTES, Columns, Decode, Refused, Started, encode, unpacked
from tabapp.serve.limits import Limits, RequestError, busy

_START_SECONDS = 60.0
_CHUNK = 2**20
_THREADS = {"POLARS_MAX_THREADS": "2"}
"""Enough for a body."""
_REPLIES = msgspec.msgpack.Decoder(Columns | Refused | Started)

Log = Callable[[str], None]


class Decoder:
    """Decodes bodies, one at a time if they are not short JSON. Thread-safe.

    Args:
        limits: of the server; its memory is the limit of the process.
        log: receives a sentence when the process is replaced.
    """

    def __init__(self, limits: Limits, log: Log) -> None:
        self._limits, self._log = limits, log
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._folder = self._stack.enter_context(temporary_folder()) / "bodies"
        self._folder.mkdir()
        self._is_closed = False
        self._process = self._started()

    def decode(self, content: bytes, kind: str, schema: Schema, limits: Limits) -> Body:
        """Decode a body.

        Args:
            kind: its media type.

        Raises:
            RequestError: the body is not valid or too large, or takes too long.
        """
        if is_short(content, kind):
            return decode_json(content, schema, limits)
        path = self._folder / "body"
        with self._lock:
            try:
                if not self._process.is_running:
                    self._replace()
                path.write_bytes(content)
                return self._process.decode(path, kind, schema, limits)
            except _EndedError as error:
                self._replace()
                self._log(f"A body {error}. The process that decodes bodies was restarted.")
                raise error.answer from None
            except OSError as error:
                self._log(f"A body cannot be written to {path} ({error.strerror}). Free space on its disk.")
                raise busy("The server has no space for the body. Try again later.") from None
            finally:
                path.unlink(missing_ok=True)
                if self._process.is_full:
                    self._replace()

    def wait_until_started(self) -> None:
        """Wait until the process can decode. A process that cannot start is reported by the first body."""
        with self._lock, suppress(_EndedError):
            self._process.wait_until_started()

    def close(self) -> None:
        """End the process."""
        self._is_closed = True
        self._process.close()
        self._stack.close()

    def _replace(self) -> None:
        self._process.close()
        if not self._is_closed:
            self._process = self._started()

    def _started(self) -> _Process:
        return _Process(self._folder, self._limits.max_memory * 7 // 8)


class _EndedError(Exception):
    """The process cannot be used further; `answer` is the error of the request."""

    def __init__(self, reason: str, answer: RequestError) -> None:
        super().__init__(reason)
        self.answer = answer


class _Process:
    """The process, and messages to and from it with time limits."""

    def __init__(self, folder: Path, memory: int) -> None:
        self._process = subprocess.Popen(
            module_command("tabapp.serve.decoder", str(folder), str(memory)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Libraries quote the data that they fail to parse.
            stderr=subprocess.DEVNULL,
            env={**plain_environment(), **_THREADS},
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        self._deadline = time.monotonic() + _START_SECONDS
        self._has_started = False
        self._schemas: list[Schema] = []
        self.is_full = False

    @property
    def is_running(self) -> bool:
        """Whether the process can answer."""
        return self._process.poll() is None

    def wait_until_started(self) -> None:
        """Wait until the process can decode.

        Raises:
            _EndedError: it has ended, or takes too long.
        """
        if not self._has_started:
            try:
                self._receive(2**10, self._deadline)
            except OSError:
                answer = busy("The process that decodes bodies does not start; see the log of the server.")
                raise _EndedError("was not decoded because its process did not start", answer) from None
            self._has_started = True

    def decode(self, path: Path, kind: str, schema: Schema, limits: Limits) -> Body:
        """The table in a file.

        Raises:
            RequestError: the body is not valid.
            _EndedError: the process has ended, takes too long, or answers something else.
        """
        self.wait_until_started()
        deadline = time.monotonic() + limits.seconds
        known = next((place for place, each in enumerate(self._schemas) if each is schema), None)
        number = len(self._schemas) if known is None else known
        request = Decode(str(path), kind, number, None if known is not None else _slim(schema), limits)
        try:
            self._send(encode(request))
            reply = self._receive(limits.max_memory // TEXT_COPIES + 2**20, deadline)
        except OSError:
            raise _EndedError("ended the process that decodes it", too_large()) from None
        if known is None:
            self._schemas.append(schema)
        self.is_full = reply.is_last
        if isinstance(reply, Started):
            raise self._violation()
        if isinstance(reply, Refused):
            raise RequestError(reply.status if 400 <= reply.status < 500 else 400, reply.message)
        try:
            return unpacked(reply)
        except ValueError:
            raise self._violation() from None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._requests.close()
        self._replies.close()

    def _send(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[os.write(self._requests.fileno(), view[:_CHUNK]) :]

    def _receive(self, limit: int, deadline: float) -> Columns | Refused | Started:
        length = int.from_bytes(self._read(LENGTH_BYTES, deadline), "little")
        if length > limit:
            raise self._violation()
        try:
            return _REPLIES.decode(self._read(length, deadline))
        except (msgspec.DecodeError, RecursionError):
            raise self._violation() from None

    def _read(self, n_bytes: int, deadline: float) -> bytearray:
        content = bytearray()
        while len(content) < n_bytes:
            poll = select.poll()
            poll.register(self._replies.fileno(), select.POLLIN)
            if not poll.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
                raise _EndedError(
                    "took too long to decode", busy("Reading the body took too long. Send fewer rows at once.")
                )
            chunk = os.read(self._replies.fileno(), min(_CHUNK, n_bytes - len(content)))
            if not chunk:
                raise OSError("the process has ended")
            content += chunk
        return content

    def _violation(self) -> _EndedError:
        return _EndedError("led to an answer that is not valid", too_large())


def _slim(schema: Schema) -> Schema:
    """What decoding needs of a schema: not the levels, of which a column may have thousands."""
    columns = tuple(
        msgspec.structs.replace(column, levels=(), level_counts=(), order=(), missing_spellings=())
        for column in schema.columns
    )
    return msgspec.structs.replace(schema, columns=columns, classes=(), warnings=())
