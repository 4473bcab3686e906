"""The command `report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tabapp.cli.completion import run_ids
from tabapp.cli.options import runs_dir_option
from tabapp.errors import UsageError
from tabapp.headless.narration import echo_data
from tabapp.run.record.folder import RunFolder, find_run
from tabapp.run.record.outputs import reject_replacing

if TYPE_CHECKING:
    from tabapp.report.examples import Example

MOST_EXAMPLES = 20


@click.command()
@click.argument("run_id", metavar="RUN", shell_complete=run_ids)
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Output file. Its name ends with .html, .md or .json unless --format is given.",
)
@click.option(
    "--format", "form", type=click.Choice(["html", "md", "json"]), help="Format of the file [default: by its name]."
)
@click.option(
    "--examples",
    type=click.IntRange(0, MOST_EXAMPLES),
    default=0,
    metavar="N",
    help="Explain this many of the sample rows in the bundle. The report then contains their values.",
)
@runs_dir_option
def report(run_id: str, out: Path, form: str | None, examples: int, runs_dir: Path) -> int:
    """Write a report of a run to one file: data, plan, leaderboard, quality, importances, effects and weak slices.

    HTML files contain their charts and load nothing else.
    """
    from tabapp.report.write import format_of, write_report

    form = form or format_of(out)
    folder = find_run(run_id, runs_dir)
    reject_replacing(folder, out)
    write_report(folder, out, form, _examples(folder, examples) if examples else ())
    echo_data(f"{out}\n".encode(errors="surrogateescape"))
    return 0


def _examples(folder: RunFolder, n_rows: int) -> list[Example]:
    """Explain rows of the sample in the bundle of a run, from the lowest to the highest output.

    Raises:
        UsageError: the run has no bundle.
        BundleError: its bundle does not load.
    """
    from tabapp.bundle.confined.box import load_boxed
    from tabapp.explain.rows import SHAPLEY, Explainer
    from tabapp.report.examples import Contribution, Example

    if not folder.bundle.is_file():
        raise UsageError(f"The run {folder.run} has no bundle yet, so no rows can be explained. Omit --examples.")
    loaded = load_boxed(folder.bundle)
    schema, rows = loaded.predictor.schema, loaded.reference_rows()
    predict = loaded.predictor.predict_typed
    explainer = Explainer(
        predict,
        schema,
        rows,
        decompose=loaded.predictor.decompose_exactly,
        labels=loaded.predictor.labels,
    )
    # Of two classes, every row is explained by the same one; of several, by the class that is predicted for it.
    label = schema.classes[-1] if len(schema.classes) == 2 else None
    outputs = (
        predict(rows[explainer.columns]).max(axis=1) if len(schema.classes) > 2 else explainer.outputs(rows, label)
    )
    order = sorted(range(rows.height), key=lambda row: outputs[row])
    chosen = [order[round(i * (rows.height - 1) / max(1, n_rows - 1))] for i in range(min(n_rows, rows.height))]
    examples: list[Example] = []
    for row in chosen:
        found = explainer.explain(rows[[row]], [row], label=label)
        each = found.rows[0]
        examples.append(
            Example(
                prediction=str(each.prediction),
                label=found.label,
                base=found.base,
                output=each.output,
                contributions=[
                    Contribution(name, loaded.sample[row, name], contribution, each.errors[name])
                    for name, contribution in each.contributions.items()
                ],
                method=found.method,
                reference="the sample rows of the bundle" if found.method == SHAPLEY else "the training rows",
            )
        )
    return examples
