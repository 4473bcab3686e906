"""Default settings of every network on California housing, compared with the published scores.

python -m papers.deep_models [--models a,b] [--seeds 3] [--trials N] [--authors] [--settings paper|cpu] [--device cpu]
                                 [--minutes M] [--ensembles] [--data FOLDER] [--cache FILE.json] [--out FILE.json]

The table is scikit-learn's (20,640 rows), split once into 64 % training, 16 % early-stopping and 20 % test rows; repeats differ
only in the seed of the training. The authors' split of the same table is not available, and another split changes scores by about
±0.01. --settings paper trains what `defaults` gives for a GPU on any device: the papers' settings, but MLP, ResNet, SNN,
NODE, DCN V2 and DCAP average their weights over steps; --settings cpu
trains the defaults for a CPU. Each result is added to --cache when it is available, and existing results are not computed again:
--seeds 0 prints existing results. --minutes limits one fit.

Most of the released scores are of tuned models. --trials tunes too, on the early-stopping rows, in the plugin's search space.

--ensembles is the protocol of Gorishniy et al. 2021 (sections 3.4 and 3.5): 15 seeds in three groups of five whose predictions are
averaged; mean and standard deviation are over the three groups.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import optuna

from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import read_table
from tabapp.data.typed import typed_frame
from tabapp.features.prepare import FeaturePreparer
from tabapp.models import registry
from tabapp.models.contract import FitContext, Plugin, Shape
from tabapp.nn.retrieval import RetrievalParams

FILE, TARGET = "california_sklearn.csv.gz", "MedHouseVal"
TOLERANCE = 0.02


@dataclass(frozen=True)
class Released:
    """Published results: test RMSE, its standard deviation over seeds, and the trained configuration. Those of
    Gorishniy et al. 2021 are in Tables 1 and 17 of the first arXiv version; later versions have other figures."""

    rmse: float
    std: float
    what: str


REVISITING = "Gorishniy et al. 2021"
RELEASED: dict[str, Released] = {
    "mlp": Released(0.494, 0.0036, f"{REVISITING}, tuned"),
    "resnet": Released(0.487, 0.0047, f"{REVISITING}, tuned"),
    "snn": Released(0.507, 0.0066, f"{REVISITING}, tuned"),
    "node": Released(0.464, 0.0019, f"{REVISITING}, tuned"),
    "tabnet": Released(0.513, 0.015, f"{REVISITING}, tuned, with an attention that sees nothing"),
    "grownet": Released(0.500, 0.006, f"{REVISITING}, tuned"),
    "dcn_v2": Released(0.486, 0.0036, f"{REVISITING}, tuned"),
    "autoint": Released(0.479, 0.0041, f"{REVISITING}, tuned"),
    "ft_transformer": Released(0.470, 0.0036, f"{REVISITING}, default"),
    "tabm": Released(0.4309, 0.003, "Gorishniy et al. 2025, mini or full with embeddings, shared batches"),
    "tabr": Released(0.4060, 0.0029, "Gorishniy et al. 2024, default"),
    "catboost": Released(0.430, 0.0007, f"{REVISITING}, default"),
    "xgboost": Released(0.433, 0.0016, f"{REVISITING}, tuned"),
}
AUTHORS: dict[str, dict[str, Any]] = {
    "grownet": {"width": 54, "learning_rate": 7.9e-3, "l2_penalty": 9.9e-4, "stage_epochs": 2, "corrective_epochs": 2},
}
"""Tuned configurations of the released scores, if they are published and differ much from all defaults."""
NO_FIGURE = "its authors released none for this table"


def split(n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, early-stopping and test rows: 64, 16 and 20 percent."""
    order = np.random.default_rng(0).permutation(n_rows)
    first, second = int(0.64 * n_rows), int(0.8 * n_rows)
    return order[:first], order[first:second], order[second:]


def train(
    name: str,
    seed: int,
    settings: str,
    device: str,
    seconds: float | None,
    file: Path,
    changed: dict[str, Any] | None = None,
    plugin: Plugin | None = None,
) -> tuple[dict[str, Any], np.ndarray]:
    """Train one model with one seed; returns its test RMSE with time and epochs, and its predictions of the test rows.

    Args:
        changed: parameters that override the settings.
        plugin: plugin that replaces the registered one of this name.
    """
    reading = read_table(file)
    schema = infer_schema(reading.frame, target=TARGET, task="regression")
    frame = typed_frame(reading.frame, schema)
    target = reading.frame[TARGET].cast(float).to_numpy()
    learning, stopping, scored = split(len(frame))
    plugin = plugin or registry.get(name)
    preparer = FeaturePreparer.fit(frame[learning], schema, plugin.features(), seed)
    table = preparer.transform(frame)
    spec = preparer.spec
    shape = Shape(len(learning), len(spec.numeric), len(spec.categorical), 1)
    params = plugin.defaults("regression", shape, "cuda:0" if settings == "paper" else device)
    params = msgspec.structs.replace(params, **(changed or {}))
    if isinstance(params, RetrievalParams):
        # As in the authors' code. Otherwise, retrieved early-stopping rows would include the scored row.
        params = msgspec.structs.replace(params, stopping_rows=False)
    tables = [
        type(table)(numeric=table.numeric[rows], categorical=table.categorical[rows], target=target[rows])
        for rows in (learning, stopping, scored)
    ]
    with TemporaryDirectory() as folder:
        started = time.perf_counter()
        context = FitContext(
            task="regression",
            n_classes=1,
            metric="rmse",
            features=spec,
            seed=seed,
            device=device,
            n_threads=int(os.environ.get("OMP_NUM_THREADS", "1")),
            folder=Path(folder),
            soft_deadline=time.monotonic() + seconds if seconds else None,
        )
        model = plugin.fit(tables[0], tables[1], params, context)
        took = time.perf_counter() - started
    prediction = model.predict(tables[2])
    result = {
        "model": name,
        "seed": seed,
        "settings": settings,
        "device": device,
        "rmse": metrics.score("rmse", target[scored], prediction),
        "valid_rmse": metrics.score("rmse", target[stopping], model.predict(tables[1])),
        "seconds": took,
        "bounded": bool(seconds and took > 0.98 * seconds),
        **{key: value for key, value in model.summary().items() if isinstance(value, int | float | str)},
    }
    return result, prediction


def known(out: Path | None) -> list[dict[str, Any]]:
    """The results in a file."""
    return json.loads(out.read_text())["results"] if out is not None and out.is_file() else []


def trained(
    name: str,
    seed: int,
    settings: str,
    device: str,
    seconds: float | None,
    file: Path,
    out: Path | None,
    changed: dict[str, Any] | None = None,
    n_trials: int = 0,
    plugin: Plugin | None = None,
) -> dict[str, Any]:
    """The first result of `train`, read from `out` if it is there, and added to it otherwise.

    Args:
        changed: parameters that override the settings.
        n_trials: number of trials that selected `changed`.
        plugin: as for `train`.
    """
    key = {"model": name, "seed": seed, "settings": settings, "device": device}
    for result in known(out):
        if key.items() <= result.items() and result.get("changed", {}) == (changed or {}):
            return result
    result, _ = train(name, seed, settings, device, seconds, file, changed, plugin)
    result |= {"changed": changed, "trials": n_trials} if changed else {}
    print(f"{name} {changed or ''} seed {seed}: RMSE {result['rmse']:.4f} in {result['seconds']:.0f} s", flush=True)
    add(result, out)
    return result


def add(result: dict[str, Any], out: Path | None) -> None:
    """Add a result to the file of results, and keep what other processes have added."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(
            json.dumps({"machine": machine("torch", "numpy"), "results": [*known(out), result]}, indent=1) + "\n"
        )


def tuned(name: str, n_trials: int, device: str, seconds: float | None, file: Path, out: Path | None) -> dict[str, Any]:
    """Parameters of the trial with the best score on the early-stopping rows, from the plugin's search space on a GPU."""
    for result in known(out):
        if result["model"] == name and result.get("trials") == n_trials:
            return result["changed"]
    plugin = registry.get(name)
    shape = Shape(13_209, 8, 0, 1)
    found: list[tuple[float, dict[str, Any]]] = []

    def objective(trial: optuna.Trial) -> float:
        changed = msgspec.to_builtins(plugin.search_space(trial, "regression", shape, "cuda:0"))
        changed = {key: tuple(value) if isinstance(value, list) else value for key, value in changed.items()}
        result, _ = train(name, 0, "paper", device, seconds, file, changed)
        print(f"{name} trial {trial.number}: {result['valid_rmse']:.4f} in {result['seconds']:.0f} s", flush=True)
        found.append((result["valid_rmse"], changed))
        return result["valid_rmse"]

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0)).optimize(objective, n_trials)
    return min(found, key=lambda pair: pair[0])[1]


def kind(result: dict[str, Any]) -> str | None:
    """Origin of a result's parameters: defaults (an empty string), found by trials, or the authors'; None for any others."""
    changed = result.get("changed")
    if not changed:
        return ""
    if result.get("trials"):
        return f"{result['trials']} trials"
    return "the authors' configuration" if changed == AUTHORS.get(result["model"]) else None


def ensembles(names: list[str], settings: str, device: str, seconds: float | None, file: Path) -> None:
    """Print the RMSE of single models over 15 seeds, and of three ensembles of five."""
    target = read_table(file).frame[TARGET].cast(float).to_numpy()
    truth = target[split(len(target))[2]]
    rows: list[list[str]] = []
    for name in names:
        trained = [train(name, seed, settings, device, seconds, file) for seed in range(15)]
        single = [result["rmse"] for result, _ in trained]
        groups = [np.mean([p for _, p in trained[start : start + 5]], axis=0) for start in (0, 5, 10)]
        grouped = [metrics.score("rmse", truth, group) for group in groups]
        rows.append(
            [
                name,
                *(f"{statistics.fmean(values):.4f} ± {statistics.stdev(values):.4f}" for values in (single, grouped)),
            ]
        )
    report(machine("torch", "numpy"), ["model", "15 single models", "3 ensembles of 5"], rows, rows, None)


def verdict(name: str, values: list[float], bounded: bool) -> str:
    """Whether the mean equals the released one within twice the standard deviation or two percent."""
    released = RELEASED.get(name)
    if released is None:
        return NO_FIGURE
    mean = statistics.fmean(values)
    ratio = mean / released.rmse - 1
    allowed = max(2 * released.std, TOLERANCE * released.rmse)
    if mean <= released.rmse + allowed:
        return f"{ratio:+.1%}: reproduced" if mean >= released.rmse - allowed else f"{ratio:+.1%}: better"
    why = "; the default is its authors' scripts', its figure was tuned: see --authors" if name in AUTHORS else ""
    return f"{ratio:+.1%}: worse" + (", cut short by --minutes" if bounded else why)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=0, help="tune first, as most of the released figures were")
    parser.add_argument("--authors", action="store_true", help="the configuration that a released figure was tuned to")
    parser.add_argument("--settings", choices=["paper", "cpu"], default="paper")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--ensembles", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("TABAPP_DATA", "../shared/data")))
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("build/benchmarks/deep_models.json"),
        help="file of completed fits, which are reused",
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "deep_models.json")
    options = parser.parse_args()
    names = [name for name in options.models.split(",") if name]
    if not names:
        names = [n for n in registry.names() if (p := registry.find(n).plugin) is not None and p.family == "deep"]
    seconds = options.minutes * 60 if options.minutes else None
    if options.ensembles:
        ensembles(names, options.settings, options.device, seconds, options.data / FILE)
        return
    file, out, device = options.data / FILE, options.cache, options.device
    results: list[dict[str, Any]] = []
    for name in names:
        changed = AUTHORS.get(name) if options.authors else None
        if options.trials and options.seeds:
            changed = tuned(name, options.trials, device, seconds, file, out)
        for seed in range(options.seeds):
            results.append(trained(name, seed, options.settings, device, seconds, file, out, changed, options.trials))
    if not options.seeds:
        wanted = {"settings": options.settings, "device": device}
        mine = [r for r in known(out) if wanted.items() <= r.items() and r["model"] in registry.names()]
        results = [r for r in mine if kind(r) is not None]
    rows: list[list[str]] = []
    for name, what in sorted({(r["model"], kind(r) or "") for r in results}):
        mine = [r for r in results if (r["model"], kind(r) or "") == (name, what)]
        values = [r["rmse"] for r in mine]
        spread = f"± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
        released = RELEASED.get(name)
        rows.append(
            [
                f"{name}, {what}" if what else name,
                f"{statistics.fmean(values):.4f}",
                spread,
                str(len(values)),
                f"{released.rmse:.4f}" if released else "—",
                f"{statistics.fmean(r['seconds'] for r in mine):.0f} s",
                verdict(name, values, any(r["bounded"] for r in mine)),
                released.what if released else "",
            ]
        )
    rows.sort(key=lambda row: row[1])
    for name in names if not options.models else []:
        if all(result["model"] != name for result in results):
            plugin, shape = registry.get(name), Shape(13_209, 8, 0, 1)
            params = plugin.defaults("regression", shape, "cuda:0" if options.settings == "paper" else device)
            minutes = plugin.cost("regression", shape, params, device).seconds / 60
            released = RELEASED.get(name)
            figure = f"{released.rmse:.4f}" if released else "—"
            rows.append(
                [name, "—", "", "0", figure, "", f"not run: a fit is expected to take {minutes:.0f} minutes", ""]
            )
    header = ["model", "RMSE", "spread", "seeds", "released", "fit", "verdict", "released for"]
    facts = machine("torch", "numpy") | {
        "threads": os.environ.get("OMP_NUM_THREADS", "1"),
        "settings": options.settings,
    }
    report(facts, header, rows, results, options.out, right=(1, 3, 4, 5))


if __name__ == "__main__":
    main()
