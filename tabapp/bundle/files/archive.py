"""The zip archive of a bundle: written deterministically and atomically, and verified before use.

Nothing in an archive is used before its names, its sizes and the checksum of every member are verified.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import uuid
import zipfile
import zlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from tabapp import files
from tabapp.bundle.files import signature
from tabapp.bundle.files.archive_checks import check_size, names_problem, structure_problem
from tabapp.bundle.files.records import (
    FORMAT_VERSION,
    MANIFEST,
    SIGNATURE,
    TARGETS_VERSION,
    Kind,
    Manifest,
    Member,
    TargetsManifest,
    VersionOnly,
)
from tabapp.errors import BundleError

MAX_JSON_BYTES = 64 * 2**20
SIGNATURE_BYTES = 64

_CHUNK = 2**20
_LEVEL = 2
"""Compression level: files are an eighth larger than with zlib's default, in a third of the time, which is part of the budget."""
_REMEDY = "Copy the bundle again or export it again."

_Decoded = TypeVar("_Decoded")
_AnyManifest = TypeVar("_AnyManifest", Manifest, TargetsManifest)

# Exceptions that zipfile and zlib raise on damaged archives.
_DAMAGED = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    IndexError,
    KeyError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True)
class Entry:
    """A member to write: its path in the archive, its kind, and its content as bytes or as a file on disk."""

    path: str
    kind: Kind
    content: bytes | Path


def entries_of_folder(folder: Path, prefix: str, kind: Kind) -> list[Entry]:
    """Every file in a folder and its subfolders, ordered by name.

    Raises:
        ValueError: the folder has no file, or contains something other than plain files.
    """
    found: list[Entry] = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise ValueError(f"{path} is not a plain file")
        if path.is_file():
            found.append(Entry(f"{prefix}/{path.relative_to(folder).as_posix()}", kind, path))
    if not found:
        raise ValueError(f"{folder} has no file")
    return found


@contextmanager
def new_file(path: Path) -> Generator[Path]:
    """Write a file under a temporary name; it is synced and renamed when the block ends without an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        yield temporary
        descriptor = os.open(temporary, os.O_RDONLY)
        try:
            files.operations.fsync(descriptor)
        finally:
            os.close(descriptor)
        files.operations.rename(temporary, path)
        files.fsync_folder(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _info(path: str, kind: Kind | None = None) -> zipfile.ZipInfo:
    """A header without facts of this machine, so that equal contents give equal bytes."""
    info = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
    # A bundle in a bundle is compressed already.
    info.compress_type = zipfile.ZIP_STORED if kind == "bundle" else zipfile.ZIP_DEFLATED
    # zipfile has no public option for the level of a streamed member.
    info._compresslevel = _LEVEL  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    info.create_system = 3
    return info


def _copy(source: BinaryIO, targets: Iterable[BinaryIO]) -> tuple[int, str]:
    """Copy in chunks; returns the number of bytes and the SHA-256."""
    digest, size, targets = hashlib.sha256(), 0, list(targets)
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        for target in targets:
            target.write(chunk)
    return size, digest.hexdigest()


def write_archive(path: Path, entries: Iterable[Entry], manifest: _AnyManifest) -> _AnyManifest:
    """Write the members, ordered by path, and a manifest that lists them; returns this manifest.

    Files are streamed, so memory use does not grow with the models.

    Raises:
        ValueError: the path of a member is not allowed.
        OSError: the disk is full, or a file cannot be read.
    """
    ordered = sorted(entries, key=lambda entry: entry.path)
    if problem := names_problem([entry.path for entry in ordered]):
        raise ValueError(problem)
    members: list[Member] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in ordered:
            source = BytesIO(entry.content) if isinstance(entry.content, bytes) else entry.content.open("rb")
            with source, archive.open(_info(entry.path, entry.kind), "w", force_zip64=True) as target:
                size, digest = _copy(source, [target])  # pyright: ignore[reportArgumentType] (IO[bytes] is a BinaryIO)
            members.append(Member(path=entry.path, kind=entry.kind, bytes=size, sha256=digest))
        manifest = msgspec.structs.replace(manifest, members=tuple(members))
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        archive.writestr(_info(MANIFEST), text)
    return manifest


def append_signature(path: Path, signature: bytes) -> None:
    """Add a signature of its manifest to a bundle without one, in place."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(_info(SIGNATURE), signature)


class Members:
    """The members of an open bundle with valid names and sizes. They are verified when they are read.

    Attributes:
        members: those that the manifest lists.
        signed: content of the manifest, which the signature is over.
        signature: Ed25519 signature, or None; only `signature.check` verifies it.
    """

    def __init__(
        self, path: Path, file: zipfile.ZipFile, members: Iterable[Member], signed: bytes, signature: bytes | None
    ) -> None:
        self.path = path
        self.members = tuple(members)
        self.signed = signed
        self.signature = signature
        self._file = file
        self._listed = {member.path: member for member in self.members}
        _check_members(path, file, self.members)

    def __contains__(self, member: str) -> bool:
        return member in self._listed

    def verify(self) -> None:
        """Check the size and the checksum of every member.

        Raises:
            BundleError: a member differs from the manifest; names the first.
        """
        for member in self.members:
            self._read(member, [])

    def read(self, member: str) -> bytes:
        """The content of a JSON, CSV or text member.

        Raises:
            BundleError: the member is missing, changed or too large.
        """
        listed = self._listed.get(member)
        if listed is None:
            raise BundleError(f"{self.path}: the bundle has no {member}.")
        if listed.bytes > MAX_JSON_BYTES:
            raise BundleError(f"Member {member!r} of {self.path} is too large ({listed.bytes:,} bytes).")
        content = BytesIO()
        self._read(listed, [content])
        return content.getvalue()

    def decode(self, member: str, record: type[_Decoded]) -> _Decoded:
        """A JSON member as a typed record.

        Raises:
            BundleError: the member is missing or changed, or is not such a record.
        """
        return _decode(self.path, member, self.read(member), record)

    def extract(self, folder: Path) -> None:
        """Unpack and verify all members into an empty folder.

        Raises:
            BundleError: a member differs from the manifest; the files written so far must not be used.
            OSError: the disk is full.
        """
        for member in self.members:
            target = folder / member.path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                self._read(member, [file])

    def _read(self, member: Member, targets: list[BinaryIO]) -> None:
        try:
            with self._file.open(member.path) as source:
                size, digest = _copy(source, targets)  # pyright: ignore[reportArgumentType] (IO[bytes] is a BinaryIO)
        except OSError as error:
            reason = error.strerror or _first_line(error)
            raise BundleError(
                f"Member {member.path!r} of {self.path} cannot be unpacked ({reason}). Check the disk and its free space."
            ) from None
        except _DAMAGED as error:
            reason = _first_line(error)
            raise BundleError(f"Member {member.path!r} of {self.path} is damaged ({reason}). {_REMEDY}") from None
        if (size, digest) != (member.bytes, member.sha256):
            raise BundleError(f"Member {member.path!r} of {self.path} does not match {MANIFEST}. {_REMEDY}")


class Archive(Members):
    """An open bundle of one target, with a valid manifest."""

    def __init__(self, path: Path, file: zipfile.ZipFile, signed: bytes, signature: bytes | None) -> None:
        self.manifest = _decode_manifest(path, signed)
        super().__init__(path, file, self.manifest.members, signed, signature)


class TargetsArchive(Members):
    """An open bundle of several targets, with a valid manifest."""

    def __init__(self, path: Path, file: zipfile.ZipFile, signed: bytes, signature: bytes | None) -> None:
        self.manifest = _decode_targets_manifest(path, signed)
        super().__init__(path, file, self.manifest.members, signed, signature)

    def extract_member(self, member: str, target: Path) -> None:
        """Write a member to a new file and verify it.

        Raises:
            BundleError: the member differs from the manifest; the file must not be used.
        """
        with target.open("xb") as file:
            self._read(self._listed[member], [file])


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]


def _decode(path: Path, member: str, content: bytes, record: type[_Decoded]) -> _Decoded:
    try:
        return msgspec.json.decode(content, type=record)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BundleError(f"{path}: its {member} is not valid ({_first_line(error)}).") from None


def _read_manifest(path: Path, file: zipfile.ZipFile) -> tuple[bytes, bytes | None]:
    """The content of the manifest, and its signature if it has one."""
    sizes = {info.filename: info.file_size for info in file.infolist()}
    if MANIFEST not in sizes:
        raise BundleError(f"{path} is not a tabapp bundle: it has no {MANIFEST}.")
    if sizes[MANIFEST] > MAX_JSON_BYTES:
        raise BundleError(f"{path}: its {MANIFEST} is too large ({sizes[MANIFEST]:,} bytes).")
    if sizes.get(SIGNATURE, SIGNATURE_BYTES) != SIGNATURE_BYTES:
        raise BundleError(f"{path}: its {SIGNATURE} has {sizes[SIGNATURE]:,} bytes instead of {SIGNATURE_BYTES}.")
    return file.read(MANIFEST), file.read(SIGNATURE) if SIGNATURE in sizes else None


def _checked_version(path: Path, content: bytes) -> VersionOnly:
    """The part of a manifest that all versions have.

    Raises:
        BundleError: this version of tabapp does not read that of the bundle.
    """
    version = _decode(path, MANIFEST, content, VersionOnly)
    latest = FORMAT_VERSION if version.targets is None else TARGETS_VERSION
    if version.format_version > latest:
        raise BundleError(
            f"{path}: {version.created_by[:60]} wrote it in bundle format {version.format_version}, but this version reads "
            f"formats up to {latest}. Update tabapp."
        )
    if version.format_version < 1:
        raise BundleError(f"{path}: its {MANIFEST} has bundle format {version.format_version}, which does not exist.")
    return version


def _decode_manifest(path: Path, content: bytes) -> Manifest:
    if _checked_version(path, content).targets is not None:
        names = [each.target for each in _decode(path, MANIFEST, content, TargetsManifest).targets]
        raise SeveralTargets(path, names)
    return _with_run(path, _decode(path, MANIFEST, content, Manifest))


def _with_run(path: Path, manifest: _AnyManifest) -> _AnyManifest:
    """A manifest whose run is the name of a folder, so that it can be looked up in a folder of runs."""
    if not files.is_plain_name(manifest.run):
        raise BundleError(f"{path}: its {MANIFEST} names the run {manifest.run[:80]!r}, which is not the id of a run.")
    return manifest


def _decode_targets_manifest(path: Path, content: bytes) -> TargetsManifest:
    _checked_version(path, content)
    return _with_run(path, _decode(path, MANIFEST, content, TargetsManifest))


class SeveralTargets(BundleError):
    """The bundle has several targets, where one with a single target is needed."""

    def __init__(self, path: Path, targets: list[str]) -> None:
        shown = ", ".join(repr(target[:40]) for target in targets[:4]) + (" …" if len(targets) > 4 else "")
        super().__init__(
            f"{path} predicts several targets ({shown}), which is not possible here. Write the bundle of one of them with "
            f"`tabapp export {path} --target NAME -o FILE.tabapp`."
        )


def _open_file(path: Path) -> BinaryIO:
    """Open a regular file. A pipe or a device is refused at once, without waiting for its writer.

    Raises:
        BundleError: the file is missing, is not a regular file, or cannot be read.
    """
    try:
        file = open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise BundleError(f"There is no bundle {path}. Check the path.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or _first_line(error)
        raise BundleError(f"Cannot read {path} ({reason}).") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise BundleError(f"Cannot read {path} (not a regular file).")
    return file


@contextmanager
def open_archive(path: Path, *, is_own: bool = False, trust: Path | None = None) -> Generator[Archive]:
    """Open a bundle of one target and check its names, sizes and manifest. Reads no other member.

    Args:
        is_own: this process has just written the bundle, so its unpacked size has no limit.
        trust: file of the public key that must have signed the bundle. None accepts bundles without a signature.

    Raises:
        BundleError: the file is not a valid bundle, or is not signed by that key.
        UsageError: the limit in the environment, or the key, is not valid.
    """
    with _open_zip(path, is_own=is_own, trust=trust) as (file, content, signed_by):
        yield Archive(path, file, content, signed_by)


@contextmanager
def open_any(path: Path, *, is_own: bool = False, trust: Path | None = None) -> Generator[Archive | TargetsArchive]:
    """Open a bundle of one target or of several; as `open_archive`."""
    with _open_zip(path, is_own=is_own, trust=trust) as (file, content, signed_by):
        several = _checked_version(path, content).targets is not None
        yield (TargetsArchive if several else Archive)(path, file, content, signed_by)


@contextmanager
def _open_zip(
    path: Path, *, is_own: bool, trust: Path | None
) -> Generator[tuple[zipfile.ZipFile, bytes, bytes | None]]:
    """The open zip file of a bundle, the content of its manifest, and its signature."""
    with _open_file(path) as opened:
        try:
            file = zipfile.ZipFile(opened)
        except _DAMAGED:
            raise BundleError(
                f"{path} is not a tabapp bundle, or is incomplete. Check the path, or copy the bundle again."
            ) from None
        with file:
            try:
                infos = file.infolist()
                if problem := structure_problem(infos):
                    raise BundleError(f"{path} is not a safe bundle: {problem}.")
                if not is_own:
                    check_size(path, infos, os.fstat(opened.fileno()).st_size)
                content, signed_by = _read_manifest(path, file)
            except _DAMAGED as error:
                raise BundleError(f"{path} is damaged ({_first_line(error)}). {_REMEDY}") from None
            if trust is not None:
                signature.check(path, content, signed_by, trust)
            yield file, content, signed_by


def _check_members(path: Path, file: zipfile.ZipFile, members: tuple[Member, ...]) -> None:
    """Compare the members with the manifest.

    Raises:
        BundleError: a member is missing, is not listed, or has another size.
    """
    unlisted = (MANIFEST, SIGNATURE)
    present = {info.filename: info.file_size for info in file.infolist() if info.filename not in unlisted}
    listed = {member.path: member.bytes for member in members}
    if len(listed) < len(members):
        raise BundleError(f"{path}: its {MANIFEST} lists a member twice.")
    if missing := sorted(set(listed) - set(present)):
        raise BundleError(f"{path}: its {MANIFEST} lists {missing[0]!r}, which is missing.")
    if extra := sorted(set(present) - set(listed)):
        raise BundleError(f"{path}: its {MANIFEST} does not list {extra[0]!r}.")
    if changed := sorted(name for name, size in listed.items() if present[name] != size):
        raise BundleError(f"Member {changed[0]!r} of {path} does not match {MANIFEST}. {_REMEDY}")
