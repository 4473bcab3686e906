"""FT-Transformer tuned by Optuna, 15 seeds and three ensembles of five: Tables 1 and 2 of Gorishniy et al. 2021.

python -m papers.ft_transformer_tuned [--full] [--seconds N] [--processes 2] [--device cuda:0] [--tables a,b] [--trials N]
    [--seeds N] [--rows N] [--epochs N] [--data FOLDER] [--out FILE.json]

First the default of Table 15 is trained with every seed. Then Optuna's TPE sampler searches the space of Table 16 for the best
score on the early-stopping rows, and the best trial is trained with every seed. Trial 0 is the default. A trial is suggested from
the trials that are at least `WINDOW` before it, while the later ones count as running; so trials run side by side, and the search
depends neither on timing nor on interruptions. No trial is pruned, as in the paper.

--full is the paper's size, for a GPU: all rows, 100 trials, 15 seeds and at most 1,000 epochs. California housing is divided into
64 % training, 16 % early-stopping and 20 % test rows, as in `deep_models`; Adult has its published test rows, and a fifth of the
others stops training early. The default size is for a CPU.

Every fit is recorded in --out as soon as it ends. After --seconds, fits in flight are given up; the same command continues with
them. Predictions of the test rows are kept in the file until their ensemble is scored.
"""

from __future__ import annotations

import argparse
import base64
import math
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import optuna
import torch
from optuna.trial import FixedTrial, TrialState, create_trial
from tabapp_plugins.ft_transformer import FTTransformer

from benchmarks.fits import Division, Source, changed, data_folder, fitted, load, prepared, spread
from benchmarks.machine import RESULTS, ResultTable, machine, report, write_results
from benchmarks.performance.resuming import Job, earlier_results, run_jobs
from tabapp import metrics
from tabapp.engine.schedule.tuning import as_suggested
from tabapp.models.contract import Params, Shape
from tabapp.nn.training.objective import target_of

TABLES = {"california_sklearn": "CA", "adult": "AD"}
PUBLISHED = {
    "CA": {"default": (0.470, 0.455), "tuned": (0.464, 0.450)},
    "AD": {"default": (0.8574, 0.8598), "tuned": (0.8587, 0.8601)},
}
"""Single models (Table 1) and ensembles (Table 2).

AD has the accuracies of the authors' released results: the paper's column agrees with no metric in those files.
"""
GROUP = 5
WINDOW = 12
"""Trials that may run side by side."""
RANDOM_TRIALS = 16
"""First trials, which are drawn uniformly; Optuna's default of 10 is fewer than the trials without a known result."""
ADULT_TEST_ROWS = 16_281
"""The published test rows of Adult, which are the last rows of the table."""
PAPER_DEVICE = "cuda:0"
"""The device whose defaults and search space are the paper's."""


def division_of(source: Source, name: str, n_rows: int | None) -> Division:
    """The same rows for all fits; `n_rows` of all for a small experiment."""
    draw = np.random.default_rng(0)
    if name == "adult" and n_rows is None:
        learned = len(source) - ADULT_TEST_ROWS
        order = draw.permutation(learned)
        cut = int(0.8 * learned)
        return Division(order[:cut], order[cut:], np.arange(learned, len(source)))
    order = draw.permutation(len(source))[:n_rows]
    first, second = int(0.64 * len(order)), int(0.8 * len(order))
    return Division(order[:first], order[first:second], order[second:])


def metric_of(source: Source) -> str:
    """The metric of the paper."""
    return "rmse" if source.task == "regression" else "accuracy"


def packed(values: npt.NDArray[Any]) -> dict[str, Any]:
    """An array of float32 as JSON."""
    return {"shape": list(values.shape), "float32": base64.b64encode(values.astype("<f4").tobytes()).decode()}


def unpacked(saved: dict[str, Any]) -> npt.NDArray[Any]:
    """The array of `packed`."""
    return np.frombuffer(base64.b64decode(saved["float32"]), "<f4").reshape(saved["shape"])


def fit(name: str, params: Params, seed: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Train one model; yields its scores, cost and predictions of the test rows."""
    source = load(options.data, name)
    metric = metric_of(source)
    data = prepared(source, division_of(source, name, options.rows), FTTransformer(), seed)
    trained_params = changed(params, {"max_epochs": options.epochs} if options.epochs else {})
    began = time.perf_counter()
    model = fitted(
        FTTransformer(), data, trained_params, metric=metric, seed=seed, seconds=math.inf, device=options.device
    )
    seconds = time.perf_counter() - began
    prediction = model.predict(data.test)
    yield {
        "params": msgspec.to_builtins(params),
        "valid": metrics.score(metric, target_of(data.valid), model.predict(data.valid)),
        "test": metrics.score(metric, target_of(data.test), prediction),
        **{key: model.summary()[key] for key in ("parameters", "best_epoch", "epochs")},
        "seconds": round(seconds, 1),
        "device": torch.cuda.get_device_name() if options.device != "cpu" else "cpu",
        "prediction": packed(prediction),
    }


class Tuning:
    """The trials and seeds of one table.

    Attributes:
        trials: finished trials by number.
        fits: finished seeds of "default" and "tuned".
        ensembles: scores of "default" and "tuned" by the first seed.
    """

    def __init__(self, name: str, options: argparse.Namespace, known: dict[str, Any]) -> None:
        self.name, self._options = name, options
        self._plugin, self._source = FTTransformer(), load(options.data, name)
        n_train = len(division_of(self._source, name, options.rows).train)
        self.shape = Shape(n_train, len(self._source.schema.features), 0, self._source.n_classes)
        self.trials: dict[int, dict[str, Any]] = {each["number"]: each for each in known.get("trials", [])}
        self.fits, self.ensembles = (
            {kind: {each["seed"]: each for each in known.get(what, {}).get(kind, [])} for kind in ("default", "tuned")}
            for what in ("fits", "ensembles")
        )
        self._suggested: dict[int, tuple[dict[str, Any], Params]] = {}
        self.lower_is_better = metric_of(self._source) == "rmse"

    def saved(self) -> dict[str, Any]:
        """What `known` was, in an order that does not depend on timing."""
        fits, ensembles = (
            {kind: [each[seed] for seed in sorted(each)] for kind, each in by_kind.items()}
            for by_kind in (self.fits, self.ensembles)
        )
        return {"trials": [self.trials[n] for n in sorted(self.trials)], "fits": fits, "ensembles": ensembles}

    def following(self, taken: Collection[str]) -> Job | None:
        """The next fit that is neither finished nor taken."""
        jobs = self._jobs()
        return next((job for job in jobs if job.key not in taken), None)

    def record(self, key: str, result: dict[str, Any]) -> None:
        """Add the result of a job."""
        _, kind, number = key.split()
        if kind == "trial":
            values, _ = self._suggestion(int(number)) or ({}, None)
            # The test rows have no part in tuning.
            found = {key: value for key, value in result.items() if key not in ("test", "prediction")}
            self.trials[int(number)] = {"number": int(number), "values": values, **found}
            return
        fits = self.fits[kind]
        fits[int(number)] = {"seed": int(number), **result}
        first = int(number) // GROUP * GROUP
        group = [fits[seed] for seed in range(first, first + GROUP) if "prediction" in fits.get(seed, {})]
        if len(group) == GROUP:
            mean = np.mean([unpacked(each.pop("prediction")) for each in group], axis=0)
            test = division_of(self._source, self.name, self._options.rows).test
            score = metrics.score(metric_of(self._source), self._source.target[test], mean)
            self.ensembles[kind][first] = {"seed": first, "test": score}

    def best(self) -> dict[str, Any] | None:
        """The trial with the best score on the early-stopping rows, the earliest of equal ones."""
        sign = 1 if self.lower_is_better else -1
        return min((self.trials[n] for n in sorted(self.trials)), key=lambda each: sign * each["valid"], default=None)

    def _jobs(self) -> Iterator[Job]:
        default = self._plugin.defaults(self._source.task, self.shape, PAPER_DEVICE)
        yield from self._seeds("default", default)
        for number in range(self._options.trials):
            if number not in self.trials:
                if (suggestion := self._suggestion(number)) is None:
                    return
                yield self._job(f"trial {number}", suggestion[1], 0)
        best = self.best()
        if best is None or any(number not in self.trials for number in range(self._options.trials)):
            return
        if any(each["params"] != best["params"] for each in self.fits["tuned"].values()):
            # They are of the best of fewer trials.
            self.fits["tuned"], self.ensembles["tuned"] = {}, {}
        yield from self._seeds("tuned", msgspec.convert(best["params"], self._plugin.params_type))

    def _seeds(self, kind: str, params: Params) -> Iterator[Job]:
        for seed in range(self._options.seeds):
            if seed not in self.fits[kind]:
                yield self._job(f"{kind} {seed}", params, seed)

    def _job(self, what: str, params: Params, seed: int) -> Job:
        return Job(f"{self.name} {what}", fit, (self.name, params, seed, self._options))

    def _suggestion(self, number: int) -> tuple[dict[str, Any], Params] | None:
        """The values and hyperparameters of a trial; None until the trials that it depends on are finished.

        It is computed anew from those trials alone, so that it is the same in a call that continues.
        """
        if number in self._suggested:
            return self._suggested[number]
        if any(earlier not in self.trials for earlier in range(number - WINDOW + 1)):
            return None
        if number == 0:
            default = self._plugin.defaults(self._source.task, self.shape, PAPER_DEVICE)
            trial: Any = FixedTrial(as_suggested(default))
        else:
            sampler = optuna.samplers.TPESampler(seed=number, n_startup_trials=RANDOM_TRIALS, constant_liar=True)
            study = optuna.create_study(direction="minimize" if self.lower_is_better else "maximize", sampler=sampler)
            for earlier in range(number):
                study.add_trial(self._as_known(earlier, is_finished=earlier <= number - WINDOW))
            trial = study.ask()
        params = self._plugin.search_space(trial, self._source.task, self.shape, PAPER_DEVICE)
        self._suggested[number] = {name: trial.params[name] for name in trial.distributions}, params
        return self._suggested[number]

    def _as_known(self, number: int, *, is_finished: bool) -> optuna.trial.FrozenTrial:
        known = self.trials.get(number)
        values = known["values"] if known else self._suggested[number][0]
        replayed = FixedTrial(values)
        self._plugin.search_space(replayed, self._source.task, self.shape, PAPER_DEVICE)
        return create_trial(
            state=TrialState.COMPLETE if is_finished else TrialState.RUNNING,
            value=self.trials[number]["valid"] if is_finished else None,
            params=values,
            distributions=replayed.distributions,
        )


def difference(values: list[float], published: float) -> str:
    """Of the mean from the published value."""
    return f"{np.mean(values) - published:+.4f}" if values else "—"


def line(tuning: Tuning, kind: str) -> list[str] | None:
    """One line of the published table; None if no seed is finished."""
    if not (fits := tuning.fits[kind]):
        return None
    single, ensembles = ([each["test"] for each in found.values()] for found in (fits, tuning.ensembles[kind]))
    short = TABLES[tuning.name]
    paper = PUBLISHED[short][kind]
    title = "default" if kind == "default" else f"best of {len(tuning.trials)} trials"
    size = f"{tuning.shape.n_rows:,} rows, {len(fits)} seeds"
    first = [short, title, size, spread(single, 4), f"{paper[0]:g}", difference(single, paper[0])]
    return [*first, spread(ensembles, 4), f"{paper[1]:g}", difference(ensembles, paper[1])]


def trials_of(tunings: list[Tuning]) -> ResultTable:
    """The search on each table: its size, the best trial, and what that gains on the early-stopping rows."""
    rows: list[list[str]] = []
    for tuning in tunings:
        if (best := tuning.best()) is None or 0 not in tuning.trials:
            continue
        scores = [f"{tuning.trials[number]['valid']:.4f}" for number in (0, best["number"])]
        values = ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in best["values"].items()
        )
        hours = sum(each["seconds"] for each in tuning.trials.values()) / 3600
        rows.append([TABLES[tuning.name], str(len(tuning.trials)), *scores, values, f"{hours:.2f}"])
    columns = ["table", "trials", "default, early-stopping rows", "best trial", "its values", "hours of all fits"]
    return ResultTable(name="tuning", columns=columns, right=[1, 2, 3, 5], rows=rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seconds", type=float, default=math.inf, help="time after which the call ends")
    parser.add_argument("--processes", type=int, default=2, help=f"fits at the same time, at most {WINDOW} trials")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tables", default="california_sklearn")
    parser.add_argument("--trials", type=int, help="100 with --full")
    parser.add_argument("--seeds", type=int, help="15 with --full")
    parser.add_argument("--rows", type=int, help="rows of a small experiment")
    parser.add_argument("--epochs", type=int, help="maximum number of epochs of a small experiment")
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables")
    parser.add_argument("--out", type=Path, default=RESULTS / "ft_transformer_tuned.json")
    options = parser.parse_args()
    if not options.full:
        options.rows, options.epochs = options.rows or 1_000, options.epochs or 5
    options.trials = options.trials or (100 if options.full else 5)
    options.seeds = options.seeds or (15 if options.full else GROUP)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    settings = {"rows": options.rows, "epochs": options.epochs}
    known = earlier_results(options.out, settings).get("tables", {})
    tunings = {name: Tuning(name, options, known.get(name, {})) for name in options.tables.split(",")}
    facts = machine("torch", "optuna") | {"device": options.device, "rows": options.rows or "all"}
    header = ["table", "FT-Transformer", "size", "single models", "paper, Table 1", "difference"]
    header += ["ensembles of five", "paper, Table 2", "difference"]
    right = (3, 4, 5, 6, 7, 8)

    def content() -> tuple[list[list[str]], dict[str, Any], list[ResultTable]]:
        rows = [found for tuning in tunings.values() for kind in tuning.fits if (found := line(tuning, kind))]
        tables = known | {name: tuning.saved() for name, tuning in tunings.items()}
        return rows, {"settings": settings, "tables": tables}, [trials_of(list(tunings.values()))]

    def following(taken: Collection[str]) -> Job | None:
        return next((job for tuning in tunings.values() if (job := tuning.following(taken))), None)

    def record(key: str, result: dict[str, Any]) -> None:
        tunings[key.split()[0]].record(key, result)
        print(f"{key}: {result['valid']:.4f} after {result['epochs']} epochs, {result['seconds']} s", file=sys.stderr)
        rows, raw, more = content()
        write_results(options.out, facts, header, rows, raw, right, (), more)

    is_complete = run_jobs(
        following,
        record,
        processes=options.processes,
        seconds=options.seconds,
        preload=["benchmarks.fits", "tabapp.engine.schedule.tuning", "tabapp_plugins.ft_transformer"],
    )
    rows, raw, more = content()
    report(facts, header, rows, raw, options.out, right=right, more=more)
    if not is_complete:
        print("The same command continues.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
