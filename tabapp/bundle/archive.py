"""The zip around a bundle: written deterministically and atomically, read with suspicion.

Nothing of an archive is used before its names, its sizes and the checksum of every member have been found right.
"""

from __future__ import annotations

import hashlib
import os
import re
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
from tabapp.bundle.format import FORMAT_VERSION, MANIFEST, Kind, Manifest, Member, VersionOnly
from tabapp.errors import BundleError

MAX_MEMBERS = 4_096
MAX_BYTES = 16 * 2**30
MAX_JSON_BYTES = 64 * 2**20
MAX_RATIO = 200
SMALL_BYTES = 64 * 2**20
"""Unpacked size up to which the ratio of compression is not looked at."""

_CHUNK = 2**20
_LEVEL = 2
"""Of compression: a third of the time of zlib's default for files an eighth larger; a run's clock bounds the export."""
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")

_Decoded = TypeVar("_Decoded")

# What zipfile and zlib are known to raise on damaged archives.
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
    """A member to be written: its path in the archive, what it is, and its content as bytes or as a file on disk."""

    path: str
    kind: Kind
    content: bytes | Path


def entries_of_folder(folder: Path, prefix: str, kind: Kind) -> list[Entry]:
    """Every file below a folder, in the order of their names.

    Raises:
        ValueError: the folder holds no file, or something that is not a plain file.
    """
    found: list[Entry] = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise ValueError(f"{path} is not a plain file")
        if path.is_file():
            found.append(Entry(f"{prefix}/{path.relative_to(folder).as_posix()}", kind, path))
    if not found:
        raise ValueError(f"{folder} holds no file")
    return found


@contextmanager
def new_file(path: Path) -> Generator[Path]:
    """Fill a file under a temporary name that takes its own name, whole and durable, when the block ends without an error."""
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


def _info(path: str) -> zipfile.ZipInfo:
    """A header without anything of this machine in it, so that equal contents make equal bytes."""
    info = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    # The standard library has no public way to say this for a member that is streamed (its later versions keep the name).
    info._compresslevel = _LEVEL  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    info.create_system = 3
    return info


def _copy(source: BinaryIO, targets: Iterable[BinaryIO]) -> tuple[int, str]:
    """Copy in chunks; returns bytes and SHA-256."""
    digest, size, targets = hashlib.sha256(), 0, list(targets)
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        for target in targets:
            target.write(chunk)
    return size, digest.hexdigest()


def write_archive(path: Path, entries: Iterable[Entry], manifest: Manifest) -> Manifest:
    """Write members and the manifest that lists them, in the order of their paths; returns that manifest.

    Files are streamed, so memory use does not grow with the models.

    Raises:
        ValueError: a member's path is not one that `read` accepts.
        OSError: the disk is full, or a file cannot be read.
    """
    ordered = sorted(entries, key=lambda entry: entry.path)
    if problem := _names_problem([entry.path for entry in ordered]):
        raise ValueError(problem)
    members: list[Member] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in ordered:
            source = BytesIO(entry.content) if isinstance(entry.content, bytes) else entry.content.open("rb")
            with source, archive.open(_info(entry.path), "w", force_zip64=True) as target:
                size, digest = _copy(source, [target])  # pyright: ignore[reportArgumentType] (IO[bytes] is a BinaryIO)
            members.append(Member(path=entry.path, kind=entry.kind, bytes=size, sha256=digest))
        manifest = msgspec.structs.replace(manifest, members=tuple(members))
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        archive.writestr(_info(MANIFEST), text)
    return manifest


def is_safe_path(path: str) -> bool:
    """Whether a path is relative, normalised, and of plain ASCII letters, digits, dots, dashes and underscores."""
    return len(path) <= 512 and all(_PART.fullmatch(part) for part in path.split("/"))


def _names_problem(names: list[str]) -> str | None:
    """What is wrong with the members' names, if anything: unsafe, twice (in any case), or a file where a folder must be."""
    for name in names:
        if not is_safe_path(name):
            return f"its member {name[:80]!r} has a name that is not allowed"
    folded = [name.casefold() for name in names]
    if len(set(folded)) < len(folded):
        twice = next(name for name, key in zip(names, folded, strict=True) if folded.count(key) > 1)
        return f"its member {twice!r} is there twice"
    known = set(folded)
    for name, key in zip(names, folded, strict=True):
        parts = key.split("/")
        if any("/".join(parts[:depth]) in known for depth in range(1, len(parts))):
            return f"its member {name!r} lies below a file"
    return None


def _structure_problem(infos: list[zipfile.ZipInfo], n_bytes_on_disk: int) -> str | None:
    """What makes an archive unfit to be unpacked, judged from its directory alone."""
    if len(infos) > MAX_MEMBERS:
        return f"it has {len(infos):,} members, more than {MAX_MEMBERS:,}"
    if problem := _names_problem([info.orig_filename for info in infos]):
        return problem
    for info in infos:
        file_type = stat.S_IFMT(info.external_attr >> 16)
        if info.filename != info.orig_filename or info.is_dir() or file_type not in (0, stat.S_IFREG):
            return f"its member {info.filename!r} is not a plain file"
        if info.flag_bits & 0x1:
            return f"its member {info.filename!r} is encrypted"
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return f"its member {info.filename!r} is compressed in a way that bundles do not use"
    # Reading a member never yields more than its declared size, so this sum bounds what unpacking can cost.
    total = sum(info.file_size for info in infos)
    if total > MAX_BYTES or (total > SMALL_BYTES and total > MAX_RATIO * n_bytes_on_disk):
        return f"it would unpack to {total:,} bytes from {n_bytes_on_disk:,}"
    return None


class Archive:
    """An open bundle whose names and sizes are right and whose manifest is understood; members are verified as they are read."""

    def __init__(self, path: Path, file: zipfile.ZipFile, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._file = file
        self._listed = {member.path: member for member in manifest.members}

    def __contains__(self, member: str) -> bool:
        return member in self._listed

    def verify(self) -> None:
        """Check the size and the checksum of every member.

        Raises:
            BundleError: names the first member that is not what the manifest says.
        """
        for member in self.manifest.members:
            self._read(member, [])

    def read(self, member: str) -> bytes:
        """The content of a JSON, CSV or text member.

        Raises:
            BundleError: it is missing, changed, or too large to be one.
        """
        listed = self._listed.get(member)
        if listed is None:
            raise BundleError(f"{self.path}: the bundle lacks {member}.")
        if listed.bytes > MAX_JSON_BYTES:
            raise BundleError(f"{self.path}: its member {member!r} is too large ({listed.bytes:,} bytes).")
        content = BytesIO()
        self._read(listed, [content])
        return content.getvalue()

    def decode(self, member: str, record: type[_Decoded]) -> _Decoded:
        """A JSON member as a typed record.

        Raises:
            BundleError: it is missing, changed, or not such a record.
        """
        return _decode(self.path, member, self.read(member), record)

    def extract(self, folder: Path) -> None:
        """Unpack all members into an empty folder, each verified on its way.

        Raises:
            BundleError: a member is not what the manifest says; what was written so far must not be used.
            OSError: the disk is full.
        """
        for member in self.manifest.members:
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
            raise BundleError(f"{self.path}: its member {member.path!r} cannot be unpacked ({reason}).") from None
        except _DAMAGED as error:
            raise BundleError(f"{self.path}: its member {member.path!r} is damaged ({_first_line(error)}).") from None
        if (size, digest) != (member.bytes, member.sha256):
            raise BundleError(
                f"{self.path}: its member {member.path!r} is not the one that the {MANIFEST} lists; it was changed."
            )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]


def _decode(path: Path, member: str, content: bytes, record: type[_Decoded]) -> _Decoded:
    try:
        return msgspec.json.decode(content, type=record)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BundleError(f"{path}: its {member} cannot be understood ({_first_line(error)}).") from None


def _read_manifest(path: Path, file: zipfile.ZipFile) -> Manifest:
    infos = {info.filename: info for info in file.infolist()}
    if MANIFEST not in infos:
        raise BundleError(f"{path}: is not a tabapp bundle; it has no {MANIFEST}.")
    if infos[MANIFEST].file_size > MAX_JSON_BYTES:
        raise BundleError(f"{path}: its {MANIFEST} is too large ({infos[MANIFEST].file_size:,} bytes).")
    content = file.read(MANIFEST)
    version = _decode(path, MANIFEST, content, VersionOnly)
    if version.format_version > FORMAT_VERSION:
        raise BundleError(
            f"{path}: was made by {version.created_by[:60]} in bundle format {version.format_version}, and this tabapp reads up to "
            f"{FORMAT_VERSION}; update tabapp to use it."
        )
    if version.format_version < 1:
        raise BundleError(f"{path}: its {MANIFEST} names bundle format {version.format_version}, which does not exist.")
    return _decode(path, MANIFEST, content, Manifest)


@contextmanager
def open_archive(path: Path) -> Generator[Archive]:
    """Open a bundle and check its names, sizes and manifest; no member but the manifest is read.

    Raises:
        BundleError: one sentence on what is wrong.
    """
    try:
        n_bytes = path.stat().st_size
        file = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise BundleError(f"There is no bundle {path}.") from None
    except OSError as error:
        raise BundleError(f"{path}: cannot be read ({error.strerror or _first_line(error)}).") from None
    except _DAMAGED:
        raise BundleError(f"{path}: is not a tabapp bundle, or was not copied completely.") from None
    with file:
        try:
            if problem := _structure_problem(file.infolist(), n_bytes):
                raise BundleError(f"{path}: is not a bundle to trust: {problem}.")
            manifest = _read_manifest(path, file)
        except _DAMAGED as error:
            raise BundleError(f"{path}: is damaged ({_first_line(error)}).") from None
        present = {info.filename: info.file_size for info in file.infolist() if info.filename != MANIFEST}
        listed = {member.path: member.bytes for member in manifest.members}
        if len(listed) < len(manifest.members):
            raise BundleError(f"{path}: its {MANIFEST} lists a member twice.")
        if missing := sorted(set(listed) - set(present)):
            raise BundleError(f"{path}: lacks {missing[0]!r}, which its {MANIFEST} lists.")
        if extra := sorted(set(present) - set(listed)):
            raise BundleError(f"{path}: holds {extra[0]!r}, which its {MANIFEST} does not list.")
        if changed := sorted(name for name, size in listed.items() if present[name] != size):
            raise BundleError(
                f"{path}: its member {changed[0]!r} is not the one that the {MANIFEST} lists; it was changed."
            )
        yield Archive(path, file, manifest)
