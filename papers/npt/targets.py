"""One Non-Parametric Transformer of two targets, beside one for each target in the same total number of steps.

python -m papers.npt.targets [--data FOLDER] [--tables naval_propulsion:kMc:kMt,bike_sharing_hour:casual:registered]
    [--splits 3] [--rows 1000] [--test-rows 1000] [--steps 400] [--size mini|small|base] [--device cpu] [--full] [--keep FOLDER]
    [--out FILE.json]

"joint" is one network that predicts both targets: the second one is `other_targets` of a run. "single" are two networks,
each with half of the steps, so that both ways take about the same time; their seconds of processor time are in the results.
The joint network stops early by its first target, like a run of that target. Kossen et al. 2021 predict any number of
columns with one network (section 2.1) and publish no comparison. Scores are RMSE on test rows, divided by the standard
deviation of the target there: 1 is a constant prediction. Fits are kept in --keep.

--full is for a GPU: ten splits, 5,000 rows, the paper's size for small tables and 4,000 steps.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from tabapp_plugins.npt.model import NPTModel
from tabapp_plugins.npt.plugin import NPT, sized

from benchmarks.fits import Division, Source, data_folder, kept, prepared, random_division, spread
from benchmarks.machine import RESULTS, machine, report
from tabapp.data.infer import infer_schema
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.typed import encode_target, rows_with_target, typed_frame
from tabapp.features.arrays import OtherTarget, Table
from tabapp.models.contract import FitContext

TABLES = "naval_propulsion:kMc:kMt,bike_sharing_hour:casual:registered"


@dataclass(frozen=True)
class TwoTargets:
    """The rows of a table for each of two numeric targets; the features are the same."""

    table: str
    names: tuple[str, str]
    sources: tuple[Source, Source]


def read(folder: Path, text: str) -> TwoTargets:
    """Read `NAME:TARGET:TARGET`. The columns that leak a target in the list of tables are left out."""
    name, *targets = text.split(":")
    known = {each["name"]: each for each in json.loads((folder / "datasets.json").read_text())}[name]
    reading = read_table(folder / known["file"], ReadOptions(delimiter=known["separator"]))
    out = {*known["leak_or_id_columns"], known["target"], *targets}
    sources: list[Source] = []
    for target in targets:
        schema = infer_schema(reading.frame, target=target, task="regression", ignore=tuple(sorted(out - {target})))
        frame = typed_frame(reading.frame.filter(rows_with_target(reading.frame, schema)), schema)
        sources.append(Source(frame, schema, encode_target(frame, schema)))
    assert len(sources[0]) == len(sources[1])
    return TwoTargets(name, (targets[0], targets[1]), (sources[0], sources[1]))


def with_others(table: Table, values: npt.NDArray[Any]) -> Table:
    """The table with the other target of its rows."""
    return replace(table, others=np.asarray(values, np.float64)[:, None])


@dataclass(frozen=True)
class Fit:
    """One network: of both targets, or of one of them.

    Attributes:
        number: the target that stops training early; the only one unless `joint`.
    """

    data: TwoTargets
    division: Division
    number: int
    seed: int
    n_steps: int
    joint: bool

    def train(self, size: str, device: str) -> tuple[list[float], float]:
        """Relative test RMSE of the target and, of a joint network, of the other one; and seconds of processor time."""
        data, division = self.data, self.division
        source, other = data.sources[self.number], data.sources[1 - self.number]
        plugin = NPT()
        rows = prepared(source, division, plugin, self.seed)
        train, valid = rows.train, rows.valid
        if self.joint:
            train = with_others(train, other.target[division.train])
            valid = with_others(valid, other.target[division.valid])
        n_columns = rows.shape.n_features + 1 + self.joint
        params = sized(size, n_columns, n_steps=self.n_steps, other_targets=self.joint)
        with TemporaryDirectory() as folder:
            context = FitContext(
                task="regression",
                n_classes=1,
                metric="rmse",
                features=rows.spec,
                seed=self.seed,
                device=device,
                n_threads=1,
                folder=Path(folder),
                other_targets=(OtherTarget(name=data.names[1 - self.number]),) if self.joint else (),
            )
            began = time.process_time()
            model = plugin.fit(train, valid, params, context)
            seconds = time.process_time() - began
        assert isinstance(model, NPTModel)
        predicted = [model.predict(rows.test), *model.predict_others(rows.test)]
        truths = [source.target[division.test], other.target[division.test]]
        return [relative_rmse(truth, found) for truth, found in zip(truths, predicted, strict=False)], seconds

    def measured(self, options: argparse.Namespace) -> list[float]:
        """The errors and the seconds of `train` in one list, computed once."""

        def compute() -> npt.NDArray[Any]:
            errors, seconds = self.train(options.size, options.device)
            print(f"{key}: {errors} in {seconds:.0f} s", file=sys.stderr, flush=True)
            return np.array([*errors, seconds])

        way = "joint" if self.joint else f"single-{self.data.names[self.number]}"
        key = f"{self.data.table}/{way}/{options.size}-{options.rows}-{self.n_steps}/{self.seed}"
        return kept(options.keep, key, compute).tolist()


def relative_rmse(truth: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> float:
    """RMSE divided by the standard deviation of the truth: 1 is a constant prediction."""
    return float(np.sqrt(np.mean((predicted - truth) ** 2)) / np.std(truth))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables")
    parser.add_argument("--tables", default=TABLES)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000, help="maximum training and early-stopping rows")
    parser.add_argument("--test-rows", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=400, help="of the joint network; each single one has half of them")
    parser.add_argument("--size", choices=["mini", "small", "base"], default="mini")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--keep", type=Path, default=Path("build/benchmarks/npt_targets"))
    parser.add_argument("--out", type=Path, default=RESULTS / "npt_targets.json")
    options = parser.parse_args()
    if options.full:
        options.splits, options.rows, options.size, options.steps = 10, 5_000, "small", 4_000
    results: dict[str, dict[str, list[float]]] = {}
    rows: list[list[str]] = []
    tables: list[str] = options.tables.split(",")
    for text in tables:
        data = read(options.data, text)
        name = text.split(":")[0]
        found: dict[str, list[float]] = {}
        for seed in range(options.splits):
            division = random_division(data.sources[0], options.rows, options.test_rows, seed)
            first, second, seconds = Fit(data, division, 0, seed, options.steps, True).measured(options)
            half = options.steps // 2
            singles = [Fit(data, division, number, seed, half, False).measured(options) for number in (0, 1)]
            scores = {
                f"{data.names[0]}/joint": first,
                f"{data.names[0]}/single": singles[0][0],
                f"{data.names[1]}/joint": second,
                f"{data.names[1]}/single": singles[1][0],
                "seconds/joint": seconds,
                "seconds/single": singles[0][1] + singles[1][1],
            }
            for key, value in scores.items():
                found.setdefault(key, []).append(value)
        results[name] = found
        for target in data.names:
            joint, single = found[f"{target}/joint"], found[f"{target}/single"]
            wins = sum(a < b for a, b in zip(joint, single, strict=True))
            rows.append([name, target, spread(joint), spread(single), f"{wins} of {len(joint)}"])
        rows.append([name, "seconds", spread(found["seconds/joint"], 0), spread(found["seconds/single"], 0), ""])
    facts = machine("torch") | {"splits": options.splits, "device": options.device, "NPT": options.size}
    facts |= {"rows": options.rows, "steps of the joint network": options.steps}
    header = ["table", "target", "one network, relative RMSE", "two networks, relative RMSE", "one is better"]
    report(facts, header, rows, results, options.out, right=(2, 3, 4))
    return 0


if __name__ == "__main__":
    sys.exit(main())
