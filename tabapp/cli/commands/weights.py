"""The command `weights`."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tabapp.errors import UsageError, did_you_mean
from tabapp.headless.narration import echo, echo_json

if TYPE_CHECKING:
    from tabapp.weights.pretrained import Pretrained


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
@click.pass_context
def weights(context: click.Context, as_json: bool) -> int:
    """List the weights of pre-trained models, and install them.

    Weights are published by others under their own licenses, but for those that come with tabapp. Nothing is downloaded unless
    `fetch` is called.
    """
    if context.invoked_subcommand is not None:
        return 0
    rows = _listed()
    if as_json:
        echo_json(json.dumps(rows, ensure_ascii=False, indent=1))
        return 0
    from tabapp.headless.tables import print_table
    from tabapp.weights.place import folder

    print_table(
        ["name", "model", "tasks", "parameters", "license", "installed"],
        [
            [
                row["name"],
                row["model"],
                ", ".join(row["tasks"]),
                f"{row['parameters'] / 1e6:.1f} M",
                row["license"],
                _state(row),
            ]
            for row in rows
        ],
    )
    echo(f"Folder: {folder()}")
    return 0


@weights.command("add")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="Name of the weights; needed if the file name does not say it.")
@click.option("--replace", is_flag=True, help="Replace other weights of the same name.")
def add_weights(path: Path, name: str | None, replace: bool) -> int:
    """Install a local file of weights.

    PATH is a file of torch (.pt, .ckpt), which is read without running code, or safetensors.
    """
    from tabapp.weights.adding import add

    plugin, wanted = _named(name) if name else _of_file(path)
    _say_installed(add(plugin, wanted, path, replace=replace))
    return 0


@weights.command()
@click.argument("name")
@click.option("--accept", is_flag=True, help="Accept the license of the weights.")
@click.option("--replace", is_flag=True, help="Replace other weights of the same name.")
def fetch(name: str, accept: bool, replace: bool) -> int:
    """Download weights and install them. NAME is a row of the list, or a group such as kumo-small."""
    from tabapp.weights.adding import UnusableFile, add
    from tabapp.weights.fetching import download

    chosen = [(plugin, each) for plugin, each in _known() if name in (each.group, each.name)]
    if not chosen:
        raise UsageError(_unknown(name))
    first = chosen[0][1]
    if not first.repository:
        raise UsageError(f"The weights {first.name} come with tabapp; nothing was downloaded.")
    size = sum(each.n_bytes for _, each in chosen) / 1e6
    echo(
        f"{name}: {size:,.0f} MB from {first.repository}, revision {first.revision}. License: {first.license}, {first.license_url}"
    )
    if not first.is_pinned:
        echo(
            "Its authors name no version, so this revision is not pinned: a later download may be another file. The names and "
            "shapes of its arrays are compared with the network; compare the SHA-256 below with that of another machine."
        )
    if not accept:
        if not sys.stdin.isatty():
            raise UsageError("Read the license, and add --accept to download the weights.")
        if not click.confirm("Do you accept the license?", default=False):
            raise UsageError("The license was not accepted; nothing was downloaded.")
    if find_spec("huggingface_hub") is None:
        raise UsageError("Downloads need the package huggingface_hub: pip install 'tabapp[foundation]'.")
    for plugin, each in chosen:
        path = download(each)
        try:
            record = add(plugin, each, path, replace=replace)
        except UnusableFile as error:
            raise UsageError(f"{error} Remove it from the Hugging Face cache, and fetch it again.") from None
        _say_installed(record)
    return 0


@weights.command()
def verify() -> int:
    """Compare all installed weights with their SHA-256."""
    from tabapp.weights import store

    records = store.installed()
    problems: list[str] = []
    for record in records.values():
        try:
            store.verified(record)
        except UsageError as error:
            problems.append(str(error))
        else:
            echo(f"{record.name}: SHA-256 {record.sha256} holds.")
    if problems:
        raise UsageError(" ".join(problems))
    if not records:
        echo("No weights are installed.")
    return 0


@weights.command()
@click.argument("name")
def remove(name: str) -> int:
    """Remove installed weights."""
    from tabapp.weights import store

    names = [each.name for _, each in _known() if name in (each.group, each.name)]
    if shipped := [each for each in names if store.is_shipped(each)]:
        raise UsageError(f"The weights {shipped[0]} come with tabapp and stay.")
    removed = [each for each in names or [name] if store.find(each) is not None and store.remove(each)]
    if not removed:
        raise UsageError(f"No weights named {name!r} are installed.")
    echo(f"Removed {', '.join(removed)}.")
    return 0


def _known() -> list[tuple[str, Pretrained]]:
    """All known weights, with the names of the models that use them."""
    from tabapp.models import registry

    found = [(name, registry.find(name).plugin) for name in registry.names()]
    return [(name, each) for name, plugin in found if plugin is not None for each in plugin.weights]


def _named(name: str) -> tuple[str, Pretrained]:
    for plugin, each in _known():
        if each.name == name:
            return plugin, each
    raise UsageError(_unknown(name))


def _of_file(path: Path) -> tuple[str, Pretrained]:
    """The weights whose published file has the end of this path."""
    candidates = [
        (plugin, each)
        for plugin, each in _known()
        if path.as_posix().endswith(f"/{each.files[0]}") or path.stem == each.name
    ]
    if len(candidates) != 1:
        names = ", ".join(each.name for _, each in _known())
        raise UsageError(f"The name of {path} does not say which weights it has. Add --name NAME, one of {names}.")
    return candidates[0]


def _unknown(name: str) -> str:
    known = sorted({name for _, each in _known() for name in (each.group, each.name)})
    hint = did_you_mean(name, known) or f"; known are {', '.join(known)}."
    return f"There are no weights named {name!r}{hint}"


def _listed() -> list[dict[str, Any]]:
    from tabapp.weights import store

    rows: list[dict[str, Any]] = []
    for plugin, each in _known():
        record = store.find(each.name)
        rows.append(
            {
                "name": each.name,
                "group": each.group,
                "model": plugin,
                "tasks": list(each.tasks),
                "parameters": each.n_parameters,
                "license": each.license,
                "license_url": each.license_url,
                "repository": each.repository,
                "revision": each.revision,
                "files": list(each.files),
                "command": each.command,
                "installed": record is not None,
                "sha256": record.sha256 if record else None,
                "path": str(record.path) if record else None,
            }
        )
    return rows


def _state(row: dict[str, Any]) -> str:
    if not row["installed"]:
        return f"no: {row['command']}"
    return f"{'yes' if row['repository'] else 'with tabapp'}, SHA-256 {row['sha256'][:12]}…"


def _say_installed(record: Any) -> None:
    echo(f"Installed {record.name}: {record.n_bytes / 1e6:,.1f} MB, SHA-256 {record.sha256}, license {record.license}.")
