"""Which run folders this user made on this machine: those whose `run.json` has a seal.

The seal is an HMAC with a key that is kept outside of all run folders. A folder from elsewhere has none, even if this user
unpacked it in the folder of runs. A `run.json` that was changed by hand no longer matches its seal.
"""

from __future__ import annotations

import hmac
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from tabapp import files
from tabapp.user_folders import state_folder

SEAL = "run.seal"
KEY = "run.key"
KEY_BYTES = 32
_CONTEXT = b"tabapp run.json\0"


def key_file() -> Path:
    """The file of the key. For a user without a home folder, it can be neither read nor created."""
    return state_folder() / KEY


def seal(folder: Path, content: bytes) -> None:
    """Record that this user wrote the content of `run.json`. Where no key can be kept, a run stays without a seal.

    Raises:
        OSError: the run folder cannot be written.
    """
    key = _key(create=True)
    if key is not None:
        files.write_bytes(folder / SEAL, _digest(key, content).encode(), mode=files.PRIVATE_FILE)


def is_sealed(folder: Path, content: bytes) -> bool:
    """Whether this user wrote the content of `run.json`."""
    key = _key(create=False)
    if key is None:
        return False
    try:
        found = files.read_regular(folder / SEAL)
    except OSError:
        return False
    return hmac.compare_digest(found, _digest(key, content).encode())


def _digest(key: bytes, content: bytes) -> str:
    return hmac.digest(key, _CONTEXT + content, "sha256").hex()


def _key(*, create: bool) -> bytes | None:
    """The key of this user; None if there is none, or it cannot be kept."""
    path = key_file()
    with suppress(OSError):
        if create and not path.exists():
            _create_key(path)
        key = files.read_regular(path)
        return key if len(key) == KEY_BYTES else None
    return None


def _create_key(path: Path) -> None:
    """Create the key, unless another process creates it first."""
    path.parent.mkdir(mode=files.PRIVATE_FOLDER, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent) as file:
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(file.name, path)
