"""A run in the browser: a server for this machine alone, each of whose pages is a screen attached to the same run."""

from __future__ import annotations

import asyncio
import html
import secrets
import shlex
import socket
import subprocess
import time
from asyncio.subprocess import Process
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.app_service import AppService
from textual_serve.server import Server

from tabapp.children import module_command
from tabapp.errors import UsageError
from tabapp.headless.narration import echo, say
from tabapp.run.protocol.client import describe_death, start_detached_engine
from tabapp.run.record.commands import Abort
from tabapp.run.record.folder import RunFolder, find_listed_run

HOST = "127.0.0.1"
LOOPBACK = (HOST, "localhost", "::1")
LARGEST_SIDE = 1000
"""Columns or rows of a screen; memory grows with their product."""
SCREEN_SECONDS = 3.0
SHUTDOWN_SECONDS = 0.5
TAKE_UP_SECONDS = 10.0
ABORT_SECONDS = 5.0

# The script, the style and the font come with textual-serve, whose own page would ask another host for the font.
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title} · tabapp</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="static/css/xterm.css">
<style>
@font-face {{ font-family: "Roboto Mono"; src: url("static/fonts/RobotoMono-VariableFont_wght.ttf"); }}
html, body {{ margin: 0; height: 100%; background: #101418; color: #e6e6e6; font-family: "Roboto Mono", monospace; }}
body {{ overflow: hidden; }}
#terminal {{ width: 100vw; height: 100vh; }}
.xterm .xterm-viewport {{ background: #101418 !important; overflow: hidden; }}
#left {{ display: none; position: fixed; inset: 0; z-index: 10; background: #101418ee; place-content: center; }}
body.-closed #left {{ display: grid; }}
button {{ font: inherit; padding: 0.6em 1.2em; }}
</style>
<script src="static/js/textual.js"></script>
</head>
<body>
<div id="left"><p>This page has left the run.</p><button onclick="location.reload()">Open it again</button></div>
<div id="terminal" class="textual-terminal" data-session-websocket-url="{socket}" data-font-size="{font_size}"></div>
</body>
</html>
"""


def _is_loopback(netloc: str) -> bool:
    """Whether a host, with or without a port, names this machine."""
    try:
        return urlsplit(f"//{netloc}").hostname in LOOPBACK
    except ValueError:
        return False


@web.middleware
async def check_sender(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject requests that a page of another site makes the browser send.

    The host must be a name of this machine, which excludes names of other sites that resolve to it (DNS rebinding). The origin, if
    there is one, must be the server itself. The port of the host is not compared, so that a forwarded port works.

    Raises:
        HTTPForbidden: the host or the origin is another one.
    """
    host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
    if not _is_loopback(host):
        raise web.HTTPForbidden(text="This server answers requests to 127.0.0.1 and localhost only.")
    if origin is not None and origin.casefold() != f"http://{host}".casefold():
        raise web.HTTPForbidden(text="This server answers requests of its own pages only.")
    return await handler(request)


def free_port(port: int) -> socket.socket:
    """Take a port of this machine, which no other machine can reach; 0 takes any that is free.

    Raises:
        UsageError: another program has it, or this user may not have it.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise UsageError(
            f"The port {port} cannot be used: {error.strerror}; choose another with --port, or --port 0 for any that is free."
        ) from None
    return listening


class RunServer(Server):
    """Serves screens on a run, and on the others of its place that a page asks for by `?run=ID`.

    A screen reads any file that its user may read, so other users of the machine, and other pages in the same browser, must not
    open one: every address begins with a key that only the one who started the server knows.
    """

    def __init__(self, folder: RunFolder, runs_dir: Path) -> None:
        super().__init__(command="", host=HOST, title=Path(folder.config().data).name)
        self._folder = folder
        self._runs_dir = runs_dir
        self._screens: set[asyncio.Task[Any]] = set()
        self._processes: list[Process] = []
        self.key = secrets.token_urlsafe(12)

    def serve_on(self, listening: socket.socket) -> None:
        """Print the address and serve until Ctrl+C or SIGTERM; the screens of open pages end with it."""

        async def print_address(app: web.Application) -> None:
            # Only now: signals are heard from here on, and who reads the address may send one at once.
            echo(f"http://{HOST}:{listening.getsockname()[1]}/{self.key}/")
            say(
                "Open this address in a browser, in as many tabs as you like. Ctrl+C closes them; a started run continues."
            )

        app = web.Application(middlewares=[check_sender])
        app.router.add_get(f"/{self.key}/", self.handle_page)
        app.router.add_get(f"/{self.key}/ws/{{run}}", self.handle_websocket)
        app.router.add_static(f"/{self.key}/static", self.statics_path)
        app.on_startup.append(print_address)
        app.on_shutdown.append(self._close_screens)
        web.run_app(app, sock=listening, print=None, shutdown_timeout=SHUTDOWN_SECONDS, access_log=None)

    def _asked(self, run: str) -> RunFolder:
        """The run that a page asks for, by its id or a part of it.

        Raises:
            HTTPNotFound: it is not in the folder of runs.
        """
        try:
            return self._folder if run == self._folder.run else find_listed_run(run, self._runs_dir)
        except UsageError as error:
            raise web.HTTPNotFound(text=str(error)) from None

    async def handle_page(self, request: web.Request) -> web.Response:
        """The page of a run."""
        folder = self._asked(request.query.get("run", self._folder.run))
        size = request.query.get("fontsize", "")
        page = PAGE.format(
            title=html.escape(Path(folder.config().data).name),
            socket=html.escape(f"ws://{request.host}/{self.key}/ws/{folder.run}"),
            font_size=size if size.isdecimal() else "16",
        )
        return web.Response(text=page, content_type="text/html")

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """A screen of its own for a page that has opened.

        Raises:
            HTTPBadRequest: the size of the screen is out of range.
        """
        for side in ("width", "height"):
            size = request.query.get(side, "80")
            if not (size.isascii() and size.isdecimal() and 1 <= int(size[:9]) <= LARGEST_SIDE):
                raise web.HTTPBadRequest(text=f"The {side} of a screen is a number from 1 to {LARGEST_SIDE}.")
        folder = self._asked(request.match_info["run"])
        words = module_command("tabapp.web.page", str(folder.path), str(self._runs_dir))
        server = copy(self)
        # The page's process is then the server's own child, and sees when the server is gone.
        server.command = f"exec {shlex.join(words)}"
        task = asyncio.current_task()
        assert task is not None
        self._screens.add(task)
        try:
            return await Server.handle_websocket(server, request)
        finally:
            self._screens.discard(task)

    async def _process_messages(self, websocket: web.WebSocketResponse, app_service: AppService) -> None:
        process = app_service._process  # pyright: ignore[reportPrivateUsage]
        assert process is not None
        # The list is shared by the copies of this server, one for each page.
        self._processes[:] = [each for each in self._processes if each.returncode is None] + [process]
        resize = app_service.set_terminal_size

        async def resize_within_bounds(width: int, height: int) -> None:
            await resize(*(min(max(int(side), 1), LARGEST_SIDE) for side in (width, height)))

        app_service.set_terminal_size = resize_within_bounds
        await super()._process_messages(websocket, app_service)

    async def _close_screens(self, app: web.Application) -> None:
        """End the screens and their processes: asyncio raises for a process that ends after its loop."""
        for task in self._screens:
            task.cancel()
        if self._screens:
            await asyncio.wait(set(self._screens), timeout=SCREEN_SECONDS)
        await asyncio.gather(*map(_end, self._processes))


async def _end(process: Process) -> None:
    """Give the process of a screen time to end, then kill it. asyncio notices the end once all output is read."""
    try:
        await asyncio.wait_for(process.communicate(), SCREEN_SECONDS)
    except (TimeoutError, RuntimeError):
        with suppress(ProcessLookupError):
            process.kill()
        with suppress(TimeoutError, RuntimeError):
            await asyncio.wait_for(process.communicate(), SCREEN_SECONDS)


def serve_run(folder: RunFolder, runs_dir: Path, listening: socket.socket, *, start_engine: bool) -> None:
    """Serve a run until Ctrl+C, after printing the address on stdout.

    A run that was not started ends with the server; other runs continue.

    Args:
        runs_dir: where the other runs are that a page may open.
        listening: from `free_port`.
        start_engine: start the engine of a new or resumed run; False shows a run whose engine is elsewhere, or that has ended.
    """
    server = RunServer(folder, runs_dir)
    engine = start_detached_engine(folder) if start_engine else None
    try:
        # The server has its own way with Ctrl+C; this is for one that comes before it listens.
        with suppress(KeyboardInterrupt):
            if engine is not None:
                _wait_until_taken_up(folder, engine)
            server.serve_on(listening)
    finally:
        if engine is not None and not folder.has_started:
            _end_unstarted(folder, engine)


def _end_unstarted(folder: RunFolder, engine: subprocess.Popen[bytes]) -> None:
    folder.send(Abort())
    try:
        engine.wait(ABORT_SECONDS)
    except subprocess.TimeoutExpired:
        engine.kill()
        engine.wait()


def _wait_until_taken_up(folder: RunFolder, engine: subprocess.Popen[bytes]) -> None:
    """Wait until the engine holds the run, without which a page would take it for gone."""
    until = time.monotonic() + TAKE_UP_SECONDS
    while not folder.is_running() and time.monotonic() < until:
        code = engine.poll()
        if code is not None:
            say(describe_death(code, folder))
            return
        time.sleep(0.05)
