"""The reader process: what a screen asks of it, and that it does not stay behind."""

from __future__ import annotations

import json
import subprocess
import sys

import polars as pl
import pytest

from tests.waiting import HANG_SECONDS

N = 3_000


class Asked:
    def __init__(self, run):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tabapp.pager", str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
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
        return answer


@pytest.fixture
def run(tmp_path):
    data = tmp_path / "numbers.csv"
    data.write_text("n,word\n" + "".join(f"{i},{'odd' if i % 2 else 'even'}\n" for i in range(N)))
    (tmp_path / "run.json").write_text(json.dumps({"data": str(data)}))
    return tmp_path


@pytest.fixture
def ask(run):
    asked = Asked(run)
    yield asked
    asked.process.stdin.close()
    assert asked.process.wait(HANG_SECONDS) == 0


def page(start, count=2):
    return {"ask": "page", "start": start, "count": count, "first_column": 0, "columns": 2}


def test_a_table_is_looked_through(ask):
    assert ask("head", count=2) == {"names": ["n", "word"], "cells": [["0", "even"], ["1", "odd"]], "about": None}
    opened = ask("open")
    assert (opened["names"], opened["rows"], opened["height"], opened["note"]) == (["n", "word"], N, N, "")
    assert ask(what="page", start=N - 2, count=9, first_column=1, columns=1) == {
        "numbers": [N - 2, N - 1],
        "cells": [["even"], ["odd"]],
    }
    assert ask("find", text="77", start=100, direction=1) == {"row": 177, "column": 0}
    assert ask("find", text="nowhere", start=0, direction=1) == {"row": None}
    odd = {"column": "word", "operator": "=", "value": "odd", "number": None, "negated": False}
    assert ask("filter", conditions=[odd]) == {"height": N // 2}
    assert ask("sort", column=0, descending=True) == {"height": N // 2}
    assert ask("cell", row=0, column=0) == {"text": str(N - 1)}
    assert "could not be understood" in ask("dance")["error"]
    assert "could not be understood" in ask("page", start="x")["error"]


def test_of_pages_that_were_scrolled_by_only_the_last_is_answered(ask):
    ask("open")
    # One write of several lines is read in one go, so the first pages wait beside the last.
    ask.send(page(0), page(10), page(20), {"ask": "cell", "row": 0, "column": 0})
    answers = [ask.answer() for _ in range(4)]
    assert answers[2]["numbers"] == [20, 21]
    assert answers[3]["text"] == "0"
    assert all("numbers" in answer or answer == {"id": answer["id"], "stale": True} for answer in answers[:2])


def test_a_file_that_is_gone_is_told_or_replaced_by_the_rows_of_the_fits(run):
    (run / "numbers.csv").unlink()
    asked = Asked(run)
    assert "there is no such file" in asked("open")["error"]
    (run / "data").mkdir()
    pl.DataFrame({"n": [1.0, 2.0]}).write_ipc(run / "data" / "table.arrow")
    opened = asked("open")
    assert (opened["names"], opened["rows"]) == (["n"], 2)
    assert "models learned from" in opened["note"]
    asked.process.stdin.close()
    assert asked.process.wait(HANG_SECONDS) == 0


def test_a_file_that_has_changed_is_told(run):
    (run / "data").mkdir()
    (run / "data" / "fingerprint.json").write_text(json.dumps({"bytes": 7}))
    asked = Asked(run)
    assert "has changed" in asked("open")["note"]
    asked.process.stdin.close()
    assert asked.process.wait(HANG_SECONDS) == 0


def test_it_ends_with_its_input_whatever_it_does(run):
    asked = Asked(run)
    asked.send({"ask": "open"})
    asked.process.stdin.close()
    assert asked.process.wait(HANG_SECONDS) == 0


def test_what_is_no_run_folder_is_said_in_a_sentence(tmp_path):
    done = subprocess.run([sys.executable, "-m", "tabapp.pager", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 2
    assert "is no run folder" in done.stderr
    assert "Traceback" not in done.stderr
