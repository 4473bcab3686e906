"""Errors of runs as exceptions."""

from __future__ import annotations

from tabapp.errors import BudgetError, BundleError, DataError, TabappError, UsageError
from tabapp.run.options.keywords import in_python

_BY_CODE: dict[int, type[TabappError]] = {
    error.exit_code: error for error in (UsageError, DataError, BudgetError, BundleError)
}


def error_for(exit_code: int, message: str) -> TabappError:
    """The exception of a run that ended without a bundle."""
    return _BY_CODE.get(exit_code, TabappError)(in_python(message))
