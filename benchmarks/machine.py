"""What a benchmark ran on, and where its table and JSON go."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tabapp import __version__
from tabapp.headless.tables import plain_table


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def machine(*packages: str) -> dict[str, Any]:
    """Processor, cores, load, Python and the versions of packages that matter to a benchmark."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "tabapp": __version__,
        **{name: version(name) for name in packages},
    }


def report(
    facts: dict[str, Any],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    result: Any,
    out: Path | None,
    right: Sequence[int] = (),
) -> None:
    """Print machine and table, and write both with the raw result as JSON where a file is given."""
    print(" · ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    print()
    print("\n".join(plain_table(header, rows, right)), flush=True)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({"machine": facts, "results": result}, indent=1, ensure_ascii=False) + "\n")
        print(f"\n{out}")
