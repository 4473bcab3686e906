"""The defaults of the boosters with the Poisson deviance, compared with the squared error, on regressions without negative targets.

python -m benchmarks.losses [--data FOLDER] [--tables a,b] [--models a,b] [--sizes 2000,8000] [--draws 0] [--cache FILE.json]
                            [--out FILE.json]

A draw takes at most so many rows of a table as training rows, in two folds, and half as many as test rows; sizes that add no rows
are left out. "together" is the mean of the predictions of all models. A ratio is the RMSE with the Poisson deviance over that with
the squared error. Means over tables and draws are geometric, with their standard error. The largest target is at least four times
the median in the first six tables, and less than three times in the others.
"""

from __future__ import annotations

import sys

from benchmarks.derived_features import compare
from benchmarks.machine import RESULTS

TABLES = (
    "motorcycle_claims", "yacht", "diamonds", "bike_sharing_hour", "auto_imports", "house_prices", "california_housing", "concrete",
    "boston", "energy_efficiency", "kin8nm", "auto_mpg",
)  # fmt: skip
MODELS = "lightgbm,xgboost,catboost,hist_gradient_boosting"


def main() -> int:
    return compare(__doc__, RESULTS / "losses.json", TABLES, MODELS, "loss", ("squared_error", "poisson"))


if __name__ == "__main__":
    sys.exit(main())
