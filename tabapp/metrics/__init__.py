"""Every metric and everything that the program knows about it: see `Metric` for its members.

A built-in metric is one `Metric` in `classification.py` or `regression.py`; no other module names it. A third-party metric needs no
change here: see docs/reference/metrics.md.
"""

from tabapp.metrics.classification import average_precision, log_loss_rows, roc_auc
from tabapp.metrics.cost import EXAMPLE as COST_EXAMPLE
from tabapp.metrics.metric import LOG_LOSS, RMSE, Array, Criterion, Metric
from tabapp.metrics.registry import BUILT_IN, default_metric, for_task, get, known, names, names_for
from tabapp.metrics.scoring import Z95, approximate_interval, interval, is_better, loss, score

__all__ = [
    "BUILT_IN",
    "COST_EXAMPLE",
    "LOG_LOSS",
    "RMSE",
    "Z95",
    "Array",
    "Criterion",
    "Metric",
    "approximate_interval",
    "average_precision",
    "default_metric",
    "for_task",
    "get",
    "interval",
    "is_better",
    "known",
    "log_loss_rows",
    "loss",
    "names",
    "names_for",
    "roc_auc",
    "score",
]
