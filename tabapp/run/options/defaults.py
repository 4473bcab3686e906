"""The configuration of a run that only a file is chosen for: its options have the defaults of the user's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tabapp.run.options.config import OPTIONS, RunConfig, check_config
from tabapp.run.options.option import Option
from tabapp.run.options.settings import Settings

PATHS = ("test", "unlabelled", "out")
"""Options whose values are paths, which a run keeps absolute."""


def config_for(data: Path, settings: Settings) -> RunConfig:
    """The configuration of a run of a file that waits for its start.

    Options of the configuration that choose a view, such as `quiet`, do not concern it.

    Raises:
        UsageError: an option of the configuration has no valid value.
    """
    values: dict[str, Any] = {}
    for key, value in settings.run.items():
        option = OPTIONS.get(key.replace("-", "_"))
        if option is not None:
            read = [option.parse(text) for text in as_texts(option, value)]
            values[option.field] = option.combine(read) if option.is_repeatable else read[-1]
    for name in PATHS:
        if values.get(name) is not None:
            values[name] = str(Path(values[name]).resolve())
    config = RunConfig(data=str(data.resolve()), start=False, **values)
    check_config(config)
    return config


def as_texts(option: Option | None, value: Any) -> list[Any]:
    """A value of the configuration as the command line has it, perhaps in several occurrences of the option; lists and tables as in
    Python."""
    match value:
        case bool():
            return [value]
        case list() if option is not None:
            return option.texts(option.convert([str(item) for item in cast(list[Any], value)]))
        case dict() if option is not None:
            settings = {column: str(setting) for column, setting in cast(dict[str, Any], value).items()}
            return option.texts(option.convert(settings))
        case _:
            return [str(value)]
