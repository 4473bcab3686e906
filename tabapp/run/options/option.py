"""The kinds of options of a run. Each reads values from text and from Python, checks them, and writes them as text.

`RunConfig` declares every option once, as an `Option` in the type of its field. The command line, its help and its completion, the
keywords of Python, the equivalent command, the configuration file, the documentation and errors follow from it.
"""

from __future__ import annotations

import json
import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, SupportsIndex, TypeGuard, get_args

import msgspec

from tabapp.column_names import ColumnNames, join_record, split_record
from tabapp.errors import UsageError, did_you_mean, given, option
from tabapp.run.options.targets import resolve_targets

Completion = Literal["columns", "metrics", "models", "tables", "files"]
Section = Literal["Task", "Model search", "Validation", "Columns", "File format", "Resources", "Output"]
"""A section of the help of `tabapp`."""


@dataclass(frozen=True)
class Option:
    """An option whose value is text.

    Attributes:
        section: where the help lists it.
        summary: its line in the help, without the default.
        metavar: what the help calls its value; None for a choice, whose values it lists.
        shown_default: the default in the help, where that of the field does not say it.
        completion: what the shell offers as a value.
        profile: its line in the help of `tabapp profile`, which takes it too; True for the same summary, False for no such option.
        keyword: its name, with underscores, if it is not that of its field.
        other_flags: further spellings on the command line.
        label: what a screen calls it, if it is not its name.
        typed: what to type into its field on a screen, with an example, if its kind does not say it well.
        steps: usual values, in the order in which the arrow keys of a screen go through them.
        field, type, default: those of the field of `RunConfig`.
    """

    section: Section
    summary: str
    metavar: str | None = "TEXT"
    _: KW_ONLY
    shown_default: str = ""
    completion: Completion | None = None
    profile: str | bool = False
    keyword: str = ""
    other_flags: tuple[str, ...] = ()
    label: str = ""
    typed: str = ""
    steps: tuple[Any, ...] = ()
    field: str = ""
    type: Any = str
    default: Any = None

    @property
    def name(self) -> str:
        """The keyword in Python, and the long option of the command line with underscores."""
        return self.keyword or self.field

    @property
    def title(self) -> str:
        """What a screen calls it."""
        return self.label or self.name.replace("_", " ").capitalize()

    @property
    def values(self) -> tuple[Any, ...]:
        """The values that a screen offers: usual ones, or all of a choice."""
        return self.steps

    @property
    def expected(self) -> str:
        """What to type into its field on a screen, in plain words and with an example."""
        return self.typed or self._form()

    def _form(self) -> str:
        return "a text"

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def help(self) -> str:
        """Its line in the help."""
        default = self.shown_default or ("" if self.default in (None, (), {}) else self.text(self.default))
        return f"{self.summary.removesuffix('.')} [default: {default}]." if default else self.summary

    def parse(self, text: str) -> Any:
        """Read a value from the command line or the configuration file; `check` rejects what stays text and must not be.

        Raises:
            UsageError: names the option, the value and what is valid.
        """
        return text

    def read(self, text: str) -> Any:
        """Read the whole value from one text, as from a field of a screen; an empty text is the default.

        Raises:
            UsageError: as for an option of the command line.
        """
        if not text.strip():
            return self.default
        value = self.parse(text)
        self.check(value)
        return self.convert(value)

    def text(self, value: Any) -> str:
        """Write a value as `parse` reads it."""
        return str(value)

    @property
    def is_repeatable(self) -> bool:
        """Whether the command line takes it several times."""
        return False

    def texts(self, value: Any) -> list[str]:
        """Write a value as what follows each occurrence of the option."""
        return [self.text(value)]

    def combine(self, values: Sequence[Any]) -> Any:
        """The value of several occurrences, from that of each."""
        return values[-1]

    def resolve(self, value: Any, columns: ColumnNames) -> Any:
        """The value with the exact names of the columns that it names.

        Raises:
            UsageError: it does not have the form of the option.
        """
        return columns.one(value) if self.completion == "columns" and value is not None else value

    def convert(self, value: Any) -> Any:
        """Read a value from Python.

        Raises:
            UsageError: names the option and the value.
        """
        if isinstance(value, os.PathLike):
            value = os.fspath(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        elif isinstance(value, SupportsIndex) and not isinstance(value, int):
            value = operator.index(value)
        try:
            return msgspec.convert(self._plain(value), self.type)
        except msgspec.ValidationError as error:
            reason = str(error).partition(" - at ")[0]
            raise UsageError(f"{given(self.name, value)} cannot be used: {reason[:1].lower()}{reason[1:]}.") from None

    def _plain(self, value: Any) -> Any:
        """A value of another type as one that the field may have."""
        return value

    def check(self, value: Any) -> None:
        """Reject a value of the field that is out of range.

        Raises:
            UsageError: names the option, the value and its range.
        """


def _is_list(value: Any) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, Iterable) and not isinstance(value, str | Mapping)


class Choice(Option):
    """One of the values of the `Literal` type of the field."""

    @property
    def choices(self) -> tuple[str, ...]:
        return get_args(self.type)

    @property
    def values(self) -> tuple[Any, ...]:
        return self.choices

    def convert(self, value: Any) -> str:
        if value not in self.choices:
            hint = did_you_mean(str(value), self.choices) or f"; use one of {', '.join(self.choices)}."
            raise UsageError(f"{given(self.name, value)} is not known{hint}")
        return value


class Names(Option):
    """Names as records of CSV."""

    @property
    def is_repeatable(self) -> bool:
        return True

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(split_record(text))

    def text(self, value: Any) -> str:
        return join_record(value)

    def combine(self, values: Sequence[Any]) -> Any:
        return tuple(dict.fromkeys(name for names in values for name in names))

    def _plain(self, value: Any) -> Any:
        return self.parse(value) if isinstance(value, str) else tuple(value) if _is_list(value) else value


class Texts(Names):
    """Texts of cells as records of CSV, each for all columns or, as COLUMN=TEXT, for one."""

    def _plain(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return super()._plain(value)
        by_column: Mapping[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(
            f"{column}={text}"
            for column, texts in by_column.items()
            for text in ([texts] if isinstance(texts, str) else texts)
        )

    def resolve(self, value: Any, columns: ColumnNames) -> Any:
        return tuple(columns.rejoined(value))


class Columns(Names):
    """Columns, each by its name, or several as a record of CSV. Values stay as they are until the columns are known."""

    def _form(self) -> str:
        return "columns with commas between them, such as id,name"

    def parse(self, text: str) -> tuple[str, ...]:
        return (text,) if text.strip() else ()

    def texts(self, value: Any) -> list[str]:
        return list(value)

    def resolve(self, value: Any, columns: ColumnNames) -> Any:
        return columns.several(value)


class Target(Option):
    """One column by its name, or several: a tuple of names, or of records of CSV as for `Columns`."""

    @property
    def is_repeatable(self) -> bool:
        return True

    def text(self, value: Any) -> str:
        return join_record(self.texts(value))

    def texts(self, value: Any) -> list[str]:
        return [value] if isinstance(value, str) else list(value)

    def combine(self, values: Sequence[Any]) -> Any:
        return values[0] if len(values) == 1 else tuple(values)

    def resolve(self, value: Any, columns: ColumnNames) -> Any:
        return None if value is None else self.combine(resolve_targets(value, columns))

    def _plain(self, value: Any) -> Any:
        return self.combine([str(name) for name in value]) if _is_list(value) else value


@dataclass(frozen=True)
class Settings(Option):
    """A setting for each of several columns.

    Each key is the text before the last `=` of a value of the option. Where it is not a column, the value is a record of CSV with
    several settings.

    Attributes:
        form: of the text of one setting.
        example: a column and its setting.
    """

    form: str = "COLUMN=SETTING"
    example: tuple[str, str] = ("", "")

    def _form(self) -> str:
        return f"{self.form} such as {'='.join(self.example)}"

    @property
    def resolves_columns(self) -> bool:
        """Whether its keys are columns."""
        return True

    @property
    def is_repeatable(self) -> bool:
        return True

    def parse(self, text: str) -> dict[str, str]:
        if not text.strip():
            return {}
        column, equals, setting = text.rpartition("=")
        if not equals:
            raise self._wrong_form(text)
        return {column.strip(): setting.strip()}

    def _wrong_form(self, text: str) -> UsageError:
        example = option(self.name, dict([self.example]))
        return UsageError(f"{given(self.name, text)} does not have the form {self.form}. Example: {example}.")

    def text(self, value: Any) -> str:
        return join_record(self.texts(value))

    def texts(self, value: Any) -> list[str]:
        return [f"{column}={setting}" for column, setting in value.items()]

    def combine(self, values: Sequence[Any]) -> Any:
        return {column: setting for settings in values for column, setting in settings.items()}

    def resolve(self, value: Any, columns: ColumnNames) -> Any:
        try:
            found = columns.settings(value)
        except ValueError as error:
            raise self._wrong_form(str(error)) from None
        self.check(found)
        return found

    def _plain(self, value: Any) -> Any:
        if _is_list(value):
            return self.combine([self.parse(str(text)) for text in value])
        return self.parse(value) if isinstance(value, str) else value


class Directions(Settings):
    """For each column, "+" if predictions may only rise with it, and "-" if they may only fall."""

    def check(self, value: Any) -> None:
        for column, sign in value.items():
            if sign not in ("+", "-"):
                raise UsageError(
                    f"{given(self.name, f'{column}={sign}')} is not valid. Use {column}=+ if predictions may only rise with the "
                    f"column, or {column}=- if they may only fall."
                )


class Hyperparameters(Settings):
    """A value for each of several hyperparameters of models, as text or JSON; a record of CSV has several settings."""

    @property
    def resolves_columns(self) -> bool:
        return False

    def parse(self, text: str) -> dict[str, str]:
        return self.combine([super(Hyperparameters, self).parse(item) for item in split_record(text)])

    def text(self, value: Any) -> str:
        return join_record(super().texts(value))

    def texts(self, value: Any) -> list[str]:
        return [join_record([each]) for each in super().texts(value)]

    def resolve(self, value: Any, columns: ColumnNames) -> Any:
        return value

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.parse(value)
        if not isinstance(value, Mapping):
            return value
        return {name: each if isinstance(each, str) else json.dumps(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]


@dataclass(frozen=True)
class Device(Option):
    """The name of a device."""

    has_auto: bool = True

    def _form(self) -> str:
        return "a device such as cuda:1"

    def check(self, value: Any) -> None:
        if not re.fullmatch(r"cpu|cuda(:\d+)?", value) and not (self.has_auto and value == "auto"):
            raise UsageError(f"Unknown device {value!r}. Use {'auto, ' if self.has_auto else ''}cpu, cuda or cuda:N.")
