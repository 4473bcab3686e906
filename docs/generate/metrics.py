"""The page of all built-in metrics, from their registry."""

from __future__ import annotations

from tabapp.markdown import code, page, table
from tabapp.metrics import COST_EXAMPLE, Metric, default_metric
from tabapp.metrics.registry import BUILT_IN
from tabapp.task import Task

TASKS: dict[Task, str] = {"binary": "two classes", "multiclass": "several classes", "regression": "numbers"}


def pages() -> dict[str, str]:
    sections = [_section(title, [metric for metric in BUILT_IN.values() if chosen(metric)]) for title, chosen in KINDS]
    return {
        "metrics.md": page(
            "Metrics",
            "`--metric NAME` chooses the metric that models are compared by. The defaults are "
            + ", ".join(f"{code(default_metric(task))} for {words}" for task, words in TASKS.items())
            + ". All metrics accept row weights. `tabapp evaluate` reports every metric of the task.",
            *sections,
            "## Costs of errors",
            f"{code('--metric ' + COST_EXAMPLE)} compares binary classifiers by the mean cost per row: here 5 for each false "
            "negative and 1 for each false positive.",
            "## Your own metric",
            "A metric is one `Metric` object, in a file of your plugin folder or as an entry point of the group `tabapp.metrics`. "
            "It then works in every view and option. The contribution guide has a recipe for a built-in metric.",
        )
    }


KINDS = (
    ("Classification", lambda metric: metric.is_classification),
    ("Regression", lambda metric: not metric.is_classification),
)


def _section(title: str, metrics: list[Metric]) -> str:
    rows = [
        [
            code(metric.name),
            metric.title,
            metric.description + (" (two classes only)" if metric.tasks == ("binary",) else ""),
            "higher" if metric.greater_is_better else "lower",
            metric.early_stopping.replace("_", " "),
        ]
        for metric in metrics
    ]
    return f"## {title}\n\n" + table(["Name", "Title", "Description", "Better when", "Early stopping by"], rows)
