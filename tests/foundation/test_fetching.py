"""`tabapp weights fetch` from servers that answer well, stop in the middle, or answer with a page of a proxy."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.foundation.conftest import published_light

pytest.importorskip("lightpfn")
pytest.importorskip("huggingface_hub")

COMMIT = "bd389ab59a89dd0e05c9ecb7c642c08ee52e9637"


@dataclass
class Hub:
    """A server that publishes files.

    Attributes:
        is_proxy: every answer is a page of HTML.
        stops_after: bytes of a body after which the connection is closed; None for all of them.
        asked: requested paths.
    """

    files: dict[str, bytes]
    url: str = ""
    is_proxy: bool = False
    stops_after: int | None = None
    asked: list[str] = field(default_factory=list[str])


class Answers(BaseHTTPRequestHandler):
    hub: Hub

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Write nothing to the output of the tests."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        self.hub.asked.append(self.path)
        name = self.path.rpartition("/")[2]
        content = self.hub.files.get(name, b"")
        if self.hub.is_proxy:
            content = b"<html><body>Sign in to the network</body></html>"
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        if not self.hub.is_proxy:
            self.send_header("ETag", f'"{name}-{len(content)}"')
            self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if with_body:
            self.wfile.write(content[: self.hub.stops_after])
        self.close_connection = True


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """Publishes the files of a small LightPFN."""
    file = published_light(tmp_path / "published")
    made = Hub({each.name: each.read_bytes() for each in (file, file.with_name("config.json"))})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OfHub", (Answers,), {"hub": made}))
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(hub: Hub, tmp_path: Path) -> tuple[int, str]:
    """The exit code and output of the command, in a process of its own with an empty cache."""
    done = subprocess.run(
        [sys.executable, "-m", "tabapp", "weights", "fetch", "lightpfn", "--accept"],
        env={
            **{name: value for name, value in os.environ.items() if not name.upper().startswith("HF_")},
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "cache"),
            "HF_HUB_DISABLE_XET": "1",
            "NO_PROXY": "127.0.0.1",
            "TABAPP_WEIGHTS_DIR": str(tmp_path / "weights"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert "Traceback" not in done.stdout
    return done.returncode, done.stdout


@pytest.mark.slow
def test_an_interrupted_download_is_never_used_and_can_be_repeated(hub: Hub, tmp_path: Path) -> None:
    hub.stops_after = 1_000
    code, said = fetch(hub, tmp_path)
    assert code != 0
    assert "cannot be downloaded" in said
    assert not list((tmp_path / "weights").glob("*"))
    hub.stops_after = None
    code, said = fetch(hub, tmp_path)
    assert code == 0, said
    assert "Installed lightpfn-classifier" in said
    assert {path for path in hub.asked if COMMIT not in path} == set()
    hub.asked.clear()
    assert fetch(hub, tmp_path)[0] == 0
    assert not hub.asked


def test_a_page_of_a_proxy_is_not_taken_for_weights(hub: Hub, tmp_path: Path) -> None:
    hub.is_proxy = True
    code, said = fetch(hub, tmp_path)
    assert code != 0
    assert "cannot be downloaded" in said
    assert "use `tabapp weights add PATH`" in said
    assert not list((tmp_path / "weights").glob("*"))


@pytest.mark.slow
def test_another_file_under_the_right_name_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.files["model.safetensors"] = b"<html>" * 100
    code, said = fetch(hub, tmp_path)
    assert code != 0
    assert "Remove it from the Hugging Face cache, and fetch it again." in said
    assert not list((tmp_path / "weights").glob("*"))
