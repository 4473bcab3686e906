"""Tables described before a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabapp.api.forks import check_process
from tabapp.api.frames import is_path, to_polars
from tabapp.errors import DataError, UsageError, did_you_mean, spelled_in_python
from tabapp.run.options.config import DESCRIBING, RunConfig
from tabapp.run.options.keywords import config_from_keywords, with_column_names

if TYPE_CHECKING:
    from tabapp.data.profile import Profile
    from tabapp.data.reading.read import Reading


@spelled_in_python()
def profile(data: Any, **options: Any) -> Profile:
    """Describe a table: what each column is taken for and why, the target and task a run would choose, and warnings.

    The result has the content of `tabapp profile --json`.

    Args:
        data: path of a file, or a polars, pandas or pyarrow table.
        options: those of `tabapp profile`, as for `tabapp.fit`.

    Raises:
        UsageError: an option does not exist or cannot be used.
        DataError: the data cannot be used.
    """
    from tabapp.data.profile import make_profile, schema_with_warnings
    from tabapp.metrics import default_metric

    check_process()
    for option in options:
        if option not in DESCRIBING:
            raise UsageError(f"There is no option {option!r} of profile{did_you_mean(option, DESCRIBING) or '.'}")
    test, unlabelled = options.pop("test", None), options.pop("unlabelled", None)
    if not is_path(data):
        options = with_column_names(options)
    config = config_from_keywords(str(data) if is_path(data) else "data", options)
    reading = _read(data, "data", config)
    other = None if test is None else _read(test, "test", config).frame
    schema = schema_with_warnings(reading, other, **config.of_columns(reading.names))
    n_more = 0 if unlabelled is None else _read(unlabelled, "unlabelled", config).frame.height
    return make_profile(config.data, reading, schema, default_metric(schema.task), n_more)


def _read(data: Any, what: str, config: RunConfig) -> Reading:
    """A file or a table as text, with the types that decide the kinds of columns."""
    from tabapp.data.plain import left_out, plain_frame
    from tabapp.data.reading.read import Reading, ReadOptions, read_table
    from tabapp.data.stored import as_text, stored_types

    if is_path(data):
        return read_table(Path(data), ReadOptions.of(config))
    frame = to_polars(data, what)
    if frame.height == 0:
        raise DataError(f"{what} has no rows.")
    held = left_out(frame.schema)
    plain = plain_frame(frame)
    if not plain.width:
        raise DataError(f"{what} has no column with one value in each row.")
    n_bytes = int(frame.estimated_size())
    return Reading(as_text(plain, what), "frame", None, None, n_bytes, (), stored_types(plain), held)
