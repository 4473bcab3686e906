"""Optimizers that do not load the compiler of torch.

The methods of `torch.optim` ask the compiler not to trace them, for which the first call in a process imports it: 900 modules, or
about a second, and three from a cold disk. Fits compile nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any

import torch
from torch.optim import Optimizer

UNTRACED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
TRACED_STEP = "_use_grad"
"""The code of a step whose wrapper splits the graph of the compiler."""


def leave_compiler() -> bool:
    """Take the compiler out of the optimizers of this process, which then do the same without it.

    Starts no optimizer, whose steps initialize CUDA where they can.

    Returns:
        Whether AdamW no longer needs it: other versions of torch may have other wrappers, which stay.
    """
    left = False
    for name in UNTRACED:
        setattr(Optimizer, name, unwrap(getattr(Optimizer, name)))
    for optimizer in vars(torch.optim).values():
        if isinstance(optimizer, type) and issubclass(optimizer, Optimizer):
            step = vars(optimizer).get("step")
            if step is not None and step.__code__.co_name == TRACED_STEP:
                optimizer.step = _untraced(unwrap(step))
                left = left or optimizer is torch.optim.Adam
    return left


def _untraced(step: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(step)
    def untraced(self: Optimizer, *args: Any, **options: Any) -> Any:
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **options)

    return untraced
