"""The web server: access, the run that each page shows, and the end of page processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tabapp.cli.commands import run as running
from tabapp.cli.main import run_command_line
from tabapp.run.record.folder import list_runs
from tests.cli.tables import write_tables
from tests.run.recording import write_run
from tests.waiting import HANG_SECONDS, wait_until

pytest.importorskip("textual_serve", reason="the extra `web` is not installed")
aiohttp = pytest.importorskip("aiohttp")

USAGE = 2


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with tables and runs; the teardown kills every process that uses it."""
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path / "runs"))
    yield tmp_path
    for process in processes_about(tmp_path):
        with suppress(psutil.Error):
            process.kill()


def processes_about(folder: Path, word: str = "") -> list[psutil.Process]:
    """The processes whose command line names a folder and a word."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if str(folder) in line and word in line:
                found.append(process)
    return found


def wait_until_gone(folder: Path, word: str) -> None:
    """Wait until no process matches."""
    wait_until(lambda: not processes_about(folder, word), lambda: f"the end of {processes_about(folder, word)}")


def serve(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """Start a server in its own process group; returns the process and the address that it printed."""
    # The explicit --runs-dir lets the teardown find the process by its command line.
    words = [
        sys.executable,
        "-m",
        "tabapp",
        *arguments,
        "--web",
        "--port",
        "0",
        "--runs-dir",
        os.environ["TABAPP_RUNS_DIR"],
    ]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:"), server.communicate()
    return server, address


def one_sentence(text: str) -> str:
    (line,) = text.splitlines()
    return line


@pytest.mark.parametrize("option", ["--auto", "--plain", "--json"])
def test_web_with_a_headless_view_is_rejected(place: Path, monkeypatch, capsys, option: str) -> None:
    monkeypatch.setattr(running, "create_run", lambda *_: pytest.fail("a run was created"))
    assert run_command_line(["shop.csv", "--web", option]) == USAGE
    assert f"{option} shows the run without a screen. Use only one of them" in one_sentence(capsys.readouterr().err)


def test_port_in_use_is_reported_before_a_run_is_created(place: Path, capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run_command_line(["shop.csv", "--web", "--port", str(port)]) == USAGE
    assert f"port {port} cannot be used: Address already in use; choose another" in one_sentence(
        capsys.readouterr().err
    )
    assert list_runs(place / "runs") == []


def test_missing_extra_is_reported_with_its_install_command(place: Path, monkeypatch, capsys) -> None:
    monkeypatch.delitem(sys.modules, "tabapp.web.server", raising=False)
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    monkeypatch.setitem(sys.modules, "textual_serve", None)
    assert run_command_line(["shop.csv", "--web"]) == USAGE
    assert "`pip install 'tabapp[web]'`" in one_sentence(capsys.readouterr().err)
    assert list_runs(place / "runs") == []


async def test_only_the_printed_address_gives_access_and_every_run_has_a_page(place: Path) -> None:
    first, second = (write_run(place / "runs", f"20260102-030405-shop-{tail}") for tail in ("a1b2", "c3d4"))
    server, address = serve("attach", first.run)
    root = address.rsplit("/", 2)[0]
    async with aiohttp.ClientSession() as session:

        async def ask(url: str) -> tuple[int, str]:
            async with session.get(url) as answer:
                return answer.status, await answer.text()

        status, page = await ask(address)
        assert status == 200
        assert f"/ws/{first.run}" in page
        assert "https://" not in page
        assert f"/ws/{second.run}" in (await ask(f"{address}?run={second.run}"))[1]
        status, body = await ask(f"{address}?run=none")
        assert (status, "There is no run 'none'" in body) == (404, True)
        assert (await ask(f"{address}static/js/textual.js"))[0] == 200
        for outside in ("/", "/ws/last", "/wrong-key/", f"/wrong-key/ws/{first.run}", "/static/js/textual.js"):
            assert (await ask(f"{root}{outside}"))[0] == 404
    with socket.socket() as client:
        host, port = socket.gethostbyname(socket.gethostname()), int(root.rsplit(":", 1)[1])
        if not host.startswith("127."):
            assert client.connect_ex((host, port)) != 0
    server.send_signal(signal.SIGINT)
    server.communicate(timeout=HANG_SECONDS)
    assert server.returncode == 0
    assert first.path.exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
async def test_no_page_outlives_the_server(place: Path, how: signal.Signals) -> None:
    folder = write_run(place / "runs")
    server, address = serve("attach", folder.run)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{address}ws/{folder.run}?width=100&height=30") as page,
        session.ws_connect(f"{address}ws/{folder.run}?width=80&height=24") as other,
    ):
        for socket_of_page in (page, other):
            drawn = b""
            while b"Leaderboard" not in drawn:
                drawn += (await socket_of_page.receive(timeout=HANG_SECONDS)).data
        assert len(processes_about(place, "tabapp.web.page")) == 2
        await other.close()
        await asyncio.to_thread(wait_until, lambda: len(processes_about(place, "tabapp.web.page")) == 1)
        server.send_signal(how)
        while not (await page.receive(timeout=HANG_SECONDS)).type.name.startswith("CLOS"):
            pass
        await asyncio.to_thread(server.communicate, timeout=HANG_SECONDS)
    wait_until_gone(place, "tabapp.web.page")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_page_that_does_not_answer_ends_with_the_server(place: Path, how: signal.Signals) -> None:
    folder = write_run(place / "runs")
    server, address = serve("attach", folder.run)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{address}ws/{folder.run}?width=80&height=24"),
    ):
        await asyncio.to_thread(wait_until, lambda: processes_about(place, "tabapp.web.page"))
        (page,) = processes_about(place, "tabapp.web.page")
        page.suspend()
        server.send_signal(how)
        _, err = await asyncio.to_thread(server.communicate, timeout=HANG_SECONDS)
    assert not page.is_running()
    assert server.returncode == 0
    assert "Traceback" not in err
    assert "Error" not in err


def test_unstarted_run_is_deleted_when_the_server_stops(place: Path) -> None:
    server, _ = serve("shop.csv")
    (folder,) = list_runs(place / "runs")
    os.killpg(server.pid, signal.SIGINT)
    out, err = server.communicate(timeout=HANG_SECONDS)
    assert (server.returncode, out) == (0, ""), err
    assert not folder.path.exists()
    wait_until_gone(place, "tabapp.processes.engine")


FOREIGN: list[dict[str, str]] = [
    {"Host": "evil.example"},
    {"Host": "evil.example:80"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "localhost@evil.example"},
    {"Host": "[::"},
    {"Host": "0.0.0.0"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:1"},
    {"Origin": "https://HOST"},
    {"Origin": ""},
]


async def test_requests_of_other_sites_and_unbounded_screens_are_rejected(place: Path) -> None:
    folder = write_run(place / "runs")
    outside = write_run(place / "elsewhere", "20260102-030405-other-e5f6")
    server, address = serve("attach", folder.run)
    host = address.split("/")[2]
    page = f"{address}ws/{folder.run}"
    async with aiohttp.ClientSession() as session:

        async def status(url: str, **headers: str) -> int:
            async with session.get(url, headers=headers) as answer:
                return answer.status

        for headers in FOREIGN:
            given = {name: value.replace("HOST", host) for name, value in headers.items()}
            assert await status(address, **given) == 403, given
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(page, headers=given)
            assert caught.value.status == 403, given
        assert await status(address, Origin=f"http://{host}") == 200
        assert await status(address, Host="localhost:8000", Origin="http://localhost:8000") == 200
        for size in ("999999999", "1001", "0", "-1", "1e3", "", "９９", "9" * 5000):
            for side in ("width", "height"):
                assert await status(f"{page}?{side}={size}") == 400, size
        for run in (str(outside.path), "../elsewhere/20260102-030405-other-e5f6", ".", "..", "/", str(folder.path)):
            assert await status(f"{address}?run={run}") == 404, run
        for run in (outside.run, "other", "last%2F..", "..%2Felsewhere%2Fother"):
            assert await status(f"{address}ws/{run}") == 404, run
        assert processes_about(place, "tabapp.web.page") == []
        async with session.ws_connect(f"{page}?width=80&height=24") as opened:
            drawn = b""
            while b"Leaderboard" not in drawn:
                drawn += (await opened.receive(timeout=HANG_SECONDS)).data
            await opened.send_json(["resize", {"width": 10**9, "height": 10**9}])
            await opened.receive(timeout=HANG_SECONDS)
            (process,) = processes_about(place, "tabapp.web.page")
            assert process.memory_info().rss < 2**30
    server.send_signal(signal.SIGINT)
    await asyncio.to_thread(server.communicate, timeout=HANG_SECONDS)
    wait_until_gone(place, "tabapp.web.page")
