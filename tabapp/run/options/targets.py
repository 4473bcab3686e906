"""Several targets: their names in the option `--target`, and the record of the run of each target.

A run with several targets has a folder `targets/<n>-<name>` for each of them, which is an ordinary run folder. The columns of the
other targets are ignored in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from tabapp.column_names import ColumnNames
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


def resolve_targets(value: str | tuple[str, ...], columns: ColumnNames) -> tuple[str, ...]:
    """The targets that the option names in a table. Names that no column has stay as they are.

    Raises:
        UsageError: the value contains no name, a name twice, or too many names.
    """
    values = (value,) if isinstance(value, str) else value
    names = [name for each in values for name in columns.named(each)]
    if not names:
        raise UsageError(f"{given('target', value)} contains no column. Name at least one.")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise UsageError(f"{option('target')} names the column {name!r} twice. Name each target once.")
    if len(names) > MOST_TARGETS:
        raise UsageError(f"{option('target')} names {len(names)} columns. A run has at most {MOST_TARGETS} targets.")
    return tuple(names)


def may_be_several(value: str | tuple[str, ...] | None) -> bool:
    """Whether a value of `--target` may name several columns, without knowing the table."""
    return value is not None and (not isinstance(value, str) or "," in value)


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
