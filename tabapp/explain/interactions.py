"""Two-column interactions by the H-statistic (Friedman, Popescu: "Predictive learning via rule ensembles", Annals of Applied
Statistics 2, 2008, section 8.1).

NOTE[DIFF] partial dependence is computed within each fold model on a sample of its held-out rows, and its variances are summed over
the folds. The strength in units of the output is shown beside H, which is large for two columns without any effect, too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from tabapp.explain.effects import HeldOut
from tabapp.findings import Interaction

Array = npt.NDArray[Any]

ROWS_PER_FOLD = 24


def interactions(
    folds: Sequence[HeldOut], columns: Sequence[str], code: int, *, seed: int, deadline: float | None = None
) -> list[Interaction]:
    """The interaction of each pair of columns, largest first; pairs after the deadline are left out.

    Args:
        code: the class whose probability is explained; 0 for a regression.
    """
    samples = [_Sample(fold, code, seed + i) for i, fold in enumerate(folds) if fold.frame.height > 1]
    found: list[Interaction] = []
    for a, b in combinations(columns, 2):
        if deadline is not None and time.monotonic() > deadline:
            break
        joint = rest = 0.0
        n_rows = 0
        for sample in samples:
            both = sample.dependence((a, b))
            left = both - sample.dependence((a,)) - sample.dependence((b,))
            joint += float((both**2).sum())
            rest += float((left**2).sum())
            n_rows += len(both)
        if joint > 0:
            share, size = float(np.sqrt(min(1.0, rest / joint))), float(np.sqrt(rest / n_rows))
            found.append(Interaction(a=a, b=b, h=share, size=size))
    return sorted(found, key=lambda each: -each.size)


class _Sample:
    """Rows of a fold, and centered partial dependence at each of them."""

    def __init__(self, fold: HeldOut, code: int, seed: int) -> None:
        n_rows = min(ROWS_PER_FOLD, fold.frame.height)
        rows = np.random.default_rng(seed).choice(fold.frame.height, n_rows, replace=False)
        self._fold, self._code = fold, code
        self._frame = fold.frame[np.sort(rows).tolist()]
        self._known: dict[tuple[str, ...], Array] = {}

    def dependence(self, columns: tuple[str, ...]) -> Array:
        """(rows,) the mean prediction of all rows with the values of each row in these columns, centered."""
        if columns not in self._known:
            n = self._frame.height
            places, background = np.repeat(np.arange(n), n).tolist(), np.tile(np.arange(n), n).tolist()
            frame = self._frame[background]
            values = self._frame[places]
            table = self._fold.preparer.transform(frame.with_columns([values[name] for name in columns]))
            predicted = np.asarray(self._fold.model.predict(table), dtype=np.float64)
            output = predicted[:, self._code] if predicted.ndim == 2 else predicted
            means = output.reshape(n, n).mean(axis=1)
            self._known[columns] = means - means.mean()
        return self._known[columns]
