"""The pager process: its replies to a screen and its exit with the screen."""

from __future__ import annotations

import json
import subprocess
import sys

import polars as pl
import pytest

from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.messages import VERSION
from tests.waiting import HANG_SECONDS

N = 3_000


class PagerClient:
    def __init__(self, run):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tabapp.processes.pager", str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.last = 0

    def send(self, *requests):
        lines = []
        for request in requests:
            self.last += 1
            lines.append(json.dumps({"id": self.last, **request}))
        self.process.stdin.write(("\n".join(lines) + "\n").encode())
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def __call__(self, what, **arguments):
        self.send({"ask": what, **arguments})
        answer = self.answer()
        assert answer.pop("id") == self.last
        assert answer.pop("v") == VERSION
        return answer


@pytest.fixture
def run(tmp_path):
    data = tmp_path / "numbers.csv"
    data.write_text("n,word\n" + "".join(f"{i},{'odd' if i % 2 else 'even'}\n" for i in range(N)))
    RunFolder(tmp_path).save_config(RunConfig(data=str(data)))
    return tmp_path


@pytest.fixture
def ask(run):
    client = PagerClient(run)
    yield client
    with client.process as process:
        process.stdin.close()
        assert process.wait(HANG_SECONDS) == 0


def page(start, count=2):
    return {"ask": "page", "start": start, "count": count, "first_column": 0, "columns": 2}


def test_browsing_a_table(ask):
    assert ask("head", count=2) == {
        "reply": "head",
        "names": ["n", "word"],
        "cells": [["0", "even"], ["1", "odd"]],
        "about": None,
    }
    opened = ask("open")
    assert (opened["names"], opened["rows"], opened["height"], opened["note"]) == (["n", "word"], N, N, "")
    assert ask(what="page", start=N - 2, count=9, first_column=1, columns=1) == {
        "reply": "page",
        "numbers": [N - 2, N - 1],
        "cells": [["even"], ["odd"]],
    }
    assert ask("find", text="77", start=100, direction=1) == {"reply": "found", "row": 177, "column": 0}
    assert ask("find", text="nowhere", start=0, direction=1) == {"reply": "found", "row": None, "column": 0}
    odd = {"column": "word", "operator": "=", "value": "odd", "number": None, "negated": False}
    assert ask("filter", conditions=[odd]) == {"reply": "height", "height": N // 2}
    assert ask("sort", column=0, descending=True) == {"reply": "height", "height": N // 2}
    assert ask("cell", row=0, column=0) == {"reply": "cell", "text": str(N - 1)}
    assert ask("cancel") == {"reply": "canceled"}


def test_invalid_requests_are_rejected_by_name(ask):
    assert "Unknown pager request 'dance'" in ask("dance")["message"]
    assert "'page' has no field 'columns_'; did you mean 'columns'?" in ask("page", columns_=0)["message"]
    assert "'page' is invalid" in ask("page", start="x")["message"]


def test_only_the_last_of_several_waiting_pages_is_answered(ask):
    ask("open")
    # The pager reads several lines of one write together, so the page requests are pending at the same time.
    ask.send(page(0), page(10), page(20), {"ask": "cell", "row": 0, "column": 0})
    answers = [ask.answer() for _ in range(4)]
    assert answers[2]["numbers"] == [20, 21]
    assert answers[3]["text"] == "0"
    assert all("numbers" in answer or answer["reply"] == "stale" for answer in answers[:2])


def test_a_run_from_elsewhere_shows_only_files_of_its_folder(run, tmp_path_factory):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.csv"
    secret.write_text("password\nhunter2\n")
    (run / "run.json").write_text(json.dumps({"data": str(secret)}))
    client = PagerClient(run)
    with client.process as process:
        assert not client("head", count=2).get("names")
        assert str(run / "secret.csv") in client("open")["message"]
        process.stdin.close()


def test_missing_file_is_reported_or_replaced_by_saved_rows(run):
    (run / "numbers.csv").unlink()
    client = PagerClient(run)
    assert "there is no such file" in client("open")["message"]
    (run / "data").mkdir()
    pl.DataFrame({"n": [1.0, 2.0]}).write_ipc(run / "data" / "table.arrow")
    opened = client("open")
    assert (opened["names"], opened["rows"]) == (["n"], 2)
    assert "models were trained on" in opened["note"]
    with client.process as process:
        process.stdin.close()
        assert process.wait(HANG_SECONDS) == 0


def test_changed_file_is_reported(run):
    (run / "data").mkdir()
    (run / "data" / "fingerprint.json").write_text(json.dumps({"bytes": 7}))
    client = PagerClient(run)
    assert "has changed" in client("open")["note"]
    with client.process as process:
        process.stdin.close()
        assert process.wait(HANG_SECONDS) == 0


def test_pager_exits_with_its_input_even_during_a_read(run):
    client = PagerClient(run)
    client.send({"ask": "open"})
    with client.process as process:
        process.stdin.close()
        assert process.wait(HANG_SECONDS) == 0


def test_folder_that_is_not_a_run_is_rejected(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tabapp.processes.pager", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "is not a run folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def labeled(tmp_path):
    data = tmp_path / "labeled.csv"
    data.write_text("n,word,y\n" + "".join(f"{i},{'odd' if i % 2 else 'even'},{int(i >= N / 2)}\n" for i in range(N)))
    RunFolder(tmp_path).save_config(RunConfig(data=str(data), target="y", kinds={"n": "numeric"}))
    client = PagerClient(tmp_path)
    yield client, RunFolder(tmp_path)
    with client.process as process:
        process.stdin.close()
        assert process.wait(HANG_SECONDS) == 0


def test_a_column_is_inspected_with_the_options_of_the_current_plan(labeled):
    ask, folder = labeled
    reply = ask("inspect", column="n")
    assert (reply["reply"], reply["groups"], reply["rows"]) == ("inspected", ["0", "1"], [N // 2, N // 2])
    assert reply["bins"][0]["counts"] == [N // 10, 0]
    assert reply["association"] > 0.99
    folder.save_config(RunConfig(data=folder.config().data, target="word", kinds={"n": "numeric"}))
    assert set(ask("inspect", column="n")["groups"]) == {"odd", "even"}
    assert ask("inspect", column="no such")["reply"] == "failed"
    assert set(ask("rate")["associations"]) == {"n", "y"}
