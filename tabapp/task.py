"""`Task`: what a run predicts."""

from __future__ import annotations

from typing import Literal, get_args

Task = Literal["binary", "multiclass", "regression"]
TASKS: tuple[Task, ...] = get_args(Task)
