"""What was read before and after a change is compared fact by fact."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.product.front_door import differences, print_differences, read_tables


def test_tables_are_read_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.csv"
    path.write_text("size,day,answer\n" + "".join(f"{i * 7 % 31},2024-01-{i % 28 + 1:02},{i % 2}\n" for i in range(60)))
    (table,) = read_tables(sys.executable, [(path, "answer")], 1)
    assert (table.rows, table.target, table.task, table.classes, table.warnings) == (
        60,
        "answer",
        "binary",
        ["0", "1"],
        [],
    )
    assert table.columns["day"] == ("datetime", "feature", None, "iso")
    assert table.seconds > 0
    assert differences(table, table) == []
    after = msgspec.structs.replace(
        table,
        task="regression",
        columns={**table.columns, "size": ("categorical", "feature", None, None)},
        warnings=[("kind", "size", "is odd")],
    )
    assert differences(table, after) == [
        "task 'binary' → 'regression'",
        "'size': numeric feature → categorical feature",
        "+ kind  size: is odd",
    ]
    assert differences(after, table)[-1] == "- kind  size: is odd"
    assert print_differences({"table": table}, {"table": after, "other": table}) == 3
    assert capsys.readouterr().out.endswith("3 differences; 0 warnings before, 1 after\n")
