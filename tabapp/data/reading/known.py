"""What a schema says about the texts of a file that is read for it, so that a known value is never taken for something else."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tabapp.data.schema import Column

_GIVEN_NAME = re.compile(r"column_\d+")


@dataclass(frozen=True)
class Known:
    """The columns of a schema by name; empty when a file is read for training."""

    columns: Mapping[str, Column] = field(default_factory=dict[str, Column])

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Known:
        """The columns of a schema, without those that the reader makes itself."""
        return cls({column.name: column for column in columns if column.marks_of is None})

    @cached_property
    def _by_form(self) -> dict[str, Column]:
        return {_form(name): column for name, column in self.columns.items()}

    def get(self, name: str) -> Column | None:
        """The column of a name, in any Unicode form and with any white space."""
        return self._by_form.get(_form(name)) if self.columns else None

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __bool__(self) -> bool:
        return bool(self.columns)

    @cached_property
    def without_header(self) -> bool:
        """Whether the file of training had no header, so that its columns were numbered."""
        return bool(self.columns) and all(map(_GIVEN_NAME.fullmatch, self.columns))

    @cached_property
    def texts(self) -> frozenset[str]:
        """The levels of all columns."""
        return frozenset(level for column in self.columns.values() for level in column.levels)

    def numbered(self, width: int) -> tuple[str, ...]:
        """Names for the columns of a file without a header; one column less than in training means that the target is absent."""
        names = [name for name, column in self.columns.items() if column.role != "target"]
        if self.without_header and width == len(names) < len(self.columns):
            return tuple(names)
        return tuple(f"column_{number}" for number in range(1, width + 1))


def _form(name: str) -> str:
    return unicodedata.normalize("NFC", " ".join(name.split()))


NOTHING = Known()
