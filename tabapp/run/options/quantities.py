"""The kinds of options whose values are quantities: whole numbers, shares, times and sizes."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tabapp.errors import UsageError, given
from tabapp.run.options.option import Option
from tabapp.run.options.units import duration_option, parse_budget, parse_bytes


@dataclass(frozen=True)
class Whole(Option):
    """A whole number from `least` to `most`, or None, which may be written as "auto" with `has_auto`."""

    least: int = 1
    most: int | None = None
    has_auto: bool = False

    def _form(self) -> str:
        return f"a whole number, {self._range()}"

    def _range(self) -> str:
        allowed = f"{self.least} {'or more' if self.most is None else f'to {self.most}'}"
        return f"{allowed}, or auto" if self.has_auto else allowed

    def parse(self, text: str) -> int | str | None:
        if self.has_auto and text == "auto":
            return None
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else text

    def _plain(self, value: Any) -> Any:
        return None if self.has_auto and value == "auto" else value

    def check(self, value: Any) -> None:
        is_whole = isinstance(value, int) and self.least <= value and (self.most is None or value <= self.most)
        if value is not None and not is_whole:
            raise UsageError(f"{given(self.name, value)} is not valid. Use {self._form()}.")


@dataclass(frozen=True)
class Share(Option):
    """A number from 0 to `most`."""

    most: float = 1.0

    def _form(self) -> str:
        return f"a number from 0 to {self.most:g}"

    def parse(self, text: str) -> float | str:
        with suppress(ValueError):
            return float(text)
        return text

    def check(self, value: Any) -> None:
        if not isinstance(value, float) or not 0 <= value <= self.most:
            raise UsageError(f"{given(self.name, value)} is not valid. Use {self._form()}.")


class Duration(Option):
    """Seconds, or None."""

    def _form(self) -> str:
        return "a time such as 90s, 10m or 2h"

    def parse(self, text: str) -> float:
        return parse_budget(text)

    def text(self, value: Any) -> str:
        return duration_option(value)

    def _plain(self, value: Any) -> Any:
        value = parse_budget(value) if isinstance(value, str) else value
        return value.total_seconds() if isinstance(value, timedelta) else value

    def check(self, value: Any) -> None:
        if value is not None and not value > 0:
            raise UsageError(f"{given(self.name, value)} is not valid. Use more than 0 seconds.")


class Size(Option):
    """Bytes, or None."""

    def _form(self) -> str:
        return "a size such as 8GiB or 512MiB"

    def parse(self, text: str) -> int:
        return parse_bytes(text)

    def _plain(self, value: Any) -> Any:
        return parse_bytes(value) if isinstance(value, str) else value
