"""The command `export`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import click

from tabapp.cli.completion import models, run_ids
from tabapp.cli.options import runs_dir_option
from tabapp.errors import UsageError
from tabapp.headless.narration import echo, echo_data, say
from tabapp.run.options.places import is_same_file, reject_inputs
from tabapp.run.options.units import format_duration
from tabapp.run.protocol.exporting import (
    ROWS_PER_LIMIT,
    AnyExportMessage,
    Compared,
    ExportOptions,
    StageStarted,
    run_export,
)
from tabapp.run.record.folder import RunFolder, find_run
from tabapp.run.record.outputs import reject_replacing
from tabapp.run.run_of_target import run_of_target
from tabapp.temporary import TemporaryFolder

OTHER_FORMS = {".onnx": "--onnx", ".sql": "--sql", ".py": "--python"}
"""The options that write files with these ends."""


@click.command()
@click.argument("run_id", metavar="RUN|BUNDLE", shell_complete=run_ids)
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FILE.tabapp", help="Output file.")
@click.option("--target", metavar="COL", help="Write the bundle of one target of a run or bundle with several.")
@click.option(
    "--refit",
    is_flag=True,
    help="Train each model of the ensemble once more on all rows, and leave out the models of the folds.",
)
@click.option(
    "--limit-ms",
    type=float,
    metavar="MS",
    help="Select the best ensemble that predicts 1,000 rows within MS milliseconds of processor time.",
)
@click.option(
    "--limit-rows",
    type=int,
    default=ROWS_PER_LIMIT,
    show_default=True,
    metavar="N",
    help="Rows that --limit-ms is for.",
)
@click.option(
    "--distill", metavar="MODEL", shell_complete=models, help="Train one MODEL on all rows to imitate the ensemble."
)
@click.option("--half", is_flag=True, help="Store weights in half precision where predictions change by at most 1e-4.")
@click.option("--with-weights", is_flag=True, help="Put the pre-trained weights of its models into the bundle.")
@click.option(
    "--sign",
    type=click.Path(path_type=Path),
    metavar="KEY",
    help="Sign the bundle with this Ed25519 private key (PEM).",
)
@click.option(
    "--docker",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write a Dockerfile that serves the bundle, its requirements and the bundle to this new folder.",
)
@click.option(
    "--onnx",
    type=click.Path(path_type=Path),
    metavar="FILE.onnx|DIR",
    help="Write the ensemble as an ONNX model, or each member and the ensemble to a folder.",
)
@click.option(
    "--mlflow",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write an MLflow model to this new folder, which `mlflow.pyfunc.load_model` reads.",
)
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    metavar="FILE.py",
    help="Write a script that trains the best model again with its own library, without tabapp.",
)
@click.option("--sql", type=click.Path(path_type=Path), metavar="FILE", help="Write the ensemble as one SQL query.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")
@runs_dir_option
def export(
    run_id: str,
    out: Path | None,
    target: str | None,
    refit: bool,
    limit_ms: float | None,
    limit_rows: int,
    distill: str | None,
    half: bool,
    with_weights: bool,
    sign: Path | None,
    docker: Path | None,
    onnx: Path | None,
    mlflow: Path | None,
    python: Path | None,
    sql: Path | None,
    quiet: bool,
    runs_dir: Path,
) -> int:
    """Write the bundle of a run to a file, as it is, smaller or faster, or write a container that serves it.

    RUN is an id, part of an id, a name, `last`, or a path with a slash. BUNDLE is a file whose name ends in .tabapp. --refit,
    --limit-ms, --distill and --half need a RUN, because a bundle has no training rows. They compare the new bundle with that of the
    run in size, speed and score.
    """
    if all(output is None for output in (out, docker, onnx, mlflow, python, sql)):
        raise UsageError(
            "Say what to write: a bundle with -o FILE.tabapp, or a model for other programs with --docker, --mlflow, --onnx, "
            "--python or --sql."
        )
    if out is not None and (other := OTHER_FORMS.get(out.suffix.lower())) is not None:
        raise UsageError(f"-o writes a bundle. Write {out} with {other} {out}.")
    if sign is not None and out is None:
        raise UsageError(
            "--sign signs the bundle that -o writes. Add -o FILE.tabapp, and export that file with --docker."
        )
    options = ExportOptions(refit=refit, limit_ms=limit_ms, limit_rows=limit_rows, distill=distill, half=half)
    options.check()
    _check_outputs(
        run_id, runs_dir, sign, [path for path in (out, docker, onnx, mlflow, python, sql) if path is not None]
    )
    with ExitStack() as stack:
        if options.is_plain:
            bundle = _bundle_of(run_id, runs_dir)
            if target is not None:
                from tabapp.bundle.files.targets import file_of, target_files

                bundle = file_of(stack.enter_context(target_files(bundle)), target, bundle).path
        else:
            folder = run_of_target(_run_of(run_id, runs_dir), target)
            bundle = Path(stack.enter_context(TemporaryFolder("export"))) / "model.tabapp"
            run_export(folder, bundle, options, _ignore if quiet else _show)
        if with_weights:
            from tabapp.bundle.writing.with_weights import write_with_weights

            whole = Path(stack.enter_context(TemporaryFolder("export"))) / "whole.tabapp"
            write_with_weights(bundle, whole)
            bundle = whole
        if out is not None:
            _copy(bundle, out, sign)
            bundle = out
        if docker is not None:
            _write_container(bundle, docker)
        if onnx is not None:
            _write_onnx(bundle, onnx, quiet=quiet)
        if mlflow is not None:
            _write_mlflow(bundle, mlflow)
        if python is not None:
            _write_script(bundle, python, quiet=quiet)
        if sql is not None:
            _write_sql(bundle, sql)
    return 0


def _check_outputs(run_id: str, runs_dir: Path, sign: Path | None, outputs: list[Path]) -> None:
    """Refuse an output that would replace an input or another output.

    Raises:
        UsageError: names the file; or there is no such run.
    """
    is_bundle = _is_bundle(run_id)
    for number, output in enumerate(outputs):
        reject_inputs(output, (sign, run_id if is_bundle else None))
        if any(is_same_file(output, other) for other in outputs[:number]):
            raise UsageError(f"Two outputs are the same file {output}. Choose another path for one of them.")
        if not is_bundle:
            reject_replacing(find_run(run_id, runs_dir), output)


def _is_bundle(run_id: str) -> bool:
    return run_id.endswith(".tabapp") and Path(run_id).is_file()


def _write_container(bundle: Path, target: Path) -> None:
    from tabapp.bundle.export.container import write_container
    from tabapp.bundle.files.contents import open_bundle

    write_container(open_bundle(bundle), target)
    _echo_path(target)


def _write_mlflow(bundle: Path, target: Path) -> None:
    from tabapp.bundle.export.mlflow_folder import write_mlflow
    from tabapp.bundle.files.contents import open_bundle

    write_mlflow(open_bundle(bundle), target)
    _echo_path(target)


def _write_script(bundle: Path, target: Path, *, quiet: bool) -> None:
    from tabapp.bundle.export.script import write_script

    model = write_script(bundle, target)
    _echo_path(target)
    if not quiet:
        say(f"The script trains {model}, the member with the largest weight that it can contain")


def _write_sql(bundle: Path, target: Path) -> None:
    from tabapp.bundle.export.sql import write_sql

    write_sql(bundle, target)
    _echo_path(target)


def _write_onnx(bundle: Path, target: Path, *, quiet: bool) -> None:
    from tabapp.bundle.export.onnx_export import write_onnx

    result = write_onnx(bundle, target)
    for path in result.difference:
        _echo_path(path)
    differences = [difference for difference in result.difference.values() if difference is not None]
    if quiet:
        return
    for name, reason in result.left_out.items():
        say(f"{name} has no ONNX file: {reason}")
    if differences:
        say(f"The predictions of ONNX Runtime for the sample rows differ by at most {max(differences):.2g}")
    else:
        say("The files are not tested, because onnxruntime is not installed")


def _run_of(run_id: str, runs_dir: Path) -> RunFolder:
    """The run that an argument names.

    Raises:
        UsageError: there is no such run, or the argument is a bundle.
    """
    if _is_bundle(run_id):
        raise UsageError(
            f"{run_id} is a bundle, which has no training rows. Give the run for --refit, --limit-ms, --distill and --half."
        )
    return find_run(run_id, runs_dir)


def _bundle_of(run_id: str, runs_dir: Path) -> Path:
    """The bundle file that an argument names, or that of the run that it names.

    Raises:
        UsageError: there is no such run, or it has no bundle yet.
    """
    if _is_bundle(run_id):
        return Path(run_id)
    folder = find_run(run_id, runs_dir)
    if not folder.bundle.is_file():
        raise UsageError(f"The run {folder.run} has no bundle yet. Use `tabapp resume {folder.argument}` to finish it.")
    return folder.bundle


def _ignore(message: AnyExportMessage) -> None:
    """Print nothing, with `--quiet`."""


def _show(message: AnyExportMessage) -> None:
    """Print the progress of an export and its comparison on stderr."""
    if isinstance(message, StageStarted):
        say(message.stage)
    elif isinstance(message, Compared):
        for line in comparison(message):
            echo(line, err=True)
        for note in (message.threshold_note, *message.notes):
            if note:
                say(note)


def comparison(message: Compared) -> list[str]:
    """Lines of a table of size, speed and score."""
    from tabapp.headless.tables import plain_table
    from tabapp.run.record.state import format_score

    rows = [
        [
            row.title,
            str(row.models),
            f"{row.n_bytes / 1e6:.2f} MB",
            format_duration(row.ms / 1000),
            format_score(row.score),
            "" if row.low is None else f"{format_score(row.low)} … {format_score(row.high)}",
        ]
        for row in message.rows
    ]
    rows_label = "one row" if message.n_rows == 1 else f"{message.n_rows:,} rows"
    return plain_table(["", "models", "size", rows_label, message.metric, "95 % interval"], rows, right=(1, 2, 3, 4))


def _copy(bundle: Path, out: Path, sign: Path | None) -> None:
    from tabapp import files

    try:
        if sign is not None:
            from tabapp.bundle.files.signing import write_signed

            write_signed(bundle, out, sign, lambda: _passphrase(sign))
        else:
            files.write_bytes(out, files.read_regular(bundle))
    except OSError as error:
        raise UsageError(f"{out} cannot be written ({error.strerror}). Choose another path.") from None
    _echo_path(out)


def _echo_path(path: Path) -> None:
    echo_data(f"{path}\n".encode(errors="surrogateescape"))


def _passphrase(key: Path) -> str:
    """Ask for the passphrase of a key on the terminal."""
    if not sys.stdin.isatty():
        raise UsageError(f"The key {key} is encrypted. Run the command in a terminal, which asks for its passphrase.")
    return click.prompt(f"Passphrase of {key}", hide_input=True, err=True)
