"""A target with 90 % of its values missing beside a complete one: networks of both targets, and networks of each alone.

python -m papers.partly_labeled [--data FOLDER]
    [--tables NAME:TARGET:TARGET,…] [--draws 5] [--rows 1000] [--test-rows 1000] [--known 0.1] [--models mlp,npt]
    [--steps 200] [--out FILE.json]

The first target of a table keeps the share --known of its values in the training rows; the second has all. For each target,
"alone" is a network of only this target, as in two separate runs, and "both" learns both targets (`others_share`, `other_targets`)
as in a run with several. For the first target, "labeled rows" also learns both, but only from rows that have the first. Networks
are stopped early by rows of their own target, and NPT takes --steps steps, so that the load of the machine does not matter.
Scores are RMSE on test rows, divided by the standard deviation of the target there: 1 is a constant prediction.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.fits import Division, Prepared, data_folder, divided, prepared, spread
from benchmarks.machine import RESULTS, machine, report
from papers.npt.targets import TwoTargets, read, relative_rmse
from tabapp.features.arrays import OtherTarget
from tabapp.models import registry
from tabapp.models.contract import FitContext, Params
from tabapp.nn.training.params import OTHERS_SHARE

TABLES = (
    "naval_propulsion:kMc:kMt,bike_sharing_hour:casual:registered,"
    "students_dropout:Curricular units 2nd sem (grade):Curricular units 1st sem (grade)"
)
ALONE, BOTH, LABELED = "alone", "both", "labeled rows"
JOINT: dict[str, dict[str, Any]] = {"mlp": {"others_share": OTHERS_SHARE}, "npt": {"other_targets": True}}
STEPS = {"npt": "n_steps"}
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Draw:
    """Training and test rows of a table.

    Attributes:
        values: (rows, 2) targets of all rows, NaN where the first one is hidden.
    """

    data: TwoTargets
    train: Array
    test: Array
    values: Array
    seed: int

    @classmethod
    def of(cls, data: TwoTargets, n_rows: int, n_test: int, known: float, seed: int) -> Draw:
        """Draw rows, and hide values of the first target."""
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(data.sources[0]))
        n_test = min(n_test, len(order) // 3)
        train, test = np.sort(order[n_test:][:n_rows]), np.sort(order[:n_test])
        values = np.column_stack([source.target for source in data.sources]).astype(np.float64)
        hidden = generator.permutation(train)[round(known * len(train)) :]
        values[hidden, 0] = np.nan
        return cls(data, train, test, values, seed)

    def error(self, model: str, target: int, way: str, n_steps: int) -> tuple[float, float]:
        """Relative test RMSE of one target, and seconds of processor time."""
        source, plugin = self.data.sources[target], registry.get(model)
        labeled = self.train[np.isfinite(self.values[self.train, target])]
        division: Division = divided(source, self.test, labeled, self.seed)
        rows = prepared(source, division, plugin, self.seed)
        params = self._params(model, rows, way, n_steps)
        train, valid = rows.train, rows.valid
        with TemporaryDirectory() as folder:
            context = FitContext(
                task="regression",
                n_classes=1,
                metric="rmse",
                features=rows.spec,
                seed=self.seed,
                device="cpu",
                n_threads=1,
                folder=Path(folder),
            )
            if way != ALONE:
                other = self.values[:, [1 - target]]
                context.other_targets = (OtherTarget(name=self.data.names[1 - target]),)
                train, valid = (
                    replace(train, others=other[division.train]),
                    replace(valid, others=other[division.valid]),
                )
                lacking = np.setdiff1d(self.train, labeled)
                if way == BOTH and len(lacking):
                    table = rows.preparer.transform(source.frame[lacking.tolist()])
                    context.unlabeled = replace(table, others=other[lacking])
            began = time.process_time()
            found = plugin.fit(train, valid, params, context).predict(rows.test)
            seconds = time.process_time() - began
        return relative_rmse(source.target[self.test], found), seconds

    def _params(self, model: str, rows: Prepared, way: str, n_steps: int) -> Params:
        params = registry.get(model).defaults("regression", rows.shape, "cpu")
        changes = {STEPS[model]: n_steps} if model in STEPS else {}
        return msgspec.structs.replace(params, **changes, **({} if way == ALONE else JOINT[model]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables")
    parser.add_argument("--tables", default=TABLES)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000, help="maximum training and early-stopping rows")
    parser.add_argument("--test-rows", type=int, default=1_000)
    parser.add_argument(
        "--known", type=float, default=0.1, help="share of the training rows that have the first target"
    )
    parser.add_argument("--models", default="mlp", help="mlp, npt or both")
    parser.add_argument("--steps", type=int, default=200, help="of NPT")
    parser.add_argument("--out", type=Path, default=RESULTS / "partly_labeled.json")
    options = parser.parse_args()
    results: dict[str, dict[str, list[float]]] = {}
    lines: list[list[str]] = []
    tables: list[str] = options.tables.split(",")
    for text in tables:
        data = read(options.data, text)
        found = results.setdefault(data.table, {})
        for seed in range(options.draws):
            draw = Draw.of(data, options.rows, options.test_rows, options.known, seed)
            for model in options.models.split(","):
                for target, ways in ((0, (ALONE, LABELED, BOTH)), (1, (ALONE, BOTH))):
                    for way in ways:
                        key = f"{model}/{data.names[target]}/{way}"
                        error, seconds = draw.error(model, target, way, options.steps)
                        found.setdefault(key, []).append(error)
                        print(f"{data.table} {seed} {key}: {error:.4f} in {seconds:.1f} s", file=sys.stderr, flush=True)
        for model in options.models.split(","):
            for target in (0, 1):
                alone, both = (found[f"{model}/{data.names[target]}/{way}"] for way in (ALONE, BOTH))
                labeled = found.get(f"{model}/{data.names[target]}/{LABELED}")
                wins = sum(a < b for a, b in zip(both, alone, strict=True))
                known = f"{options.known:.0%}" if target == 0 else "100%"
                cells = [spread(alone), "" if labeled is None else spread(labeled), spread(both)]
                lines.append([data.table, data.names[target], known, model, *cells, f"{wins} of {len(both)}"])
    facts = machine("torch") | {"draws": options.draws, "rows": options.rows}
    facts |= {"steps of NPT": options.steps} if "npt" in options.models else {}
    header = ["table", "target", "known", "model", ALONE, LABELED, BOTH, "both is better"]
    report(facts, header, lines, results, options.out, right=(2, 4, 5, 6, 7))
    return 0


if __name__ == "__main__":
    sys.exit(main())
