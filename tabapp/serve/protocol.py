"""HTTP connections with limits that uvicorn does not have: on their number and on the time for the header of a request."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tabapp.serve.access import LONG_HEADER, MOST_HEADER_BYTES


class LimitedProtocol(H11Protocol):
    """A connection that is refused when there are too many, and closed when the header of a request does not arrive in time.

    The class attributes are set by `limited_protocol`.
    """

    header_seconds = 30.0
    most_connections = 512

    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            self._refuse(503, "Too many connections are open. Try again later.")
            return
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing() or self._in_request():
            self._stop_timer()
        elif self._header_timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP, or whose header does not end."""
        if len(self.conn.trailing_data[0]) > MOST_HEADER_BYTES:
            self._refuse(431, LONG_HEADER)
        else:
            self._refuse(400, "The request is not valid HTTP.")

    def _in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _start_timer(self) -> None:
        self._header_timer = self.loop.call_later(self.header_seconds, self._header_is_late)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _header_is_late(self) -> None:
        self._header_timer = None
        if not self._in_request() and not self.transport.is_closing():
            self._refuse(408, f"The header of the request did not arrive within {self.header_seconds:.0f} s.")

    def _refuse(self, status: int, message: str) -> None:
        """Answer with an error and close the connection."""
        self._stop_timer()
        content = json.dumps({"error": message}, ensure_ascii=False).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(content))),
            ("connection", "close"),
        ]
        events: list[Any] = [
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ]
        try:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            # The answer to an earlier request of the connection is not complete.
            pass
        self.transport.close()


def limited_protocol(*, seconds: float, connections: int) -> type[LimitedProtocol]:
    """The class of connections with these limits."""
    return type("_Protocol", (LimitedProtocol,), {"header_seconds": seconds, "most_connections": connections})
