"""The names of models and metrics, for completion and help."""

from __future__ import annotations


def model_names() -> list[str]:
    """The names of the installed models, pre-trained variants last; none is imported."""
    from tabapp.models import registry

    return [*registry.names(), *registry.variants(), *registry.presets()]


def metric_names(task: str | None = None) -> list[str]:
    """The names of the metrics, and the example of a cost: those of one task or, with None or "auto", all."""
    from tabapp import metrics

    if task in (None, "auto"):
        return [*metrics.names(), metrics.COST_EXAMPLE]
    found = [name for name in metrics.names() if (metric := metrics.known(name)) and task in metric.tasks]
    return [*found, metrics.COST_EXAMPLE] if task == "binary" else found
