"""README, docs and the committed benchmark results agree."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks import document, machine
from benchmarks.machine import Results, ResultTable

TABLE = ResultTable(name="speed", columns=["what", "seconds"], right=[1], rows=[["a|b", "1.5"]])
RESULTS = Results(
    benchmark="speed",
    title="Speed",
    source=None,
    command="python -m benchmarks.speed",
    date="2026-01-31",
    machine={"processor": "any", "cores": 2},
    tables=[TABLE],
    results=[1.5],
)
RENDERED = "| what | seconds |\n| --- | ---: |\n| a\\|b | 1.5 |\n"


def test_documents_agree_with_the_results() -> None:
    assert document.outdated() == []


def test_every_marker_is_closed_and_names_a_table() -> None:
    texts = [path.read_text() for path in (document.ROOT / "README.md", *(document.ROOT / "docs").rglob("*.md"))]
    markers = sum(text.count("<!-- results: ") for text in texts)
    assert markers == sum(text.count("<!-- end of results -->") for text in texts) > 10
    assert markers == sum(len(document.MARKED.findall(text)) for text in texts)


def test_a_marked_table_is_replaced_and_other_text_stays() -> None:
    text = "before\n<!-- results: speed -->\nold\n<!-- end of results -->\nafter\n"
    expected = f"before\n<!-- results: speed -->\n\n{RENDERED}\n<!-- end of results -->\nafter\n"
    assert document.fill(text, [RESULTS], "README.md") == expected
    assert document.fill(expected.replace("speed -->", "speed/speed -->"), [RESULTS], "README.md") == expected.replace(
        "speed -->", "speed/speed -->"
    )


def test_an_unknown_table_is_named_with_its_place() -> None:
    text = "<!-- results: nothing -->\n<!-- end of results -->\n"
    with pytest.raises(
        document.UnknownTable, match=r"docs/a\.md: there are no results named 'nothing'; choose from speed"
    ):
        document.fill(text, [RESULTS], "docs/a.md")


def test_a_changed_result_makes_its_documents_outdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "benchmark_module", lambda: "speed")
    (tmp_path / "docs").mkdir()
    readme = tmp_path / "README.md"
    readme.write_text("<!-- results: speed -->\n<!-- end of results -->\n")
    path = tmp_path / "benchmarks" / "results" / "speed.json"

    def measure(seconds: str) -> None:
        machine.write_results(path, {"cores": 2}, ["what", "seconds", "ok"], [["x", seconds, "no"]], [], [1], ["ok"])

    measure("1.0")
    stale = document.outdated(tmp_path)
    assert stale == ["README.md"]
    for file, text in document.documents(tmp_path).items():
        file.write_text(text)
    assert document.outdated(tmp_path) == []
    assert "| x | 1.0 |" in readme.read_text()
    measure("2.0")
    assert document.outdated(tmp_path) == ["README.md"]


def test_each_result_has_a_page_with_its_command_and_table(tmp_path: Path) -> None:
    place = tmp_path / "benchmarks" / "results"
    place.mkdir(parents=True)
    (place / "speed.json").write_bytes(msgspec.json.encode(RESULTS))
    pages = document.pages(tmp_path)
    assert pages.keys() == {"index.md", "speed.md"}
    assert "[Speed](speed.md)" in pages["index.md"]
    assert RENDERED in pages["speed.md"]
    assert RESULTS.command in pages["speed.md"]
    # No file of the project has this name.
    assert "the script has left the project" in pages["speed.md"]


def test_results_that_were_not_measured_name_their_source() -> None:
    for result in document.read_results():
        assert result.tables
        assert all(len(row) == len(table.columns) for table in result.tables for row in table.rows)
        if result.source is None:
            assert result.date
            assert {"processor", "cores", "tabapp", "python"} <= result.machine.keys()
            assert result.results
        else:
            assert "commit d86052d" in result.source
