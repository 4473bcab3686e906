"""Detect the format, compression and encoding of a file, and decode its text."""

from __future__ import annotations

import codecs
import gzip
import itertools
import re
import stat
import sys
import unicodedata
import zipfile
import zlib
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from tabapp.data.limits import MemoryLimit
from tabapp.data.reading.foreign import START, reject_binary
from tabapp.data.reading.known import NOTHING, Known
from tabapp.data.schema import DataWarning
from tabapp.errors import DataError, UsageError, option
from tabapp.files import is_address, open_to_read, read_regular

_GZIP, _ZSTD, _ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"
_PARQUET, _ARROW = b"PAR1", b"ARROW1"

_BYTE_ORDER_MARKS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_SAMPLE_BYTES = 65_536
_DECODED = 6
"""Bytes of memory per byte that is decoded: up to four as text, and the bytes in UTF-8."""
_WESTERN = ("cp1252", "mac-roman")
_WINDOWS = ("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257")
_EAST_ASIAN = ("gb18030", "big5hkscs", "cp932", "euc_jis_2004", "cp949")
_OTHERS = (*_WINDOWS, "cp850", "cp866", "koi8-r", "mac-cyrillic", *_EAST_ASIAN)
_LEGACY = tuple(dict.fromkeys(codecs.lookup(name).name for name in (*_WESTERN, *_OTHERS)))
LEGACY = frozenset(_LEGACY)
"""Names of encodings that are recognized in text that is not UTF-8. In all of them, a byte 10 is the end of a line."""
_MOSTLY = 0.9
"""Least share of bytes beyond ASCII that are valid in UTF-8 text with single wrong bytes, and of words that look right."""
_MOST_CELLS, _MOST_BYTES = 2_000, 200_000
_BETWEEN_CELLS = re.compile(rb'[,;\t|"]')
_WORD = re.compile(r"[^\s\x00-&(-/:-@\[-`{-\x7f]+")
_CONTROLS = re.compile("[\x80-\x9f]")
_SYMBOL_INSIDE = re.compile(r"[^\W\d_](?![’‘´·])[^\x00-\x7f\w][^\W\d_]")
_MARKS = "“”„«»‹›‘’…–—·"
_SYMBOL_BESIDE = re.compile(
    rf"(?![{_MARKS}])[^\x00-\x7f\w](?![\x00-\x7f])[^\W\d_]|(?![\x00-\x7f])[^\W\d_](?![{_MARKS}])[^\x00-\x7f\w]"
)
_TURKISH, _ICELANDIC = re.compile("[ýþðÝÞÐ]"), re.compile("[áéíóúæÁÉÍÓÚÆ]")
"""In cp1252, Turkish letters become Icelandic ones, but Turkish has none of the second kind."""
_THREE, _FOUR = re.compile(r"[^\x00-\x7f]{3}"), re.compile(r"[^\x00-\x7f]{4}")
_ALPHABETS = {"LATIN", "CYRILLIC", "GREEK", "HEBREW", "ARABIC"}

_MIN_LIMIT = 1 << 30
_MAX_RATIO = 250
"""An archive may unpack to 1 GiB or 250 times its size, whichever is more. Anything larger is treated as an archive bomb."""

BYTE_BY_BYTE = "tabapp-cp1252"
"""How to treat decoding errors: wrong bytes are read as cp1252."""


def _as_western(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(BYTE_BY_BYTE, _as_western)


def file_type(path: Path) -> str:
    """Detect the format from the first bytes: "gzip", "zstd", "zip", "parquet", "arrow", or "text" for anything else.

    Raises:
        DataError: the path is not a regular, readable, non-empty file, or the file has a known format that is not a table.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        if is_address(str(path)):
            raise DataError(f"{path}: is an address on a network. Download the file, and give its path.") from None
        raise DataError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"{path}: cannot be opened ({reason})") from None
    if stat.S_ISDIR(status.st_mode):
        raise DataError(f"{path}: is a directory. Give the path of a file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path}: is not a regular file. To read a stream, give '-' and pipe the table to stdin.")
    if status.st_size == 0:
        raise DataError(f"{path}: is empty")
    try:
        with open_to_read(path) as file:
            start = file.read(START)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    for magic, name in ((_GZIP, "gzip"), (_ZSTD, "zstd"), (_ZIP, "zip"), (_PARQUET, "parquet"), (_ARROW, "arrow")):
        if start.startswith(magic):
            return name
    reject_binary(path, start)
    return "text"


def unpack(path: Path, kind: str, memory: MemoryLimit) -> bytes:
    """Read the bytes of a text file, decompressed if it is an archive.

    Raises:
        DataError: the archive is damaged, does not contain exactly one file, or unpacks to far more than its size; or the text
            does not fit in memory.
    """
    try:
        if kind == "gzip":
            with gzip.open(path, "rb") as file:
                return _read_bounded(file, memory)
        if kind == "zip":
            return _unpack_zip(path, memory)
        if kind == "zstd":
            with zstd_library().open(path, "rb") as file:
                return _read_bounded(file, memory)
        memory.require(path.stat().st_size)
        return read_regular(path)
    except (EOFError, NotImplementedError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: the {kind} archive is damaged or cut off ({error})") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def zstd_library() -> Any:
    """The zstd module of Python 3.14 and later, or its backport."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def unpacked_limit(path: Path) -> int:
    """Bytes that an archive may unpack to."""
    return max(_MIN_LIMIT, _MAX_RATIO * path.stat().st_size)


def _read_bounded(file: IO[bytes] | gzip.GzipFile, memory: MemoryLimit) -> bytes:
    limit = unpacked_limit(memory.path)
    allowed = min(limit, memory.n_bytes)
    try:
        data = file.read(allowed + 1)
    except Exception as error:
        # The module of ZstdError is loaded only for its archives.
        if type(error).__name__ == "ZstdError":
            raise EOFError(error) from None
        raise
    if len(data) > limit:
        raise DataError(f"{memory.path} unpacks to more than {limit >> 20:,} MiB. Unpack it first.")
    memory.require(len(data))
    return data


def _unpack_zip(path: Path, memory: MemoryLimit) -> bytes:
    with zipfile.ZipFile(path) as archive, archive.open(only_member(archive, path)) as file:
        return _read_bounded(file, memory)


def only_member(archive: zipfile.ZipFile, path: Path) -> zipfile.ZipInfo:
    """The table in a zip archive.

    Raises:
        DataError: the archive does not contain exactly one file, or is protected by a password.
    """
    names = [info.filename for info in archive.infolist()]
    if any(name.startswith(("xl/", "word/", "ppt/")) for name in names):
        raise DataError(f"{path} is an Office document, not a table. Save its table as CSV.")
    members = [info for info in archive.infolist() if not info.is_dir() and not _is_metadata(info.filename)]
    if len(members) != 1:
        raise DataError(f"{path} contains {len(members)} files. A zip archive must contain exactly one table.")
    if members[0].flag_bits & 1:
        raise DataError(f"{path} is protected by a password. Unpack it first.")
    return members[0]


def _is_metadata(name: str) -> bool:
    return name.startswith("__MACOSX/") or name.rsplit("/", 1)[-1] in (".DS_Store", "Thumbs.db")


def decode(
    data: bytes, encoding: str | None, memory: MemoryLimit, known: Known = NOTHING
) -> tuple[bytes, str, list[DataWarning]]:
    """Convert bytes in any common encoding to UTF-8 without a byte order mark.

    Args:
        known: texts of the schema that the bytes are read for. They decide between legacy encodings.

    Returns:
        The UTF-8 bytes, the detected encoding (the name of a Python codec), and warnings.

    Raises:
        DataError: the bytes are not text, not valid in the given encoding, or too many for the memory limit.
        UsageError: there is no encoding of the given name.
    """
    path = memory.path
    if encoding is not None:
        return _decode_as(data, encoding, memory)
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            if name == "utf-8-sig":
                return _check_utf8(data[len(mark) :], name, memory, known)
            return _decode_as(data, name, memory)
    sample = data[:_SAMPLE_BYTES]
    guessed = _utf16_without_mark(sample)
    if guessed is not None:
        return _decode_as(data, guessed, memory)
    controls = sum(sample.count(bytes([code])) for code in (*range(1, 9), *range(14, 27), *range(28, 32)))
    # Some programs pad tables with NULs. They are removed with a warning unless they are a large part of the file.
    controls += max(0, sample.count(0) - len(sample) // 20)
    if controls > max(8, len(sample) // 100):
        raise DataError(f"{path}: is binary data, not a table ({controls:,} control characters at its start)")
    return _check_utf8(data, "utf-8", memory, known)


def _utf16_without_mark(sample: bytes) -> str | None:
    half = len(sample) // 2
    if half < 2 or b"\0" not in sample:
        return None
    if sample[1::2].count(0) > 0.7 * half and sample[0::2].count(0) < 0.1 * half:
        return "utf-16-le"
    if sample[0::2].count(0) > 0.7 * half and sample[1::2].count(0) < 0.1 * half:
        return "utf-16-be"
    return None


def _decode_as(data: bytes, encoding: str, memory: MemoryLimit) -> tuple[bytes, str, list[DataWarning]]:
    path = memory.path
    memory.require(_DECODED * len(data))
    try:
        name = codecs.lookup(encoding).name
        text = data.decode(encoding)
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else len(data)
        line = data.count(b"\n", 0, start) + 1
        raise DataError(
            f"{path}: line {line} (byte {start:,}) is not {encoding} text. Give another {option('encoding')}."
        ) from None
    except (LookupError, ValueError):
        raise UsageError(
            f"there is no encoding named {encoding!r}. Common encodings are utf-8, utf-16, cp1252 and latin-1."
        ) from None
    return text.removeprefix("\ufeff").encode("utf-8", "replace"), name, []


def _check_utf8(data: bytes, name: str, memory: MemoryLimit, known: Known) -> tuple[bytes, str, list[DataWarning]]:
    if data.isascii():
        return data, name, []
    memory.require(_DECODED * len(data))
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        only_last = name == "utf-8" and error.start == len(data) - 1 and data[:-1].isascii()
        # A small letter in cp1252, such as é, also begins a character of UTF-8.
        if error.reason == "unexpected end of data" and not (only_last and data[-1:].decode("cp1252").islower()):
            raise DataError(
                f"{memory.path}: ends in the middle of a character (byte {error.start:,}). The file is probably incomplete."
            ) from None
        return decode_invalid(data, error.start, known)
    return data, name, []


def decode_invalid(
    data: bytes, first_invalid: int, known: Known = NOTHING, *, lines_before: int = 0, bytes_before: int = 0
) -> tuple[bytes, str, list[DataWarning]]:
    """Convert bytes that are not UTF-8 to UTF-8, as `decode` does.

    Args:
        first_invalid: the place of the first byte that is not UTF-8.
        lines_before, bytes_before: those of the file above the bytes.
    """
    line, place = lines_before + data.count(b"\n", 0, first_invalid) + 1, bytes_before + first_invalid
    high = len(data.translate(None, bytes(range(128))))
    valid = len(data.decode("utf-8", "ignore").encode()) - (len(data) - high)
    if valid >= _MOSTLY * high:
        name, shown = "utf-8", "cp1252"
        n_invalid = high - valid
        fault = f"{n_invalid:,} bytes are not UTF-8, the first" if n_invalid > 1 else "A byte is not UTF-8,"
        fault += f" byte {place:,} (in line {line}, which contains"
        action = "read as cp1252 where it is not UTF-8"
    else:
        name = shown = _legacy_encoding(data, known)
        fault = f"The file is not UTF-8 (invalid byte {place:,} in line {line}, which contains"
        action = f"read as {name}; give --encoding if the text looks wrong"
    text = data.decode(name, BYTE_BY_BYTE)
    message = f"{fault} {_around(data, first_invalid, name)!r} as {shown})."
    return text.encode(), name, [DataWarning(check="encoding", message=message, action=action)]


def _around(data: bytes, place: int, encoding: str) -> str:
    """Up to 12 characters of a line on each side of a byte."""
    begin = max(data.rfind(b"\n", 0, place) + 1, place - 400)
    before = len(data[begin:place].decode(encoding, BYTE_BY_BYTE))
    line = data[begin : place + 48].decode(encoding, BYTE_BY_BYTE)[max(0, before - 12) : before + 12]
    return line.splitlines()[0].strip()


def _legacy_encoding(data: bytes, known: Known) -> str:
    """The encoding of text that is not UTF-8: one with the most known texts, or if there are none, that of Western Windows or of
    Mac OS if words look as in a Western language, else the most likely of other languages, else cp1252, or latin-1 for any
    bytes."""
    cells = _cells_beyond_ascii(data)
    likely = _likely_encoding(cells)
    possible = _with_known_texts(cells, known)
    found = likely if likely in possible or not possible else possible[0]
    if found == "cp1252":
        try:
            data.decode(found)
        except UnicodeDecodeError:
            return "latin-1"
    return found


def _likely_encoding(cells: bytes) -> str:
    found = next((name for name in _WESTERN if _has_likely_words(cells, name)), None)
    if found is None:
        import chardet

        most_likely = chardet.detect(cells, prefer_superset=True, compat_names=False, include_encodings=_OTHERS)
        found = most_likely["encoding"]
        if found is None or not _has_likely_words(cells, found):
            found = "cp1252"
    return codecs.lookup(found).name


def _with_known_texts(cells: bytes, known: Known) -> list[str]:
    """The encodings in which the most known texts are among the cells; empty if there are none in any."""
    texts = [text for text in (*known.columns, *known.texts) if not text.isascii()]
    found = {cell.strip() for cell in cells.splitlines()}
    counts = {name: sum(_encoded(text, name) in found for text in texts) for name in _LEGACY} if texts else {}
    most = max(counts.values(), default=0)
    return [name for name, count in counts.items() if count == most > 0]


def _encoded(text: str, encoding: str) -> bytes | None:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return None


def _cells_beyond_ascii(data: bytes) -> bytes:
    """Different cells with characters other than ASCII, one in each line."""
    lines = (line for line in data.splitlines() if not line.isascii())
    cells: dict[bytes, None] = {}
    n_bytes = 0
    for line in lines:
        cells.update(dict.fromkeys(cell for cell in _BETWEEN_CELLS.split(line) if not cell.isascii()))
        n_bytes += len(line)
        if len(cells) >= _MOST_CELLS or n_bytes >= _MOST_BYTES:
            break
    return b"\n".join(cells)


def _has_likely_words(cells: bytes, encoding: str) -> bool:
    """Whether nearly all words beyond ASCII could be words of a language."""
    try:
        text = cells.decode(encoding)
    except UnicodeDecodeError:
        return False
    if _CONTROLS.search(text):
        return False
    words = [word for word in _WORD.findall(text) if not word.isascii() and any(map(str.isalpha, word))]
    if not words:
        return encoding == "cp1252" or all(char.isascii() or char.isspace() or char in _MARKS for char in text)
    if encoding == "cp1252" and _TURKISH.search(text) and not _ICELANDIC.search(text):
        return False
    return sum(_is_unlikely(word, encoding) for word in words) <= (1 - _MOSTLY) * len(words)


def _is_unlikely(word: str, encoding: str) -> bool:
    """Whether a word has signs of a wrong encoding: a symbol beside letters, a capital after a small letter, several accented Latin
    letters in a row, or Latin letters among those of another alphabet."""
    if _SYMBOL_INSIDE.search(word) or _SYMBOL_BESIDE.search(word):
        return True
    if any(a.islower() and b.isupper() and not (a + b).isascii() for a, b in itertools.pairwise(word)):
        return True
    scripts = [unicodedata.name(char, "?").split()[0] for char in word if char.isalpha()]
    if len({script for script in scripts if script in _ALPHABETS}) > 1:
        return True
    return any(
        not run.isascii() and all(unicodedata.name(char, "?").startswith("LATIN") for char in run)
        for run in (_THREE if encoding in _WESTERN else _FOUR).findall(word)
    )
