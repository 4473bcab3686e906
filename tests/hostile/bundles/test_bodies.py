"""Small bodies that need gigabytes are refused in a sentence: the server survives and answers other clients meanwhile."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import polars as pl
import psutil
import pytest

from tabapp.bundle.writing.write import write_bundle
from tests.bundle.making import make_contents, register_linear
from tests.hostile.bodies import BODIES, CSV
from tests.waiting import HANG_SECONDS

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

from tabapp.bundle.files.contents import open_bundle
from tabapp.serve.decoding import Decoder
from tabapp.serve.limits import Limits, RequestError
from tests.serve.serving import decode_here, serving, until

GOOD = {"size": 0.5, "age": 40, "color": "red", "joined": "2024-02-03"}
SMALL = 1 / 16
"""Scale of the bodies in the short tests; the memory that may be used has the same."""


@pytest.fixture(autouse=True)
def linear_plugin(monkeypatch):
    register_linear(monkeypatch)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        write_bundle(folder / "model.tabapp", make_contents(folder, "binary"))
    return folder / "model.tabapp"


def resident(server) -> int:
    """Bytes of the server and its processes."""
    total = 0
    process = psutil.Process(server.process.pid)
    for each in (process, *process.children(recursive=True)):
        try:
            total += each.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def growth_and_answer(server, body, scale):
    """Send a body; returns the growth of the memory meanwhile and the answer. Other clients must be answered meanwhile."""
    content = body.make(scale)
    before = most = resident(server)
    answers = []

    def send() -> None:
        answers.append(server.ask("POST", "/predict?missing_columns=fill", content, {"Content-Type": body.kind}))

    thread = threading.Thread(target=send)
    thread.start()
    while thread.is_alive():
        assert server.ask("POST", "/predict", {"rows": [GOOD]}).status == 200
        most = max(most, resident(server))
        time.sleep(0.01)
    thread.join()
    return most - before, answers[0]


def assert_survived(server, log: Path, scale: float, most_bytes: int) -> None:
    server.ask("POST", "/predict", b"size,age,color,joined\n1,2,red,2024-01-01\n", {"Content-Type": CSV})
    for name, body in BODIES.items():
        growth, answer = growth_and_answer(server, body, scale)
        print(f"{name}: {growth >> 20} MiB, {answer.status} {answer.content[:120]}")
        assert answer.status in (200, 413, 422), name
        assert answer.status == 200 or answer.error
        assert growth < most_bytes, (name, growth)
    # No process had to be killed for a body: the estimates came first.
    assert "restarted" not in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_the_server_survives_small_bodies_that_need_gigabytes(bundle, tmp_path):
    limits = ("--max-memory", "64MiB", "--max-rows", "1000000")
    with serving(bundle, *limits, log=tmp_path / "log") as server:
        assert_survived(server, tmp_path / "log", SMALL, 2**28)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("options", [(), ("--max-rows", "1000000")])
def test_the_server_survives_bodies_of_full_size(bundle, tmp_path, options):
    with serving(bundle, *options, log=tmp_path / "log") as server:
        assert_survived(server, tmp_path / "log", 1.0, 2**30)


def test_a_body_that_ends_its_process_is_one_sentence(bundle, tmp_path, monkeypatch):
    """As if an estimate were wrong and the process ended at its limit."""
    monkeypatch.setenv("KEY_OF_A_CLOUD", "secret")
    with serving(bundle, log=tmp_path / "log") as server:
        table = b"size,age,color,joined\n" + b"1,2,red,2024-01-01\n" * 500
        assert server.ask("POST", "/predict", table, {"Content-Type": CSV}).status == 200
        (decoder,) = [
            child
            for child in psutil.Process(server.process.pid).children()
            if "tabapp.serve.decoder" in child.cmdline()
        ]
        assert "KEY_OF_A_CLOUD" not in decoder.environ()
        if sys.platform == "linux":
            for task in Path(f"/proc/{decoder.pid}/task").iterdir():
                assert "Seccomp:\t2" in (task / "status").read_text()
        decoder.suspend()
        answers = []
        thread = threading.Thread(
            target=lambda: answers.append(server.ask("POST", "/predict", table, {"Content-Type": CSV}))
        )
        thread.start()
        assert server.ask("POST", "/predict", {"rows": [GOOD]}).status == 200
        decoder.kill()
        thread.join(HANG_SECONDS)
        assert answers[0].status in (200, 413)
        assert server.ask("POST", "/predict", table, {"Content-Type": CSV}).status == 200
        assert until(server, lambda found: found["model"]["status"] == "ok")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits private memory")
def test_the_memory_of_the_process_is_limited_whatever_the_estimates_are(bundle):
    schema = open_bundle(bundle).schema
    log = []
    decoder = Decoder(Limits(max_memory=2**24), log.append)
    try:
        table = b"size,age,color,joined\n" + b"1,2,red,2024-01-01\n" * 10
        assert decoder.decode(table, CSV, schema, Limits()).frame.height == 10
        long = b"size,age,color,joined\n" + b"1,2,red,2024-01-01\n" * 800_000
        with pytest.raises(RequestError) as raised:
            decoder.decode(long, CSV, schema, Limits(max_rows=10**6))
        assert raised.value.status == 413
        assert decoder.decode(table, CSV, schema, Limits()).frame.height == 10
    finally:
        decoder.close()


def test_tables_are_the_same_in_the_process_and_here(bundle):
    schema = open_bundle(bundle).schema
    decoder = Decoder(Limits(), print)
    try:
        table = pl.DataFrame({"size": [1.5, None], "color": ["\U0001f600é", ""], "note": ["x", "y"]})
        content = table.write_csv().encode()
        here, there = decode_here(content, CSV, schema, Limits()), decoder.decode(content, CSV, schema, Limits())
        known = ["size", "color"]
        assert there.frame[known].equals(here.frame[known])
        assert there.frame.columns == here.frame.columns
        assert there.notes == here.notes
        for damaged in (b'size,color\n"1,2\n', b"<html>"):
            with pytest.raises(RequestError) as expected:
                decode_here(damaged, CSV, schema, Limits())
            with pytest.raises(RequestError) as found:
                decoder.decode(damaged, CSV, schema, Limits())
            assert (found.value.status, found.value.message) == (expected.value.status, expected.value.message)
    finally:
        decoder.close()
