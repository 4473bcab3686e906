"""The options of a run as keywords of Python functions, derived from `RunConfig`."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, SupportsIndex, TypeGuard, get_args, get_origin

import msgspec

from tabapp.errors import UsageError, did_you_mean
from tabapp.run.options.config import RunConfig, check_bounds, check_folds, parse_budget, parse_bytes
from tabapp.run.options.lists import split_list
from tabapp.run.options.targets import join_targets

_OPTIONS = {"kinds": "kind"}
"""Fields whose option has another name."""
_NOT_OPTIONS = ("data", "start", "other_targets")
_FORMS = {"kind": ("COLUMN=KIND", "zip", "categorical"), "monotonic": ("COLUMN=+ or COLUMN=-", "age", "+")}
"""Keywords with a setting for each column: the form of their text, and an example."""
_COLUMN_OPTIONS = ("target", "group", "time", "weight")
"""Options that name one column."""


def keyword_fields() -> dict[str, str]:
    """The field of `RunConfig` for each keyword: the long options of `tabapp --auto` with underscores."""
    return {_OPTIONS.get(field, field): field for field in RunConfig.__struct_fields__ if field not in _NOT_OPTIONS}


def config_from_keywords(data: str, options: Mapping[str, Any]) -> RunConfig:
    """The configuration of a run from keywords.

    Args:
        data: path of the table.
        options: values by keyword; None means the default.

    Raises:
        UsageError: a keyword is unknown or its value is invalid; names the keyword.
    """
    fields = keyword_fields()
    types = {field.name: field.type for field in msgspec.structs.fields(RunConfig)}
    values: dict[str, Any] = {}
    for keyword, value in options.items():
        if keyword not in fields:
            raise UsageError(f"There is no option {keyword!r}{did_you_mean(keyword, fields) or '.'}")
        if value is not None:
            field = fields[keyword]
            values[field] = _converted(keyword, field, value, types[field])
    config = RunConfig(data=data, **values)
    try:
        check_bounds(config)
        check_folds(config)
    except UsageError as error:
        raise UsageError(in_python(str(error))) from None
    return config


def column_name(name: object) -> str:
    """The name of a data frame column in a run: text with single spaces inside and none around it."""
    return " ".join(str(name).split())


def normalized_columns(keyword: str, value: Any) -> Any:
    """The value of an option, with its column names normalized by `column_name`."""
    if keyword == "target" and _is_list(value):
        return [column_name(name) for name in value]
    if keyword in _COLUMN_OPTIONS and value is not None:
        return column_name(value)
    if keyword == "ignore" and not isinstance(value, str | None):
        return [column_name(name) for name in value]
    if keyword in ("kind", "monotonic") and isinstance(value, Mapping):
        return {column_name(name): setting for name, setting in value.items()}  # pyright: ignore[reportUnknownArgumentType]
    return value


def _converted(keyword: str, field: str, value: Any, wanted: Any) -> Any:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    elif isinstance(value, SupportsIndex) and not isinstance(value, int):
        value = operator.index(value)
    if field == "budget":
        value = parse_budget(value) if isinstance(value, str) else _seconds(value)
    elif field in ("memory_limit", "max_memory") and isinstance(value, str):
        value = parse_bytes(value)
    elif field == "workers" and value == "auto":
        return None
    elif field == "target" and _is_list(value):
        value = join_targets([str(name) for name in value])
    elif keyword in _FORMS:
        value = _settings(keyword, value)
    elif get_origin(wanted) is tuple:
        value = _names(value)
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        choices = [choice for choice in get_args(wanted) if isinstance(choice, str)]
        if choices:
            hint = did_you_mean(str(value), choices) or f"; use one of {', '.join(choices)}."
            raise UsageError(f"{keyword}={value!r} is not known{hint}") from None
        reason = str(error).partition(" - at ")[0]
        raise UsageError(f"{keyword}={value!r} cannot be used: {reason[:1].lower()}{reason[1:]}.") from None


def _is_list(value: Any) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, Iterable) and not isinstance(value, str | Mapping)


def _seconds(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _names(value: Any) -> Any:
    """Names as a list, or as one text separated by commas."""
    if isinstance(value, str):
        return split_list(value)
    return tuple(value) if isinstance(value, Iterable) else value  # pyright: ignore[reportUnknownVariableType]


def _settings(keyword: str, value: Any) -> Any:
    """Settings by column as a mapping, or as text like that of the option."""
    if not isinstance(value, str):
        return value
    pairs = [part.rpartition("=") for part in split_list(value)]
    if not all(equals for _, equals, _ in pairs):
        form, column, setting = _FORMS[keyword]
        raise UsageError(
            f"{keyword}={value!r} does not have the form {form}. Use text such as '{column}={setting}' or a mapping such as "
            f"{{'{column}': '{setting}'}}."
        )
    return {column.strip(): setting.strip() for column, _, setting in pairs}


def in_python(message: str) -> str:
    """Rewrite command-line options in a message as keywords: `--missing-columns fill` → `missing_columns='fill'`."""
    message = re.sub(r"--missing-columns (error|fill)", r"missing_columns='\1'", message)
    return re.sub(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)", lambda found: found[1].replace("-", "_"), message)
