"""The machine of a benchmark, and writing its table and results file."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from tabapp import __version__
from tabapp.files import write_text
from tabapp.headless.tables import plain_table

RESULTS = Path("benchmarks/results")


class ResultTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table to print and publish: cells are text, and `right` lists the right-aligned columns."""

    name: str
    columns: list[str]
    right: list[int]
    rows: list[list[str]]


class Results(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file in `benchmarks/results`.

    Attributes:
        benchmark: name of the file: that of the script, or of the script and its setting.
        title: heading of its page.
        source: source of transcribed numbers; None if the command wrote the file.
        command: the command that was run.
        date: day of the measurement in UTC, if known.
        machine: processor, cores, load, versions and settings.
        tables: published tables.
        results: all measured values with their spread, in the form of the script.
    """

    benchmark: str
    title: str
    source: str | None
    command: str
    date: str | None
    machine: dict[str, Any]
    tables: list[ResultTable]
    results: Any


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def machine(*packages: str) -> dict[str, Any]:
    """Processor, cores, load, Python and the versions of the packages that matter to a benchmark."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "tabapp": __version__,
        **{name: version(name) for name in packages},
    }


def benchmark_module() -> str:
    """The running module, such as `benchmarks.product.rivals`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec.name if spec is not None else Path(sys.argv[0]).stem


def write_results(
    path: Path,
    facts: dict[str, Any],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    result: Any,
    right: Collection[int] = (),
    unpublished: Collection[str] = (),
    more: Sequence[ResultTable] = (),
) -> None:
    """Write a results file, which gives the results their name.

    Args:
        unpublished: columns of the table that the documentation leaves out.
        more: further tables of the page.
    """
    name = path.stem
    shown = [i for i, column in enumerate(header) if column not in unpublished]
    table = ResultTable(
        name=name,
        columns=[header[i] for i in shown],
        right=[position for position, i in enumerate(shown) if i in right],
        rows=[[row[i] for i in shown] for row in rows],
    )
    earlier = msgspec.json.decode(path.read_bytes()) if path.is_file() else {}
    results = Results(
        benchmark=name,
        title=earlier.get("title") or name.replace("_", " ").capitalize(),
        source=None,
        command=shlex.join(["python", "-m", benchmark_module(), *sys.argv[1:]]),
        date=datetime.now(UTC).date().isoformat(),
        machine=facts,
        tables=[table, *more],
        results=result,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(msgspec.to_builtins(results), indent=1, ensure_ascii=False) + "\n")


def report(
    facts: dict[str, Any],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    result: Any,
    out: Path | None,
    right: Sequence[int] = (),
    *,
    unpublished: Collection[str] = (),
    more: Sequence[ResultTable] = (),
) -> None:
    """Print machine and tables, and write them with the raw results if a file is given."""
    print(" · ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    print()
    print("\n".join(plain_table(header, rows, right)), flush=True)
    for table in more:
        print(f"\n{table.name}\n" + "\n".join(plain_table(table.columns, table.rows, table.right)), flush=True)
    if out is not None:
        write_results(out, facts, header, rows, result, right, unpublished, more)
        print(f"\n{out}")
