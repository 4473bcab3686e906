"""The configuration of a run from the keywords of Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from tabapp.column_names import column_name
from tabapp.errors import UsageError, did_you_mean, spelled_in_python
from tabapp.run.options.config import NAMING, OPTIONS, RunConfig, check_config, check_folds


@spelled_in_python()
def config_from_keywords(data: str, options: Mapping[str, Any]) -> RunConfig:
    """The configuration of a run from the keywords of Python.

    Args:
        data: path of the table.
        options: values by keyword; None means the default.

    Raises:
        UsageError: a keyword is unknown or its value is invalid; names the keyword.
    """
    values: dict[str, Any] = {}
    for keyword, value in options.items():
        if keyword not in OPTIONS:
            raise UsageError(f"There is no option {keyword!r}{did_you_mean(keyword, OPTIONS) or '.'}")
        if value is not None:
            values[OPTIONS[keyword].field] = OPTIONS[keyword].convert(value)
    config = RunConfig(data=data, **values)
    check_config(config)
    check_folds(config)
    return config


def with_column_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords for a data frame, with names of columns as the run spells them."""
    return {name: _named(value) if name in NAMING else value for name, value in options.items()}


def _named(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {column_name(name): setting for name, setting in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, str) or not isinstance(value, Iterable):
        return None if value is None else column_name(value)
    return [column_name(name) for name in cast(Iterable[Any], value)]
