"""Seeds of the parts of a run, derived from its seed, so that no result depends on the order in which fits start."""

from __future__ import annotations

import zlib


def seed_of(seed: int, name: str, number: int) -> int:
    """A 32-bit seed for a numbered part of a run, such as a trial of a model; the same in every process."""
    return zlib.crc32(f"{seed}/{name}/{number}".encode())
