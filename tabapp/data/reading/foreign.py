"""Files that are no tables, named for what they are, with what to do."""

from __future__ import annotations

import re
from pathlib import Path

from tabapp.errors import DataError

START = 512
"""Bytes by which a binary file is recognized."""
_TEXT_START = 16_384

_UNPACK = "Unpack it first."
_SAVE = "Save it as CSV or Parquet."
_PICKLE = "a pickle, which can run programs when it is loaded. Load it where you trust it, and save the table as CSV or Parquet."

_BINARY: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"RIFF", "an image, a sound or a video"),
    (b"%PDF", "a PDF document. Save its table as CSV."),
    (b"%!PS", "a PostScript document"),
    (b"{\\rtf", "a rich text document. Save its table as CSV."),
    (b"\x7fELF", "an executable program"),
    (b"SQLite format 3", "an SQLite database. Export the table as CSV."),
    (b"\x89HDF", f"an HDF5 file. {_SAVE}"),
    (b"CDF\x01", f"a NetCDF file. {_SAVE}"),
    (b"CDF\x02", f"a NetCDF file. {_SAVE}"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook. Save the sheet as CSV."),
    (b"\0\x01\0\0Standard", "an Access database. Export the table as CSV."),
    (b"BZh", f"a bzip2 archive. {_UNPACK}"),
    (b"\xfd7zXZ", f"an xz archive. {_UNPACK}"),
    (b"7z\xbc\xaf", f"a 7z archive. {_UNPACK}"),
    (b"Rar!", f"a RAR archive. {_UNPACK}"),
    (b"\x04\x22\x4d\x18", f"an LZ4 archive. {_UNPACK}"),
    (b"\x1f\x9d", f"a compressed file. {_UNPACK}"),
    (b"\x93NUMPY", f"a NumPy array. {_SAVE}"),
    (b"ORC", "an ORC file. Save it as Parquet."),
    (b"Obj\x01", "an Avro file. Save it as Parquet."),
    (b"FEA1", "a Feather file of version 1. Save it as Parquet."),
    (b"RDX", "an RData file of R. Save the table with write.csv."),
    (b"RDA", "an RData file of R. Save the table with write.csv."),
    (b"X\n\0\0\0", "an RDS file of R. Save the table with write.csv."),
    (b"\0" * 12 + b"\xc2\xea\x81\x60", f"a SAS table. {_SAVE}"),
    (b"HEADER RECORD*******LIB", f"a SAS transport file. {_SAVE}"),
    (b"<stata_dta>", f"a Stata file. {_SAVE}"),
    (b"$FL2", f"an SPSS file. {_SAVE}"),
    (b"$FL3", f"an SPSS file. {_SAVE}"),
    (b"MATLAB 5.0 MAT-file", f"a MATLAB file. {_SAVE}"),
    *((bytes([0x80, version]), _PICKLE) for version in range(2, 6)),
    *(
        (bytes([0x78, level]), "compressed with zlib, such as a pickle of joblib. Save the table as CSV.")
        for level in (0x9C, 0xDA)
    ),
    *((bytes([release, order, 1, 0]), f"a Stata file. {_SAVE}") for release in range(110, 116) for order in (1, 2)),
)
_PACKED: tuple[tuple[bytes, str], ...] = (
    (b"PAR1", f"an archive of a Parquet file. {_UNPACK}"),
    (b"ARROW1", f"an archive of an Arrow file. {_UNPACK}"),
    (b"PK\x03\x04", f"an archive in an archive. {_UNPACK}"),
    (b"\x1f\x8b", f"an archive in an archive. {_UNPACK}"),
)

_WEB_ERROR = r"not found|access denied|forbidden|unauthorized|moved permanently|internal server error"
_SQL = (
    r"(create (table|database|schema)|insert into|drop table|pragma \w+ ?=|copy [^\n]* from stdin)|"
    r"(begin( transaction)?|use \w+|set \w+[^\n]*);[^\S\n]*\n"
)
_LIBSVM_LINE = r"[^\S\n]*[+-]?[\d.]+(?:e[+-]?\d+)?(?:[^\S\n]+(?:qid|\d+):[^\s:]+)+[^\S\n]*(?:#[^\n]*)?\n"
_SETTING = r"[^\S\n]*(?:- )?[\w\"' .-]+:(?:[^\S\n][^\n]*)?\n+"
_DOWNLOAD = "Check that the download succeeded."
_TEXTS: tuple[tuple[str, str], ...] = (
    (
        r"version https://git-lfs",
        "a Git LFS pointer; the table itself is stored elsewhere. Run 'git lfs pull' in its repository.",
    ),
    (r"<(!doctype|html|\?xml|head|body|svg|!--)", f"a web page or XML. {_DOWNLOAD}"),
    (rf"(\d{{3}}:? )?({_WEB_ERROR})\b", f"the message of a web server. {_DOWNLOAD}"),
    (r"\\(documentclass|begin\{)", "a LaTeX document. Save its table as CSV."),
    (
        rf"(--[^\n]*\n|/\*.*?\*/;?|\s)*({_SQL})",
        "a dump of SQL statements. Load it into a database and export the table as CSV.",
    ),
    (
        r"-\[ RECORD \d+ ]|\*{3,} 1\. row \*{3,}",
        "the expanded display of a database client. Print the rows as CSV: \\pset format csv in psql, --batch in mysql.",
    ),
    (
        rf"(?:{_LIBSVM_LINE}){{2}}",
        "a LIBSVM file (label index:value …). Convert it to CSV, such as with scikit-learn's load_svmlight_file.",
    ),
    (r"%yaml|---[^\S\n]*\n(- |\w[^\n,;|]*:)", f"YAML. {_SAVE}"),
)
_SETTINGS = f"YAML or a list of settings. {_SAVE}"


def reject_binary(path: Path, start: bytes, *, unpacked: bool = False) -> None:
    """Reject the first bytes of a file in a known format that is no table.

    Args:
        unpacked: the bytes come from an archive.

    Raises:
        DataError: names the format and the remedy.
    """
    for magic, name in (*_BINARY, *(_PACKED if unpacked else ())):
        if start.startswith(magic):
            raise DataError(f"{path}: is not a table but {name}")
    if start[257:262] == b"ustar":
        raise DataError(f"{path}: is not a table but a tar archive. {_UNPACK}")


def reject_other_texts(path: Path, data: bytes) -> None:
    """Reject a text in a known format that is no table.

    Raises:
        DataError: names the format and the remedy, or the line of a merge conflict.
    """
    text = data[:_TEXT_START].decode("utf-8", "ignore").lstrip()
    name = next((name for pattern, name in _TEXTS if re.match(pattern, text, re.IGNORECASE | re.DOTALL)), None)
    lines = [line for line in text.split("\n", 40)[:40] if line.strip()][:3]
    if len(lines) == 3 and all(
        re.fullmatch(_SETTING, f"{line}\n") and not re.search(r"[,;\t|]", line) for line in lines
    ):
        name = name or _SETTINGS
    if name is not None:
        raise DataError(f"{path}: is not a table but {name}")
    begin = data.find(b"\n<<<<<<< ") if b"\n>>>>>>> " in data else -1
    if begin >= 0:
        line = data.count(b"\n", 0, begin + 1) + 1
        raise DataError(f"{path}: has a merge conflict in line {line:,}. Resolve it first.")
