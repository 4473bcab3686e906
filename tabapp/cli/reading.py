"""How commands read DATA: their options for it, and the table itself. What the functions need is imported inside them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tabapp.cli.options import all_of, check_file, describing_option, gathered
from tabapp.run.protocol import prediction as messages

if TYPE_CHECKING:
    from tabapp.bundle.confined.early_start import EarlyProcess
    from tabapp.bundle.prediction.load import LoadedBundle
    from tabapp.data.reading.read import Reading, ReadOptions
    from tabapp.data.schema import Schema


@dataclass(frozen=True)
class Reader:
    """Reads DATA as the options of a command say."""

    delimiter: str | None
    encoding: str | None
    decimal: str | None
    max_memory: int | None

    @property
    def options(self) -> ReadOptions:
        from tabapp.data.reading.read import ReadOptions

        return ReadOptions.of(self)

    def reads_in_parts(self, data: str) -> bool:
        """Whether DATA is a large file that can be read in parts.

        Raises:
            DataError: the file is missing, empty or unreadable.
        """
        if data == "-":
            return False
        from tabapp.data.reading.stream import is_large

        check_file(data)
        return is_large(Path(data), self.options)

    @contextmanager
    def kept(self, data: str) -> Generator[str]:
        """DATA as something that can be read more than once: stdin is copied to a temporary file for the block."""
        if data != "-":
            yield data
            return
        import shutil
        import sys

        from tabapp.temporary import TemporaryFolder

        with TemporaryFolder("stdin") as folder:
            path = Path(folder) / "stdin.csv"
            with path.open("xb") as spool:
                shutil.copyfileobj(sys.stdin.buffer, spool)
            yield str(path)

    def read(self, data: str, schema: Schema | None = None) -> Reading:
        """Read a whole file, or stdin for `-`: new rows for a bundle with this schema, or a training file."""
        from tabapp.data.reading.read import read_table

        if data != "-":
            check_file(data)
        with self.kept(data) as path:
            columns = () if schema is None else schema.columns
            return read_table(Path(path), self.options, allow_no_rows=True, columns=columns)


reading_options = all_of(
    *map(describing_option, ("delimiter", "encoding", "decimal", "max_memory")), gathered("reader", Reader)
)
"""The options for reading DATA, which a command receives together as `reader`."""

fill_option = click.option(
    "--missing-columns",
    "fill",
    type=click.Choice(["error", "fill"]),
    default="error",
    show_default=True,
    callback=lambda ctx, parameter, value: value == "fill",
    help="Reject feature columns that are missing or of another kind, or fill them with missing values.",
)
"""Adds `--missing-columns`, which a command receives as the Boolean `fill`."""


strict_option = click.option(
    "--strict",
    is_flag=True,
    help="Reject DATA with exit code 3 if a column differs from training, such as by unknown levels or its scale.",
)
"""Adds `--strict`, which makes every note that compares new rows with training an error."""


def load_and_read(
    bundle: Path,
    trust: Path | None,
    data: str,
    reader: Reader,
    emit: Callable[[messages.AnyPredictionMessage], None] = lambda message: None,
    *,
    device: str = "cpu",
    early: EarlyProcess | None = None,
) -> tuple[LoadedBundle, Reading]:
    """Verify a bundle, and read a whole table while another process, perhaps started early, loads the models of the bundle."""
    from tabapp.bundle.confined.box import Box

    emit(messages.StageStarted(stage="verifying the bundle"))
    with Box(bundle, trust=trust, device=device, early=early) as box:
        emit(messages.StageStarted(stage="reading the file"))
        reading = reader.read(data, box.contents.schema)
        emit(messages.StageStarted(stage="loading the models"))
        return box.load(), reading
