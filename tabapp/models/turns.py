"""Turns of models that do not predict safely in several threads: one call runs at a time, from any caller."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

_TURN = "_turn"
_MARK = "_takes_turns"


def take_turns(kind: type, base: type, methods: Sequence[str]) -> None:
    """Let the calls of some methods that a class of models overrides wait for each other unless `thread_safe` is true.

    All models of a class share their turns, because a library may keep state that belongs to no model. Calls within a call of the
    same thread do not wait.

    Args:
        base: the class whose methods do nothing by default.
    """
    setattr(kind, _TURN, RLock())
    for name in methods:
        method = getattr(kind, name)
        if method is not getattr(base, name) and not hasattr(method, _MARK):
            setattr(kind, name, _taking_turns(method))


def _taking_turns(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(model: Any, *arguments: Any, **options: Any) -> Any:
        if model.thread_safe:
            return method(model, *arguments, **options)
        with getattr(type(model), _TURN):
            return method(model, *arguments, **options)

    setattr(call, _MARK, True)
    return call
