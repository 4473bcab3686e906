"""NPT at the paper's size: test scores (Table 11), data corruption (Table 2) and deletion (section 4.4) of Kossen et al. 2021.

python -m papers.npt.paper [--full] [--seconds N] [--processes 2] [--device cuda:0] [--tables boston,yacht] [--splits N]
    [--steps N | --steps boston=N,yacht=N] [--rows 20] [--data FOLDER] [--out FILE.json]

A network is trained on each split, and the experiments follow in the same process, because its weights are not kept. Targets are
masked with a probability of 0.5, one of the two best variants of Table 13 on most tables, with twice the steps of the paper's base
configuration, as in appendix C.1.2. The published splits are not the paper's ten folds. Deletion is repeated for --rows test rows
of a split, or fewer if the time is over; its p is of all rows of all splits.

--full is the paper's size, for a GPU: NPT-Small with up to 168 million parameters and 4,000 to 20,000 steps on ten splits. If the
time does not allow all steps, fewer are planned, so that the learning rate is annealed, and the page says how many they were; a fit
with fewer than a quarter of them is not recorded. The default size is for a CPU: NPT Mini on one split.

Results are recorded in --out as soon as they are there. After --seconds, splits in flight are given up; the same command continues
with them.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch
from scipy.stats import wilcoxon
from tabapp_plugins.npt.params import NPTParams
from tabapp_plugins.npt.plugin import sized

from benchmarks.fits import data_folder, spread
from benchmarks.machine import RESULTS, machine, report, write_results
from benchmarks.performance.resuming import Job, earlier_results, run_jobs
from papers.npt.experiments import PAPER_DROP, corruption, deletions, metric_of, split_of, trained
from tabapp import metrics
from tabapp.nn.training.objective import target_of

STEPS = {"boston": 4_000, "yacht": 20_000, "concrete": 20_000, "breast_cancer_wdbc": 4_000}
CHANGES: dict[str, dict[str, Any]] = {"breast_cancer_wdbc": {"d_embedding": 32, "learning_rate": 5e-4}}
"""Of NPT-Small, in appendix C.1.2."""
PUBLISHED = {"boston": "2.92 ± 0.15", "yacht": "1.27 ± 0.15", "concrete": "5.21 ± 0.20", "breast_cancer_wdbc": "0.947"}
"""RMSE (Table 11) and accuracy (Table 8)."""
PUBLISHED_DELETION = "kept nearer, p 9e-130 (Protein)"
FIT_SHARE = 0.7
"""Of the time left, for training; the rest is for the experiments."""
LEAST_STEPS = 0.25
"""Share of the steps that a recorded fit has."""
LAST_SECONDS = 5.0
"""Of the time left, for what follows the last row of deletion."""


def experiments(name: str, number: int, options: argparse.Namespace, deadline: float) -> Iterator[dict[str, Any]]:
    """Train on a split; yields the results of the fit, of corruption and of deletion.

    Args:
        deadline: `time.monotonic()` value, which all processes of the machine share.
    """
    began = time.perf_counter()
    data = split_of(name, number, options.data)
    params = params_of(name, data.shape.n_features + 1, options)
    now = time.monotonic()
    model = trained(data, params, options.device, deadline=now + FIT_SHARE * (deadline - now))
    facts = model.summary()
    if facts["steps"] < LEAST_STEPS * params.n_steps:
        print(f"{name} {number}: {facts['steps']} of {params.n_steps} steps are too few", file=sys.stderr, flush=True)
        return
    where = {"table": name, "split": number}
    yield {
        "experiment": "fit",
        **where,
        "metric": metric_of(data),
        "test": metrics.score(metric_of(data), target_of(data.test), model.predict(data.test)),
        "valid": metrics.score(metric_of(data), target_of(data.valid), model.predict(data.valid)),
        "params": msgspec.to_builtins(params),
        **{key: facts[key] for key in ("parameters", "steps", "best_step", "context_rows")},
        "seconds": round(time.perf_counter() - began, 1),
        "device": torch.cuda.get_device_name() if options.device != "cpu" else "cpu",
    }
    yield corruption(model, data, name, number)
    if data.source.task == "regression":
        seconds = deadline - LAST_SECONDS - time.monotonic()
        yield deletions(model, data, name, number, options.rows, seconds)


def params_of(name: str, n_attributes: int, options: argparse.Namespace) -> NPTParams:
    """The configuration of a table."""
    if options.full:
        return sized(
            "small", n_attributes, **{"n_steps": STEPS[name], **CHANGES.get(name, {}), **options.steps.get(name, {})}
        )
    return sized("mini", n_attributes, **options.steps.get(name, {}))


def steps_of(text: str, names: list[str]) -> dict[str, dict[str, int]]:
    """The change of each table's parameters by `--steps`."""
    if not text:
        return {}
    if "=" not in text:
        return {name: {"n_steps": int(text)} for name in names}
    return {name: {"n_steps": int(n)} for name, _, n in (pair.partition("=") for pair in text.split(","))}


class Splits:
    """The results of the splits.

    Attributes:
        results: by table, split and experiment.
    """

    def __init__(self, names: list[str], options: argparse.Namespace, known: list[dict[str, Any]]) -> None:
        self._names, self._options = names, options
        self._deadline = time.monotonic() + options.seconds
        self.results: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
        for each in known:
            self._add(each)

    def saved(self) -> list[dict[str, Any]]:
        """All results, in an order that does not depend on timing."""
        return [each for place in sorted(self.results) for each in self.results[place].values()]

    def following(self, taken: Collection[str]) -> Job | None:
        """The first split that is neither complete nor taken, and for which there is time."""
        for number in range(self._options.splits):
            for name in self._names:
                key = f"{name} {number}"
                if key in taken or self._is_complete(name, number) or not self._has_time(name):
                    continue
                return Job(key, experiments, (name, number, self._options, self._deadline))
        return None

    def record(self, result: dict[str, Any]) -> None:
        """Add a result; a new fit replaces the earlier results of its split."""
        if result["experiment"] == "fit":
            self.results.pop((result["table"], result["split"]), None)
        self._add(result)

    def of(self, name: str, experiment: str) -> list[dict[str, Any]]:
        """The results of a table."""
        return [each for each in self.saved() if (each["table"], each["experiment"]) == (name, experiment)]

    def _add(self, result: dict[str, Any]) -> None:
        self.results.setdefault((result["table"], result["split"]), {})[result["experiment"]] = result

    def _is_complete(self, name: str, number: int) -> bool:
        found = self.results.get((name, number), {})
        return "corruption" in found and ("deletion" in found or found["fit"]["metric"] != "rmse")

    def _has_time(self, name: str) -> bool:
        seconds = [each["seconds"] for each in self.of(name, "fit")]
        left = self._deadline - time.monotonic()
        return FIT_SHARE * left > (LEAST_STEPS * max(seconds) if seconds else 0.0)


def lines(splits: Splits, name: str) -> list[list[str]]:
    """The lines of one table; what is not measured is left out."""
    fits = splits.of(name, "fit")
    if not fits:
        return []
    steps = sorted({each["steps"] for each in fits})
    size = f"{fits[0]['parameters'] / 1e6:.3g} million parameters, {steps[0]:,}"
    size += f" to {steps[-1]:,} steps" if len(steps) > 1 else " steps"
    title = "RMSE" if fits[0]["metric"] == "rmse" else "accuracy"
    scores = [each["test"] for each in fits]
    paper = PUBLISHED.get(name, "—")
    gap = f"{statistics.fmean(scores) - float(paper.split()[0]):+.3f}" if paper != "—" else "—"
    rows = [[name, f"test {title}", size, str(len(fits)), spread(scores), paper, gap]]
    if corrupted := splits.of(name, "corruption"):
        changes = [each["change"] for each in corrupted]
        paper = PAPER_DROP.get(name, "—")
        gap = f"{statistics.fmean(changes) - float(paper.split()[0]):+.1f} points" if paper != "—" else "—"
        unit = "%" if title == "RMSE" else "points"
        rows.append(
            [name, f"{title} after corruption", size, str(len(corrupted)), f"{spread(changes, 1)} {unit}", paper, gap]
        )
    if deleted := splits.of(name, "deletion"):
        kept, random = ([d for each in deleted for d in each["distances"][what]] for what in ("kept", "random"))
        p = wilcoxon(kept, random, alternative="less").pvalue
        found = f"distance {statistics.fmean(kept):.2f}, random {statistics.fmean(random):.2f}, p {p:.2g}"
        rows.append(
            [name, f"rows kept by deletion, {len(kept)} times", size, str(len(deleted)), found, PUBLISHED_DELETION, "—"]
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seconds", type=float, default=math.inf, help="time after which the call ends")
    parser.add_argument("--processes", type=int, default=2, help="splits at the same time")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tables", default="boston,yacht")
    parser.add_argument("--splits", type=int, help="10 with --full, and otherwise 1")
    parser.add_argument("--steps", default="", help="training steps of all tables or of each")
    parser.add_argument("--rows", type=int, default=20, help="test rows of the deletion experiment")
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables and published splits")
    parser.add_argument("--out", type=Path, default=RESULTS / "npt_paper.json")
    options = parser.parse_args()
    names: list[str] = options.tables.split(",")
    options.splits = options.splits or (10 if options.full else 1)
    options.steps = steps_of(options.steps, names)
    settings = {"size": "paper" if options.full else "mini"}
    splits = Splits(names, options, earlier_results(options.out, settings).get("splits", []))
    facts = machine("torch", "scipy") | {"device": options.device, **settings}
    header = ["table", "experiment", "size", "splits", "measured", "published", "difference"]
    right = (3, 4, 5, 6)

    def rows() -> list[list[str]]:
        names = dict.fromkeys(name for name, _ in sorted(splits.results))
        return [line for name in names for line in lines(splits, name)]

    def raw() -> dict[str, Any]:
        return {"settings": settings, "splits": splits.saved()}

    def record(key: str, result: dict[str, Any]) -> None:
        splits.record(result)
        if result["experiment"] == "fit":
            print(f"{key}: {result['test']:.3f} after {result['steps']} steps, {result['seconds']} s", file=sys.stderr)
        write_results(options.out, facts, header, rows(), raw(), right)

    is_complete = run_jobs(
        splits.following,
        record,
        processes=options.processes,
        seconds=options.seconds,
        preload=["papers.npt.experiments"],
    )
    report(facts, header, rows(), raw(), options.out, right=right)
    if not is_complete:
        print("The same command continues.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
