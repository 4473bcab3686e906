"""Ablations of NPT by its switches: Tables 4 and 5 of Kossen et al. 2021, and NPT without attention between rows.

python -m papers.npt.ablations [--data FOLDER] [--tables a,b] [--variants a,b] [--splits 3] [--rows 2000] [--test-rows 2000]
    [--seconds 120] [--steps N] [--size mini|small|base] [--device cpu] [--full] [--keep FOLDER] [--out FILE.json]

Each variant changes one switch of the base. "p" in the table is of the one-sided Wilcoxon signed-rank test over splits that the
variant is worse than the base. As in the paper's "Base NPT", 15 % of the features and of the targets are masked. NOTE[DIFF]: the
base sees no features of test rows; the paper's does, which is the variant "semi-supervised" here, so that its "no
semi-supervision" is the base. "no attention between rows" lets each row attend to itself only; the paper has no such line.

The default size is NPT Mini on Boston, Yacht and Concrete, with their published splits. --full is for a GPU: the paper's sizes,
ten splits, all rows, and Protein, Breast cancer, Poker, Forest and Higgs. Depth and heads change by the same factor as in the
paper, from 4 of Mini. Scores are RMSE, AUROC of two classes and accuracy of several. They are kept in --keep: an interrupted
command continues.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.stats import wilcoxon
from tabapp_plugins.npt.params import NPTParams
from tabapp_plugins.npt.plugin import NPT, sized

from benchmarks.fits import fitted, kept, load, prepared, spread
from benchmarks.machine import machine, report
from papers.npt.options import npt_parser, parsed, scale_of, tables_of
from papers.npt.tables import METRICS, division_of
from tabapp import metrics
from tabapp.nn.training.objective import target_of

QUICK_TABLES = ("boston", "yacht", "concrete")
TABLES = (*QUICK_TABLES, "protein_casp", "breast_cancer_wdbc", "poker_hand", "covertype", "higgs_lightgbm")
BASE = "base"
SEMI_SUPERVISED = "semi-supervised"
SWITCHES: dict[str, dict[str, Any]] = {
    BASE: {},
    SEMI_SUPERVISED: {"unlabeled": 1e9},
    "no target masking": {"target_masking": 1.0},
    "no feature masking": {"feature_masking": 0.0},
    "no masking": {"feature_masking": 0.0, "target_masking": 1.0},
    "feature masking 0.5": {"feature_masking": 0.5},
    "target masking 0.5": {"target_masking": 0.5},
    "half the layers": {"n_layers": 0.5},
    "twice the layers": {"n_layers": 2.0},
    "half the heads": {"n_heads": 0.5},
    "twice the heads": {"n_heads": 2.0},
    "constant label weight 0.5": {"feature_weight": 0.5},
    "no attention between attributes": {"attention": "rows"},
    "no attention between rows": {"attention": "attributes"},
}
"""Changes of the base; depth and heads are factors. Without target masking, training targets are always hidden, as in the paper."""
PUBLISHED: dict[tuple[str, str], str] = {
    ("protein_casp", BASE): "3.38",
    ("protein_casp", SEMI_SUPERVISED): "3.41",
    ("protein_casp", "no target masking"): "3.32",
    ("protein_casp", "no feature masking"): "3.56",
    ("protein_casp", "no masking"): "3.58",
    ("protein_casp", "feature masking 0.5"): "3.87",
    ("protein_casp", "target masking 0.5"): "3.37",
    ("protein_casp", "half the layers"): "3.43",
    ("protein_casp", "twice the layers"): "3.36",
    ("protein_casp", "half the heads"): "3.42",
    ("protein_casp", "twice the heads"): "3.37",
    ("protein_casp", "constant label weight 0.5"): "3.50",
    ("protein_casp", "no attention between attributes"): "3.29",
    ("boston", BASE): "3.38 ± 0.46",
    ("boston", SEMI_SUPERVISED): "3.00 ± 0.23",
    ("boston", "no target masking"): "2.93 ± 0.18",
    ("boston", "no feature masking"): "2.95 ± 0.21",
    ("boston", "no masking"): "3.20 ± 0.26",
    ("boston", "feature masking 0.5"): "3.39 ± 0.23",
    ("boston", "target masking 0.5"): "3.11 ± 0.28",
    ("boston", "half the layers"): "3.30 ± 0.41",
    ("boston", "twice the layers"): "3.05 ± 0.24",
    ("boston", "half the heads"): "3.25 ± 0.30",
    ("boston", "twice the heads"): "3.20 ± 0.39",
    ("boston", "constant label weight 0.5"): "2.96 ± 0.25",
    ("boston", "no attention between attributes"): "3.22 ± 0.25",
    ("yacht", SEMI_SUPERVISED): "1.27 ± 0.15",
    ("yacht", "no feature masking"): "0.50 ± 0.06",
    ("yacht", "no attention between attributes"): "1.15 ± 0.11",
    ("concrete", SEMI_SUPERVISED): "5.21 ± 0.20",
    ("concrete", "no feature masking"): "5.37 ± 0.20",
    ("concrete", "no attention between attributes"): "4.79 ± 0.12",
    ("breast_cancer_wdbc", SEMI_SUPERVISED): "0.997 ± 0.001",
    ("breast_cancer_wdbc", "no feature masking"): "0.996 ± 0.006",
    ("breast_cancer_wdbc", "no attention between attributes"): "0.992 ± 0.008",
    ("poker_hand", SEMI_SUPERVISED): "0.993",
    ("poker_hand", "no feature masking"): "0.697",
    ("poker_hand", "no attention between attributes"): "0.574",
    ("covertype", SEMI_SUPERVISED): "0.967",
    ("covertype", "no feature masking"): "0.960",
    ("covertype", "no attention between attributes"): "0.955",
    ("higgs_lightgbm", SEMI_SUPERVISED): "0.892",
    ("higgs_lightgbm", "no feature masking"): "0.871",
    ("higgs_lightgbm", "no attention between attributes"): "0.859",
}
"""Tables 4 and 5, with standard errors over splits. All of the paper's lines but the first one here are semi-supervised."""


def params_of(variant: str, n_attributes: int, n_rows: int, options: argparse.Namespace) -> NPTParams:
    """The configuration of a variant."""
    size = ("small" if n_rows < 2_000 else "base") if options.full else options.size
    base = sized(size, n_attributes, feature_masking=0.15, target_masking=0.15)
    if options.steps:
        base = msgspec.structs.replace(base, n_steps=options.steps)
    changes = dict(SWITCHES[variant])
    for name in ("n_layers", "n_heads"):
        if name in changes:
            changes[name] = round(getattr(base, name) * changes[name])
    return msgspec.structs.replace(base, **changes)


def score(name: str, variant: str, number: int, options: argparse.Namespace) -> float:
    """The test score of a variant on a split."""
    source, plugin = load(options.data, name), NPT()
    metric = METRICS[source.task][0]

    def compute() -> npt.NDArray[Any]:
        data = prepared(source, division_of(source, name, number, options), plugin, number)
        params = params_of(variant, data.shape.n_features + 1, len(data.train), options)
        model = fitted(
            plugin,
            data,
            params,
            metric=metric,
            seed=number,
            seconds=options.seconds,
            device=options.device,
            unlabeled=replace(data.test, target=None) if variant == SEMI_SUPERVISED else None,
        )
        found = metrics.score(metric, target_of(data.test), model.predict(data.test))
        print(f"{name} {variant} split {number}: {found:.4f}", file=sys.stderr, flush=True)
        return np.array(found)

    return float(kept(options.keep, f"{name}/{variant}/{scale_of(options)}/{number}", compute))


def p_value(values: list[float], base: list[float], *, lower_is_better: bool) -> float | None:
    """The chance of a difference like this or worse, if the variant were as good as the base; None with too few splits."""
    differences = np.subtract(values, base) * (1 if lower_is_better else -1)
    if len(values) < 5 or not np.any(differences):
        return None
    return float(wilcoxon(differences, alternative="greater").pvalue)


def main() -> int:
    parser = npt_parser(__doc__, "npt_ablations", seconds=120.0)
    parser.add_argument("--variants", default=",".join(SWITCHES))
    options = parsed(parser)
    names = tables_of(options, QUICK_TABLES, TABLES)
    variants = [BASE, *(name for name in options.variants.split(",") if name != BASE)]
    # Splits before variants, so that an interrupted command has all variants on some splits.
    results: dict[str, dict[str, list[float]]] = {name: {variant: [] for variant in variants} for name in names}
    for number in range(options.splits):
        for name in names:
            for variant in variants:
                results[name][variant].append(score(name, variant, number, options))
    rows: list[list[str]] = []
    for name, found in results.items():
        lower = load(options.data, name).task == "regression"
        for variant, values in found.items():
            p = None if variant == BASE else p_value(values, found[BASE], lower_is_better=lower)
            ratio = statistics.fmean(values) / statistics.fmean(found[BASE]) - 1
            cells = ["" if variant == BASE else f"{ratio:+.1%}", "—" if p is None else f"{p:.3f}"]
            rows.append([name, variant, spread(values), *cells, PUBLISHED.get((name, variant), "—")])
    facts = machine("torch", "scipy") | {"splits": options.splits, "device": options.device}
    facts |= {"NPT": "paper" if options.full else options.size, "steps": options.steps or "of the size"}
    facts |= {"rows": "all" if options.full else options.rows, "seconds of one fit": options.seconds}
    header = ["table", "variant", "score", "difference from base", "p, worse than base", "paper"]
    report(facts, header, rows, results, options.out, right=(2, 3, 4, 5))
    return 0


if __name__ == "__main__":
    sys.exit(main())
