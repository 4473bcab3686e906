"""Parquet files by hand, whose texts are stored as their difference to the text before. Polars reads but never writes them."""

from __future__ import annotations

from itertools import pairwise

_INT32, _INT64, _TEXT, _LIST, _STRUCT = 5, 6, 8, 9, 12
_BYTE_ARRAY, _DELTA_BYTE_ARRAY, _RLE = 6, 7, 3
_BLOCK, _MINIBLOCK = 128, 32

_Field = tuple[int, bytes]


def _unsigned(number: int) -> bytes:
    head = b""
    while number > 127:
        head += bytes([number & 127 | 128])
        number >>= 7
    return head + bytes([number])


def _signed(number: int) -> bytes:
    return _unsigned(2 * number if number >= 0 else -2 * number - 1)


def _struct(fields: dict[int, _Field]) -> bytes:
    """A structure of the Thrift compact protocol, whose fields are ordered by their numbers."""
    content, last = b"", 0
    for number, (kind, value) in fields.items():
        content += bytes([(number - last) << 4 | kind]) + value
        last = number
    return content + b"\0"


def _list(kind: int, items: list[bytes]) -> _Field:
    return _LIST, bytes([len(items) << 4 | kind]) + b"".join(items)


def _text(text: bytes) -> bytes:
    return _unsigned(len(text)) + text


def _packed(values: list[int]) -> bytes:
    """Integers in the encoding DELTA_BINARY_PACKED."""
    content = _unsigned(_BLOCK) + _unsigned(_BLOCK // _MINIBLOCK) + _unsigned(len(values)) + _signed(values[0])
    deltas = [after - before for before, after in pairwise(values)]
    for start in range(0, len(deltas), _BLOCK):
        block = deltas[start : start + _BLOCK]
        least = min(block)
        rest = [delta - least for delta in block] + [0] * (_BLOCK - len(block))
        minis = [rest[place : place + _MINIBLOCK] for place in range(0, _BLOCK, _MINIBLOCK)]
        widths = [max(mini).bit_length() for mini in minis]
        content += _signed(least) + bytes(widths)
        for mini, width in zip(minis, widths, strict=True):
            bits = sum(value << (place * width) for place, value in enumerate(mini))
            content += bits.to_bytes(_MINIBLOCK * width // 8, "little")
    return content


def equal_texts(n_rows: int, n_bytes: int) -> bytes:
    """A Parquet file with one column of equal texts, which takes about as many bytes as one text."""
    prefixes, suffixes = [0] + [n_bytes] * (n_rows - 1), [n_bytes] + [0] * (n_rows - 1)
    page = _packed(prefixes) + _packed(suffixes) + b"x" * n_bytes
    size = (_INT32, _signed(len(page)))
    number, rle = (_INT32, _signed(n_rows)), (_INT32, _signed(_RLE))
    head = {1: number, 2: (_INT32, _signed(_DELTA_BYTE_ARRAY)), 3: rle, 4: rle}
    chunk = _struct({1: (_INT32, _signed(0)), 2: size, 3: size, 5: (_STRUCT, _struct(head))}) + page
    n_stored, rows = (_INT64, _signed(len(chunk))), (_INT64, _signed(n_rows))
    column = _struct(
        {
            1: (_INT32, _signed(_BYTE_ARRAY)),
            2: _list(_INT32, [_signed(_DELTA_BYTE_ARRAY)]),
            3: _list(_TEXT, [_text(b"color")]),
            4: (_INT32, _signed(0)),
            5: rows,
            6: n_stored,
            7: n_stored,
            9: (_INT64, _signed(4)),
        }
    )
    root = _struct({4: (_TEXT, _text(b"schema")), 5: (_INT32, _signed(1))})
    zero = (_INT32, _signed(0))
    leaf = _struct({1: (_INT32, _signed(_BYTE_ARRAY)), 3: zero, 4: (_TEXT, _text(b"color")), 6: zero})
    group = _struct(
        {1: _list(_STRUCT, [_struct({2: (_INT64, _signed(4)), 3: (_STRUCT, column)})]), 2: n_stored, 3: rows}
    )
    footer = _struct({1: (_INT32, _signed(1)), 2: _list(_STRUCT, [root, leaf]), 3: rows, 4: _list(_STRUCT, [group])})
    return b"PAR1" + chunk + footer + len(footer).to_bytes(4, "little") + b"PAR1"
