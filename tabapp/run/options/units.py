"""Durations and sizes as people write them."""

from __future__ import annotations

import re

from tabapp.errors import UsageError

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_budget(text: str) -> float:
    """Read a duration such as `90s`, `10m`, `1.5h` or plain seconds; returns seconds.

    Raises:
        UsageError: it is not a positive duration.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        raise UsageError(f"The budget {text!r} is not a duration; write it like 90s, 10m or 2h.")
    return seconds


def format_duration(seconds: float) -> str:
    """Write a duration for people, in at most two units: 0.4ms, 0.8s, 41s, 2m 28s, 1h 4m."""
    if seconds < 0.0995:
        return "0s" if seconds <= 0 else f"{float(f'{1000 * seconds:.2g}'):g}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for size, unit, smaller, small_unit in ((3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{unit}" + (f" {rest}{small_unit}" if rest else "")
    return f"{whole}s"


def duration_option(seconds: float) -> str:
    """Write seconds exactly, as the value of an option: 90s, 10m, 2h."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_bytes(text: str) -> int:
    """Read a size such as `8GiB`, `512MiB` or plain bytes; returns bytes.

    Raises:
        UsageError: it is not a positive size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    size = int(float(match[1]) * _BYTES[match[2].lower()]) if match else 0
    if size <= 0:
        raise UsageError(f"The memory limit {text!r} is not a size; write it like 8GiB or 512MiB.")
    return size
