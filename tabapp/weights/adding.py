"""Makes installed weights of a local file, which a confined process reads."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tabapp.children import module_command, plain_environment
from tabapp.errors import UsageError
from tabapp.files import sha256
from tabapp.temporary import TemporaryFolder
from tabapp.weights import store
from tabapp.weights.place import folder
from tabapp.weights.pretrained import Pretrained

SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
SECONDS = 900
_SPARE = 3
"""Disk space that a conversion needs, in sizes of the file."""


class UnusableFile(UsageError):
    """A file does not have the weights that it should."""


def add(plugin: str, wanted: Pretrained, path: Path, *, replace: bool = False) -> store.Installed:
    """Read a file of weights in a confined process, and keep its arrays as safetensors.

    Args:
        plugin: name of the model that uses the weights.
        path: a file of torch (.pt, .ckpt) or safetensors; of a network with a configuration, config.json is next to it.
        replace: replace other weights of this name.

    Raises:
        UsageError: the file is not usable, other weights of this name are installed, or they come with tabapp.
    """
    if store.is_shipped(wanted.name):
        raise UsageError(f"The weights {wanted.name} come with tabapp; nothing was installed.")
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path} is not a file of weights: {', '.join(SUFFIXES)} are read.")
    try:
        source, size = sha256(path), path.stat().st_size
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror or error}).") from None
    config = path.with_name("config.json") if len(wanted.files) > 1 else None
    if config is not None and not config.is_file():
        raise UsageError(f"{path} needs its configuration: put config.json into the same folder.")
    where = folder()
    try:
        where.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(where).free
        if free < _SPARE * size:
            raise UsageError(
                f"{where} has {free / 1e6:,.0f} MB left; the conversion of {path.name} needs {_SPARE * size / 1e6:,.0f} MB."
            )
        with TemporaryFolder("weights") as made_in:
            made = _converted(plugin, wanted.name, path, config, Path(made_in))
            record = store.Installed(
                name=wanted.name,
                sha256=sha256(made),
                n_bytes=made.stat().st_size,
                source=path.name,
                source_sha256=source,
                license=wanted.license,
                added_at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            present = store.find(wanted.name)
            if present is not None and present.sha256 != record.sha256 and not replace:
                raise UsageError(
                    f"Other weights named {wanted.name} are installed (SHA-256 {present.sha256[:12]}… instead of "
                    f"{record.sha256[:12]}…). Bundles may refer to them; --replace replaces them."
                )
            store.keep(record, made)
    except OSError as error:
        raise UsageError(f"The weights cannot be kept in {where} ({error.strerror or error}).") from None
    return record


def _converted(plugin: str, name: str, path: Path, config: Path | None, folder: Path) -> Path:
    """The safetensors file that a confined process makes of a file of weights.

    Raises:
        UnusableFile: the file cannot be used.
    """
    command = module_command(
        "tabapp.processes.weights_reader",
        plugin,
        name,
        # Not resolved: in the Hugging Face cache, they are links to files without a suffix.
        str(path.absolute()),
        str(config.absolute()) if config else "",
        str(folder),
    )
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**plain_environment(), "CUDA_VISIBLE_DEVICES": "", "TMPDIR": str(folder)},
            timeout=SECONDS,
            check=False,
        )
        problem = str(json.loads(done.stdout)["error"])
    except subprocess.TimeoutExpired:
        problem = f"reading it takes more than {SECONDS // 60} minutes"
    except (ValueError, KeyError, TypeError):
        problem = "the process that reads it has died"
    made = folder / "weights.safetensors"
    if problem or not made.stat().st_size:
        raise UnusableFile(f"{path} cannot be used as {name}: {problem or 'nothing was written'}.")
    return made
