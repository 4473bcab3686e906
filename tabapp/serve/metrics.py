"""Metrics of the server in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import psutil
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tabapp.printable import multi_line
from tabapp.serve.bundles import Bundles

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROWS = (1, 10, 100, 1_000, 10_000, 100_000)


class Metrics:
    """Counters of requests, and the state of the bundles when the metrics are read.

    Args:
        n_in_progress: returns the number of predictions that are in progress or waiting.
    """

    def __init__(self, bundles: Bundles, n_in_progress: Callable[[], int]) -> None:
        disable_created_metrics()
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "tabapp_requests",
            "Requests by route, method and status.",
            ["route", "method", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "tabapp_request_seconds", "Duration of requests.", ["route"], buckets=_SECONDS, registry=self._registry
        )
        self.rows = Histogram(
            "tabapp_predicted_rows",
            "Rows of each predicted request.",
            ["bundle"],
            buckets=_ROWS,
            registry=self._registry,
        )
        self._registry.register(_State(bundles, n_in_progress))

    def text(self) -> bytes:
        """All metrics. Names come from the bundle, so hidden characters in them are made visible."""
        return multi_line(generate_latest(self._registry).decode()).encode()


class _State(Collector):
    """Reads the bundles, their processes and their drift."""

    def __init__(self, bundles: Bundles, n_in_progress: Callable[[], int]) -> None:
        self._bundles = bundles
        self._n_in_progress = n_in_progress

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "tabapp_predictions_in_progress", "Predictions in progress or waiting.", value=self._n_in_progress()
        )
        ready = GaugeMetricFamily("tabapp_bundle_ready", "Whether the bundle predicts.", labels=["bundle"])
        info = GaugeMetricFamily(
            "tabapp_bundle_info", "The loaded version of the bundle.", labels=["bundle", "sha256", "target", "run"]
        )
        events = CounterMetricFamily(
            "tabapp_bundle_events",
            "Files that were reloaded or refused, and model processes that were restarted.",
            labels=["bundle", "event"],
        )
        memory = GaugeMetricFamily(
            "tabapp_model_process_resident_bytes", "Memory of the model processes.", labels=["bundle"]
        )
        recent = GaugeMetricFamily("tabapp_drift_rows", "Rows that the drift describes.", labels=["bundle"])
        stability = GaugeMetricFamily(
            "tabapp_population_stability",
            "Population stability index of recent rows against the training table.",
            labels=["bundle", "column"],
        )
        missing = GaugeMetricFamily(
            "tabapp_missing_share", "Share of missing cells in recent rows.", labels=["bundle", "column"]
        )
        levels = CounterMetricFamily(
            "tabapp_new_level_cells",
            "Cells with a level that is not in the training table, since the version was loaded.",
            labels=["bundle", "column"],
        )
        for bundle in self._bundles:
            version, health = bundle.version, bundle.health()
            manifest = version.contents.manifest
            ready.add_metric([bundle.name], float(health.predicts))
            info.add_metric([bundle.name, health.digest, manifest.target, manifest.run], 1.0)
            for event, count in bundle.counts.items():
                events.add_metric([bundle.name, event], count)
            memory.add_metric([bundle.name], sum(_resident(process.pid) for process in version.processes))
            recent.add_metric([bundle.name], version.drift.n_recent)
            for column in version.drift.columns():
                stability.add_metric([bundle.name, column.column], column.stability)
                missing.add_metric([bundle.name, column.column], column.missing)
                levels.add_metric([bundle.name, column.column], column.new_levels)
        yield from (ready, info, events, memory, recent, stability, missing, levels)


def _resident(pid: int) -> int:
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return 0
