"""New rows compared with training by the server."""

from __future__ import annotations

import json

import polars as pl
import pytest

from tabapp.serve import bundles as bundles_module
from tabapp.serve.access import Access
from tabapp.serve.app import Application
from tabapp.serve.bundles import Bundles
from tabapp.serve.limits import Limits
from tests.serve.serving import CSV, call, decode_here, load_here

GOOD = {"size": 0.5, "age": 40, "color": "red", "joined": "2024-02-03"}


@pytest.fixture
def app(monkeypatch, bundles):
    monkeypatch.setattr(bundles_module, "load_boxed", load_here)
    log = []
    loaded = Bundles({"binary": bundles["binary"]}, n_processes=1, trust=None, log=log.append)
    application = Application(loaded, Limits(), Access(), decode_here, log.append, log.append)
    yield application.asgi()
    application.close()
    loaded.close()


def test_rows_that_differ_from_training_are_noted_or_refused(app):
    rows = [{**GOOD, "age": 40_000}] * 3
    table = pl.DataFrame(rows).cast(pl.String).write_csv().encode()
    (note,) = call(app, "POST", "/predict", body={"rows": rows}).json["notes"]
    assert "'age' has 3 of 3 values outside of the training range" in note
    assert call(app, "POST", "/predict", CSV, table).headers["x-tabapp-notes"] == json.dumps([note])
    assert "x-tabapp-notes" not in call(app, "POST", "/predict", CSV, table.replace(b"40000", b"40")).headers
    for address in ("/predict?strict=true", "/explain?strict=true"):
        refused = call(app, "POST", address, body={"rows": rows})
        assert refused.status == 422
        assert "'age' has 3 of 3 values" in refused.error
        assert "Omit ?strict" in refused.error
        assert call(app, "POST", address, body={"rows": [GOOD] * 3}).status == 200
    assert call(app, "POST", "/predict?strict=yes", body={"rows": [GOOD]}).status == 400


def test_the_decimal_mark_of_a_table_is_detected_or_given(app):
    rows = [{**GOOD, "age": age} for age in (40.125, 41.25, 42.75)]
    points = pl.DataFrame(rows).cast(pl.String)
    commas = points.with_columns(pl.col("age", "size").str.replace(".", ",", literal=True))
    expected = call(app, "POST", "/predict", CSV, points.write_csv().encode())
    found = call(app, "POST", "/predict", CSV, commas.write_csv(separator=";").encode())
    assert found.content == expected.content
    assert "?decimal=." in found.headers["x-tabapp-notes"]
    given = call(app, "POST", "/predict?decimal=,", CSV, commas.write_csv(separator=";").encode())
    assert given.content == expected.content
    assert "x-tabapp-notes" not in given.headers
    assert call(app, "POST", "/predict?decimal=;", CSV, commas.write_csv().encode()).status == 400
