"""Render the results in `benchmarks/results/*.json` as pages of the documentation and as the marked tables of README and docs.

python -m benchmarks.document [--check]

Each results file becomes a page in docs/benchmarks/. In README.md and in the pages of docs/, the table between
`<!-- results: BENCHMARK -->` (or `<!-- results: BENCHMARK/TABLE -->`) and `<!-- end of results -->` is replaced by the table of
that name. `--check` writes nothing and exits with 1 if a page or a marked table differs from the results.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from pathlib import Path
from statistics import fmean

import msgspec

from benchmarks.machine import Results, ResultTable

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ROOT / "docs" / "benchmarks"
MARKED = re.compile(r"(<!-- results: (?P<name>[\w/]+) -->\n)(?P<body>.*?)(<!-- end of results -->)", re.DOTALL)


class UnknownTable(Exception):
    """A marker names a table that no results file has."""


def read_results(folder: Path = RESULTS) -> list[Results]:
    """All results files of a folder, by name."""
    return [msgspec.json.decode(path.read_bytes(), type=Results) for path in sorted(folder.glob("*.json"))]


def markdown_table(table: ResultTable) -> str:
    """A table in Markdown, with numbers aligned to the right."""
    rules = ["---:" if i in table.right else "---" for i in range(len(table.columns))]
    rows = [table.columns, rules, *table.rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


TASKS = {"roc_auc": "two classes (ROC AUC)", "log_loss": "several classes (log loss)", "rmse": "numbers (RMSE)"}


def summary(table: ResultTable) -> ResultTable:
    """The table of `benchmarks.rivals` in short: for each task, on how many tables tabapp has the lower error, and the ratios."""
    ratios = {metric: [float(row[-1]) for row in table.rows if row[1] == metric] for metric in TASKS}
    ratios["all"] = [ratio for found in ratios.values() for ratio in found]
    rows = [
        [
            TASKS.get(metric, metric),
            str(len(found)),
            str(sum(ratio < 1 for ratio in found)),
            f"{math.exp(fmean(map(math.log, found))):.3f}",
            f"{min(found):.3f} … {max(found):.3f}",
        ]
        for metric, found in ratios.items()
    ]
    columns = ["target", "tables", "tabapp has the lower error on", "error ratio, geometric mean", "range"]
    return ResultTable(name="summary", columns=columns, rows=rows, right=(1, 2, 3, 4))


def fill(text: str, results: list[Results], place: str) -> str:
    """The text with every marked table replaced by the table of its name.

    Raises:
        UnknownTable: a marker names no table; the message has the place and the available names.
    """
    tables = {f"{result.benchmark}/{table.name}": table for result in results for table in result.tables}
    tables |= {"rivals/summary": summary(tables["rivals/rivals"])} if "rivals/rivals" in tables else {}
    tables |= {result.benchmark: result.tables[0] for result in results if len(result.tables) == 1}

    def filled(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in tables:
            raise UnknownTable(f"{place}: there are no results named {name!r}; choose from {', '.join(sorted(tables))}")
        return f"{match[1]}\n{markdown_table(tables[name])}\n{match[4]}"

    return MARKED.sub(filled, text)


def page(result: Results) -> str:
    """The page of one benchmark: command, machine, tables and sources of the numbers."""
    facts = "\n".join(f"- {name.replace('_', ' ')}: {value}" for name, value in result.machine.items())
    tables = "\n".join(
        (f"## {table.name.capitalize()}\n\n" if len(result.tables) > 1 else "") + markdown_table(table)
        for table in result.tables
    )
    origin = result.source or f"Measured on {result.date} by this command."
    return (
        f"# {result.title}\n\n{tables}\n## How it was measured\n\n```\n{result.command}\n```\n\n{origin}\n\n{facts}\n\n"
        f"The numbers are in `benchmarks/results/{result.benchmark}.json`.\n"
    )


def index(results: list[Results]) -> str:
    """The page that lists all others."""
    lines = "\n".join(f"- [{result.title}]({result.benchmark}.md)" for result in results)
    entries = "\n".join(result.benchmark for result in results)
    return (
        "# Benchmarks\n\nEach page shows the results of one script in `benchmarks/`, its command and its machine.\n\n"
        f"{lines}\n\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    )


def documents(root: Path = ROOT) -> dict[Path, str]:
    """Everything that depends on the results, by path: the pages, README and the docs that have marked tables."""
    results = read_results(root / "benchmarks" / "results")
    folder = root / "docs" / "benchmarks"
    texts = {folder / f"{result.benchmark}.md": page(result) for result in results}
    texts[folder / "index.md"] = index(results)
    for path in (root / "README.md", *sorted(set((root / "docs").rglob("*.md")) - texts.keys())):
        text = path.read_text(encoding="utf-8")
        if MARKED.search(text):
            texts[path] = fill(text, results, str(path.relative_to(root)))
    return texts


def outdated(root: Path = ROOT) -> list[str]:
    """The documents that differ from the results, and pages whose results are gone; paths relative to the root."""
    texts = documents(root)
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    stale += [path for path in (root / "docs" / "benchmarks").glob("*.md") if path not in texts]
    return sorted(str(path.relative_to(root)) for path in stale)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something is outdated")
    options = parser.parse_args()
    stale = outdated()
    if options.check:
        for path in stale:
            print(f"{path} differs from benchmarks/results; run `make bench-docs`.", file=sys.stderr)
        return 1 if stale else 0
    texts = documents()
    for path in map(ROOT.joinpath, stale):
        if path not in texts:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[path], encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
