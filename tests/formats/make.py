"""Makes the files of a format version: `python -m tests.formats.make`.

Run it once when the version of the bundle format increases, and keep the files of earlier versions.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import polars as pl

from tabapp.bundle.files.records import FORMAT_VERSION, TARGETS_VERSION
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.write import write_bundle
from tabapp.models import registry
from tests.bundle.making import fit_candidate, make_contents, text_table
from tests.tables import write_mixed

HERE = Path(__file__).parent
BUNDLES = {
    "arrays": ("binary", {"linear": {}, "hist_gradient_boosting": {"n_trees": 8}, "extra_trees": {"n_trees": 3}}),
    "boosters": (
        "regression",
        {
            "xgboost": {"n_trees": 8, "loss": "poisson"},
            "lightgbm": {"n_trees": 8, "derived_features": True},
            "catboost": {"n_trees": 8},
        },
    ),
    "networks": ("multiclass", {"mlp": {"max_epochs": 2, "widths": (8,)}, "k_neighbors": {}}),
}
"""Task and models of each bundle, by name."""
ROWS, RUN = "rows.csv", "run.zip"
TARGETS, PREDICTIONS = "targets.tabapp", "targets.csv"


def make(folder: Path) -> None:
    """Write bundles, rows, their predictions, and a run folder."""
    folder.mkdir()
    for name, (task, models) in BUNDLES.items():
        frame = text_table(task)
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary)
            contents = make_contents(place / "made", task)
            candidates = []
            for model, params in models.items():
                plugin = registry.get(model)
                typed = plugin.params_type(**params)
                candidates.append(
                    fit_candidate(
                        place / model, plugin, typed, frame, contents.schema, 1.0, place / f"features-{model}"
                    )
                )
            fields = {**contents.__dict__, "candidates": candidates}
            write_bundle(folder / f"{name}.tabapp", type(contents)(**fields))
        rows = text_table(task, n_rows=20, seed=8).drop("outcome")
        rows.write_csv(folder / ROWS)
        predictor = load_bundle(folder / f"{name}.tabapp").predictor
        predictor.to_frame(predictor.predict_frame(rows)).write_csv(folder / f"{name}.csv")
    _make_run(folder / RUN)


def make_targets(folder: Path) -> None:
    """Write a bundle of several targets, the folder of its run, rows and their predictions."""
    folder.mkdir()
    _make_run(folder / RUN, target="price,city")
    with zipfile.ZipFile(folder / RUN) as archive:
        (folder / TARGETS).write_bytes(archive.read("run/model.tabapp"))
    with tempfile.TemporaryDirectory() as temporary:
        rows = pl.read_csv(write_mixed(Path(temporary) / "rows.csv", rows=20, seed=8), infer_schema=False)
    rows.drop("price", "city").write_csv(folder / ROWS)
    predicted = [str(folder / TARGETS), str(folder / ROWS), "-o", str(folder / PREDICTIONS), "-q"]
    subprocess.run([sys.executable, "-m", "tabapp", "predict", *predicted], check=True)


def _make_run(file: Path, target: str = "price") -> None:
    with tempfile.TemporaryDirectory() as temporary:
        data = write_mixed(Path(temporary) / "mixed.csv", rows=120)
        options = ["--target", target, "--models", "linear", "--trials", "2", "--folds", "2"]
        command = [sys.executable, "-m", "tabapp", "--auto", str(data), *options, "--runs-dir", temporary, "-q"]
        subprocess.run(command, check=True)
        (run,) = (path.parent for path in Path(temporary).glob("*/run.json"))
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(run.rglob("*")):
                archive.write(path, Path("run") / path.relative_to(run))


if __name__ == "__main__":
    for version, write in ((str(FORMAT_VERSION), make), (f"targets_{TARGETS_VERSION}", make_targets)):
        if not (HERE / version).exists():
            write(HERE / version)
