"""The command `explain`: why a bundle predicts what it predicts for single rows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tabapp.cli.completion import bundles, tables
from tabapp.cli.options import device_option, trust_option
from tabapp.cli.output import check_output, write_table
from tabapp.cli.reading import Reader, fill_option, load_and_read, reading_options, strict_option
from tabapp.column_names import ColumnNames
from tabapp.errors import DataError, UsageError, did_you_mean
from tabapp.headless.narration import echo, echo_json, say
from tabapp.printable import one_line
from tabapp.run.protocol.prediction import label_text
from tabapp.warning_text import sentences

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from tabapp.bundle.prediction.predict import Predictor
    from tabapp.data.schema import Schema
    from tabapp.explain.rows import Explained, Explainer, Explanations, NeighborLike

    Cells = Callable[[NeighborLike], dict[str, str | None] | None]

SHOWN_COLUMNS = 20


def _read_rows(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", value.strip())
    if match is None or len(value) > 30:
        raise UsageError(f"--rows {value!r} is not a range of rows. Give numbers from 0, such as --rows 0-9.")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise UsageError(f"--rows {value} ends before it starts. Give the smaller number first.")
    return first, last


def _check_settings(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for text in value:
        if "=" not in text:
            raise UsageError(
                f"--set {text!r} has no value. Write it as COLUMN=VALUE; nothing after = is a missing value."
            )
    return value


def by_column(settings: tuple[str, ...], schema: Schema) -> dict[str, str]:
    """The new values by column. The names of columns and the values may contain `=`: the longest name that fits is meant."""
    found: dict[str, str] = {}
    names = ColumnNames(column.name for column in schema.columns_of_file)
    for text in settings:
        name, _, value = text.partition("=")
        found.update([names.assignment(text) or (name, value)])
    return found


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=bundles)
@click.argument("data", shell_complete=tables)
@click.option("--row", type=click.IntRange(0), metavar="N", help="Row to explain, counted from 0 [default: 0].")
@click.option("--rows", callback=_read_rows, metavar="A-B", help="First and last row to explain, counted from 0.")
@click.option(
    "--set",
    "settings",
    callback=_check_settings,
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Change a value of the explained rows first; may be repeated.",
)
@click.option(
    "--class",
    "label",
    metavar="LABEL",
    help="Class whose probability is explained [default: as predicted for the first row].",
)
@click.option(
    "--member",
    metavar="MODEL",
    help="Explain the output of one model of the ensemble, the target, its logarithm or the log-odds of the class: a boosting "
    "model by TreeSHAP, a network by integrated gradients.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Output file: .json, .csv, .parquet, .arrow or .jsonl, with a line for each row and column; an existing file is replaced.",
)
@click.option(
    "--training",
    metavar="FILE",
    shell_complete=tables,
    help="Training file, which has the values of the training rows that a prediction rests on.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
@device_option
@trust_option
@fill_option
@strict_option
@reading_options
def explain(
    bundle: Path,
    data: str,
    row: int | None,
    rows: tuple[int, int] | None,
    settings: tuple[str, ...],
    label: str | None,
    member: str | None,
    output: str | None,
    training: str | None,
    as_json: bool,
    device: str,
    trust: Path | None,
    fill: bool,
    strict: bool,
    reader: Reader,
) -> int:
    """Explain the predictions of BUNDLE for rows of DATA by the contribution of each column.

    Contributions are Shapley values of the ensemble, in units of its output: the probability of a class, or the target's
    unit. The base is the mean output for the sample rows in the bundle; base plus contributions is the output. Regressions by
    boosting models alone are explained by TreeSHAP.
    """
    from tabapp.data.new_rows.rows import NewRows
    from tabapp.explain.rows import Explainer, explanations_json
    from tabapp.explain.what_if import changed_rows, with_columns

    if row is not None and rows is not None:
        raise UsageError("Give either --row or --rows.")
    target = None if output in (None, "-") else Path(output)
    is_json = target is not None and target.suffix.lower() == ".json"
    check_output(target, "Explanations", (data, bundle, training, trust), more=(".json",))
    first, last = rows or (row or 0, row or 0)
    loaded, reading = load_and_read(bundle, trust, data, reader, device=device)
    predictor = loaded.predictor
    new_values = by_column(settings, predictor.schema)
    frame = with_columns(reading.frame, new_values, predictor.schema)
    new_rows = NewRows(predictor.schema, frame.columns, fill=fill, strict=strict, decimal=reading.decimal)
    _check_rows(last, frame.height, data)
    try:
        new_rows.add(frame)
        notes, schema = new_rows.notes(), new_rows.schema
    except DataError as error:
        raise DataError(f"{data}: {error}") from None
    frame, remarks = changed_rows(frame, range(first, last + 1), new_values, schema)
    typed = new_rows.typed(frame)
    for note in [*sentences(reading.warnings), *remarks, *notes]:
        say(note)
    if predictor.ensemble.threshold is not None:
        say(f"Rows are {label_text(schema.classes[1], predictor.ensemble.threshold)}, the threshold of the bundle")
    explainer = Explainer(
        predictor.predict_typed,
        schema,
        loaded.reference_rows(),
        loaded.neighbors,
        predictor.decompose_exactly,
        predictor.labels,
    )
    chosen, numbers = typed[first : last + 1], range(first, last + 1)
    if member is None:
        found = explainer.explain(chosen, numbers, label=label)
    else:
        found = _explained_by(member, predictor, explainer, chosen, numbers, label)
    cells = _training_cells(training, reader, predictor.schema) if training is not None else None
    if target is not None and not is_json:
        write_table(_table(found, frame), target)
    elif target is not None or as_json:
        text = json.dumps(explanations_json(found, schema.target, cells), ensure_ascii=False, indent=1)
        if target is not None:
            _write(target, text)
        else:
            echo_json(text)
    else:
        for each in found.rows:
            _print(each, found, frame, schema.target)
            if cells is not None and each.neighbors:
                _print_training_rows(each, frame, cells)
    return 0


def _check_rows(last: int, n_rows: int, data: str) -> None:
    """Raises: UsageError: a table has fewer rows than are asked for."""
    if last >= n_rows:
        rows_there = f"rows 0 to {n_rows - 1:,}" if n_rows else "no rows"
        raise UsageError(f"There is no row {last:,}: {data} has {rows_there}. Choose others with --rows.")


def _explained_by(
    member: str, predictor: Predictor, explainer: Explainer, chosen: pl.DataFrame, numbers: range, label: str | None
) -> Explanations:
    """The output of one model of the ensemble, explained.

    Raises:
        UsageError: there is no such model, or its output cannot be decomposed.
    """
    from tabapp.explain.rows import decomposed_explanations

    members = list(dict.fromkeys(candidate.model for candidate in predictor.ensemble.candidates))
    if member not in members:
        hint = did_you_mean(member, members) or f"; its models are {', '.join(members)}."
        raise UsageError(f"The ensemble has no model {member!r}{hint}")
    predicted = predictor.predict_typed(chosen)
    code = explainer.code_of(label, predicted)
    decomposed = predictor.decompose(chosen, member, code, explainer.reference)
    if decomposed is None:
        raise UsageError(
            f"The model {member!r} cannot be explained alone. Choose a network or a boosting model whose trials have the same "
            "loss, or omit --member."
        )
    classes = predictor.schema.classes
    explained = classes[code] if classes else None
    return decomposed_explanations(decomposed, explainer.predictions(predicted), numbers, explained, member)


def _training_cells(training: str, reader: Reader, schema: Schema) -> Cells:
    """The values of a training row by column.

    Raises:
        DataError: the file cannot be read.
    """
    from tabapp.explain.training_rows import training_cells

    rows = reader.read(training).frame
    return lambda neighbor: training_cells(neighbor, rows, schema)


def _print_training_rows(each: Explained, frame: pl.DataFrame, cells: Cells) -> None:
    """Print the values of the training rows beside those of the row, in the columns that contribute most."""
    from tabapp.headless.tables import print_table

    known = [(near, values) for near in each.neighbors if (values := cells(near)) is not None]
    if not known:
        say(
            "The rows of --training have other targets than the training rows. Give the file that the models were trained on."
        )
        return
    order = sorted(each.contributions, key=lambda name: -abs(each.contributions[name]))[:SHOWN_COLUMNS]
    header = ["column", f"row {each.row}", *(f"training row {near.row}" for near, _ in known)]
    lines = [[name, _cell(frame, each.row, name) or "", *(values[name] or "" for _, values in known)] for name in order]
    print_table(header, lines)


def _table(found: Explanations, frame: pl.DataFrame) -> pl.DataFrame:
    """A line for each row and column."""
    import polars as pl

    return pl.DataFrame(
        [
            {
                "row": each.row,
                "prediction": str(each.prediction),
                "base": found.base,
                "output": each.output,
                "column": name,
                "value": _cell(frame, each.row, name),
                "contribution": contribution,
                "error": each.errors[name],
            }
            for each in found.rows
            for name, contribution in each.contributions.items()
        ]
    )


def _cell(frame: pl.DataFrame, row: int, name: str) -> str | None:
    return frame[row, name] if name in frame.columns else None


def _write(target: Path, text: str) -> None:
    from tabapp import files

    try:
        files.write_bytes(target, f"{text}\n".encode())
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}). Choose another path with -o.") from None


def _print(each: Explained, found: Explanations, frame: pl.DataFrame, target: str) -> None:
    """Print the explanation of a row as a table, largest contributions first."""
    from tabapp.headless.tables import print_table

    prediction = each.prediction if isinstance(each.prediction, str) else f"{each.prediction:.6g}"
    of_class = "" if found.label is None else f" of {found.label!r}"
    what = f"probability of {found.label!r}" if found.label is not None else "prediction"
    if found.member is not None:
        what = f"{found.unit}{of_class} by {found.member}"
    echo(
        one_line(
            f"row {each.row} · {target}: {prediction} · {what} {each.output:.4g} = base {found.base:.4g} "
            f"{each.output - found.base:+.4g}"
        )
    )
    if each.completeness is not None:
        echo(f"{found.method}: the contributions reach the output within {each.completeness:.2%}.")
    order = sorted(each.contributions, key=lambda name: -abs(each.contributions[name]))
    lines = [
        [name, _cell(frame, each.row, name) or "", f"{each.contributions[name]:+.4g}", _error(each.errors[name])]
        for name in order[:SHOWN_COLUMNS]
    ]
    print_table(["column", "value", "contribution", "±"], lines, right=(2, 3))
    if each.neighbors:
        rows = [f"row {near.row} ({near.target}, {near.weight:.0%})" for near in each.neighbors]
        echo(one_line(f"answered from training {', '.join(rows)}"))
    rest = sum(each.contributions[name] for name in order[SHOWN_COLUMNS:])
    if len(order) > SHOWN_COLUMNS:
        echo(f"{len(order) - SHOWN_COLUMNS:,} other columns contribute {rest:+.4g}.")


def _error(error: float) -> str:
    return f"{error:.2g}" if error else "exact"
