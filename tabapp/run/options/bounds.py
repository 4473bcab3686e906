"""The range of each numeric option of a run, shared by the command line, the engine and the screens."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp.errors import UsageError


@dataclass(frozen=True)
class Bounds:
    """A closed range of whole numbers; `maximum` None means no upper bound."""

    minimum: int
    maximum: int | None = None

    def __contains__(self, value: int) -> bool:
        return self.minimum <= value and (self.maximum is None or value <= self.maximum)

    def __str__(self) -> str:
        return f"{self.minimum} or more" if self.maximum is None else f"{self.minimum} to {self.maximum}"

    def check(self, option: str, value: object) -> None:
        """Reject a value outside the range.

        Raises:
            UsageError: names the option, the value and the range.
        """
        if not isinstance(value, int) or value not in self:
            raise UsageError(f"{option} {value!r} is not valid. Use a whole number, {self}.")


FOLDS = Bounds(2, 50)
TRIALS = Bounds(1)
WORKERS = Bounds(1)
SEED = Bounds(0, 2**31 - 1)
PORT = Bounds(0, 65535)

MINIMUM_SHARE, MAXIMUM_SHARE = 1 / 8, 8.0
"""A user's factor on a model's share of the time."""
