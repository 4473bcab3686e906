"""Who may use the server: tokens, names of the host, and origins."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import Scope

from tabapp.serve.limits import RequestError

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
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
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get("host", ""), headers.get("origin")
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
    """The name in a Host header, without its port; empty if it is not valid."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
