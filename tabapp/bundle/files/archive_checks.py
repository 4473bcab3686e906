"""Checks of an archive by its directory alone, before any member is read: names, kinds and sizes."""

from __future__ import annotations

import math
import os
import re
import stat
import zipfile
from pathlib import Path

from tabapp.errors import BundleError, UsageError

MAX_MEMBERS = 4_096
MAX_BYTES = 4 * 2**30
"""Unpacked size of a bundle from elsewhere; `LIMIT_VARIABLE` changes it."""
LIMIT_VARIABLE = "TABAPP_BUNDLE_LIMIT"
MAX_RATIO = 100
SMALL_BYTES = 64 * 2**20
"""Unpacked size up to which the compression ratio is not checked."""

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def is_safe_path(path: str) -> bool:
    """Whether a path is relative, normalized, and made of ASCII letters, digits, dots, dashes and underscores."""
    return len(path) <= 512 and all(_PART.fullmatch(part) for part in path.split("/"))


def names_problem(names: list[str]) -> str | None:
    """The problem with the member names, or None: unsafe, duplicate (ignoring case), or a file used as a folder."""
    for name in names:
        if not is_safe_path(name):
            return f"its member {name[:80]!r} has a name that is not allowed"
    folded = [name.casefold() for name in names]
    if len(set(folded)) < len(folded):
        twice = next(name for name, key in zip(names, folded, strict=True) if folded.count(key) > 1)
        return f"it has two members named {twice!r}"
    known = set(folded)
    for name, key in zip(names, folded, strict=True):
        parts = key.split("/")
        if any("/".join(parts[:depth]) in known for depth in range(1, len(parts))):
            return f"its member {name!r} is inside another member"
    return None


def chosen_limit() -> int | None:
    """Unpacked bytes up to which bundles are read, if the environment variable `LIMIT_VARIABLE` (in GiB) is set, else None.

    Raises:
        UsageError: the variable is not a positive number.
    """
    chosen = os.environ.get(LIMIT_VARIABLE)
    if not chosen:
        return None
    try:
        gibibytes = float(chosen)
    except ValueError:
        gibibytes = math.nan
    if not 0 < gibibytes < math.inf:
        raise UsageError(f"{LIMIT_VARIABLE} is {chosen[:40]!r}, but must be a number of GiB above 0, such as 8.")
    return int(gibibytes * 2**30)


def structure_problem(infos: list[zipfile.ZipInfo]) -> str | None:
    """The problem with an archive that its directory shows, or None."""
    if len(infos) > MAX_MEMBERS:
        return f"it has {len(infos):,} members, more than {MAX_MEMBERS:,}"
    if problem := names_problem([info.orig_filename for info in infos]):
        return problem
    for info in infos:
        file_type = stat.S_IFMT(info.external_attr >> 16)
        if info.filename != info.orig_filename or info.is_dir() or file_type not in (0, stat.S_IFREG):
            return f"its member {info.filename!r} is not a plain file"
        if info.flag_bits & 0x1:
            return f"its member {info.filename!r} is encrypted"
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return f"its member {info.filename!r} uses a compression method that bundles do not use"
    return None


def check_size(path: Path, infos: list[zipfile.ZipInfo], n_bytes_on_disk: int) -> None:
    """Check how much unpacking can cost: reading a member never yields more than its declared size.

    Raises:
        BundleError: it is more than the limit or, unless the user chose the limit, than the file is worth.
        UsageError: the limit in the environment is not valid.
    """
    total, chosen = sum(info.file_size for info in infos), chosen_limit()
    is_bomb = chosen is None and total > SMALL_BYTES and total > MAX_RATIO * n_bytes_on_disk
    if is_bomb or total > (MAX_BYTES if chosen is None else chosen):
        raise BundleError(
            f"{path} would unpack to {total:,} bytes from {n_bytes_on_disk:,}. If you trust it, set {LIMIT_VARIABLE} to "
            f"{math.ceil(total / 2**30)} (GiB)."
        )
