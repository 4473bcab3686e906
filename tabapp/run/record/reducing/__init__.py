"""The reducer of a run: how each event changes its state, by family of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tabapp.run.record.state import RunState

Changes = dict[str, object]
"""New values of fields of a state."""
Case = Callable[[RunState, Any], Changes]
"""The changes of a state by an event of one type."""
