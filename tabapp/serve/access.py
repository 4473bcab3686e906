"""Who may use the server: tokens, names of the host, and origins."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import Scope

from tabapp.serve.limits import RequestError

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
MOST_HEADER_BYTES = 2**16
LONG_HEADER = f"The header of the request is longer than {MOST_HEADER_BYTES >> 10} KiB. Send a shorter one."
_PER_FIELD = 4
"""Bytes of a colon, a space and a line end."""
_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{0,5})?", re.ASCII)
_OPEN = ("/", "/health")
"""Paths without a token: the page has no data, and probes of container platforms send none."""


@dataclass(frozen=True)
class Access:
    """Who may use the server.

    Attributes:
        token: the secret that requests must contain; None admits every request.
        hosts: accepted names in the Host header, in lower case; None accepts all.
    """

    token: str | None = None
    hosts: tuple[str, ...] | None = LOOPBACK_NAMES

    def is_authorized(self, header: str | None) -> bool:
        """Whether a request with this Authorization header has the token."""
        if self.token is None:
            return True
        scheme, _, token = (header or "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.token.encode())

    def check(self, scope: Scope) -> None:
        """Reject requests from pages of other sites and without the token.

        The name of the host must be expected, which excludes names of other sites that resolve to this machine (DNS rebinding). The
        origin, if there is one, must be the server itself.

        Raises:
            RequestError: the request is rejected.
        """
        check_header(scope)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get("host", ""), headers.get("origin")
        if host and _HOST.fullmatch(host) is None:
            raise RequestError(400, "The header Host is not valid. Send NAME or NAME:PORT.", closes=True)
        if self.hosts is not None and _host_name(host) not in self.hosts:
            raise RequestError(
                403,
                "This server does not answer to the name in Host. Add --allowed-host NAME to permit it.",
                closes=True,
            )
        if origin is not None and _netloc(origin).lower() != host.lower():
            raise RequestError(
                403, "This server answers requests of its own pages only, not of other origins.", closes=True
            )
        if scope["path"] not in _OPEN and not self.is_authorized(headers.get("authorization")):
            raise RequestError(
                401,
                "The token is missing or wrong. Send the header Authorization: Bearer TOKEN.",
                {"WWW-Authenticate": "Bearer"},
                closes=True,
            )


def _netloc(origin: str) -> str:
    """Host and port of an origin; the origin itself if it has none, such as null."""
    try:
        return urlsplit(origin).netloc or origin
    except ValueError:
        return origin


def _host_name(host: str) -> str:
    """The name in a Host header, in lower case and without its port; empty if it is not valid."""
    found = _HOST.fullmatch(host)
    return (found["address"] or found["name"]).lower() if found else ""


def check_header(scope: Scope) -> None:
    """Reject a request with a long header, and one whose end two servers may find at different places.

    Raises:
        RequestError: the request is rejected.
    """
    names = [name for name, _ in scope["headers"]]
    n_bytes = sum(len(name) + len(value) + _PER_FIELD for name, value in scope["headers"])
    if n_bytes + len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MOST_HEADER_BYTES:
        raise RequestError(431, LONG_HEADER, closes=True)
    if b"content-length" in names and b"transfer-encoding" in names:
        raise RequestError(
            400, "The request has both Content-Length and Transfer-Encoding. Send one of them.", closes=True
        )
