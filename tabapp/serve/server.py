"""Serves bundles over HTTP until a signal ends the process."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import uvicorn

from tabapp.errors import UsageError
from tabapp.serve.access import LOOPBACK_NAMES, MOST_HEADER_BYTES, Access
from tabapp.serve.app import Application
from tabapp.serve.bundles import Bundles
from tabapp.serve.decoding import Decoder
from tabapp.serve.limits import Limits
from tabapp.serve.protocol import limited_protocol

GRACE_SECONDS = 10
"""Time for requests in progress after a signal."""

Log = Callable[[str], None]


def names_of_bundles(arguments: tuple[str, ...]) -> dict[str, Path]:
    """The bundles of a command line by name: `NAME=FILE`, or a file whose name without its suffix is the name.

    Raises:
        UsageError: two bundles have one name, or a name cannot be part of an address.
    """
    found: dict[str, Path] = {}
    for argument in arguments:
        name, equals, file = argument.partition("=")
        path = Path(file) if equals and not Path(argument).exists() else Path(argument)
        name = name if equals and path == Path(file) else path.stem
        if not name or "/" in name or name in (".", ".."):
            raise UsageError(f"{argument!r} gives no name to the bundle. Use NAME=FILE, with a name without slashes.")
        if name in found:
            raise UsageError(f"Two bundles are named {name!r}. Use NAME=FILE to give one of them another name.")
        found[name] = path
    return found


def listening_socket(host: str, port: int) -> socket.socket:
    """Take a port; 0 takes any that is free.

    Raises:
        UsageError: the host is not known, or the port cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise UsageError(
            f"--host {host!r} is not an address of this machine. Use 127.0.0.1, or 0.0.0.0 for all."
        ) from None
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"{host} port {port} cannot be used: {error.strerror}. Choose another with --port, or --port 0 for any that is free."
        ) from None
    return listening


def access_to(listening: socket.socket, token: str | None, allowed_hosts: tuple[str, ...]) -> Access:
    """Who may use the server on a socket.

    Raises:
        UsageError: other machines can reach it and there is no token, or the token cannot be sent in a header.
    """
    if token is not None and not (token and token.isascii() and token.isprintable() and token == token.strip()):
        raise UsageError("The token is not valid. Use printable ASCII characters without spaces at the ends.")
    address = listening.getsockname()[0]
    is_local = ipaddress.ip_address(address.partition("%")[0]).is_loopback
    if not is_local and token is None:
        raise UsageError(
            f"--host {address} is reachable from other machines, so a token is required. Set TABAPP_SERVE_TOKEN or --token-file."
        )
    names = tuple(name.lower() for name in allowed_hosts)
    if is_local:
        return Access(token, (*LOOPBACK_NAMES, address, *names))
    return Access(token, (*LOOPBACK_NAMES, address, *names) if names else None)


def serve(
    bundles: dict[str, Path],
    listening: socket.socket,
    access: Access,
    limits: Limits,
    *,
    trust: Path | None,
    device: str = "cpu",
    log: Log,
    log_request: Log | None,
    on_start: Callable[[str], None],
) -> None:
    """Load bundles and serve them until SIGINT or SIGTERM.

    Args:
        listening: a bound socket.
        trust: file of the public key that must have signed each bundle.
        device: the device of the networks: "cpu", "cuda" or "cuda:N".
        on_start: called with the address when requests are accepted.

    Raises:
        TabappError: a bundle does not load.
    """
    # The decoder starts while the bundles are loaded.
    with (
        _ended_by_signals() as stop,
        closing(Decoder(limits, log)) as decoder,
        _loaded(bundles, limits, trust, device, log) as loaded,
    ):
        decoder.wait_until_started()
        application = Application(loaded, limits, access, decoder.decode, log, log_request)
        config = uvicorn.Config(
            application.asgi(),
            http=limited_protocol(seconds=limits.seconds, connections=limits.connections),
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=MOST_HEADER_BYTES,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        server = _Server(config, stop, lambda: on_start(_address(listening)))
        try:
            if not stop.is_set():
                asyncio.run(server.serve(sockets=[listening]))
        finally:
            application.close()


@contextmanager
def _loaded(bundles: dict[str, Path], limits: Limits, trust: Path | None, device: str, log: Log) -> Generator[Bundles]:
    loaded = Bundles(bundles, n_processes=limits.workers, trust=trust, device=device, log=log)
    try:
        yield loaded
    finally:
        loaded.close()


@contextmanager
def _ended_by_signals() -> Generator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second signal ends the process at once."""
    stop = threading.Event()

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    former = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):
    """A server that stops at an event instead of handling signals itself, which would end the process by the signal."""

    def __init__(self, config: uvicorn.Config, stop: threading.Event, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop
        self._on_start = on_start

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._stop.is_set()


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
