"""Vocabularies of tagged messages: lines of JSON that two processes exchange, each decoded into a struct.

Commands, requests for rows and the output of `predict --json` are vocabularies. Unlike events, which a reader of another version
may skip, a message that is not understood is an error: the sender waits for an effect.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, get_args

import msgspec

from tabapp.errors import UsageError, did_you_mean
from tabapp.run.record.undefined import Decoder

VERSION = 1


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all messages. `v` is the version of the vocabulary."""

    v: int = VERSION


M = TypeVar("M")


class Vocabulary(Generic[M]):
    """Encodes and decodes the messages of one kind.

    Args:
        noun: what a message is called in errors, such as "command".
        tag_field: the JSON key that holds the tag.
        union: the union of the message structs.
    """

    def __init__(self, noun: str, tag_field: str, union: Any) -> None:
        self._noun, self._tag_field = noun, tag_field
        self.kinds: dict[str, type[msgspec.Struct]] = {kind.__struct_config__.tag: kind for kind in get_args(union)}
        self._decoder: Decoder[M] = Decoder(union)

    def encode(self, message: M) -> bytes:
        """One message as a line of JSON with its newline."""
        return msgspec.json.encode(message) + b"\n"

    def decode(self, line: bytes | str) -> M:
        """Read one line.

        Raises:
            UsageError: the line is not JSON, its tag or one of its fields is unknown, or a value has the wrong type.
        """
        try:
            return self._decoder.decode(line)
        except RecursionError:
            raise UsageError(f"A {self._noun} is nested too deeply.") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(self._rejection(line, error)) from None

    def _rejection(self, line: bytes | str, error: Exception) -> str:
        """One sentence about the first thing that is wrong with a line."""
        try:
            content = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return f"A {self._noun} is not valid JSON: {error}."
        tag = content.get(self._tag_field) if isinstance(content, dict) else None
        kind = self.kinds.get(tag) if isinstance(tag, str) else None
        if kind is None:
            hint = did_you_mean(str(tag), self.kinds) or f"; use one of {', '.join(self.kinds)}."
            return f"Unknown {self._noun} {tag!r}{hint}"
        unknown = [name for name in content if name not in (self._tag_field, *kind.__struct_fields__)]
        if unknown:
            fields = kind.__struct_fields__
            hint = did_you_mean(unknown[0], fields) or f"; its fields are {', '.join(fields)}."
            return f"The {self._noun} {tag!r} has no field {unknown[0]!r}{hint}"
        return f"The {self._noun} {tag!r} is invalid: {str(error).replace('`', '')}."
