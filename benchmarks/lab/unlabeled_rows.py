"""Pre-trained networks on tables with few labels, beside the same networks without, a booster, and self-training of the booster.

python -m benchmarks.lab.unlabeled_rows [--data FOLDER] [--tables a,b] [--labeled 50,200,1000] [--draws 2] [--unlabeled 6000]
                                    [--models a,b] [--seconds 90] [--device cpu] [--full] [--cache FILE.json] [--kept-only]
                                    [--out FILE.json]

Each draw takes test rows, unlabeled rows and labeled rows from a table; a fifth of the labeled rows stop training early. The
smaller numbers of labeled rows are parts of the larger ones. Pre-training sees the unlabeled rows only, once for each draw.
"without" is the same network and the same hyperparameters without pre-training, on features fitted on the labeled rows.
"self-training" fits CatBoost on the labeled rows, then again with the unlabeled rows added, whose target is its prediction
(classes by their probabilities). --seconds are of processor time. Scores are ROC AUC, or accuracy for several classes, or R².
--full is the protocol for a GPU: eight tables, five draws, 20,000 unlabeled rows. Results are added to --cache as they come,
and are not computed again.

The second table is the rule for runs without --models: a pre-trained network starts by itself with about as many labeled rows as
those with which it gained. It gained if its mean difference to the same network without pre-training, over tables, is more
than the standard error of that mean, and if on a quarter of the tables it is also better than CatBoost and self-training. A
table counts with the mean of its draws, and a score below that of a constant prediction counts as that.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import polars as pl

from benchmarks.fits import TimedContext, data_folder, load
from benchmarks.machine import RESULTS, ResultTable, machine, report
from tabapp import files, metrics
from tabapp.data.schema import Schema
from tabapp.data.split import early_stopping_rows
from tabapp.data.typed import encode_target
from tabapp.features.prepare import FeaturePreparer
from tabapp.models import registry
from tabapp.models.contract import Shape
from tabapp.models.prepared_fit import soft_table
from tabapp.task import Task

QUICK_TABLES = ("adult", "bank_marketing", "diamonds", "telco_churn")
TABLES = (*QUICK_TABLES, "hotel_bookings", "mushrooms", "letter", "bike_sharing_hour")
MODELS = {
    "ft_transformer_pretrained": "FT-Transformer, pre-trained",
    "ft_transformer": "without",
    "tab_transformer_pretrained": "TabTransformer, pre-trained",
    "tab_transformer": "without ",
    "amformer_pretrained": "AMFormer, pre-trained",
    "amformer": "without  ",
    "tabnet_pretrained": "TabNet, pre-trained",
    "tabnet": "without   ",
    "npt": "NPT with unlabeled rows",
    "npt_labeled": "NPT without",
    "catboost": "CatBoost",
    "self_training": "self-training",
}
BASES = {
    "npt_labeled": "npt",
    "self_training": "catboost",
    "mlp_self_training": "mlp",
    "tab_transformer_self_training": "tab_transformer",
}
"""Plugins of the names that are none."""
RIVALS = ("catboost", "self_training")
LEAST_TABLES = 4
"""Tables without which nothing counts as a gain."""
SHARE_OF_BEST = 0.25
"""Share of the tables on which a network must be better than its rivals."""
METRICS = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "r2"}
LABELED = (50, 200, 1000)
N_TEST = 3_000
SHAPE_OF_VARIANT = 1_000
PRETRAINED = "_pretrained"


class Draw:
    """One division of a table."""

    def __init__(self, frame: pl.DataFrame, schema: Schema, most: int, n_unlabeled: int, seed: int) -> None:
        self.schema, self.seed = schema, seed
        self.task: Task = schema.task
        self.n_classes = max(1, len(schema.classes))
        order = np.random.default_rng(seed).permutation(len(frame))
        n_test = min(N_TEST, len(frame) // 3)
        self.target = encode_target(frame, schema)
        self.frame = frame
        self.test, self.labeled = order[:n_test], order[n_test : n_test + most]
        self.unlabeled = order[n_test + most :][:n_unlabeled]

    def fit(self, name: str, n: int, seconds: float, device: str, pretrained: Path) -> float:
        """The test score of a model on `n` labeled rows."""
        rows = np.sort(self.labeled[:n])
        stopping = early_stopping_rows(self.target, self.task, rows, self.seed)
        base = BASES.get(name, name)
        plugin = registry.get(base)
        # A network without pre-training takes the hyperparameters of its variant.
        same = f"{base}_pretrained"
        variant = registry.get(same) if same in registry.variants() else plugin
        n_columns = len(self.schema.features)
        shape = Shape(SHAPE_OF_VARIANT, n_columns, 0, self.n_classes, len(self.unlabeled))
        given = msgspec.to_builtins(variant.defaults(self.task, shape, device))
        fields = {field.name for field in msgspec.structs.fields(plugin.params_type)}
        if name == "npt":
            given["unlabeled"] = 1.0
        params = msgspec.convert({key: value for key, value in given.items() if key in fields}, plugin.params_type)
        unlabeled = self.frame[self.unlabeled.tolist()]
        frame, target, recipe = self.frame[rows.tolist()], self.target[rows], plugin.features()
        if recipe.rows == "training":
            preparer, table = FeaturePreparer.fit_transform(frame, self.schema, recipe, self.seed, target)
        else:
            preparer = FeaturePreparer.fit(unlabeled, self.schema, recipe, self.seed)
            table = preparer.transform(frame)
        table = replace(table, target=self.target[rows])
        with TemporaryDirectory() as folder:
            context = TimedContext(
                task=self.task,
                n_classes=self.n_classes,
                metric=METRICS[self.task],
                features=preparer.spec,
                seed=self.seed,
                device=device if plugin.family == "deep" else "cpu",
                n_threads=1,
                folder=Path(folder),
                seconds=seconds,
            )
            if plugin.uses_unlabeled and name != "npt_labeled":
                context.unlabeled = preparer.transform(unlabeled)
            if plugin.pretrains:
                if not pretrained.is_dir():
                    pretrained.mkdir(parents=True)
                    assert context.unlabeled is not None
                    plugin.pretrain(context.unlabeled, params, context, pretrained)
                context.pretrained = pretrained
                context.start()
            train, valid = table.take(~stopping), table.take(stopping)
            model = plugin.fit(train, valid, params, context)
            if name.endswith("self_training"):
                soft = model.predict(preparer.transform(unlabeled)).astype(np.float64)
                more = preparer.transform(unlabeled)
                labels = np.asarray(train.target)
                known = np.eye(self.n_classes)[labels.astype(int)] if self.task != "regression" else labels
                joined = replace(
                    train,
                    numeric=np.concatenate([train.numeric, more.numeric]),
                    categorical=np.concatenate([train.categorical, more.categorical]),
                    target=None,
                )
                learned = soft_table(joined, np.concatenate([known, soft]))
                if learned.weight is not None:
                    valid = replace(valid, weight=np.ones(len(valid), np.float32))
                context.start()
                model = plugin.fit(learned, valid, params, context)
            prediction = model.predict(preparer.transform(self.frame[self.test.tolist()]))
        return metrics.score(METRICS[self.task], self.target[self.test], prediction)


def _keys(name: str, schema: Schema, models: list[str], sizes: list[int], seed: int) -> list[tuple[str, str, int]]:
    """Key, model and labeled rows of the fits of a draw. TabTransformer needs categorical columns."""
    fits = [
        model
        for model in models
        if "tab_transformer" not in model or any(c.kind == "categorical" for c in schema.features)
    ]
    return [(f"{name}/{n}/{model}/{seed}", model, n) for model in fits for n in sizes]


@dataclass(frozen=True)
class Gain:
    """What pre-training gained with a number of labeled rows.

    Attributes:
        differences: by table, to the same network without pre-training, mean over draws.
        n_best: tables on which the network is better than its rivals, too.
    """

    model: str
    labeled: int
    differences: dict[str, float]
    n_best: int

    @property
    def mean(self) -> float:
        """The mean difference over tables."""
        return statistics.fmean(self.differences.values())

    @property
    def error(self) -> float:
        """The standard error of the mean; infinite with fewer than `LEAST_TABLES` tables."""
        n = len(self.differences)
        return statistics.stdev(self.differences.values()) / math.sqrt(n) if n >= LEAST_TABLES else math.inf

    @property
    def starts(self) -> bool:
        """Whether runs start the model by themselves."""
        return self.mean > self.error and self.n_best >= SHARE_OF_BEST * len(self.differences)


def gains(found: Mapping[str, float]) -> list[Gain]:
    """The gains of all pre-trained models and numbers of labeled rows.

    Args:
        found: scores by `TABLE/LABELED/MODEL/DRAW`.
    """
    keys = [key.split("/") for key in found]
    pairs = dict.fromkeys((model, int(n)) for _, n, model, _ in keys if model.endswith(PRETRAINED))
    return [_gain(found, model, n) for model, n in sorted(pairs)]


def _gain(found: Mapping[str, float], model: str, n: int) -> Gain:
    rivals = (model.removesuffix(PRETRAINED), *RIVALS)
    differences: dict[str, list[list[float]]] = {}
    for key, score in found.items():
        name, labeled, each, seed = key.split("/")
        others = [found.get(f"{name}/{n}/{rival}/{seed}") for rival in rivals]
        if each == model and int(labeled) == n and None not in others:
            # A constant has an R² of 0; no accuracy or area is below it.
            own = [max(0.0, score) - max(0.0, other) for other in others if other is not None]
            differences.setdefault(name, []).append(own)
    means = {
        name: [statistics.fmean(column) for column in zip(*each, strict=True)] for name, each in differences.items()
    }
    n_best = sum(min(each) > 0 for each in means.values())
    return Gain(model, n, {name: each[0] for name, each in means.items()}, n_best)


def gained_with(found: Mapping[str, float]) -> dict[str, tuple[int, ...]]:
    """The rule: for each pre-trained model, the numbers of labeled rows with which it gained."""
    rule: dict[str, tuple[int, ...]] = {}
    for gain in gains(found):
        gained = (gain.labeled,) if gain.differences and gain.starts else ()
        rule[gain.model] = (*rule.get(gain.model, ()), *gained)
    return rule


def rule_table(found: Mapping[str, float]) -> ResultTable:
    """The rule as a table, with the numbers that it rests on."""
    header = ["model", "labeled", "tables", "gain by pre-training", "standard error", "best of all", "starts by itself"]
    rows: list[list[str]] = []
    for gain in gains(found):
        if n := len(gain.differences):
            error = f"{gain.error:.3f}" if math.isfinite(gain.error) else "—"
            shown = [f"{gain.mean:+.3f}", error, f"{gain.n_best} of {n}", "yes" if gain.starts else "no"]
            rows.append([MODELS[gain.model].partition(",")[0], f"{gain.labeled:,}", str(n), *shown])
    return ResultTable(name="rule", columns=header, right=[1, 2, 3, 4, 5], rows=rows)


def parser_of_draws(
    description: str | None, *, labeled: str, draws: int, unlabeled: int, models: Iterable[str], seconds: float
) -> argparse.ArgumentParser:
    """The options of scripts that fit models on draws, with their defaults."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables")
    parser.add_argument("--tables", default="")
    parser.add_argument("--labeled", default=labeled)
    parser.add_argument("--draws", type=int, default=draws)
    parser.add_argument("--unlabeled", type=int, default=unlabeled)
    parser.add_argument("--models", default=",".join(models))
    parser.add_argument("--seconds", type=float, default=seconds, help="of pre-training, and of each fit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--full", action="store_true")
    return parser


def main() -> None:
    parser = parser_of_draws(
        __doc__, labeled=",".join(map(str, LABELED)), draws=2, unlabeled=6_000, models=MODELS, seconds=90.0
    )
    parser.add_argument("--kept-only", action="store_true", help="write the scores in --cache, and fit nothing")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "unlabeled_rows.json")
    options = parser.parse_args()
    names = options.tables.split(",") if options.tables else TABLES if options.full else QUICK_TABLES
    n_draws, n_unlabeled = (5, 20_000) if options.full else (options.draws, options.unlabeled)
    sizes = [int(n) for n in options.labeled.split(",")]
    models = options.models.split(",")
    found: dict[str, float] = {}
    if options.cache is not None and options.cache.is_file():
        found = json.loads(options.cache.read_text())
    # Complete draws first: a run that is interrupted has the same number for each table.
    for seed in range(0 if options.kept_only else n_draws):
        for name in names:
            source = load(options.data, name)
            keys = _keys(name, source.schema, models, sizes, seed)
            if all(key in found for key, _, _ in keys):
                continue
            draw = Draw(source.frame, source.schema, max(sizes), n_unlabeled, seed)
            with TemporaryDirectory() as pretrained:
                for key, model, n in keys:
                    if key in found:
                        continue
                    began = time.process_time()
                    found[key] = draw.fit(model, n, options.seconds, options.device, Path(pretrained) / model)
                    print(f"{key}: {found[key]:.4f} in {time.process_time() - began:.1f} s", flush=True)
                    if options.cache is not None:
                        files.write_bytes(options.cache, json.dumps(found, indent=1).encode())
    rows: list[list[str]] = []
    for name in names:
        for n in sizes:
            cells: list[str] = []
            for model in models:
                scores = [found[key] for seed in range(n_draws) if (key := f"{name}/{n}/{model}/{seed}") in found]
                spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
                shown = f" ± {spread:.3f}" if len(scores) > 1 else ""
                cells.append(f"{statistics.fmean(scores):.3f}{shown}" if scores else "—")
            n_known = len({key.rpartition("/")[2] for key in found if key.startswith(f"{name}/{n}/")})
            rows.append([name, f"{n:,}", str(n_known), *cells])
    facts: dict[str, Any] = machine("torch", "catboost")
    facts |= {"draws": n_draws, "unlabeled": n_unlabeled, "device": options.device, "seconds": options.seconds}
    header = ["table", "labeled", "draws", *(MODELS[model].strip() for model in models)]
    report(facts, header, rows, found, options.out, range(1, len(header)), more=[rule_table(found)])


if __name__ == "__main__":
    main()
