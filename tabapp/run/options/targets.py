"""Several targets: their names in the option `--target`, and the record of the run of each target.

A run with several targets has a folder `targets/<n>-<name>` for each of them, which is an ordinary run folder. The columns of the
other targets are ignored in it.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from tabapp.errors import UsageError, given, option

MOST_TARGETS = 50
_LONGEST_FOLDER_NAME = 24
_FOLDER = re.compile(r"targets/[1-9][0-9]?-[a-z0-9-]{1,24}")


class TargetRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The run of one target: its folder, relative to that of the whole run, and the last round that it has completed."""

    target: str
    folder: str
    done: int = 0


class TargetRuns(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The runs of all targets, in the order of the option. A complete run that gets more time or trials starts a new round."""

    targets: tuple[TargetRun, ...]
    round: int = 1


def split_targets(text: str) -> tuple[str, ...]:
    """The names in a value of `--target`, which is a line of CSV: a name with a comma is in double quotes.

    Raises:
        UsageError: the value contains no name, a name twice, too many names, or an open quote.
    """
    try:
        names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True, strict=True), [])]
    except csv.Error:
        raise UsageError(
            f"{given('target', text)} has an open quote. Write names with a comma in double quotes: '\"a,b\",c'."
        ) from None
    names = [name for name in names if name]
    if not names:
        raise UsageError(f"{given('target', text)} contains no column. Name at least one.")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise UsageError(f"{option('target')} names the column {name!r} twice. Name each target once.")
    if len(names) > MOST_TARGETS:
        raise UsageError(f"{option('target')} names {len(names)} columns. A run has at most {MOST_TARGETS} targets.")
    return tuple(names)


def resolve_targets(text: str, columns: Collection[str]) -> tuple[str, ...]:
    """The targets that a value of `--target` names in a table. The name of a column is one target, even with a comma in it.

    Raises:
        UsageError: as `split_targets`.
    """
    return (text,) if text in columns or not _has_syntax(text) else split_targets(text)


def may_be_several(text: str | None) -> bool:
    """Whether a value of `--target` may name several columns, without knowing the table."""
    return text is not None and "," in text


def _has_syntax(text: str) -> bool:
    return "," in text or '"' in text


def folders_of_targets(names: Sequence[str]) -> TargetRuns:
    """New records of the runs of these targets."""
    return TargetRuns(
        targets=tuple(
            TargetRun(target=name, folder=f"targets/{number}-{_folder_name(name)}")
            for number, name in enumerate(names, start=1)
        )
    )


def is_folder_of_target(path: str) -> bool:
    """Whether a path is that of the run of a target in the folder of the whole run."""
    return _FOLDER.fullmatch(path) is not None


def _folder_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", name).strip("-").lower()[:_LONGEST_FOLDER_NAME].strip("-") or "target"
