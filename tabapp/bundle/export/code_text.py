"""Texts of a bundle in generated code. Names and labels may come from somebody else, so they are data or comments, and never code.

Python code contains them as `repr` writes them.
"""

from __future__ import annotations

import re

from tabapp.errors import UsageError

_LONGEST_COMMENT = 80
_NOT_PLAIN = re.compile(r"[^\w .-]")
_HALF_ESCAPE = re.compile(r'\\("|$)')
# A single backslash, whether or not a database takes a backslash in a text for an escape.
_BACKSLASH = r"SUBSTR('\\', 1, 1)"


def comment(text: str) -> str:
    """A text for a comment of one line in any language: letters, digits and a few signs; all others become `_`."""
    return _NOT_PLAIN.sub("_", text)[:_LONGEST_COMMENT]


def sql_text(text: str) -> str:
    """A text as an SQL expression.

    Raises:
        UsageError: SQL cannot contain it.
    """
    _check_sql(text)
    parts = ["'" + part.replace("'", "''") + "'" for part in text.split("\\")]
    return parts[0] if len(parts) == 1 else f"({f' || {_BACKSLASH} || '.join(parts)})"


def sql_name(name: str) -> str:
    """The name of a column in SQL.

    Raises:
        UsageError: SQL cannot contain it.
    """
    _check_sql(name)
    if _HALF_ESCAPE.search(name):
        raise UsageError(
            f"The name {name!r} cannot be written as SQL: some databases take the backslash before a quote or at the end for an "
            "escape. Rename the column or the class."
        )
    return '"' + name.replace('"', '""') + '"'


def _check_sql(text: str) -> None:
    if "\0" in text:
        raise UsageError(f"{text!r} cannot be written as SQL, which has no NUL characters. Remove them from the table.")
