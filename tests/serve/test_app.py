"""Routes, formats, access and limits of the prediction server, without sockets and model processes."""

from __future__ import annotations

import asyncio
import html.parser
import json
import math
import re
import threading
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO

import msgspec
import polars as pl
import pytest

from tabapp.bundle.prediction.load import load_bundle
from tabapp.errors import BundleError
from tabapp.printable import is_printable
from tabapp.serve import bundles as bundles_module
from tabapp.serve.access import Access
from tabapp.serve.app import Application
from tabapp.serve.bodies import notes_header
from tabapp.serve.bundles import Bundles
from tabapp.serve.limits import Limits, RequestError
from tabapp.serve.slots import Memory, Share
from tests.bundle.test_targets import FIXTURE, WHOLE
from tests.serve.serving import CSV, call, call_async, decode_here, load_here

ARROW = {"Content-Type": "application/vnd.apache.arrow.file"}
PARQUET = {"Content-Type": "application/vnd.apache.parquet"}


@pytest.fixture
def made(monkeypatch, bundles):
    """Makes an application; the log and the bundles are attributes of the returned function."""
    monkeypatch.setattr(bundles_module, "load_boxed", load_here)

    @contextmanager
    def make(*tasks, limits=Limits(), access=Access()):  # noqa: B008
        log = []
        paths = {task: bundles[task] for task in tasks or ("binary",)}
        loaded = Bundles(paths, n_processes=limits.workers, trust=None, log=log.append)
        application = Application(loaded, limits, access, decode_here, log.append, log.append)
        make.log, make.bundles = log, loaded
        try:
            yield application.asgi()
        finally:
            application.close()
            loaded.close()

    return make


def as_json_rows(table):
    """Rows of JSON with numbers where the column has numbers."""
    numbers = {"size": float, "age": float}
    return [
        {name: None if cell is None else numbers.get(name, str)(cell) for name, cell in row.items()}
        for row in table.to_dicts()
    ]


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_every_format_gives_the_predictions_of_the_bundle(made, bundles, rows, task):
    table = rows[task].drop("outcome")
    predictor = load_bundle(bundles[task]).predictor
    expected = predictor.to_frame(predictor.predict_frame(table))
    arrow, parquet = BytesIO(), BytesIO()
    table.write_ipc(arrow)
    table.write_parquet(parquet)
    with made(task) as app:
        as_csv = call(app, "POST", "/predict", CSV, table.write_csv().encode())
        assert as_csv.content.decode() == expected.write_csv()
        for headers, content in ((ARROW, arrow), (PARQUET, parquet)):
            answer = call(app, "POST", "/predict", headers, content.getvalue())
            read = pl.read_ipc if headers is ARROW else pl.read_parquet
            assert read(BytesIO(answer.content)).equals(expected)
        answer = call(app, "POST", f"/bundles/{task}/predict", body={"rows": as_json_rows(table)}).json
        assert answer["notes"] == []
        for found, row in zip(answer["predictions"], expected.iter_rows(named=True), strict=True):
            assert found["prediction"] == row["prediction"]
            if task == "regression":
                assert (found["low"], found["high"]) == (row["low"], row["high"])
            else:
                names = {f"probability_{name}": value for name, value in found["probabilities"].items()}
                assert names == {name: row[name] for name in names}
                assert math.isclose(sum(names.values()), 1)


def test_accept_chooses_the_format_of_the_answer(made, rows):
    content = rows["binary"].write_csv().encode()
    with made() as app:
        for accept, kind in (
            ("application/json", "application/json"),
            ("*/*", "text/csv"),
            ("image/png, application/vnd.apache.parquet;q=0.9", "application/vnd.apache.parquet"),
        ):
            answer = call(app, "POST", "/predict", {**CSV, "Accept": accept}, content)
            assert answer.headers["content-type"].partition(";")[0] == kind
        refused = call(app, "POST", "/predict", {**CSV, "Accept": "image/png"}, content)
        assert refused.status == 406
        assert "text/csv" in refused.error


GOOD = {"size": 0.5, "age": 40, "color": "red", "joined": "2024-02-03"}


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        (b"", 400, "empty"),
        (b'{"rows": [', 400, "not valid JSON"),
        (b'{"rows": [{"size": NaN}]}', 400, "not valid JSON"),
        (b"[" * 100_000, 422, "rows"),
        (b'{"rows": [{"a": ' + b"[" * 100_000, 400, "not valid JSON"),
        (b'{"rows": [{"size": ' + b"1" * 5_000 + b"}]}", 422, "out of range"),
        (b'{"rows": 1}', 422, "$.rows"),
        (b'{"rows": [], "more": 1}', 422, "more"),
        (b"{}", 422, "rows"),
        (json.dumps({"rows": [GOOD, {**GOOD, "age": [1]}]}).encode(), 422, "Row 1: 'age' is a JSON list"),
        (
            json.dumps({"rows": [{"size": 1}]}).encode(),
            422,
            "Columns are missing: 'age', 'color', 'joined'. Give ?missing_columns=fill",
        ),
        (json.dumps({"rows": [{**GOOD, "age": "old"}]}).encode(), 422, "'age'"),
        (json.dumps({"rows": [GOOD] * 21}).encode(), 413, "at most 20"),
        (b'{"rows": [' + b" " * 200_000 + b"]}", 413, "longer than 200,000 bytes"),
    ],
)
def test_malformed_and_large_bodies_are_one_sentence(made, body, status, part):
    with made(limits=Limits(max_rows=20, max_body=200_000)) as app:
        answer = call(app, "POST", "/predict", {"Content-Type": "application/json"}, body)
    assert answer.status == status
    assert part in answer.error


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (CSV, b"\x00\x01\x02", 422),
        (CSV, b"<html>", 422),
        (CSV, b'size,age\n"1,2\n', 422),
        (ARROW, b"ARROW1", 422),
        (PARQUET, b"PAR1" + b"\xff" * 100 + b"PAR1", 422),
        ({"Content-Type": "image/png"}, b"x", 415),
        ({**CSV, "Content-Encoding": "gzip"}, b"x", 415),
        (CSV, ("size,age,color,joined\n" + "1,2,red,2024-01-01\n" * 21).encode(), 413),
    ],
    ids=["bytes", "web page", "open quote", "cut Arrow", "damaged Parquet", "image", "gzip", "many rows"],
)
def test_tables_that_cannot_be_read_are_one_sentence(made, headers, body, status):
    with made(limits=Limits(max_rows=20)) as app:
        answer = call(app, "POST", "/predict", headers, body)
        assert answer.status == status
        assert "/tmp" not in answer.error
        assert call(app, "POST", "/predict", body={"rows": [GOOD]}).status == 200


def test_missing_columns_can_be_filled_and_extra_ones_are_noted(made):
    with made() as app:
        answer = call(app, "POST", "/predict?missing_columns=fill", body={"rows": [{"size": 1}, {"x\u202e": 2}]})
        assert answer.status == 200
        assert len(answer.json["predictions"]) == 2
        assert any("x" in note and "ignored" in note for note in answer.json["notes"])
        assert json.loads(answer.headers["x-tabapp-notes"]) == answer.json["notes"]
        logged = [line for line in made.log if "ignored" in line]
        call(app, "POST", "/predict?missing_columns=fill", body={"rows": [{"size": 1}, {"x\u202e": 2}]})
        assert len(logged) == 1 == len([line for line in made.log if "ignored" in line])
        assert "\u202e".encode() not in answer.content
        assert call(app, "POST", "/predict?missing_columns=no", body={"rows": [GOOD]}).status == 400
        nothing = call(app, "POST", "/predict?missing_columns=fill", body={"rows": [{}, {"x": 1}]})
        assert len(nothing.json["predictions"]) == 2
        assert call(app, "POST", "/predict", body={"rows": []}).json == {"predictions": [], "notes": []}


def test_repairs_of_a_table_reach_the_answer_with_what_was_done(made):
    body = b"size,age,color,joined\n1,2,red,2024-01-01\n1,2,red\n"
    with made() as app:
        answer = call(app, "POST", "/predict", CSV, body)
        (note,) = json.loads(answer.headers["x-tabapp-notes"])
        assert "too few fields" in note
        assert note.endswith("→ filled with missing cells")
        assert any(note in line for line in made.log)
        assert "x-tabapp-notes" not in call(app, "POST", "/predict", body={"rows": [GOOD]}).headers


def test_a_header_of_notes_is_short():
    assert notes_header(()) == {}
    found = json.loads(notes_header(["é" * 300] * 50)["X-Tabapp-Notes"])
    assert found == ["é" * 300] * 2


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_explanations_add_up_to_the_prediction(made, task):
    with made(task) as app:
        rows = {"rows": [GOOD, {**GOOD, "size": None}]}
        predicted = call(app, "POST", "/predict", body=rows).json["predictions"]
        found = call(app, "POST", "/explain", body=rows).json
        assert [row["row"] for row in found["rows"]] == [0, 1]
        for row, prediction in zip(found["rows"], predicted, strict=True):
            assert row["output"] == pytest.approx(found["base"] + sum(row["contributions"].values()))
            if task == "regression":
                assert row["output"] == pytest.approx(prediction["prediction"])
            else:
                assert row["output"] == pytest.approx(prediction["probabilities"][found["class"]])
        assert call(app, "POST", "/explain", body={"rows": [GOOD] * 11}).status == 413
        assert metrics_of(app)[f'tabapp_drift_rows{{bundle="{task}"}}'] == 2
        wrong = call(app, "POST", "/explain?class=other", body=rows)
        assert wrong.status == 400
        if task == "multiclass":
            low = call(app, "POST", "/explain?class=low", body=rows).json
            assert low["class"] == "low"


def test_other_addresses_and_methods_are_one_sentence(made):
    with made() as app:
        assert "no address /nothing" in call(app, "GET", "/nothing").error
        assert "no bundle 'other'" in call(app, "GET", "/bundles/other/schema").error
        answer = call(app, "DELETE", "/predict")
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert "Use POST" in answer.error


def test_only_expected_hosts_and_origins_are_answered(made):
    with made() as app:
        for host in ("127.0.0.1:8000", "LOCALHOST:1", "[::1]:8000"):
            assert call(app, "GET", "/health", {"Host": host}).status == 200
        for host in ("evil.example", "127.0.0.1.evil.example:8000", "", "127.0.0.1:8000.evil", "[::2]"):
            answer = call(app, "GET", "/health", {"Host": host})
            assert answer.status in (400, 403)
            assert "Host" in answer.error
        for host in (
            "[",
            "127.0.0.1#.evil",
            "evil\\@127.0.0.1",
            "127.0.0.1@evil.example",
            "127.0.0.1/",
            "localhost:8\xb2",
            "a b",
        ):
            answer = call(app, "GET", "/health", {"Host": host})
            assert answer.status == 400
            assert "Host is not valid" in answer.error
        assert call(app, "GET", "/health", {"Origin": "http://127.0.0.1:8000"}).status == 200
        for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "http://["):
            assert call(app, "POST", "/predict", {"Origin": origin}, {"rows": [GOOD]}).status == 403
    with made(access=Access("secret", None)) as app:
        assert call(app, "GET", "/health", {"Host": "any.example"}).status == 200
        assert call(app, "GET", "/health", {"Host": "any.example#"}).status == 400


def test_long_headers_and_two_lengths_are_refused(made):
    with made() as app:
        many = {f"X-{number}": "a" * 8 for number in range(5_000)}
        for headers, path in ((many, "/health"), ({"X": "a" * 70_000}, "/health"), ({}, "/health?" + "a" * 70_000)):
            answer = call(app, "GET", path, headers)
            assert answer.status == 431
            assert "longer than 64 KiB" in answer.error
            assert answer.headers["connection"] == "close"
        assert call(app, "GET", "/health", {"X": "a" * 60_000}).status == 200
        both = {"Content-Length": "3", "Transfer-Encoding": "chunked"}
        answer = call(app, "POST", "/predict", {**CSV, **both}, b"abc")
        assert answer.status == 400
        assert "both Content-Length and Transfer-Encoding" in answer.error
        assert answer.headers["connection"] == "close"


def test_token_is_required_everywhere_but_on_the_page_and_health(made):
    with made(access=Access("a secret")) as app:
        for path in ("/schema", "/metrics", "/openapi.json", "/bundles", "/nothing"):
            for header in (None, "Bearer wrong", "Basic a secret", "Bearer", "Bearer a secret\xff"):
                answer = call(app, "GET", path, {"Authorization": header} if header else {})
                assert answer.status == 401
                assert answer.headers["www-authenticate"] == "Bearer"
                assert "Bearer TOKEN" in answer.error
        assert call(app, "POST", "/predict", body={"rows": [GOOD]}).status == 401
        known = {"Authorization": "Bearer a secret"}
        assert call(app, "POST", "/predict", known, {"rows": [GOOD]}).status == 200
        assert call(app, "GET", "/health").json == {"status": "ok"}
        assert "bundles" in call(app, "GET", "/health", known).json
        assert call(app, "GET", "/openapi.json", known).json["security"] == [{"token": []}]
        assert call(app, "GET", "/").status == 200


def test_page_has_no_data_and_loads_nothing_from_elsewhere(made):
    class Reader(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.addresses, self.handlers = [], []

        def handle_starttag(self, tag, attrs):
            self.addresses += [value for name, value in attrs if name in ("src", "href", "action")]
            self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]

    with made() as app:
        page = call(app, "GET", "/")
    policy = page.headers["content-security-policy"]
    reader = Reader()
    reader.feed(page.content.decode())
    assert reader.addresses == ["data:,"]
    assert reader.handlers == []
    assert "innerHTML" not in page.content.decode()
    assert "size" not in re.findall(r'data-column="([^"]*)"', page.content.decode())
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_example_of_each_bundle_can_be_predicted(made):
    with made("binary", "multiclass", "regression") as app:
        assert call(app, "GET", "/bundles").json == {
            "bundles": ["binary", "multiclass", "regression"],
            "default": "binary",
        }
        document = call(app, "GET", "/openapi.json").json
        assert document["openapi"].startswith("3.1")
        for task in ("binary", "multiclass", "regression"):
            described = call(app, "GET", f"/bundles/{task}/schema").json
            assert (described["task"], described["target"]) == (task, "outcome")
            assert [column["name"] for column in described["columns"]] == list(GOOD)
            content = document["paths"][f"/bundles/{task}/predict"]["post"]["requestBody"]["content"]
            example = content["application/json"]["example"]
            assert example["rows"] == [described["example"]]
            first = call(app, "POST", f"/bundles/{task}/predict", body=example)
            assert first.status == 200
            same = call(app, "POST", f"/bundles/{task}/predict", CSV, content["text/csv"]["example"].encode())
            assert str(first.json["predictions"][0]["prediction"]) in same.content.decode()
        assert call(app, "GET", "/schema").json["bundle"] == "binary"


def metrics_of(app) -> dict[str, float]:
    lines = call(app, "GET", "/metrics").content.decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_metrics_count_requests_rows_and_drift(made, rows):
    with made() as app:
        table = rows["binary"].drop("outcome")
        call(app, "POST", "/predict", CSV, table.write_csv().encode())
        before = metrics_of(app)
        strange = table.with_columns(size=pl.lit("1000"), color=pl.lit("violet"))
        call(app, "POST", "/predict", CSV, strange.write_csv().encode())
        call(app, "GET", "/nothing/" + "x" * 100)
        after = metrics_of(app)
    assert after['tabapp_requests_total{method="POST",route="/predict",status="200"}'] == 2
    assert after['tabapp_requests_total{method="GET",route="other",status="404"}'] == 1
    assert after['tabapp_predicted_rows_sum{bundle="binary"}'] == 60
    assert after['tabapp_drift_rows{bundle="binary"}'] == 60
    assert after['tabapp_new_level_cells_total{bundle="binary",column="color"}'] == 30
    for column, moves in (("size", True), ("color", True), ("age", False)):
        name = f'tabapp_population_stability{{bundle="binary",column="{column}"}}'
        assert (after[name] > 2 * before[name]) == moves
    assert "tabapp_bundle_ready" in str(after)


def test_metrics_show_hidden_characters_of_names(made):
    with made() as app:
        (bundle,) = made.bundles
        contents = bundle.version.contents
        manifest = msgspec.structs.replace(contents.manifest, target="a\x1b]0;b\x07", run="c\nd\u202e")
        bundle.version.contents = replace(contents, manifest=manifest)
        text = call(app, "GET", "/metrics").content.decode()
    assert 'target="a␛]0;b␇"' in text
    assert is_printable(text.replace("\n", ""))


def test_requests_share_the_memory():
    whole = Memory(100)
    first, second = Share(whole), Share(whole)
    first.grow(150)
    with pytest.raises(RequestError, match="Other requests need the memory"):
        second.grow(1)
    first.end()
    second.grow(60)
    first.grow(40)
    with pytest.raises(RequestError):
        first.grow(1)
    second.end()
    first.grow(1_000)
    first.end()
    assert whole.n_bytes == 0


def test_too_many_predictions_and_slow_ones_are_refused(made):
    """The place of a prediction that has timed out stays taken until it ends; other routes answer meanwhile."""
    started, finish = threading.Event(), threading.Event()

    async def ask(app):
        first = await call_async(app, "POST", "/predict", body={"rows": [GOOD]})
        second = await call_async(app, "POST", "/predict", body={"rows": [GOOD]})
        health = await call_async(app, "GET", "/health")
        finish.set()
        while (last := await call_async(app, "POST", "/predict", body={"rows": [GOOD]})).status == 503:
            await asyncio.sleep(0.01)
        return first, second, health, last

    with made(limits=Limits(concurrency=1, seconds=0.2)) as app:
        (bundle,) = made.bundles
        process = bundle.version.processes[0]

        def block():
            process.before = lambda: None
            started.set()
            finish.wait()

        process.before = block
        first, second, health, last = asyncio.run(ask(app))
    assert started.is_set()
    assert first.status == 503
    assert "longer than 0.2 s" in first.error
    assert second.status == 503
    assert "Too many predictions" in second.error
    assert health.json["status"] == "ok"
    assert last.status == 200


def test_failing_models_and_bugs_are_one_sentence(made):
    def fail(error):
        def raise_error():
            raise error

        return raise_error

    with made() as app:
        (bundle,) = made.bundles
        process = bundle.version.processes[0]
        process.before = fail(BundleError(f"{bundle.version.copy}: its models fail."))
        answer = call(app, "POST", "/predict", body={"rows": [GOOD]})
        assert (answer.status, answer.error) == (503, "'binary': its models fail.")
        assert f"binary: {bundle.path}: its models fail." in made.log

        def end():
            process.ended = True
            raise BundleError(
                f"{bundle.version.copy}: predicting ended the process. The bundle may be damaged or malicious."
            )

        process.before = end
        answer = call(app, "POST", "/predict", body={"rows": [GOOD]})
        assert answer.status == 503
        assert answer.error.startswith("The request ended the model process of 'binary'")
        assert "malicious" not in answer.error
        bundle.check()
        process = bundle.version.processes[0]
        process.before = fail(ZeroDivisionError("data of a user"))
        answer = call(app, "POST", "/predict", body={"rows": [GOOD]})
        assert answer.status == 500
        assert "data of a user" not in answer.error
        assert any("ZeroDivisionError" in line for line in made.log)
        process.ended = True
        answer = call(app, "POST", "/predict", body={"rows": [GOOD]})
        assert answer.status == 503
        assert answer.headers["retry-after"]
        assert call(app, "GET", "/health").status == 503
        bundle.check()
        process = bundle.version.processes[0]
        assert call(app, "POST", "/predict", body={"rows": [GOOD]}).status == 200
    assert bundle.counts["restarted"] == 2


def test_each_target_of_a_bundle_with_several_is_served(monkeypatch):
    monkeypatch.setattr(bundles_module, "load_boxed", load_here)
    served = Bundles({"both": WHOLE}, n_processes=1, trust=None, log=print)
    application = Application(served, Limits(), Access(), decode_here, print, print)
    try:
        assert [bundle.name for bundle in served] == ["both.price", "both.city"]
        rows = pl.read_csv(FIXTURE / "rows.csv").to_dicts()
        app = application.asgi()
        for name, key in (("both.price", "low"), ("both.city", "probabilities")):
            answer = call(app, "POST", f"/bundles/{name}/predict", body={"rows": rows})
            assert len(answer.json["predictions"]) == len(rows)
            assert all(key in each for each in answer.json["predictions"])
        one = call(app, "POST", "/bundles/both.city/predict", body={"rows": rows}).json["predictions"]
        for path in ("/predict", "/bundles/both/predict"):
            predicted = call(app, "POST", path, body={"rows": rows}).json["predictions"]
            assert [list(each) for each in predicted] == [["price", "city"]] * len(rows)
            assert [each["city"] for each in predicted] == one
        body = (FIXTURE / "rows.csv").read_bytes()
        table = call(app, "POST", "/predict", body=body, headers=CSV).content.decode()
        assert table.splitlines()[0].startswith("price_prediction,price_low,price_high,city_prediction")
        described = call(app, "GET", "/openapi.json").json["paths"]
        items = described["/predict"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert list(items["properties"]["predictions"]["items"]["properties"]) == ["price", "city"]
        assert "/bundles/both/predict" in described
        assert call(app, "GET", "/bundles/both/schema").status == 404
    finally:
        application.close()
        served.close()
