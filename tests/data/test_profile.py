"""`tabapp profile`: the contents of its JSON and its printed form, and the effect of its options."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tabapp.cli.main import run_command_line


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    rows = [
        f"{i};{i % 9},5;{['red', 'blue', 'none yet'][i % 3]};{(i * 7) % 4};{['no', 'yes'][(i * i) % 3 % 2]}"
        for i in range(90)
    ]
    path.write_text("\n".join(["id;size;color;grade;bought", *rows]) + "\n")
    return path


def profiled(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run_command_line(["profile", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_the_documented_keys(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = profiled(capsys, str(table))
    assert {"file", "rows", "reading", "columns", "target", "task", "metric", "warnings"} <= facts.keys()
    assert facts["rows"] == 90
    assert facts["reading"]["delimiter"] == ";"  # type: ignore[index]
    columns = {column["name"]: column for column in facts["columns"]}  # type: ignore[attr-defined]
    assert {name: column["kind"] for name, column in columns.items()} == {
        "id": "identifier", "size": "numeric", "color": "categorical", "grade": "numeric", "bought": "boolean",
    }  # fmt: skip
    assert (columns["size"]["low"], columns["size"]["high"]) == (0.5, 8.5)
    assert (facts["target"], facts["task"], facts["metric"]) == ("bought", "binary", "roc_auc")
    assert [w["check"] for w in facts["warnings"] if w["column"] == "id"] == ["identifier"]  # type: ignore[attr-defined]


def test_options_take_effect(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = profiled(
        capsys, str(table), "--target", "grade", "--task", "regression", "--kind", "id=numeric", "--ignore", "size",
        "--null", "none yet", "--decimal", ",",
    )  # fmt: skip
    columns = {column["name"]: column for column in facts["columns"]}  # type: ignore[attr-defined]
    assert (columns["id"]["kind"], columns["id"]["overridden"]) == ("numeric", True)
    assert columns["size"]["role"] == "ignore"
    assert columns["color"]["missing"] == 30
    assert (facts["target"], facts["task"]) == ("grade", "regression")


def test_a_task_that_does_not_exist_is_rejected(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["profile", str(table), "--task", "regresion"]) == 2
    assert "--task 'regresion' is not known; did you mean 'regression'?" in capsys.readouterr().err


def test_a_test_file_is_compared(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.csv"
    other.write_text(table.read_text().replace("red", "violet").replace("blue", "pink").replace("none yet", "gray"))
    facts = profiled(capsys, str(table), "--test", str(other))
    assert [w["column"] for w in facts["warnings"] if w["check"] == "drift"] == ["color"]  # type: ignore[attr-defined]


def test_printed_profile(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["profile", str(table)]) == 0
    shown = capsys.readouterr().out
    assert "90 rows × 5 columns" in shown
    assert "red, blue, none yet" in shown
    assert "⚠ identifier  id:" in shown
    wide = tmp_path / "wide.csv"
    header = ",".join([*(f"f{i}" for i in range(60)), "y"])
    wide.write_text(
        header + "\n" + "".join(f"{','.join(str(i * j % 17) for j in range(60))},{i % 2}\n" for i in range(50))
    )
    assert run_command_line(["profile", str(wide)]) == 0
    shown = capsys.readouterr().out
    assert "and 21 more; --all lists every column" in shown
    assert len(shown.splitlines()) < 110
    assert run_command_line(["profile", str(wide), "--all"]) == 0
    assert "f59" in capsys.readouterr().out


def test_stdin_is_read(table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = profiled(capsys, str(table))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table.read_bytes())))
    assert profiled(capsys, "-") == wanted | {"file": "-"}


def test_empty_stdin_is_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert run_command_line(["profile", "-"]) == 3
    assert "stdin: is empty" in capsys.readouterr().err


@pytest.mark.parametrize("quoted", [False, True])
def test_large_file_is_sampled_first(tmp_path: Path, capsys: pytest.CaptureFixture[str], quoted: bool) -> None:
    path = tmp_path / "large.csv"
    color = '"red\nand blue"' if quoted else "red"
    block = "".join(f"{i * 7 % 1009},{i * 0.37:.3f},{color if i % 3 else 'green'},{i % 2}\n" for i in range(5000))
    path.write_text("a,b,color,y\n" + block * 110)
    assert run_command_line(["profile", str(path), "--json"]) == 0
    shown = capsys.readouterr()
    facts = json.loads(shown.out)
    first = shown.err.splitlines()
    assert "a first look at" in first[0]
    assert "columns a numeric, b numeric, color categorical, y boolean" in first
    about = int(first[0].split("of about ")[1].split(" rows")[0].replace(",", ""))
    assert abs(about - facts["rows"]) < 0.1 * facts["rows"]
    assert int(first[0].split("look at ")[1].split(" of")[0].replace(",", "")) < 0.2 * facts["rows"]
