"""The command `update`."""

from __future__ import annotations

import json
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tabapp import files
from tabapp.cli.cluster import chosen_cluster, cluster_options
from tabapp.cli.completion import bundles, tables
from tabapp.cli.options import run_option, runs_dir_option, trust_option
from tabapp.cli.output import metric_cells
from tabapp.cli.reading import Reader, reading_options, strict_option
from tabapp.errors import DataError, ExitCode, UsageError
from tabapp.headless.narration import echo_json, say
from tabapp.run.options.places import reject_inputs

if TYPE_CHECKING:
    from tabapp.bundle.files.contents import Contents
    from tabapp.bundle.writing.update import Comparison, UpdateRows
    from tabapp.run.options.config import Executor, RunConfig


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=bundles)
@click.argument("new_data", metavar="NEW_DATA", shell_complete=tables)
@click.option(
    "--data", "old_data", type=click.Path(path_type=Path), metavar="FILE", help="The training file, if it was moved."
)
@run_option("budget", summary="Time of the new run; that of the old one by default.", shown_default="")
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FILE.tabapp", help="Copy the new bundle here.")
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON on stdout.")
@runs_dir_option
@trust_option
@strict_option
@reading_options
def update(
    bundle: Path,
    new_data: str,
    old_data: Path | None,
    budget: float | None,
    out: Path | None,
    executor: Executor | None,
    address: str | None,
    as_json: bool,
    runs_dir: Path,
    trust: Path | None,
    strict: bool,
    reader: Reader,
) -> int:
    """Train again on the rows of BUNDLE and on NEW_DATA with the options of its run, and compare the bundles.

    The options are those of the run, if you made it on this machine and it is in the folder of runs. A fifth of NEW_DATA is held
    out: neither bundle has seen these rows. The old rows come from the training file, whose fingerprint is checked.
    """
    from tabapp.bundle.confined.box import load_boxed
    from tabapp.bundle.files.contents import open_bundle
    from tabapp.bundle.writing.update import compare_bundles, rows_for_update
    from tabapp.headless.follow import follow
    from tabapp.run.record.folder import create_run
    from tabapp.run.record.resuming import on_chosen_machines

    reject_inputs(out, (bundle, new_data, old_data, trust))
    contents = open_bundle(bundle, trust=trust)
    manifest, place = contents.manifest, runs_dir.absolute()
    config = _old_config(contents, place)
    source = _training_file(contents, old_data, config, place)
    reject_inputs(out, (source,))
    chosen = chosen_cluster(config, executor, address)
    config = on_chosen_machines(config, config, *chosen, f"tabapp update {shlex.quote(str(bundle))} NEW_DATA")
    if not config.data:
        say(f"The run {manifest.run} is not in {place}, or is not yours, so the new run has the default options.")
    of_old_file = Reader(config.delimiter, config.encoding, config.decimal, reader.max_memory)
    old = of_old_file.read(str(source)).frame
    new = reader.read(new_data, contents.schema)
    try:
        rows = rows_for_update(old, new.frame, contents.schema, manifest.seed, strict=strict, decimal=new.decimal)
    except DataError as error:
        raise DataError(f"{new_data}: {error}") from None
    for note in rows.notes:
        say(note)
    config = _new_config(config, contents, *_write_rows(rows, place, source), budget)
    folder = create_run(config, place)
    say(f"{rows.training.height:,} rows to train on, {rows.held_out.height:,} new rows to compare the bundles on")
    code = follow(folder, plain=False, as_json=False, quiet=True, verbose=False, start=True)
    if code not in (ExitCode.OK, ExitCode.INTERRUPTED) or not folder.bundle.is_file():
        return code
    predictors = [load_boxed(path).predictor for path in (bundle, folder.bundle)]
    found = compare_bundles(predictors[0], predictors[1], rows.held_out, manifest.metric, seed=manifest.seed)
    if out is not None:
        try:
            files.write_bytes(out, files.read_regular(folder.bundle))
        except OSError as error:
            raise UsageError(f"{out} cannot be written ({error.strerror}). Choose another path.") from None
    _show(found, manifest.metric, str(out or folder.bundle), as_json=as_json)
    threshold = contents.ensemble.threshold
    if threshold is not None:
        say(
            f"The old bundle labels rows by the threshold {threshold:.3f}; the new one by the more probable class. Choose its "
            f"threshold with `tabapp diagnose {folder.argument} --threshold METRIC`."
        )
    return code


def _old_config(contents: Contents, place: Path) -> RunConfig:
    """The configuration of the run that made a bundle, if this user made it here; else one with the same target, task and
    metric and no data."""
    from tabapp.run.options.config import RunConfig
    from tabapp.run.record.folder import RunFolder

    manifest, schema = contents.manifest, contents.schema
    run = RunFolder(place / manifest.run)
    if run.is_own():
        with suppress(UsageError):
            return run.config()
    group, time_, weight = (schema.with_role(role) for role in ("group", "time", "weight"))
    return RunConfig(
        data="",
        target=schema.target,
        seed=manifest.seed,
        ignore=tuple(column.name for column in schema.columns if column.role == "ignore"),
        group=None if group is None else group.name,
        time=None if time_ is None else time_.name,
        weight=None if weight is None else weight.name,
    )


def _training_file(contents: Contents, given: Path | None, config: RunConfig, place: Path) -> Path:
    """The training file, whose content has not changed.

    Raises:
        DataError: it is missing or unknown, or has another fingerprint.
    """
    name = contents.manifest.data.get("file", "the training file")
    if given is None and not config.data:
        raise DataError(
            f"The run {contents.manifest.run} of the bundle is not in {place}, or you did not make it on this machine. Give "
            f"its training file {name} with --data FILE."
        )
    path = given or Path(config.data)
    try:
        found = files.sha256(path)
    except OSError:
        raise DataError(f"The training file {name} of the bundle is not at {path}. Give it with --data FILE.") from None
    if found != contents.manifest.data.get("sha256"):
        raise DataError(f"{path} is not the training file of the bundle, or has changed. Give {name} with --data FILE.")
    return path


def _write_rows(rows: UpdateRows, place: Path, source: Path) -> tuple[Path, Path]:
    """Write the rows for the new run next to it, which reads them again when it is resumed."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = f"{source.name.partition('.')[0]}-updated-{time.strftime('%Y%m%d-%H%M%S')}"
    training, held_out = place / f"{stem}.csv", place / f"{stem}-new-rows.csv"
    for frame, path in ((rows.training, training), (rows.held_out, held_out)):
        frame.write_csv(path)
        path.chmod(0o600)
    return training, held_out


def _new_config(
    config: RunConfig, contents: Contents, training: Path, held_out: Path, budget: float | None
) -> RunConfig:
    import msgspec

    manifest = contents.manifest
    # The rows are written as UTF-8 with commas, whatever the old file was; numbers keep their spelling.
    return msgspec.structs.replace(
        config,
        data=str(training),
        test=str(held_out),
        target=manifest.target,
        task=manifest.task,
        metric=manifest.metric,
        budget=config.budget if budget is None else budget,
        out=None,
        name=None,
        delimiter=None,
        encoding=None,
        decimal=None,
        start=True,
    )


def _show(found: Comparison, metric: str, path: str, *, as_json: bool) -> None:
    if as_json:
        document: dict[str, Any] = {
            "bundle": path,
            "rows": found.rows,
            "metric": metric,
            "difference": found.difference,
            "low": found.low,
            "high": found.high,
            "verdict": found.verdict,
            "old": {value.name: value.score for value in found.old},
            "new": {value.name: value.score for value in found.new},
        }
        echo_json(json.dumps(document, ensure_ascii=False, indent=1))
        return
    from tabapp.headless.tables import print_table

    new = {cells[0]: cells for cells in metric_cells(found.new)}
    rows = [
        [cells[0], cells[1], f"{cells[2]} … {cells[3]}", new[cells[0]][1], f"{new[cells[0]][2]} … {new[cells[0]][3]}"]
        for cells in metric_cells(found.old)
        if cells[0] in new
    ]
    print_table(
        ["metric", "old bundle", "95 % interval", "new bundle", "95 % interval"],
        rows,
        right=(1, 3),
        title=f"{found.rows:,} new rows that neither bundle has seen",
    )
    say(
        f"{metric}: {found.verdict} ({found.difference:+.4g}, 95 % interval {found.low:+.4g} … {found.high:+.4g}). Bundle: {path}"
    )
