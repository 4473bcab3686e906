"""The screens by name. Each is imported when first shown, so the first paint waits for only one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.screen import Screen

from tabapp.tui.screens.base import RunView
from tabapp.tui.screens.data import DataView


def _run() -> RunView:
    from tabapp.tui.screens.run import RunningView

    return RunningView()


def _models() -> RunView:
    from tabapp.tui.screens.models import ModelsView

    return ModelsView()


def _tuning() -> RunView:
    from tabapp.tui.screens.tuning import TuningView

    return TuningView()


def _explain() -> RunView:
    from tabapp.tui.screens.explain import ExplainView

    return ExplainView()


def _predict() -> RunView:
    from tabapp.tui.screens.predict import PredictView

    return PredictView()


def _runs() -> RunView:
    from tabapp.tui.screens.runs import RunsView

    return RunsView()


def _log() -> RunView:
    from tabapp.tui.screens.log import LogView

    return LogView()


VIEWS: dict[str, str | Callable[[], Screen[Any]]] = {
    "run": _run,
    "data": DataView,
    "models": _models,
    "tuning": _tuning,
    "explain": _explain,
    "predict": _predict,
    "runs": _runs,
    "log": _log,
}
