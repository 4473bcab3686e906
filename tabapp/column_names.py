"""Names of columns as people and programs write them: in options, in settings, and in another file of the same table.

A value of an option is the name of a column, or else a record of CSV with several names. The name of a column always wins, so that
every column can be named as it is. In a record, a name with a comma is in double quotes.
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from io import StringIO


def column_name(name: object) -> str:
    """The name of a column as tabapp spells it: text with single spaces inside and none around it."""
    return " ".join(str(name).split())


def split_record(text: str) -> list[str]:
    """The fields of a record of CSV, without white space around them and without empty ones."""
    rows = csv.reader(StringIO(text, newline=""), skipinitialspace=True)
    return [field.strip() for row in rows for field in row if field.strip()]


def join_record(fields: Iterable[str]) -> str:
    """A record of CSV that `split_record` reads as these fields."""
    line = StringIO()
    # A field is quoted if it contains a character of the line's end.
    csv.writer(line, lineterminator="\r\n").writerow(fields)
    return line.getvalue().removesuffix("\r\n")


class ColumnNames:
    """The columns of a table, found by what names them.

    Letters may be in another Unicode form than in the table: "é" is one character or two. Two columns that differ only in the form
    are two columns, and only the exact name finds either.
    """

    def __init__(self, columns: Iterable[str]) -> None:
        self._exact = dict.fromkeys(columns)

    @cached_property
    def _by_form(self) -> dict[str, list[str]]:
        return _by_key(self._exact, _composed)

    @cached_property
    def _by_letters(self) -> dict[str, list[str]]:
        return _by_key(self._exact, _letters)

    def find(self, text: str) -> str | None:
        """The column of this name; None if there is none, or if several differ from it in the form of their letters."""
        name = text if text in self._exact else column_name(text)
        if name in self._exact:
            return name
        found = self._by_form.get(_composed(name), [])
        return found[0] if len(found) == 1 else None

    def alike(self, name: str) -> str | None:
        """The one column whose name differs only in case, punctuation or white space."""
        found = self._by_letters.get(_letters(name), [])
        return found[0] if len(found) == 1 and found[0] != name else None

    def one(self, value: str) -> str:
        """The column that a value names, perhaps in double quotes; the value where there is no such column."""
        fields = split_record(value)
        return self.find(value) or (self.find(fields[0]) if len(fields) == 1 else None) or column_name(value)

    def several(self, values: Iterable[str]) -> tuple[str, ...]:
        """The columns that values name. A name that no column has stays as it is, for an error that quotes it."""
        return tuple(dict.fromkeys(name for value in values for name in self.named(value)))

    def named(self, value: str) -> list[str]:
        """As `several`, for one value, with a column as often as it is named."""
        name = self.find(value)
        if name is not None:
            return [name]
        fields = split_record(value)
        if len(fields) > 1 and not any(map(self.find, fields)):
            return [column_name(value)]
        return [self.find(field) or column_name(field) for field in fields]

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Settings by column.

        Args:
            given: of each value, the text before the last `=` and the text after it. Where the text before is no column, the value
                is a record of CSV with several settings.

        Raises:
            ValueError: a field of such a record has no `=`; its text is the field.
        """
        found: dict[str, str] = {}
        for text, setting in given.items():
            name = self.find(text)
            if name is not None:
                found[name] = setting
                continue
            for field in split_record(f"{text}={setting}"):
                column, equals, value = field.rpartition("=")
                if not equals:
                    raise ValueError(field)
                found[self.find(column) or column_name(column)] = value.strip()
        return found

    def rejoined(self, items: Sequence[str]) -> list[str]:
        """The items of a record, such as `COLUMN=TEXT`, in which the name of a column with a comma was split like two items."""
        found: list[str] = []
        place = 0
        while place < len(items):
            joined = (
                (sep.join(items[place:end]), end) for end in range(place + 2, len(items) + 1) for sep in (", ", ",")
            )
            split = ((text, end) for text, end in joined if "," in (self.assignment(text) or ("",))[0])
            is_whole = self.assignment(items[place]) is not None
            text, place = (items[place], place + 1) if is_whole else next(split, (items[place], place + 1))
            found.append(text)
        return found

    def assignment(self, text: str) -> tuple[str, str] | None:
        """The column and the value of `COLUMN=VALUE`, in which both may contain `=`: the longest name of a column is meant."""
        for place in range(len(text) - 1, -1, -1):
            if text[place] == "=" and (name := self.find(text[:place])) is not None:
                return name, text[place + 1 :]
        return None


def _by_key(names: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(key(name), []).append(name)
    return found


def _composed(name: str) -> str:
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _letters(name: str) -> str:
    """Letters and digits of a name, in one case."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(filter(str.isalnum, folded)) or folded
