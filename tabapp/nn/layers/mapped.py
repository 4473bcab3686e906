"""Whether a network computes inside `torch.func.vmap`, for several sets of weights at once.

Operations that vmap cannot map, such as autograd functions of this project, then use torch's own.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_mapped: ContextVar[bool] = ContextVar("mapped", default=False)


def is_mapped() -> bool:
    """Whether the current code runs inside `mapping`."""
    return _mapped.get()


@contextmanager
def mapping() -> Generator[None]:
    """Compute the networks of a block in a way that `torch.func.vmap` supports."""
    token = _mapped.set(True)
    try:
        yield
    finally:
        _mapped.reset(token)
