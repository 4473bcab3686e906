"""Synthetic evaluations of out-of-fold predictions, as an engine would emit them."""

from __future__ import annotations

import math

from tabapp.findings import Effect, EffectCurve, ErrorSlice, ReliabilityBin, ResidualBand
from tabapp.run.record import events as ev

BINS = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)


def binary(model: str = "catboost", trial: int | None = 1, power: float = 0.25) -> ev.EvaluationReady:
    return ev.EvaluationReady(
        model=model,
        trial=trial,
        n_rows=891,
        size=412_000,
        labels=("0", "1"),
        confusion=((478, 71), (85, 257)),
        positive="1",
        roc=tuple((x / 40, (x / 40) ** power) for x in range(41)),
        precision_recall=tuple((x / 40, 1 - 0.6 * (x / 40) ** 3) for x in range(41)),
        roc_auc=0.8789,
        average_precision=0.8412,
        base_rate=0.384,
        calibration=tuple(
            ReliabilityBin(
                predicted=p, observed=p**1.2, low=max(0, p**1.2 - 0.1), high=min(1, p**1.2 + 0.1), count=count
            )
            for p, count in zip(BINS, (300, 120, 60, 40, 30, 30, 40, 60, 90, 121), strict=True)
        ),
        calibration_error=0.0312,
    )


def multiclass(n_classes: int, model: str = "catboost") -> ev.EvaluationReady:
    labels = tuple(f"class {code}" for code in range(n_classes))
    matrix = tuple(tuple(50 if row == column else 3 for column in range(n_classes)) for row in range(n_classes))
    return ev.EvaluationReady(model=model, trial=1, n_rows=5000, sampled=True, labels=labels, confusion=matrix)


def regression(model: str = "catboost") -> ev.EvaluationReady:
    def bell(x: float, spread: float) -> int:
        return round(40 * math.exp(-((x / spread) ** 2)))

    return ev.EvaluationReady(
        model=model,
        trial=1,
        n_rows=398,
        density=tuple(tuple(bell(row - column, 3) for column in range(32)) for row in range(32)),
        density_range=(9.0, 46.6),
        residuals=tuple(bell(x - 20, 8) for x in range(40)),
        residual_range=(-9.1, 9.4),
        residual_quantiles=(-4.2, -1.5, 0.02, 1.4, 4.4),
        bands=tuple(
            ResidualBand(predicted=10.0 + 4 * n, low=-1.0 - n / 2, median=0.1, high=1.0 + n / 2, count=40)
            for n in range(10)
        ),
    )


def slices() -> ev.SlicesReady:
    """Two weak slices of which one is clear."""
    return ev.SlicesReady(
        model="ensemble",
        measure="log loss",
        overall=0.4292,
        n_rows=891,
        tested=34,
        rows=(
            ErrorSlice(
                column="Pclass",
                level="= 3",
                n=491,
                error=0.7012,
                share_wrong=0.31,
                difference=0.21,
                low=0.08,
                high=0.34,
                clear=True,
            ),
            ErrorSlice(
                column="Age",
                level="missing",
                n=177,
                error=0.5012,
                share_wrong=0.22,
                difference=0.05,
                low=-0.02,
                high=0.12,
                clear=False,
            ),
        ),
    )


def effects(classes: tuple[str, ...] = ("1",)) -> ev.EffectsReady:
    """The effect of a number and of a category, for one class or for several."""

    def curve(label: str, values: tuple[float, ...]) -> EffectCurve:
        return EffectCurve(
            label=label, values=values, low=tuple(v - 0.1 for v in values), high=tuple(v + 0.1 for v in values)
        )

    return ev.EffectsReady(
        model="catboost",
        n_rows=200,
        effects=(
            Effect(
                feature="Sex",
                places=(),
                labels=("male", "female"),
                counts=(577, 314),
                curves=tuple(curve(label, (0.1903, 0.7382)) for label in classes),
            ),
            Effect(
                feature="Age",
                places=(2.0, 20.0, 40.0, 63.0),
                labels=(),
                counts=(54, 300, 250, 110),
                curves=tuple(curve(label, (0.62, 0.42, 0.36, 0.3)) for label in classes),
            ),
        ),
    )
