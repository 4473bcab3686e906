"""The page of all metrics, from their registry."""

from __future__ import annotations

from tabapp.metrics import METRICS, default_metric

from .markdown import code, page, table

TASKS = ("binary", "multiclass", "regression")


def pages() -> dict[str, str]:
    rows = [
        [
            code(metric.name),
            metric.title,
            ", ".join(f"**{task}**" if default_metric(task) == metric.name else task for task in metric.tasks),
            "higher" if metric.greater_is_better else "lower",
        ]
        for metric in METRICS.values()
    ]
    return {
        "metrics.md": page(
            "Metrics",
            "`--metric NAME` chooses the metric that models are compared by. The default of each task is bold. "
            "All metrics accept row weights; `tabapp evaluate` reports every metric of the task.",
            table(["Name", "Title", "Tasks", "Better when"], rows),
        )
    }
