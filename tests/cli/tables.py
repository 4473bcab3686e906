"""Small synthetic tables as CSV files, valid and invalid."""

from __future__ import annotations

import random
from pathlib import Path

HEADER = "age,city,bought"


def rows(n: int = 60) -> list[tuple[object, ...]]:
    """Rows of (age, city, bought) where `bought` depends on `age`."""
    source = random.Random(0)
    ages = [round(source.gauss(40, 12), 1) for _ in range(n)]
    return [(age, source.choice("abc"), "yes" if age + source.gauss(0, 6) > 40 else "no") for age in ages]


def write(path: Path, header: str, lines: list[tuple[object, ...]]) -> Path:
    """Write a comma-separated file."""
    path.write_text("\n".join([header, *(",".join(map(str, line)) for line in lines)]) + "\n", encoding="utf-8")
    return path


def write_tables(folder: Path) -> None:
    """Write the valid table shop.csv and one file for each kind of invalid table."""
    good = rows()
    write(folder / "shop.csv", HEADER, good)
    write(folder / "constant.csv", HEADER, [(age, city, "yes") for age, city, _ in good])
    write(folder / "unlabeled.csv", HEADER, [(age, city, "") for age, city, _ in good])
    write(folder / "few.csv", HEADER, good[:12])
    write(folder / "few_labels.csv", HEADER, [(*row[:2], row[2] if i < 15 else "") for i, row in enumerate(good)])
    write(folder / "single.csv", "bought", [row[2:] for row in good])
    write(folder / "header.csv", HEADER, [])
    (folder / "empty.csv").write_bytes(b"")
    (folder / "blank.csv").write_text("\n  \n\n")
    (folder / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8)
    (folder / "folder.csv").mkdir()
