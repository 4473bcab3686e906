"""Limits of the prediction server and its errors, each of which is an HTTP status and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_EXPLAINED = 10
"""Rows of a request to explain, each of which takes about a second."""
RETRY_SECONDS = 2
"""Seconds after which a client may repeat a request that was refused because the server was busy."""


@dataclass(frozen=True)
class Limits:
    """What one server accepts.

    Attributes:
        max_body: bytes of a request body.
        max_rows: rows of a request.
        max_memory: bytes that reading a body may use.
        concurrency: predictions that are in progress or waiting at the same time.
        connections: open connections.
        seconds: time for a client to send a request, and for its prediction.
        workers: model processes of each bundle.
    """

    max_body: int = 16 * 2**20
    max_rows: int = 10_000
    max_memory: int = 2**30
    concurrency: int = 64
    connections: int = 512
    seconds: float = 30.0
    workers: int = 1


@dataclass(eq=False)
class RequestError(Exception):
    """A request that is refused.

    Attributes:
        status: HTTP status.
        message: one sentence: what is wrong and what to do.
        headers: further headers of the answer.
        closes: the rest of the request is not read, so the connection ends.
    """

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    closes: bool = False


def busy(message: str) -> RequestError:
    """The error of a server that can answer the same request later."""
    return RequestError(503, message, {"Retry-After": str(RETRY_SECONDS)})
