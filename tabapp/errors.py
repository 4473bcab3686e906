"""What can go wrong in a way that a user can mend. Each error is one sentence and carries its exit code.

TabappError                 1   no usable model, or anything not named below
├── UsageError              2   usage or configuration
├── DataError               3   the data cannot be used
├── BudgetError             4   the budget ended before the first model
└── BundleError             5   a bundle cannot be trusted or understood
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class TabappError(Exception):
    """A failure told in one sentence: what is wrong, where, and what to do."""

    exit_code = 1


class UsageError(TabappError):
    """An option or a configuration cannot be followed."""

    exit_code = 2


class DataError(TabappError):
    """The data cannot be used: missing, unreadable, or nothing to learn from."""

    exit_code = 3


class BudgetError(TabappError):
    """The budget ended before the first model had a score."""

    exit_code = 4


class BundleError(TabappError):
    """A bundle cannot be trusted or understood."""

    exit_code = 5


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """Suggest the nearest name as the end of a sentence, or nothing when none is near.

    The comparison ignores case, since that is the commonest slip.
    """
    by_folded = {name.casefold(): name for name in names}
    near = get_close_matches(wrong.casefold(), list(by_folded), n=1, cutoff=0.6)
    return f"; did you mean {by_folded[near[0]]!r}?" if near else ""
