"""Any text that a table can contain, as the name of a column, a level or a class label, through every format of predictions."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tabapp.bundle.files.card import model_card
from tabapp.bundle.prediction.load import LoadedBundle, load_bundle
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.output import write_table
from tabapp.data.formulas import MARK, without_formulas
from tabapp.data.infer import infer_schema
from tabapp.data.limits import MemoryLimit
from tabapp.data.reading.dialect import unique_names
from tabapp.data.reading.read import ReadOptions, read_text
from tabapp.errors import DataError
from tabapp.serve.bodies import ARROW, CSV, JSON, PARQUET, decode_file, encode_predictions
from tabapp.serve.limits import Limits
from tests.bundle import making

FIXED = (
    '5"', '6"', 'a"x', '"', '""', "b,c", "new\nline", " sp ", "a\rb", "tab\tbed", "nul\0", "\ufeffbom", "\\", "\\N{x}", "=1+1",
    "+a", "-b", "@c", "'d", "prediction", "probability_x", "low", "[red]", "[/b]", "*", "^a$", "\U0001f600", "e\u0301", "\u2028",
    "a;b", "#", "{0}", "%s", "$x", "`x`", "<b>", "&amp;", "|", "](x)",
)  # fmt: skip
CONTROLS = re.compile(r"[\0-\x08\x0e-\x1f\ufeff]")
ODD = st.text(st.sampled_from("ab\",;\n\r\t \0\ufeff=+-@\\'#[]{}|<&😀"), min_size=1, max_size=5)
ANY = st.sampled_from(FIXED) | ODD | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)


def distinct(size: int) -> st.SearchStrategy[list[str]]:
    return st.lists(ANY.map(str.strip).filter(bool), min_size=size, max_size=size, unique=True)


@st.composite
def tables(draw) -> pl.DataFrame:
    """A table with a number, a category and two classes, all with odd names, as tabapp reads it from a file."""
    names, _ = unique_names(draw(st.lists(ANY, min_size=3, max_size=3, unique=True)))
    levels, labels = draw(distinct(len(making.COLORS))), draw(distinct(2))
    table = making.text_table("binary", 60).select("size", "color", "outcome")
    table = table.with_columns(
        pl.col("color").replace(dict(zip(making.COLORS, levels, strict=True))),
        pl.col("outcome").replace(dict(zip(("no", "yes"), labels, strict=True))),
    )
    table.columns = list(names)
    return table


@pytest.fixture(scope="module", autouse=True)
def plugins():
    with pytest.MonkeyPatch.context() as patch:
        making.register_linear(patch)
        yield


@pytest.mark.slow
@settings(
    deadline=None,
    derandomize=True,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(tables())
def test_every_format_keeps_every_name(table):
    try:
        schema = infer_schema(table, target=table.columns[-1])
    except DataError:
        assume(False)
    # Texts such as "-" are missing cells, and numbers are no levels.
    assume(
        set(schema.classes) == set(table.to_series(2))
        and [c.kind for c in schema.features] == ["numeric", "categorical"]
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tabapp"
        contents = making.make_contents(Path(folder), frame=table)
        write_bundle(path, contents)
        loaded = load_bundle(path)
        assert loaded.drift == 0
        assert loaded.sample.equals(contents.sample)
        predictions = loaded.predictor.to_frame(loaded.predictor.predict_frame(table))
        assert predictions.columns == ["prediction", *(f"probability_{label}" for label in schema.classes)]
        assert set(predictions["prediction"]) <= set(schema.classes)
        check_files(predictions, Path(folder))
        check_files(predictions.hstack(table.select(pl.all().name.prefix("_"))), Path(folder))
        check_served(loaded, table, predictions, Path(folder))
        check_card(loaded)


def check_files(frame: pl.DataFrame, folder: Path) -> None:
    """Files of every format have the names and texts of a table."""
    texts = [name for name in frame.columns if frame[name].dtype == pl.String]
    for suffix, read in ((".parquet", pl.read_parquet), (".arrow", pl.read_ipc)):
        write_table(frame, folder / f"out{suffix}")
        assert read(folder / f"out{suffix}").equals(frame)
    write_table(frame, folder / "out.jsonl")
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_bytes().split(b"\n") if line]
    assert rows == frame.to_dicts()
    for safe in (False, True):
        write_table(frame, folder / "out.csv", safe_csv=safe)
        content = (folder / "out.csv").read_bytes()
        names, *cells = csv.reader(io.StringIO(content.decode(), newline=""))
        expected = without_formulas(frame) if safe else frame
        assert names == expected.columns
        assert [[row[names.index(name)] for row in cells] for name in texts if name in names] == [
            [cell or "" for cell in expected[name]] for name in texts if name in names
        ]
        assert not safe or not [cell for cell in (*names, *cells[0]) if cell[:1] in ("=", "@", "\t", "\r")], MARK


def check_served(loaded: LoadedBundle, table: pl.DataFrame, predictions: pl.DataFrame, folder: Path) -> None:
    """A server reads the rows and writes the predictions of a table in every format."""
    schema, limits = loaded.contents.schema, Limits()
    rows = table.select(pl.exclude("nothing")).drop(schema.target)
    bodies = {JSON: json.dumps({"rows": rows.to_dicts()}).encode()}
    # Files with control characters count as damaged, and NULs and byte order marks are removed.
    is_text = not CONTROLS.search(rows.write_csv() + predictions.write_csv())
    if is_text:
        bodies[CSV] = rows.write_csv().encode()
    for kind, write in ((ARROW, rows.write_ipc), (PARQUET, rows.write_parquet)):
        content = io.BytesIO()
        write(content)
        bodies[kind] = content.getvalue()
    for kind, body in bodies.items():
        (folder / "body").write_bytes(body)
        found = decode_file(folder / "body", kind, schema, limits).frame
        assert found.equals(rows) or kind == CSV, kind
        assert found.columns == rows.columns, kind
    answer = json.loads(encode_predictions(predictions, JSON, schema, ()))["predictions"]
    assert [each["prediction"] for each in answer] == predictions["prediction"].to_list()
    assert list(answer[0]["probabilities"]) == list(schema.classes)
    text = encode_predictions(predictions, CSV, schema, ()).decode()
    assert next(csv.reader(io.StringIO(text, newline=""))) == predictions.columns
    if not is_text:
        return
    reading = read_text(text.encode(), Path("answer"), ReadOptions(delimiter=","), MemoryLimit(Path("answer"), 1 << 30))
    assert reading.frame.columns == list(unique_names(predictions.columns)[0])


def check_card(loaded: LoadedBundle) -> None:
    """The card of a bundle has the lines of every other card, with the names in their cells."""
    contents = loaded.contents
    card = model_card(contents.manifest, contents.schema, contents.ensemble)
    rows = [line for line in card.splitlines() if line.endswith((" input |", " |")) and "| feature |" in line]
    assert len(rows) == len(contents.schema.features)
    assert "<b>" not in card
