"""What tabapp reads in 38 public tables: kinds, roles, target, task and warnings, and the time that it takes.

python -m benchmarks.product.front_door [--data FOLDER] [--before FILE.json] [--beside PYTHON] [--repeats 3] [--out FILE.json]

The tables are those of `column_labels.json`, read from --data, $TABAPP_DATA or ../shared/data. --before names an earlier --out, and
every difference from it is printed. --beside names the Python of another checkout, which reads the same tables in turn with this
one; the ratio of the processor times (minimum of --repeats in each process) is printed for each table, and for all together. polars
has one thread, so that other work on the machine changes the times little. A warning is deserved or a false alarm: that is for the
reader to say.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.product.inference_verdicts import LABELS, data_folder

READ = """
import json, sys, time
from pathlib import Path
from tabapp.data.infer import infer_schema
from tabapp.data.profile import schema_with_warnings
from tabapp.data.reading.read import read_table

def read(path, target):
    reading = read_table(path)
    return reading, schema_with_warnings(reading, target=target)

for path, target in json.loads(sys.argv[1]):
    seconds = []
    for _ in range(int(sys.argv[2])):
        started = time.process_time()
        reading, schema = read(Path(path), target)
        seconds.append(time.process_time() - started)
    proposed = infer_schema(reading.frame, stored=reading.stored)
    print(json.dumps({
        "rows": reading.frame.height,
        "columns": {c.name: [c.kind, c.role, c.unit, c.datetime_format] for c in schema.columns},
        "target": proposed.target, "task": schema.task, "classes": schema.classes[:100],
        "without_target": schema.rows_without_target,
        "warnings": [[w.check, w.column, w.message] for w in schema.warnings],
        "seconds": min(seconds),
    }), flush=True)
"""


class TableReading(msgspec.Struct, frozen=True, kw_only=True):
    """What one table was read as.

    Attributes:
        columns: kind, role, unit and date format of each column, in file order, with the target of `column_labels.json`.
        target: the target that is proposed if none is given.
        task, classes, without_target: with the target of `column_labels.json`.
        warnings: check, column and message.
        seconds: processor time of reading and judging.
    """

    rows: int
    columns: dict[str, tuple[str, str, str | None, str | None]]
    target: str
    task: str
    classes: list[str]
    without_target: int
    warnings: list[tuple[str, str | None, str]]
    seconds: float


def read_tables(python: str, tables: Sequence[tuple[Path, str]], repeats: int) -> list[TableReading]:
    """Read tables, each with its target, in a process of its own."""
    named = json.dumps([(str(path), target) for path, target in tables])
    done = subprocess.run(
        [python, "-P", "-c", READ, named, str(repeats)],
        capture_output=True, text=True, check=False, env={**os.environ, "POLARS_MAX_THREADS": "1"},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{python}: {done.stderr}")
    return [msgspec.json.decode(line, type=TableReading) for line in done.stdout.splitlines()]


def differences(before: TableReading, after: TableReading) -> list[str]:
    """One line for each fact that differs, warnings last."""
    lines = [
        f"{name} {getattr(before, name)!r} → {getattr(after, name)!r}"
        for name in ("rows", "target", "task", "classes", "without_target")
        if getattr(before, name) != getattr(after, name)
    ]
    for column in dict.fromkeys([*before.columns, *after.columns]):
        old, new = before.columns.get(column), after.columns.get(column)
        if old != new:
            lines.append(f"{column!r}: {_facts(old)} → {_facts(new)}")
    lines += [f"- {_warning(warning)}" for warning in before.warnings if warning not in after.warnings]
    return lines + [f"+ {_warning(warning)}" for warning in after.warnings if warning not in before.warnings]


def _facts(column: tuple[str | None, ...] | None) -> str:
    return "absent" if column is None else " ".join(fact for fact in column if fact is not None)


def _warning(warning: tuple[str, str | None, str]) -> str:
    check, column, message = warning
    return f"{check}  {f'{column}: ' if column else ''}{message}"


def print_differences(before: Mapping[str, TableReading], after: Mapping[str, TableReading]) -> int:
    """Print what differs in the tables that both have; returns the number of lines."""
    count = 0
    for name in after:
        lines = differences(before[name], after[name]) if name in before else []
        count += len(lines)
        if lines:
            print(name, *lines, sep="\n  ")
    total = [sum(len(side[name].warnings) for name in after if name in before) for side in (before, after)]
    print(f"{count} differences; {total[0]} warnings before, {total[1]} after")
    return count


def earlier_results(path: Path) -> dict[str, TableReading]:
    """The readings of an earlier --out."""
    return msgspec.convert(json.loads(path.read_text())["results"], dict[str, TableReading])


def main() -> int:
    from benchmarks.machine import RESULTS, machine, report

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the tables")
    parser.add_argument("--before", type=Path, metavar="FILE.json", help="an earlier --out")
    parser.add_argument("--beside", metavar="PYTHON", help="Python of another checkout")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "front_door.json")
    options = parser.parse_args()
    folder, labels = data_folder(options.data), json.loads(LABELS.read_text())
    tables = {name: (folder / label["file"], label["target"]) for name, label in labels.items()}
    tables = {name: table for name, table in tables.items() if table[0].is_file()}
    if not tables:
        print(f"{folder} has none of the tables")
        return 0
    found: dict[str, TableReading] = {}
    other: dict[str, TableReading] = {}
    if options.beside is None:
        found = dict(zip(tables, read_tables(sys.executable, [*tables.values()], options.repeats), strict=True))
    else:
        for name, table in tables.items():
            other[name] = read_tables(options.beside, [table], options.repeats)[0]
            found[name] = read_tables(sys.executable, [table], options.repeats)[0]
    for before in (other, earlier_results(options.before) if options.before else {}):
        if before:
            print_differences(before, found)
    rows = [
        [
            name,
            f"{reading.rows:,}",
            str(len(reading.columns)),
            str(len(reading.warnings)),
            f"{reading.seconds:.2f}",
            f"{reading.seconds / other[name].seconds:.2f}" if other else "—",
        ]
        for name, reading in found.items()
    ]
    seconds, warnings = (sum(r.seconds for r in found.values()), sum(len(r.warnings) for r in found.values()))
    ratio = f"{seconds / sum(r.seconds for r in other.values()):.2f}" if other else "—"
    rows.append(["all", "", "", str(warnings), f"{seconds:.2f}", ratio])
    header = ["table", "rows", "columns", "warnings", "seconds", "ratio"]
    report(machine("polars"), header, rows, msgspec.to_builtins(found), options.out, right=(1, 2, 3, 4, 5))
    return 0


if __name__ == "__main__":
    sys.exit(main())
