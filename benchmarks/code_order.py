"""Trees that take category codes for numbers: with codes in the order that a run gives them, and with codes by frequency.

python -m benchmarks.code_order [--data FOLDER] [--tables a,b] [--models a,b] [--rows 3000] [--draws 0,1] [--cache FILE.json]
                                [--out FILE.json]

A draw takes at most --rows rows of a table, and two thirds of them for training, in four folds; the mean of their models predicts
the other third. A run gives numbered levels and grades codes in their order, and other columns of up to 32 levels codes by the
target of the training rows. A ratio is the error (1 - ROC AUC, log loss, RMSE) with these codes over that with codes by frequency.
The first nine tables were seen when this was chosen: the limit of 32 on auto_imports, house_prices and hotel_bookings, the order of
numbered levels on german_credit. The others were not.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.booster_portfolios import Divided, Errors, geometric_mean, parser_of_draws
from benchmarks.fits import load
from benchmarks.machine import RESULTS, machine, report
from tabapp import files
from tabapp.features.arrays import FIRST_LEVEL, Table
from tabapp.models import registry
from tabapp.models.contract import FitContext, Params, Plugin

TABLES = (
    "auto_imports", "german_credit", "house_prices", "hotel_bookings", "diamonds", "auto_mpg", "motorcycle_claims", "soybean",
    "telco_churn",
    "adult", "bank_marketing", "penguins", "titanic",
)  # fmt: skip
N_SEEN = 9
"""The first so many tables were seen when the codes were chosen."""
MODELS = "random_forest,extra_trees,hist_gradient_boosting"
N_FOLDS = 4


class ByFrequency:
    """A plugin whose models get the codes of training levels by frequency, the most frequent first."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plugin, name)

    def fit(self, train: Table, valid: Table, params: Params, context: FitContext) -> Any:
        """Fit with recoded tables."""
        recode = Recoding.of(train)
        return Recoded(self._plugin.fit(recode(train), recode(valid), params, context), recode)


@dataclass(frozen=True)
class Recoding:
    """The new code of each code, by column."""

    codes: tuple[npt.NDArray[np.int32], ...]

    @classmethod
    def of(cls, train: Table) -> Recoding:
        """By frequency in training rows."""
        found: list[npt.NDArray[np.int32]] = []
        for column in train.categorical.T:
            counts = np.bincount(column, minlength=FIRST_LEVEL)
            new = np.arange(len(counts), dtype=np.int32)
            new[FIRST_LEVEL + np.argsort(-counts[FIRST_LEVEL:], kind="stable")] = new[FIRST_LEVEL:].copy()
            found.append(new)
        return cls(tuple(found))

    def __call__(self, table: Table) -> Table:
        """The table with new codes; codes that no training row has stay."""
        columns = [
            np.where(column < len(new), new[np.minimum(column, len(new) - 1)], column)
            for column, new in zip(table.categorical.T, self.codes, strict=True)
        ]
        return replace(table, categorical=np.stack(columns, axis=1) if columns else table.categorical)


@dataclass(frozen=True)
class Recoded:
    """A model that was trained on recoded tables."""

    model: Any
    recode: Recoding

    def predict(self, table: Table) -> Any:
        """Predict a table with the codes of a run."""
        return self.model.predict(self.recode(table))


def ratios(found: dict[str, tuple[Errors, Errors]], models: list[str], tables: list[str]) -> list[float]:
    """The ratios of the test errors of some models on some tables."""
    names = [key for key in found if key.split("/")[0] in tables and key.split("/")[1] in models]
    return [found[key][0][1] / found[key][1][1] for key in names]


def main() -> int:
    parser = parser_of_draws(__doc__, RESULTS / "code_order.json")
    parser.set_defaults(tables=",".join(TABLES), models=MODELS, rows=3_000, draws="0,1")
    options = parser.parse_args()
    found: dict[str, tuple[Errors, Errors]] = {}
    if options.cache is not None and options.cache.is_file():
        found = json.loads(options.cache.read_text())
    tables, models = options.tables.split(","), options.models.split(",")
    for seed in map(int, options.draws.split(",")):
        for table in tables:
            source = load(options.data, table)
            draw = Divided(source, options.rows, seed, N_FOLDS)
            for model in models:
                key = f"{table}/{model}/{seed}"
                if key in found:
                    continue
                plugin = registry.get(model)
                defaults = plugin.defaults(source.task, draw.shape(plugin), "cpu")
                by_frequency: Any = ByFrequency(plugin)
                found[key] = draw.errors(plugin, defaults), draw.errors(by_frequency, defaults)
                print(f"{key}: {found[key][0][1]:.5g} {found[key][1][1]:.5g}", file=sys.stderr, flush=True)
                if options.cache is not None:
                    files.write_bytes(options.cache, json.dumps(found).encode())
    rows = [
        [table, *(f"{geometric_mean(ratios(found, [model], [table])):.3f}" for model in models)]
        for table in tables
        if ratios(found, models, [table])
    ]
    seen = [table for table in tables if table in TABLES[:N_SEEN]]
    others = [table for table in tables if table not in seen]
    for name, group in (("mean of the tables that were seen", seen), ("mean of the others", others)):
        if group:
            rows.append([name, *(f"{geometric_mean(ratios(found, [model], group)):.3f}" for model in models)])
    facts = machine("scikit-learn") | {"rows": options.rows, "draws": options.draws}
    report(facts, ["table", *models], rows, found, options.out, range(1, 1 + len(models)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
