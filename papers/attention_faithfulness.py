"""Rank correlation of feature importances with permutation importance: Table 4 of the FT-Transformer paper, and drop-and-refit.

python -m papers.attention_faithfulness --data FOLDER [--tables california_housing,…] [--seeds 5] [--rows 20000] [--device cpu]
    [--minutes M] [--dropped 5] [--layers N --token-size N --batch-size N --epochs N] [--full] [--out FILE.json]

An FT-Transformer is trained on 80 % of the rows, a fifth of them for early stopping, with its defaults or a given size. As in the
paper, all methods run on training rows (a sample of 2,000): attention of [CLS], permutation, integrated gradients (64 steps, mean
size of 50 rows), and the loss of score when the network is trained again without each of the `--dropped` columns that permutation
ranks first. Published figures are those of Gorishniy et al. 2021, Table 4: means and standard deviations over five runs.
--full is for a GPU: all rows, and two hours for a fit.

Seeds that an existing --out has are not run again, so that an interrupted command continues.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import polars as pl

from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.schema import Schema
from tabapp.data.typed import encode_target, rows_with_target, typed_frame
from tabapp.explain.attention import mean_attention
from tabapp.explain.fold_model import FoldModel
from tabapp.explain.permutation import permutation_importance
from tabapp.features.prepare import FeaturePreparer, recipe_for
from tabapp.models import registry
from tabapp.models.contract import FitContext, FittedModel, Shape

MODEL = "ft_transformer"
TABLES = {
    "california_housing": ("california_housing.csv.gz", "median_house_value", "CA"),
    "covertype": ("covertype.csv.gz", "Cover_Type", "CO"),
    "higgs": ("higgs_lightgbm.csv.gz", "signal", "HI"),
    "adult": ("adult.csv.gz", "income", None),
}
PUBLISHED = {
    "CA": ("0.81 (0.05)", "0.84 (0.08)"),
    "CO": ("0.84 (0.04)", "0.90 (0.02)"),
    "HI": ("0.91 (0.03)", "0.72 (0.03)"),
}
SIZES = ("n_layers", "d_token", "batch_size", "max_epochs")
"""Hyperparameters that options set."""
METHODS = ("attention", "integrated gradients", "drop and refit")
PERMUTED_ROWS, GRADIENT_ROWS, REFERENCE_ROWS = 2_000, 50, 10


def fit(
    frame: pl.DataFrame, target: Any, schema: Schema, train: Any, valid: Any, seed: int, options: argparse.Namespace
) -> tuple[FittedModel, FeaturePreparer]:
    """The network, and its features, fitted on training rows."""
    plugin = registry.get(MODEL)
    preparer = FeaturePreparer.fit(frame[train.tolist()], schema, recipe_for(plugin.features(), schema), seed)
    tables = [preparer.transform(frame[rows.tolist()]) for rows in (train, valid)]
    tables = [
        type(table)(table.numeric, table.categorical, target[rows])
        for table, rows in zip(tables, (train, valid), strict=True)
    ]
    spec, n_classes = preparer.spec, max(1, len(schema.classes))
    shape = Shape(
        n_rows=len(train), n_numeric=len(spec.numeric), n_categorical=len(spec.categorical), n_classes=n_classes
    )
    with TemporaryDirectory() as scratch:
        context = FitContext(
            task=schema.task, n_classes=n_classes, metric=metrics.default_metric(schema.task), features=spec, seed=seed,
            device=options.device, n_threads=options.threads, folder=Path(scratch),
            soft_deadline=time.monotonic() + 60 * options.minutes,
        )  # fmt: skip
        given = {name: value for name in SIZES if (value := getattr(options, name)) is not None}
        params = msgspec.structs.replace(plugin.defaults(schema.task, shape, options.device), **given)
        return plugin.fit(tables[0], tables[1], params, context), preparer


def ranks(values: dict[str, float], names: list[str]) -> list[float]:
    return pl.Series([values[name] for name in names]).rank().to_list()


def correlation(a: dict[str, float], b: dict[str, float]) -> float:
    """Spearman's correlation over the common columns."""
    names = [name for name in a if name in b]
    return float(np.corrcoef(ranks(a, names), ranks(b, names))[0, 1])


@functools.cache
def table_of(name: str, folder: Path) -> tuple[pl.DataFrame, Schema]:
    """The rows with a target, as text, and the schema of a table."""
    file, target, _ = TABLES[name]
    text = read_table(folder / file, ReadOptions()).frame
    schema = infer_schema(text, target=target)
    return text.filter(pl.Series(rows_with_target(text, schema))), schema


def measure(name: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """The correlation of each method with permutation importance for one table and seed."""
    text, schema = table_of(name, options.data)
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(text.height)[: options.rows]
    text = text[chosen.tolist()]
    frame = typed_frame(text, schema)
    target = encode_target(frame, schema)
    order = generator.permutation(len(target))
    train, valid, test = np.split(order, [int(0.64 * len(order)), int(0.8 * len(order))])
    model, preparer = fit(frame, target, schema, train, valid, seed, options)
    sample = train[:PERMUTED_ROWS]
    table = preparer.transform(frame[sample.tolist()])
    fold = FoldModel(model, type(table)(table.numeric, table.categorical, target[sample]), preparer.spec)
    columns = [column.name for column in schema.features]
    metric = metrics.default_metric(schema.task)
    permuted = {c.column: c.mean for c in permutation_importance([fold], metric, columns, seed=seed).columns}
    attention = {c: s.share for c, s in (mean_attention([fold], columns, seed=seed) or {}).items()}
    code = max(0, len(schema.classes) - 1)
    few = fold.table.take(np.arange(min(GRADIENT_ROWS, len(sample))))
    found = model.contributions(few, code, fold.table.take(np.arange(len(sample))[-REFERENCE_ROWS:]))
    gradients = (
        {c: float(np.abs(found.values[:, fold.features_of(c)].sum(axis=1)).mean()) for c in columns} if found else {}
    )

    def score(model: FittedModel, preparer: FeaturePreparer) -> float:
        predicted = model.predict(preparer.transform(frame[test.tolist()]))
        return metrics.loss(metric, target[test], predicted)

    whole = score(model, preparer)
    drops: dict[str, float] = {}
    for column in sorted(columns, key=lambda c: -permuted[c])[: options.dropped]:
        kept = tuple(each for each in schema.columns if each.name != column)
        drops[column] = (
            score(*fit(frame, target, msgspec.structs.replace(schema, columns=kept), train, valid, seed, options))
            - whole
        )
    values = {"attention": attention, "integrated gradients": gradients, "drop and refit": drops}
    return {method: correlation(permuted, each) for method, each in values.items() if len(each) > 2}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dropped", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=5.0, help="limit of one fit")
    for option, name in zip(("--layers", "--token-size", "--batch-size", "--epochs"), SIZES, strict=True):
        parser.add_argument(option, dest=name, type=int, metavar="N")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "attention_faithfulness.json")
    options = parser.parse_args()
    if options.full:
        options.rows, options.minutes = None, 120.0
    results: dict[str, dict[str, dict[str, float]]] = {}
    if options.out.is_file():
        results = msgspec.json.decode(options.out.read_bytes())["results"]
    # Seeds before tables, so that a part of the seeds covers all tables.
    for seed in range(options.seeds):
        for name in options.tables.split(","):
            runs = results.setdefault(name, {})
            if str(seed) in runs:
                continue
            runs[str(seed)] = measure(name, seed, options)
            print(name, seed, runs[str(seed)], flush=True)
            _report(results, options)
    _report(results, options)
    return 0


def _report(results: dict[str, dict[str, dict[str, float]]], options: argparse.Namespace) -> None:
    rows: list[list[str]] = []
    for name, runs in results.items():
        published = PUBLISHED.get(TABLES[name][2] or "", ("—", "—"))
        cells: list[str] = []
        for method in METHODS:
            known = [run[method] for run in runs.values() if method in run]
            spread = f" ({statistics.stdev(known):.2f})" if len(known) > 1 else ""
            cells.append(f"{statistics.mean(known):.2f}{spread}" if known else "—")
        rows.append([name, str(len(runs)), *cells, *published])
    header = ["table", "seeds", *METHODS, "paper: attention", "paper: integrated gradients"]
    sizes = {name: value for name in SIZES if (value := getattr(options, name)) is not None}
    facts = {
        **machine("torch", "numpy", "polars"),
        "rows": options.rows or "all",
        "dropped columns": options.dropped,
        **sizes,
    }
    report(facts, header, rows, results, options.out, right=(1, 2, 3, 4, 5, 6))


if __name__ == "__main__":
    raise SystemExit(main())
