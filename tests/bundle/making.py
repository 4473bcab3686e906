"""Small bundles for tests: a generated table, two folds, LightGBM, and a linear model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from tabapp import plugin_files
from tabapp.bundle.files.records import COVERAGES, IntervalScale, MetricValue
from tabapp.bundle.prediction.intervals import Intervals
from tabapp.bundle.writing.write import BundleContents, CandidateSource, FoldSource
from tabapp.data.infer import infer_schema
from tabapp.data.typed import encode_target, typed_frame
from tabapp.discovery import Found
from tabapp.engine.fit.features import recipe_id
from tabapp.ensemble.calibration import ClassScaling
from tabapp.features.prepare import FeaturePreparer, recipe_for
from tabapp.models import registry
from tabapp.models.contract import FitContext

N_FOLDS = 2
USER_PLUGINS = Path(__file__).parent / "user_plugins"
INTERVALS = Intervals(
    55.5,
    tuple(55.5 * coverage / 0.9 for coverage in COVERAGES),
    IntervalScale((900.0, 950.0, 1100.0), (0.5, 1.0, 2.0)),
)
COLORS = ("red", "green", "blue, dark", 'the "other"')


_linear = plugin_files.load_module(USER_PLUGINS / "test_linear.py")
Linear, LinearParams = _linear.Linear, _linear.LinearParams


def register_linear(monkeypatch):
    """Register the plugin of the tests like an installed one, in child processes by their plugin folder."""
    monkeypatch.setenv("TABAPP_PLUGINS_DIR", str(USER_PLUGINS))
    # The list of plugin files is cached for the whole process; here it must not contain the folder of the child processes.
    monkeypatch.setattr(plugin_files, "_files", dict)
    monkeypatch.setitem(registry.MODELS._found, Linear.name, Found(Linear.name, Linear(), None))


def text_table(task, n_rows=160, seed=0):
    """Rows as text: numbers, a category, dates, missing cells; the target comes last."""
    generator = np.random.default_rng(seed)
    size, age = generator.normal(size=n_rows), generator.uniform(18, 90, n_rows)
    color = generator.integers(0, len(COLORS), n_rows)
    signal = size + 0.03 * (age - 50) + 0.5 * color + generator.normal(scale=0.3, size=n_rows)
    if task == "regression":
        target = [f"{value:.4f}" for value in 1000 + 100 * signal]
    else:
        labels = {"binary": ["no", "yes"], "multiclass": ["low", "mid", "high, very"]}[task]
        edges = np.quantile(signal, np.linspace(0, 1, len(labels) + 1)[1:-1])
        target = [labels[code] for code in np.searchsorted(edges, signal)]
    cells = {
        "size": [None if generator.random() < 0.1 else f"{value:.5f}" for value in size],
        "age": [f"{value:.1f}" for value in age],
        "color": [COLORS[code] for code in color],
        "joined": [f"2024-{1 + day // 28:02d}-{1 + day % 28:02d}" for day in generator.integers(0, 336, n_rows)],
        "outcome": target,
    }
    return pl.DataFrame({name: pl.Series(values, dtype=pl.String) for name, values in cells.items()})


def fit_candidate(folder, plugin, params, frame, schema, weight, features):
    """Fit a plugin on two folds like a run, and save its folders."""
    typed, target = typed_frame(frame, schema), encode_target(typed_frame(frame, schema), schema)
    rows = np.arange(len(target))
    folds = []
    for fold in range(N_FOLDS):
        training = rows % N_FOLDS != fold
        recipe = recipe_for(plugin.features_for(params), schema)
        place = features / f"{recipe_id(recipe)}-{fold}"
        if not place.exists():
            place.mkdir(parents=True)
            FeaturePreparer.fit_transform(typed.filter(training), schema, recipe, 0, target[training])[0].save(place)
        preparer = FeaturePreparer.load(place)
        table = preparer.transform(typed)
        table = type(table)(table.numeric, table.categorical, target)
        learning, stopping = training & (rows % 5 != 0), training & (rows % 5 == 0)
        context = FitContext(
            task=schema.task,
            n_classes=max(len(schema.classes), 1),
            metric={"binary": "roc_auc", "multiclass": "log_loss", "regression": "rmse"}[schema.task],
            features=preparer.spec,
            seed=0,
            device="cpu",
            n_threads=1,
            folder=folder,
        )
        model = plugin.fit(table.take(learning), table.take(stopping), params, context)
        saved = folder / f"{plugin.name}-{fold}"
        saved.mkdir(parents=True)
        model.save(saved)
        folds.append(FoldSource(fold, saved, place))
    return CandidateSource(plugin.name, 0, msgspec.to_builtins(params), weight, folds)


BOOSTERS = {
    "lightgbm": {"min_data_in_leaf": 5},
    "xgboost": {"n_trees": 20},
    "catboost": {"n_trees": 20},
    "mlp": {"widths": (16,)},
    "npt": {"d_embedding": 8, "n_layers": 2, "n_heads": 2, "n_steps": 30, "n_evaluations": 2, "learning_rate": 1e-2},
}


def make_contents(folder: Path, task="binary", *, booster=None, frame=None) -> BundleContents:
    """The contents that a run passes to `write_bundle`, with its folders in `folder`.

    Args:
        booster: name of the second model; a second linear model by default.
        frame: another table, whose last column is the target of the task.
    """
    frame = text_table(task) if frame is None else frame
    schema = infer_schema(frame, target=frame.columns[-1])
    candidates = [fit_candidate(folder / "fits", Linear(), LinearParams(), frame, schema, 0.25, folder / "features")]
    second = registry.get(booster) if booster else Linear()
    params = second.params_type(**BOOSTERS[booster]) if booster else LinearParams(penalty=30.0)
    more = fit_candidate(folder / "more", second, params, frame, schema, 0.75, folder / "features")
    candidates.append(replace(more, trial=3))
    metric = {"binary": "roc_auc", "multiclass": "log_loss", "regression": "rmse"}[task]
    return BundleContents(
        run="20260101-000000-made-0001",
        name="made",
        schema=schema,
        metric=metric,
        metrics=[MetricValue(name=metric, score=0.9, low=0.85, high=0.95)],
        validation="2-fold",
        leaderboard=[{"rank": 1, "model": "ensemble", "title": "Ensemble", "score": 0.9, "status": "ok"}],
        seed=0,
        data={"file": "made.csv", "rows": frame.height},
        created_at="2026-01-01T00:00:00Z",
        candidates=candidates,
        sample=frame.head(7),
        calibration={"multiclass": 0.8, "binary": ClassScaling((0.9, 1.2), (1.1, 0.95))}.get(task),
        intervals=INTERVALS if task == "regression" else None,
    )
