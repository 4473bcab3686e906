"""The installed weights: one safetensors file and one record for each, in a folder of the user's data. Some come with tabapp."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tabapp.errors import UsageError
from tabapp.files import sha256 as sha256_of
from tabapp.files import write_bytes, write_stream
from tabapp.weights.place import folder
from tabapp.weights.pretrained import Pretrained

SHIPPED = Path(__file__).with_name("shipped")
"""The folder of the weights that come with tabapp."""
_also: list[Path] = []


class Installed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The record of installed weights.

    Attributes:
        name: as in `Pretrained`.
        sha256, n_bytes: of the safetensors file.
        source, source_sha256: name and hash of the file that it was made from.
        license: license of the weights.
        added_at: ISO 8601 in UTC.
    """

    name: str
    sha256: str
    n_bytes: int
    source: str
    source_sha256: str
    license: str
    added_at: str

    @property
    def path(self) -> Path:
        """The safetensors file."""
        return (SHIPPED if is_shipped(self.name) else folder()) / f"{self.name}.safetensors"


def installed() -> dict[str, Installed]:
    """The records of all installed weights by name. Damaged records count as not installed."""
    return {record.name: record for record in _records()}


def is_shipped(name: str) -> bool:
    """Whether weights come with tabapp; such a name is never read from the user's folder."""
    return (SHIPPED / f"{name}.json").is_file()


def find(name: str) -> Installed | None:
    """The record of weights with a name; None if they are not installed."""
    return _read((SHIPPED if is_shipped(name) else folder()) / f"{name}.json")


def with_hash(sha256: str) -> Installed | None:
    """The record of the weights with a hash; None if they are not installed."""
    return next((record for record in _records() if record.sha256 == sha256), None)


@contextmanager
def also_in(extra: Path) -> Generator[None]:
    """Find weights by their hash in a folder too, as those that a bundle contains."""
    _also.append(extra)
    try:
        yield
    finally:
        _also.remove(extra)


def verified_with_hash(sha256: str) -> Path | None:
    """The verified file of the weights with a hash; None if there is none.

    Raises:
        UsageError: the file was changed.
    """
    for bundled in _also:
        path = bundled / f"{sha256}.safetensors"
        if path.is_file() and sha256_of(path) == sha256:
            return path
    record = with_hash(sha256)
    return None if record is None else verified(record)


def has_any(weights: tuple[Pretrained, ...]) -> bool:
    """Whether some of these weights are installed."""
    return any(find(each.name) is not None for each in weights)


def keep(record: Installed, made: Path) -> None:
    """Copy a converted file into the store and write its record, so that a crash leaves the old pair or the new one.

    Raises:
        OSError: the folder cannot be written.
    """
    where = folder()
    where.mkdir(parents=True, exist_ok=True)
    remove(record.name)
    with made.open("rb") as content:
        write_stream(record.path, content)
    write_bytes(where / f"{record.name}.json", msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def remove(name: str) -> bool:
    """Remove installed weights, the record first; returns whether there were any."""
    found = find(name) is not None
    for suffix in ("json", "safetensors"):
        (folder() / f"{name}.{suffix}").unlink(missing_ok=True)
    return found


def verified(record: Installed) -> Path:
    """The file of installed weights after its hash was compared with the record.

    Raises:
        UsageError: the file is missing or was changed.
    """
    try:
        found = sha256_of(record.path)
    except OSError as error:
        raise UsageError(
            f"The weights {record.name} cannot be read ({error.strerror or error}). Install them again."
        ) from None
    if found != record.sha256:
        raise UsageError(
            f"The file {record.path.name} of the weights {record.name} has another SHA-256 than when it was installed. "
            "Install the weights again."
        )
    return record.path


def _records() -> Iterator[Installed]:
    with suppress(OSError):
        for path in (*sorted(SHIPPED.glob("*.json")), *sorted(folder().glob("*.json"))):
            record = _read(path)
            if record is not None and record.path.parent == path.parent:
                yield record


def _read(path: Path) -> Installed | None:
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Installed)
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return None
    return record if record.name == path.stem and record.path.is_file() else None
