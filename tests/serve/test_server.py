"""`tabapp serve` as a process: agreement with `tabapp predict`, limits on connections, reloading, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import polars as pl
import psutil
import pytest

from tabapp.cli.main import run_command_line
from tests.serve.serving import CSV, serving, until
from tests.waiting import HANG_SECONDS, wait_until

USAGE, BUNDLE = 2, 5
GOOD = {"size": 0.5, "age": 40, "color": "red", "joined": "2024-02-03"}
N_CLIENTS = int(os.environ.get("TABAPP_CLIENTS", "32"))


@pytest.fixture
def place(tmp_path, bundles):
    """A folder with a copy of the binary bundle."""
    shutil.copy(bundles["binary"], tmp_path / "model.tabapp")
    return tmp_path


def replace(path, content: bytes) -> None:
    """Replace a file as `tabapp export` does."""
    temporary = path.with_suffix(".new")
    temporary.write_bytes(content)
    temporary.rename(path)


def exchange(server, *parts: bytes, pause: float = 0.0) -> bytes:
    """Send bytes over a connection and return everything that the server answers."""
    with socket.create_connection((server.host, server.port), timeout=HANG_SECONDS) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer


def test_agreement_limits_reload_and_stop(place, bundles, rows, tmp_path):
    """One process for all of it, because a start takes seconds."""
    table = rows["binary"].drop("outcome")
    table.write_csv(tmp_path / "rows.csv")
    assert (
        run_command_line(
            ["predict", str(place / "model.tabapp"), str(tmp_path / "rows.csv"), "-q", "-o", str(tmp_path / "out.csv")]
        )
        == 0
    )
    expected = (tmp_path / "out.csv").read_bytes()
    with serving(place / "model.tabapp", "--timeout", "1s", "--max-body", "100KiB", log=tmp_path / "log") as server:
        assert_formats_agree(server, table, expected)
        assert_bad_connections_are_refused(server)
        assert len(load(server, 8, 0.5)) >= 8
        assert_a_killed_model_process_is_restarted(server)
        assert_a_replaced_bundle_is_loaded(server, place, bundles)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(HANG_SECONDS) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()
    assert_no_process_is_left(place)


def assert_formats_agree(server, table, expected: bytes) -> None:
    assert server.ask("POST", "/predict", table.write_csv().encode(), CSV).content == expected
    arrow = BytesIO()
    table.write_ipc(arrow)
    kind = "application/vnd.apache.arrow.file"
    answer = server.ask("POST", "/predict", arrow.getvalue(), {"Content-Type": kind, "Accept": "text/csv"})
    assert answer.content == expected
    as_rows = server.ask("POST", "/predict", {"rows": table.to_dicts()}, {"Accept": "text/csv"})
    assert as_rows.content == expected
    numbers = pl.read_csv(BytesIO(expected)).select(pl.exclude("prediction")).rows()
    found = server.ask("POST", "/predict", {"rows": table.to_dicts()}).json["predictions"]
    assert [tuple(row["probabilities"].values()) for row in found] == numbers


def assert_bad_connections_are_refused(server) -> None:
    host = b"Host: 127.0.0.1\r\n"
    late_header = exchange(server, b"POST /predict HTTP/1.1\r\n")
    assert late_header.startswith(b"HTTP/1.1 408")
    late_body = exchange(
        server, b"POST /predict HTTP/1.1\r\n" + host + b"Content-Type: text/csv\r\nContent-Length: 50\r\n\r\nab"
    )
    assert late_body.startswith(b"HTTP/1.1 408")
    assert b"did not arrive within 1 s" in late_body
    assert exchange(server, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n").startswith(b"HTTP/1.1 400")
    long_header = exchange(server, b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 100_000)
    assert long_header.startswith(b"HTTP/1.1 431")
    smuggled = exchange(
        server,
        b"POST /predict HTTP/1.1\r\n"
        + host
        + b"Content-Type: text/csv\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n"
        b"\r\n0\r\n\r\nGET /bundles HTTP/1.1\r\n" + host + b"\r\n",
    )
    assert smuggled.startswith(b"HTTP/1.1 400")
    assert smuggled.count(b"HTTP/1.1") == 1
    for content in (b"x" * 3_000_000, iter([b"x" * 1_000_000] * 3)):
        giant = server.ask("POST", "/predict", content, CSV)
        assert giant.status == 413
        assert "102,400 bytes" in giant.error
    for answer in (late_header, late_body, long_header):
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"].endswith(".")
    assert server.ask("POST", "/predict", {"rows": [GOOD]}).status == 200


def assert_a_killed_model_process_is_restarted(server) -> None:
    before = server.ask("POST", "/predict", {"rows": [GOOD]}).json
    # The other child decodes bodies, and is replaced by the next one.
    for child in psutil.Process(server.process.pid).children():
        is_model = "tabapp.bundle.confined.box_child" in child.cmdline()
        child.kill()
        if is_model:
            child.wait()
    answer = server.ask("POST", "/predict", {"rows": [GOOD]})
    assert answer.status == 503
    assert "restarted" in answer.error
    until(server, lambda found: found["model"]["status"] == "ok")
    assert server.ask("POST", "/predict", {"rows": [GOOD]}).json == before
    table = pl.DataFrame([GOOD]).write_csv().encode()
    headers = {**CSV, "Accept": "application/json"}
    wait_until(lambda: server.ask("POST", "/predict", table, headers).json == before, "the process that decodes bodies")


def assert_a_replaced_bundle_is_loaded(server, place, bundles) -> None:
    path = place / "model.tabapp"
    good = path.read_bytes()
    loaded = server.ask("GET", "/schema").json["sha256"]
    replace(path, good[: len(good) // 2])
    found = until(server, lambda found: found["model"]["problem"])
    assert "was refused" in found["model"]["problem"]
    assert "tabapp-serve" not in found["model"]["problem"]
    assert found["model"]["sha256"] == loaded
    assert server.ask("POST", "/predict", {"rows": [GOOD]}).status == 200
    replace(path, bundles["regression"].read_bytes())
    until(server, lambda found: found["model"]["sha256"] != loaded)
    answer = server.ask("POST", "/predict", {"rows": [GOOD]})
    assert set(answer.json["predictions"][0]) == {"prediction", "low", "high"}
    assert server.ask("GET", "/schema").json["task"] == "regression"
    assert answer.headers["x-tabapp-bundle"] == server.ask("GET", "/schema").json["sha256"]


def assert_no_process_is_left(place) -> None:
    def left() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or [])
            if str(place) in line:
                found.append(process)
        return found

    wait_until(lambda: not left(), "the end of the server and its model processes")


def one_sentence(capsys) -> str:
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["model.tabapp", "--host", "0.0.0.0"], USAGE, "a token is required"),
        (["model.tabapp", "--host", "no such host"], USAGE, "is not an address"),
        (["model.tabapp", "--token", ""], USAGE, "The token is not valid"),
        (["model.tabapp", "--token", "é"], USAGE, "The token is not valid"),
        (["model.tabapp", "--token-file", "none"], USAGE, "--token-file none cannot be read"),
        (["model.tabapp", "--token-file", "empty"], USAGE, "The token is not valid"),
        (["model.tabapp", "--token-file", "empty", "--token", "a"], USAGE, "exclude each other"),
        (["model.tabapp", "./model.tabapp"], USAGE, "Two bundles are named 'model'"),
        (["=model.tabapp"], USAGE, "gives no name"),
        (["a/b=model.tabapp"], USAGE, "without slashes"),
        (["none.tabapp"], BUNDLE, "none.tabapp"),
        (["rows.csv"], BUNDLE, "rows.csv is not a tabapp bundle"),
        (["model.tabapp", "--workers", "0"], USAGE, "--workers"),
        ([], USAGE, "Missing argument"),
    ],
)
def test_a_start_that_cannot_work_is_refused(place, monkeypatch, capsys, arguments, code, part):
    monkeypatch.chdir(place)
    (place / "rows.csv").write_text("a,b\n1,2\n")
    (place / "empty").write_text("\n")
    assert run_command_line(["serve", *arguments, "--port", "0"]) == code
    assert part in one_sentence(capsys)


def test_a_used_port_and_a_missing_extra_are_reported(place, monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run_command_line(["serve", str(place / "model.tabapp"), "--port", str(port)]) == USAGE
    assert f"port {port} cannot be used" in one_sentence(capsys)
    for name in [name for name in sys.modules if name.startswith("tabapp.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run_command_line(["serve", str(place / "model.tabapp")]) == USAGE
    assert "`pip install 'tabapp[serve]'`" in one_sentence(capsys)


def load(server, n_clients: int, seconds: float) -> list[float]:
    """Send rows from many clients for a while; returns the seconds of each request, all of which must succeed."""
    end = time.monotonic() + seconds
    durations: list[float] = []

    def client(number: int) -> None:
        while True:
            start = time.monotonic()
            row = {**GOOD, "age": 20 + number}
            answer = server.ask("POST", "/predict", {"rows": [row] * (1 + number % 5)})
            assert answer.status == 200, answer
            assert len(answer.json["predictions"]) == 1 + number % 5
            durations.append(time.monotonic() - start)
            if time.monotonic() > end:
                return

    with ThreadPoolExecutor(n_clients) as pool:
        list(pool.map(client, range(n_clients)))
    return durations


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_memory_is_flat_under_the_load_of_many_clients(place, tmp_path):
    def resident(server) -> int:
        process = psutil.Process(server.process.pid)
        return sum(each.memory_info().rss for each in (process, *process.children()))

    with serving(place / "model.tabapp", log=tmp_path / "log") as server:
        load(server, N_CLIENTS, 10)
        before = resident(server)
        durations = sorted(load(server, N_CLIENTS, 50))
        after = resident(server)
    percentile = statistics.quantiles(durations, n=100)
    print(
        f"{len(durations):,} requests of {N_CLIENTS} clients: p50 {1000 * percentile[49]:.0f} ms, "
        f"p99 {1000 * percentile[98]:.0f} ms, memory {before >> 20} MiB, later {after >> 20} MiB"
    )
    assert after < 1.1 * before + 20 * 2**20


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_contract_holds_for_generated_requests(place, tmp_path):
    """schemathesis generates requests from the OpenAPI document."""
    pytest.importorskip("schemathesis")
    checks = (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    )
    with serving(place / "model.tabapp", "--token", "secret", log=tmp_path / "log") as server:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"http://{server.host}:{server.port}/openapi.json"),
            *("-H", "Authorization: Bearer secret", "--checks", ",".join(checks), "--max-examples", "100"),
            *("--phases", "examples,coverage,fuzzing", "--seed", "1", "--no-color"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=HANG_SECONDS)
        print(done.stdout)
        assert done.returncode == 0, done.stdout
        assert server.ask("GET", "/health").json["status"] == "ok"
