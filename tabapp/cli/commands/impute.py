"""The command `impute`, which fills the missing cells of a table."""

from __future__ import annotations

from pathlib import Path

import click

from tabapp.cli.completion import tables
from tabapp.cli.options import check_file, device_option, read_budget, run_option, trust_option
from tabapp.cli.output import check_output, write_table
from tabapp.cli.reading import Reader, reading_options, strict_option
from tabapp.column_names import ColumnNames
from tabapp.errors import DataError, UsageError
from tabapp.headless.narration import echo, say
from tabapp.run.options.config import OPTIONS
from tabapp.warning_text import sentences


@click.command()
@click.argument("data", shell_complete=tables)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="Output file: .csv, .parquet, .arrow or .jsonl; replaced if it exists.",
)
@click.option(
    "--model",
    "bundle",
    type=click.Path(path_type=Path),
    metavar="BUNDLE",
    help="Use the npt model of this bundle instead of training one on DATA.",
)
@device_option
@trust_option
@click.option("--budget", callback=read_budget, default="2m", show_default=True, metavar="TIME", help="Training time.")
@run_option("seed")
@run_option("kind")
@click.option(
    "--uncertainty",
    is_flag=True,
    help="Add a column NAME_uncertainty for each filled column: the standard deviation of filled numbers, or the probability that "
    "a filled category is wrong.",
)
@click.option("--safe-csv", is_flag=True, help="Put ' before texts that a spreadsheet program would run as formulas.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")
@strict_option
@reading_options
def impute(
    data: str,
    output: str,
    bundle: Path | None,
    device: str,
    trust: Path | None,
    budget: float,
    seed: int,
    kinds: dict[str, str],
    uncertainty: bool,
    safe_csv: bool,
    quiet: bool,
    strict: bool,
    reader: Reader,
) -> int:
    """Fill the missing cells of DATA: numbers, categories and booleans.

    A Non-Parametric Transformer predicts each missing cell from the rest of its row and from other rows; no column is treated as
    the target. Present cells, dates, texts, identifiers and constant columns stay unchanged.
    """
    target = Path(output)
    check_output(target, "Tables", (data, bundle, trust), safe_csv=safe_csv)
    if data == "-":
        raise UsageError("impute reads its table more than once, which stdin does not allow. Use a file.")
    if trust is not None and bundle is None:
        raise UsageError("--trust needs a bundle. Choose one with --model.")
    if strict and bundle is None:
        raise UsageError("--strict compares DATA with the training table of a bundle. Choose one with --model.")
    check_file(data)
    from tabapp.bundle.prediction.impute import impute as fill
    from tabapp.bundle.prediction.impute import schema_without_target, train_imputer
    from tabapp.data.reading.read import read_table

    try:
        as_numbers = target.suffix.lower() == ".parquet"
        if bundle is not None:
            from tabapp.bundle.confined.box import Box

            with Box(bundle, trust=trust, device=device) as box:
                reading = read_table(Path(data), reader.options, columns=box.contents.schema.columns)
                done = box.impute(
                    reading.frame,
                    as_numbers=as_numbers,
                    with_uncertainty=uncertainty,
                    strict=strict,
                    decimal=reading.decimal,
                )
        else:
            reading = read_table(Path(data), reader.options)
            exact = OPTIONS["kind"].resolve(kinds, ColumnNames(reading.frame.columns))
            schema = schema_without_target(reading.frame, exact)
            imputers = [train_imputer(reading.frame, schema, seconds=budget, seed=seed, device=device)]
            done = fill(reading.frame, schema, imputers, as_numbers=as_numbers, with_uncertainty=uncertainty)
    except DataError as error:
        raise DataError(f"{data}: {error}") from None
    write_table(done.frame, target, safe_csv=safe_csv)
    if not quiet:
        notes = [*sentences(reading.warnings), *done.notes]
        if done.left:
            left = ", ".join(f"{name!r} ({count:,})" for name, count in done.left.items())
            notes.append(f"Still missing, in columns that are not filled: {left}")
        for note in notes:
            say(note)
        filled = ", ".join(f"{name!r} ({count:,})" for name, count in done.filled.items()) or "none was missing"
        echo(f"tabapp: {sum(done.filled.values()):,} cells filled in {target}: {filled}.", err=True)
    return 0
