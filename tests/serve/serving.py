"""Servers for tests: in this process without a socket, and as a command with a socket."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from tabapp.bundle.confined.box import BoxedPredictor
from tabapp.bundle.prediction.load import LoadedBundle, load_bundle
from tabapp.serve.bodies import decode_file
from tests.waiting import HANG_SECONDS, wait_until

JSON = {"Content-Type": "application/json"}
CSV = {"Content-Type": "text/csv"}


@dataclass
class Answer:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self):
        return json.loads(self.content)

    @property
    def error(self) -> str:
        """The sentence of an error."""
        message = self.json["error"]
        assert list(self.json) == ["error"]
        assert message
        assert "\n" not in message
        assert message.endswith((".", "?")), message
        return message


class HerePredictor(BoxedPredictor):
    """A predictor with its models in this process, in place of one with a process of its own."""

    def __init__(self, predictor) -> None:
        self.schema, self.ensemble, self.where = predictor.schema, predictor.ensemble, "the bundle"
        self.predictor = predictor
        self.ended = False
        self.before = lambda: None

    pid = 0
    is_running = property(lambda self: not self.ended)

    def predict_batch(self, batch, progress):
        self.before()
        return self.predictor.predict_batch(batch, progress)

    def decompose(self, batch, model, code, reference=None):
        return self.predictor.decompose(batch, model, code, reference)

    def kill(self):
        self.ended = True

    close = kill


def decode_here(content: bytes, kind: str, schema, limits):
    """Decode a body in this process, in place of the decoder's process."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return decode_file(Path(file.name), kind, schema, limits)


def load_here(path: Path, *, trust: Path | None = None, device: str = "cpu") -> LoadedBundle:
    """Load a bundle in this process, in place of `load_boxed`."""
    loaded = load_bundle(path)
    return replace(loaded, predictor=HerePredictor(loaded.predictor))


def call(app, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | dict = b"") -> Answer:
    """Send one request to an application and return its answer."""
    return asyncio.run(call_async(app, method, path, headers, body))


async def call_async(app, method, path, headers=None, body: bytes | dict = b"") -> Answer:
    if isinstance(body, dict):
        headers, body = {**JSON, **(headers or {})}, json.dumps(body).encode()
    path, _, query = path.partition("?")
    sent = {"host": "127.0.0.1:8000", **{name.lower(): value for name, value in (headers or {}).items()}}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    events = [{"type": "http.request", "body": body, "more_body": False}]
    messages = []

    async def receive():
        return events.pop() if events else {"type": "http.disconnect"}

    async def send(message):
        messages.append(message)

    await app(scope, receive, send)
    start, *rest = messages
    return Answer(
        start["status"],
        {name.decode().lower(): value.decode() for name, value in start["headers"]},
        b"".join(message["body"] for message in rest),
    )


class Server:
    """A running `tabapp serve`."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        parts = urlsplit(address)
        self.host, self.port = parts.hostname, parts.port

    def ask(self, method: str, path: str, body: bytes | dict | None = None, headers=None) -> Answer:
        """Send one request on a new connection."""
        if isinstance(body, dict):
            headers, body = {**JSON, **(headers or {})}, json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=HANG_SECONDS)
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return Answer(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()


@contextmanager
def serving(*arguments: object, log: Path) -> Generator[Server]:
    """Start `tabapp serve` on a free port; its stderr goes to a file."""
    command = [sys.executable, "-P", "-m", "tabapp", "serve", *map(str, arguments), "--port", "0"]
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://"), log.read_text()
        yield Server(process, address)
    finally:
        process.kill()
        process.communicate()


def until(server: Server, condition: Callable[[dict], object]) -> dict:
    """Wait until the state of the bundles satisfies a condition; returns it."""
    found: dict = {}

    def holds() -> bool:
        # The server looks at its files once in a second, and shares the processor with its tests.
        time.sleep(0.2)
        found.update(server.ask("GET", "/health").json)
        return bool(condition(found["bundles"]))

    wait_until(holds, lambda: f"a state of the bundles, which is {found}")
    return found["bundles"]
