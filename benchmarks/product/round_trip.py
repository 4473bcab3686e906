"""Whether every way to predict gives the same numbers: a run on each of some tables, then the same rows in many forms.

python -m benchmarks.product.round_trip DATA [--tables a,b,c] [--rows 800] [--earlier FILE.json …] [--out FILE.json]

DATA is a folder with tables and `datasets.json`, a list of {"name", "file", "target", "task", "separator"}. Two runs on
the first rows of each table, one of boosting and linear models and one of a network, make a bundle each. It predicts the following
rows in a fresh process; with shuffled and added columns as CSV, Parquet and Arrow; by the Python API; by the server, as CSV and as
JSON; and by ONNX Runtime, for the members that ONNX can express. Boosters must agree bit for bit, networks within 1e-5, and ONNX
within 1e-4, relative to the spread of the predictions for a regression.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

import tabapp
from benchmarks.machine import RESULTS, machine, report
from benchmarks.performance.serving import start
from tabapp.bundle.export.onnx_export import ENSEMBLE, largest_difference, write_onnx
from tabapp.bundle.prediction.load import load_bundle
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.errors import UsageError

TABLES = (
    "adult", "titanic", "telco_churn", "mushrooms", "penguins", "letter", "students_dropout", "soybean", "california_housing",
    "concrete", "house_prices", "motorcycle_claims", "sms_spam", "hotel_bookings",
)  # fmt: skip
RUNS = {"trees and linear": ("lightgbm,xgboost,catboost,linear", 0.0), "network": ("mlp", 1e-5)}
"""Models and tolerance of each run."""
ONNX_TOLERANCE = 1e-4
WAYS = ("shuffled CSV", "Parquet", "Arrow", "Python", "server, CSV", "server, JSON")
PREDICTED_ROWS = 200
_JSON, _CSV = {"Content-Type": "application/json"}, {"Content-Type": "text/csv"}
Array = npt.NDArray[Any]


class Table(msgspec.Struct, frozen=True):
    """An entry of `datasets.json`."""

    name: str
    file: str
    target: str
    task: str
    separator: str


def train(table: Table, rows: pl.DataFrame, models: str, folder: Path) -> Path:
    """Train one trial of each model on two folds; returns the bundle."""
    rows.write_csv(folder / "train.csv")
    words = ["--auto", str(folder / "train.csv"), "--target", table.target, "--task", table.task, "--models", models]
    words += [
        "--trials",
        "1",
        "--folds",
        "2",
        "--runs-dir",
        str(folder / "runs"),
        "--out",
        str(folder / "b.tabapp"),
        "-q",
        "--plain",
    ]
    subprocess.run([sys.executable, "-m", "tabapp", *words], check=True, stdout=subprocess.DEVNULL)
    return folder / "b.tabapp"


def numbers_of(frame: pl.DataFrame) -> Array:
    """(rows, classes) probabilities, or (rows, 1) predictions."""
    columns = [name for name in frame.columns if name.startswith("probability_")] or ["prediction"]
    return frame.select(pl.col(columns).cast(pl.Float64)).to_numpy()


def by_file(bundle: Path, file: Path) -> Array:
    """The predictions of the command `predict`, in a fresh process."""
    out = file.with_suffix(".out.parquet")
    words = ["predict", str(bundle), str(file), "-o", str(out), "-q"]
    subprocess.run([sys.executable, "-m", "tabapp", *words], check=True)
    return numbers_of(pl.read_parquet(out))


def by_python(predictor: tabapp.Predictor, data: pl.DataFrame | Path) -> Array:
    """The predictions of the Python API for a table or a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if predictor.classes:
            return predictor.predict_proba(data).to_numpy()
        return np.asarray(predictor.predict(data), dtype=np.float64)[:, None]


def by_server(bundle: Path, rows: pl.DataFrame, classes: tuple[str, ...]) -> tuple[Array, Array]:
    """The predictions of the server, for rows as CSV and as JSON."""
    process, host, port = start(bundle, 1)

    def ask(body: bytes, headers: dict[str, str]) -> bytes:
        connection = http.client.HTTPConnection(host, port, timeout=120)
        connection.request("POST", "/predict", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if answer.status != 200:
            raise SystemExit(f"The server answers {answer.status}: {content[:300]!r}")
        return content

    try:
        as_csv = numbers_of(pl.read_csv(io.BytesIO(ask(rows.write_csv().encode(), _CSV)), infer_schema_length=None))
        found = json.loads(ask(json.dumps({"rows": rows.to_dicts()}).encode(), _JSON))["predictions"]
    finally:
        process.terminate()
        process.wait()
    if classes:
        return as_csv, np.array([[each["probabilities"][label] for label in classes] for each in found])
    return as_csv, np.array([[each["prediction"]] for each in found])


def by_onnx(bundle: Path, rows: pl.DataFrame, folder: Path) -> tuple[float | None, int, list[str]]:
    """The largest difference of ONNX Runtime over the members and the ensemble, the number of models, and what was left out."""
    try:
        result = write_onnx(bundle, folder)
    except UsageError as error:
        return None, 0, [str(error).replace(str(bundle), bundle.name)]
    loaded = load_bundle(bundle)
    typed, _ = loaded.predictor.typed_rows(rows, fill_missing_columns=True)
    candidates = loaded.contents.ensemble.candidates
    differences = [
        largest_difference(
            path.read_bytes(),
            loaded,
            candidates if path.name == ENSEMBLE else [c for c in candidates if path.stem == f"{c.model}-{c.trial}"],
            typed,
        )
        for path in result.difference
    ]
    left_out = [f"{name}: {reason}" for name, reason in result.left_out.items()]
    return max(each for each in differences if each is not None), len(differences), left_out


def check_bundle(bundle: Path, rows: pl.DataFrame, folder: Path) -> dict[str, Any]:
    """The largest difference of each way from a fresh process."""
    rows.write_csv(folder / "rows.csv")
    expected = by_file(bundle, folder / "rows.csv")
    changed = rows.select(reversed(rows.columns)).with_columns(added=pl.lit("1"))
    changed.write_csv(folder / "shuffled.csv", separator=";", quote_style="non_numeric")
    changed.write_parquet(folder / "rows.parquet")
    changed.write_ipc(folder / "rows.arrow")
    predictor = tabapp.load(bundle)
    found: dict[str, Array] = {
        "shuffled CSV": by_python(predictor, folder / "shuffled.csv"),
        "Parquet": by_python(predictor, folder / "rows.parquet"),
        "Arrow": by_python(predictor, folder / "rows.arrow"),
        "Python": by_python(predictor, changed),
    }
    classes = tuple(predictor.classes or ())
    found["server, CSV"], found["server, JSON"] = by_server(bundle, rows, classes)
    spread = 1.0 if classes else float(np.ptp(expected)) or 1.0
    differences: dict[str, Any] = {
        way: float(np.abs(values - expected).max() / spread) for way, values in found.items()
    }
    differences["ONNX"], differences["ONNX models"], differences["ONNX left out"] = by_onnx(
        bundle, rows, folder / "onnx"
    )
    return differences


def passes(found: dict[str, Any], tolerance: float) -> bool:
    """Whether a bundle predicts the same in every way; one that ONNX cannot express passes without it."""
    ways = [found[way] for way in WAYS]
    return max(ways) <= tolerance and (found["ONNX"] is None or found["ONNX"] <= ONNX_TOLERANCE)


def row_of(table: Table, kind: str, found: dict[str, Any]) -> list[str]:
    """A line of the published table."""
    largest = f"{max(found[way] for way in WAYS):.1e}"
    onnx = "none" if found["ONNX"] is None else f"{found['ONNX']:.1e}"
    return [table.name, table.task, kind, largest, onnx, str(found["ONNX models"]), "yes" if found["passes"] else "no"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--rows", type=int, default=800)
    parser.add_argument(
        "--earlier", type=Path, nargs="*", default=[], help="results to include; their tables are not run again"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "round_trip.json")
    options = parser.parse_args()
    known = {
        each.name: each for each in msgspec.json.decode((options.data / "datasets.json").read_bytes(), type=list[Table])
    }
    results: dict[str, Any] = {}
    for earlier in options.earlier:
        results |= json.loads(earlier.read_text())["results"]["tables"]
    for name in (name for name in options.tables.split(",") if name not in results):
        table = known[name]
        frame = read_table(options.data / table.file, ReadOptions(delimiter=table.separator)).frame
        # In random order, because some tables are sorted by the target.
        frame = frame.sample(fraction=1.0, shuffle=True, seed=0)
        n_rows = min(options.rows, frame.height - min(PREDICTED_ROWS, frame.height // 5))
        rows = frame[n_rows : n_rows + PREDICTED_ROWS].drop(table.target)
        for kind, (models, tolerance) in RUNS.items():
            with tempfile.TemporaryDirectory(prefix="tabapp-round-trip-") as place:
                bundle = train(table, frame[:n_rows], models, Path(place))
                found = check_bundle(bundle, rows, Path(place))
            found["passes"] = passes(found, tolerance)
            results.setdefault(name, {})[kind] = found
            print(name, kind, found, flush=True)
    shown = [
        row_of(known[name], kind, found) for name, kinds in sorted(results.items()) for kind, found in kinds.items()
    ]
    header = ["table", "task", "models", "largest difference", "ONNX", "ONNX models", "agree"]
    passed = sum(all(each["passes"] for each in kinds.values()) for kinds in results.values())
    report(
        machine("polars", "onnxruntime", "torch"),
        header,
        shown,
        {"tables that agree": passed, "tables": results},
        options.out,
        (3, 4, 5),
    )
    return 0 if passed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
