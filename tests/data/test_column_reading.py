"""The profile as a contract: how each column is read, with counts, as docs/reference/profile.md says."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import polars as pl
import pytest

from tabapp.api.profiling import profile
from tabapp.data.column_reading import ColumnReading
from tabapp.data.profile import ColumnProfile, Profile

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "profile.md"
N = 240


def table() -> pl.DataFrame:
    """A column of each form, as text."""
    rows = range(N)
    odd = {3: "hemolyzed", 8: "", 9: "NA", 10: "?", 14: "?"}
    columns = {
        "lab": [odd.get(i, f"<0,{i % 7 + 1}0" if i % 4 == 0 else f"1.{100 + i},5{i % 10}") for i in rows],
        "end": ["9999-12-31" if i % 3 == 0 else f"2023-{1 + i % 12:02}-{1 + i % 28:02}" for i in rows],
        "sent": [f"2024-02-{1 + i % 28:02}T10:00:{i % 60:02}{'Z' if i % 2 else ''}" for i in rows],
        "took": [f"{i % 5}:{i % 60:02}:{i * 7 % 60:02}" for i in rows],
        "land": [("DE", "FR", "US", "ZA", "AO", "NA")[i * i % 6 if i % 5 else i % 6] for i in rows],
        "paid": [("yes", "no", "")[i % 3 if i % 2 else 0] for i in rows],
        "nothing": ["" for _ in rows],
        "y": [("red", "green", "blue")[i % 3] if i % 10 else "unknown" if i % 20 else "" for i in rows],
    }
    return pl.DataFrame({name: [cell or None for cell in cells] for name, cells in columns.items()})


@pytest.fixture(params=["csv", "parquet"])
def found(request: pytest.FixtureRequest, tmp_path: Path) -> Profile:
    path = tmp_path / f"t.{request.param}"
    table().write_csv(path) if request.param == "csv" else table().write_parquet(path)
    return profile(path, target="y")


def readings(found: Profile) -> dict[str, ColumnReading]:
    return {column.name: column.reading for column in found.columns}


def test_each_column_states_its_form_its_notation_and_every_text_that_is_no_value(found: Profile) -> None:
    of = readings(found)
    lab = of["lab"]
    assert (lab.form, lab.decimal, lab.thousands) == ("number", ",", ".")
    assert (lab.empty, lab.read_as_missing, lab.set_aside) == (1, {"?": 2, "NA": 1}, {"hemolyzed": 1})
    assert lab.marks == {"<": 59}
    assert lab.marks_column == "lab mark"
    end = of["end"]
    assert (end.form, end.date_form, end.marks, end.values) == ("moment", "iso", {"9999-12-31": 80}, 160)
    assert of["sent"].time_zone == "mixed"
    assert (of["took"].form, of["took"].unit) == ("duration", "h:m:s")
    assert (of["land"].form, of["land"].read_as_missing) == ("text", {})
    assert of["land"].kept == {"NA": table()["land"].to_list().count("NA")}
    assert of["paid"].form == "truth value"
    assert of["nothing"] == ColumnReading(form="empty", empty=N)
    assert of["y"].decimal is None


def test_the_counts_add_up_to_the_rows(found: Profile) -> None:
    for name, each in readings(found).items():
        total = each.values + each.empty + sum(each.read_as_missing.values()) + each.set_aside_cells
        assert total == N, name
        assert each.values == N - next(column for column in found.columns if column.name == name).missing - (
            each.set_aside_cells
        )


def test_counts_have_the_most_frequent_texts_and_the_number_of_all(tmp_path: Path) -> None:
    lines = [f"{i}.5,{'a' if i % 2 else 'b'}" for i in range(9_000)]
    lines += [f"odd {i},a" for i in range(150)] + ["odd 7,a"] * 5
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "\n".join(lines) + "\n")
    x = readings(profile(path, target="y", kind={"x": "numeric"}))["x"]
    assert x.set_aside_cells == 155
    assert len(x.set_aside) == 100
    assert next(iter(x.set_aside.items())) == ("odd 7", 6)


def test_the_page_documents_every_name() -> None:
    page = PAGE.read_text()
    documented = set(re.findall(r"`([a-z_]+)`", page))
    for struct in (Profile, ColumnProfile, ColumnReading):
        missing = {field.name for field in msgspec.structs.fields(struct)} - documented
        assert not missing, struct


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f'"1.{100 + i},50";{i % 2}' for i in range(60)]
    (tmp_path / "orders.csv").write_text("price;paid\n" + "\n".join(rows) + "\n")
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {})
