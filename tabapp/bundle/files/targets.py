"""Opens bundles of several targets: a zip of ordinary bundles, which `tabapp.bundle.files.write_targets` writes.

The bundle of each target is verified twice: its bytes by the manifest of the whole bundle, and its members when it is opened.
"""

from __future__ import annotations

import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tabapp.bundle.files.archive import TargetsArchive, open_any, open_archive
from tabapp.bundle.files.archive_checks import check_size
from tabapp.bundle.files.unpack import check_space, temporary_folder
from tabapp.errors import BundleError, DataError, UsageError, did_you_mean


@dataclass(frozen=True)
class TargetFile:
    """The bundle of one target, as a file. `target` is None where the whole bundle has a single target."""

    target: str | None
    path: Path


@contextmanager
def target_files(path: Path, *, trust: Path | None = None) -> Generator[tuple[TargetFile, ...]]:
    """The bundle of each target of a bundle as a file: the bundle itself, or verified files that are removed when the block ends.

    Errors about one of these files name the whole bundle and the target.

    Args:
        trust: file of the public key that must have signed the whole bundle. The bundle of a single target is not checked here.

    Raises:
        BundleError: the bundle is not valid, or is not signed by that key.
        UsageError: the key cannot be used.
    """
    with open_any(path) as opened:
        several = isinstance(opened, TargetsArchive)
    if not several:
        yield (TargetFile(None, path),)
        return
    with open_any(path, trust=trust) as archive, temporary_folder() as folder:
        if not isinstance(archive, TargetsArchive):
            raise BundleError(f"{path} has changed while it was read. Try again.")
        files = _extracted(archive, folder)
        try:
            yield files
        except (BundleError, DataError) as error:
            raise type(error)(_with_names(str(error), path, files)) from None


def _extracted(archive: TargetsArchive, folder: Path) -> tuple[TargetFile, ...]:
    """Unpack the bundles of the targets.

    Raises:
        BundleError: the manifest is inconsistent, or a bundle is damaged or too large.
    """
    path, targets = archive.path, archive.manifest.targets
    names = [each.target for each in targets]
    bundles = [member.path for member in archive.members if member.kind == "bundle"]
    if not targets or len(set(names)) < len(names):
        raise BundleError(f"{path} is inconsistent: it has no target, or one twice.")
    if sorted(each.path for each in targets) != sorted(bundles):
        raise BundleError(f"{path} is inconsistent: its targets are not those of its bundles.")
    check_space(archive, folder)
    files: list[TargetFile] = []
    infos: list[zipfile.ZipInfo] = []
    for number, each in enumerate(targets):
        file = folder / f"{number}.tabapp"
        archive.extract_member(each.path, file)
        infos += _infos(path, each.target, file)
        files.append(TargetFile(each.target, file))
    # What all of them unpack to together is limited like one bundle.
    check_size(path, infos, path.stat().st_size)
    return tuple(files)


def _infos(path: Path, target: str, file: Path) -> list[zipfile.ZipInfo]:
    """The directory of the bundle of a target, whose manifest must name the target.

    Raises:
        BundleError: the file is not a valid bundle of that target.
    """
    try:
        with open_archive(file) as inner:
            found = inner.manifest.target
        with zipfile.ZipFile(file) as opened:
            infos = opened.infolist()
    except BundleError as error:
        raise BundleError(_with_names(str(error), path, (TargetFile(target, file),))) from None
    if found != target:
        raise BundleError(f"{path} is inconsistent: the bundle of {target!r} predicts {found!r}.")
    return infos


def _with_names(message: str, path: Path, files: Sequence[TargetFile]) -> str:
    for file in files:
        message = message.replace(str(file.path), f"{path} (target {file.target!r})")
    return message


def file_of(files: Sequence[TargetFile], target: str, path: Path) -> TargetFile:
    """The file of one target.

    Raises:
        UsageError: the bundle does not predict it.
    """
    for file in files:
        if file.target == target:
            return file
    names = [file.target for file in files if file.target is not None]
    if not names:
        with open_archive(files[0].path) as archive:
            names = [archive.manifest.target]
        if names == [target]:
            return files[0]
    words = "its target is" if len(names) == 1 else "its targets are"
    hint = did_you_mean(target, names) or f"; {words} {', '.join(map(repr, names))}."
    raise UsageError(f"{path} does not predict {target!r}{hint}")


def prefixed(target: str | None, column: str) -> str:
    """The name of a column of predictions: in a bundle of several targets it starts with the target."""
    return column if target is None else f"{target}_{column}"
