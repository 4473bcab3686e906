"""Tables described before a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabapp.api.frames import is_path, to_polars
from tabapp.errors import DataError, UsageError, did_you_mean
from tabapp.run.options.config import RunConfig
from tabapp.run.options.keywords import config_from_keywords, in_python, normalized_columns

if TYPE_CHECKING:
    from tabapp.data.profile import Profile
    from tabapp.data.reading.read import Reading

_OPTIONS = (
    "target", "task", "positive", "group", "time", "weight", "ignore", "kind", "null", "decimal", "delimiter", "encoding",
    "max_memory", "test", "unlabelled",
)  # fmt: skip


def profile(data: Any, **options: Any) -> Profile:
    """Describe a table: what each column is taken for and why, the target and task a run would choose, and warnings.

    The result has the content of `tabapp profile --json`.

    Args:
        data: path of a file, or a polars, pandas or pyarrow table.
        options: target, task, positive, group, time, weight, ignore, kind, test, unlabelled, and those for reading a file
            (delimiter, encoding, decimal, null, max_memory), as for `tabapp.fit`.

    Raises:
        UsageError: an option does not exist or cannot be used.
        DataError: the data cannot be used.
    """
    from tabapp.data.profile import make_profile, schema_with_warnings
    from tabapp.metrics import default_metric

    for option in options:
        if option not in _OPTIONS:
            raise UsageError(f"There is no option {option!r} of profile{did_you_mean(option, _OPTIONS) or '.'}")
    test, unlabelled = options.pop("test", None), options.pop("unlabelled", None)
    if not is_path(data):
        options = {name: normalized_columns(name, value) for name, value in options.items()}
    config = config_from_keywords(str(data) if is_path(data) else "data", options)
    reading = _read(data, "data", config)
    try:
        schema = schema_with_warnings(
            reading,
            None if test is None else _read(test, "test", config).frame,
            target=config.target,
            task=config.task,
            positive=config.positive,
            group=config.group,
            time=config.time,
            weight=config.weight,
            ignore=config.ignore,
            kinds=config.kinds,
            null=config.null,
        )
    except (DataError, UsageError) as error:
        raise type(error)(in_python(str(error))) from None
    n_more = 0 if unlabelled is None else _read(unlabelled, "unlabelled", config).frame.height
    return make_profile(config.data, reading, schema, default_metric(schema.task), n_more)


def _read(data: Any, what: str, config: RunConfig) -> Reading:
    """A file or a table as text, with the types that decide the kinds of columns."""
    from tabapp.data.reading.read import Reading, ReadOptions, read_table
    from tabapp.data.stored import as_text, stored_types

    if is_path(data):
        options = ReadOptions(
            delimiter=config.delimiter,
            encoding=config.encoding,
            decimal=config.decimal,
            null=config.null,
            max_memory=config.max_memory,
        )
        return read_table(Path(data), options)
    frame = to_polars(data, what)
    if frame.height == 0:
        raise DataError(f"{what} has no rows.")
    return Reading(as_text(frame, what), "frame", None, None, int(frame.estimated_size()), (), stored_types(frame))
