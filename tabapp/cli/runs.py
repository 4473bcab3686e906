"""The commands `runs` and `export`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from tabapp.cli.completion import run_ids
from tabapp.errors import UsageError
from tabapp.headless.narration import echo_data, echo_json, say
from tabapp.run.description import RunDescription, describe_run
from tabapp.run.folder import default_runs_dir, find_run, list_runs


def _listed(run: RunDescription) -> dict[str, Any]:
    """A run as `tabapp runs --json` lists it; `started` is in seconds since the epoch."""
    return {
        "run": run.run,
        "name": run.name or run.run,
        "status": run.status,
        "data": run.data,
        "target": run.target or None,
        "metric": run.metric or None,
        "best": run.best,
        "started": run.started,
        "seconds": run.seconds,
        "path": str(run.folder.path),
    }


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list on stdout.")
@click.option("--runs-dir", type=click.Path(path_type=Path), metavar="DIR", help="Folder of runs.")
def runs(as_json: bool, runs_dir: Path | None) -> int:
    """List the runs, newest first."""
    place = runs_dir or default_runs_dir()
    described = [_listed(describe_run(folder)) for folder in list_runs(place)]
    if as_json:
        echo_json(json.dumps(described, ensure_ascii=False, indent=1))
        return 0
    if not described:
        say(f"No runs in {place} yet; start one with `tabapp DATA`.")
        return 0
    from tabapp.headless.tables import print_table
    from tabapp.run.state import format_score

    print_table(
        ["run", "status", "data", "target", "metric", "best", "started"],
        [
            [
                run["run"],
                run["status"],
                Path(run["data"]).name,
                run["target"] or "—",
                run["metric"] or "—",
                format_score(run["best"]),
                time.strftime("%Y-%m-%d %H:%M", time.localtime(run["started"])) if run["started"] else "—",
            ]
            for run in described
        ],
    )
    return 0


@click.command()
@click.argument("run_id", metavar="RUN|BUNDLE", shell_complete=run_ids)
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FILE.tabapp", help="Output file.")
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
@click.option("--runs-dir", type=click.Path(path_type=Path), metavar="DIR", help="Folder of runs.")
def export(run_id: str, out: Path | None, sign: Path | None, docker: Path | None, runs_dir: Path | None) -> int:
    """Copy the bundle of a run to a file, or write a container that serves it.

    RUN is an id, part of an id, a name, `last`, or a path with a slash. BUNDLE is a file whose name ends in .tabapp.
    """
    if out is None and docker is None:
        raise UsageError("Say what to write: a bundle with -o FILE.tabapp, or a container with --docker DIR.")
    if sign is not None and out is None:
        raise UsageError(
            "--sign signs the bundle that -o writes. Add -o FILE.tabapp, and export that file with --docker."
        )
    bundle = _bundle_of(run_id, runs_dir)
    if out is not None:
        _copy(bundle, out, sign)
        bundle = out
    if docker is not None:
        from tabapp.bundle.container import write_container
        from tabapp.bundle.contents import open_bundle

        write_container(open_bundle(bundle), docker)
        echo_data(f"{docker}\n".encode(errors="surrogateescape"))
    return 0


def _bundle_of(run_id: str, runs_dir: Path | None) -> Path:
    """The bundle file that an argument names, or that of the run that it names.

    Raises:
        UsageError: there is no such run, or it has no bundle yet.
    """
    if run_id.endswith(".tabapp") and Path(run_id).is_file():
        return Path(run_id)
    folder = find_run(run_id, runs_dir or default_runs_dir())
    if not folder.bundle.is_file():
        raise UsageError(f"The run {folder.run} has no bundle yet. Use `tabapp resume {folder.argument}` to finish it.")
    return folder.bundle


def _copy(bundle: Path, out: Path, sign: Path | None) -> None:
    from tabapp import files

    try:
        if sign is not None:
            from tabapp.bundle.signing import write_signed

            write_signed(bundle, out, sign, lambda: _passphrase(sign))
        else:
            files.write_bytes(out, files.read_regular(bundle))
    except OSError as error:
        raise UsageError(f"{out} cannot be written ({error.strerror}). Choose another path.") from None
    echo_data(f"{out}\n".encode(errors="surrogateescape"))


def _passphrase(key: Path) -> str:
    """Ask for the passphrase of a key on the terminal."""
    if not sys.stdin.isatty():
        raise UsageError(f"The key {key} is encrypted. Run the command in a terminal, which asks for its passphrase.")
    return click.prompt(f"Passphrase of {key}", hide_input=True, err=True)
