"""The options of a run as TOML: presets of plans, and the plan in an editor. Keys and values are those of `[run]` in the
configuration file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping
from typing import Any, cast

import msgspec

from tabapp.errors import UsageError, did_you_mean
from tabapp.run.options.config import OPTIONS, RunConfig, check_config, check_folds
from tabapp.run.options.option import Option, Settings
from tabapp.run.options.quantities import Duration
from tabapp.run.options.settings import line_of

_HEADER = """\
# The plan of {data}. Save the file and close the editor to use it.
# An option in a comment has its default. A file without changes changes nothing.
"""


def plan_toml(config: RunConfig, without: Collection[str] = ()) -> str:
    """All options of a configuration with their help; those with their defaults are comments.

    Args:
        without: options that are left out.
    """
    lines = [_HEADER.format(data=config.data)]
    section = ""
    for name, option in OPTIONS.items():
        if name in without:
            continue
        if option.section != section:
            section = option.section
            lines.append(f"# --- {section} ---\n")
        value = getattr(config, option.field)
        lines.append(f"# {option.help}")
        lines.append(f"# {name} =\n" if value == option.default else f"{_line(option, value)}\n")
    return "\n".join(lines)


def preset_toml(config: RunConfig, without: Collection[str] = ()) -> str:
    """The options of a configuration that do not have their defaults."""
    written = [option for name, option in OPTIONS.items() if name not in without]
    values = [(option, getattr(config, option.field)) for option in written]
    return "".join(f"{_line(option, value)}\n" for option, value in values if value != option.default)


def _line(option: Option, value: Any) -> str:
    return f"{option.name} = {_toml(option.text(value) if isinstance(option, Duration) else value)}"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        items = cast(Mapping[str, Any], value).items()
        return "{ " + ", ".join(f"{_toml(key)} = {_toml(each)}" for key, each in items) + " }"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(each) for each in cast(list[Any], value)) + "]"
    # A string of JSON is a string of TOML, except that TOML also escapes DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_plan(text: str, name: str) -> dict[str, Any]:
    """The fields of `RunConfig` that a TOML text sets, as plain values.

    Args:
        name: what errors call the text.

    Raises:
        UsageError: it is not TOML, or an option in it is unknown or not valid; names the line.
    """
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not TOML: {error}.") from None
    found: dict[str, Any] = {}
    for key, value in content.items():
        option = OPTIONS.get(key.replace("-", "_"))
        if option is None:
            hint = did_you_mean(key, OPTIONS) or "; `tabapp --help` lists the options."
            raise UsageError(f"{name}: line {line_of(text, key)} sets {key}, which is no option{hint}")
        try:
            found[option.field] = _value(option, value)
        except UsageError as error:
            raise UsageError(f"{name}: line {line_of(text, key)}: {error}") from None
    config = msgspec.convert({"data": "", **found}, RunConfig)
    check_config(config)
    check_folds(config)
    return found


def _value(option: Option, value: Any) -> Any:
    """A value as the field has it, checked as on the command line; lists and tables as in Python."""
    if isinstance(value, list):
        converted = option.convert([str(item) for item in cast(list[Any], value)])
    elif isinstance(value, dict):
        settings = {column: str(setting) for column, setting in cast(dict[str, Any], value).items()}
        converted = option.convert(settings)
    elif isinstance(value, str) and isinstance(option, Settings) and not value:
        converted = option.default
    else:
        return msgspec.to_builtins(option.read(str(value)))
    option.check(converted)
    return msgspec.to_builtins(converted)


def defaults() -> dict[str, Any]:
    """The fields of all options with their defaults, as plain values."""
    return {option.field: msgspec.to_builtins(option.default) for option in OPTIONS.values()}


def columns_named(fields: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of columns in fields of `RunConfig`, by field."""
    found: dict[str, list[str]] = {}
    for option in OPTIONS.values():
        value = fields.get(option.field)
        if value and option.completion == "columns":
            found[option.field] = [value] if isinstance(value, str) else list(value)
        elif value and isinstance(option, Settings) and option.resolves_columns:
            found[option.field] = list(value)
    return found
