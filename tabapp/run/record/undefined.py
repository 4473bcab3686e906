"""Numbers that may be undefined, such as the ROC AUC of rows of one class, in messages, events and files.

JSON has no NaN: msgspec writes null, and refuses to read null as a number. A score is therefore `OptionalScore`, None where it is
undefined, and `Decoder` reads null as NaN where any other number is expected: a single number must not cost its message.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

OptionalScore = float | None
"""A score or a bound of its interval; None where the metric is undefined."""

T = TypeVar("T")


def defined(value: float) -> OptionalScore:
    """A score as messages hold it: None instead of NaN."""
    return None if math.isnan(value) else value


class Decoder(Generic[T]):
    """Decodes JSON like `msgspec.json.Decoder`, with NaN for a null in the place of a number.

    Args:
        kind: a struct, or a union of tagged structs.
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    @cached_property
    def _described(self) -> inspect.Type:
        """The kind with its fields. Describing all events takes as long as decoding thousands of them."""
        return inspect.type_info(self._kind)

    def decode(self, data: bytes | str) -> T:
        """Decode one document.

        Raises:
            msgspec.DecodeError: it is not JSON, or another type is expected.
        """
        try:
            return self._decoder.decode(data)
        except msgspec.ValidationError as error:
            content = msgspec.json.decode(data)
            try:
                return msgspec.convert(_with_nan(content, self._described), self._kind, str_keys=True)
            except msgspec.ValidationError:
                raise error from None


def _with_nan(value: Any, kind: inspect.Type) -> Any:
    """Decoded JSON with NaN for each null where a type expects a number."""
    match kind:
        case inspect.Metadata():
            return _with_nan(value, kind.type)
        case inspect.FloatType():
            return math.nan if value is None else value
        case inspect.UnionType():
            return _with_nan_in_union(value, kind)
        case inspect.StructType() if isinstance(value, dict):
            fields = {field.encode_name: field.type for field in kind.fields}
            return {name: _with_nan(each, fields[name]) if name in fields else each for name, each in value.items()}
        case inspect.DictType() if isinstance(value, dict):
            return {name: _with_nan(each, kind.value_type) for name, each in value.items()}
        case inspect.TupleType() if isinstance(value, list) and len(value) == len(kind.item_types):
            return [_with_nan(each, item) for each, item in zip(value, kind.item_types, strict=True)]
        case inspect.VarTupleType() | inspect.ListType() | inspect.CollectionType() if isinstance(value, list):
            return [_with_nan(each, kind.item_type) for each in value]
        case _:
            return value


def _with_nan_in_union(value: Any, kind: inspect.UnionType) -> Any:
    """The same for the member of a union that the value belongs to."""
    if value is None:
        expects_number = any(isinstance(member, inspect.FloatType) for member in kind.types)
        return math.nan if expects_number and not kind.includes_none else None
    structs = [member for member in kind.types if isinstance(member, inspect.StructType)]
    if isinstance(value, dict) and structs:
        of_tag = (each for each in structs if each.tag_field is None or value.get(each.tag_field) == each.tag)
        member = next(of_tag, None)
        return value if member is None else _with_nan(value, member)
    for member in kind.types:
        if isinstance(member, inspect.NoneType | inspect.FloatType | inspect.StructType):
            continue
        found = _with_nan(value, member)
        if found is not value:
            return found
    return value
