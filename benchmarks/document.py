"""Render the results in `benchmarks/results/*.json` as the marked tables of README and docs, and as pages of the site.

python -m benchmarks.document [--check]

In README.md and in the pages of docs/, the table between `<!-- results: BENCHMARK -->` (or `<!-- results: BENCHMARK/TABLE -->`) and
`<!-- end of results -->` is replaced by the table of that name. `--check` writes nothing and exits with 1 if a marked table differs
from the results. `make docs` writes a page for each results file with `pages`.
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
    """The table of rivals in short: for each task, on how many tables tabapp has the lower error, and the ratios."""
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
    module = re.search(r"-m ((?:benchmarks|papers)[\w.]+)", result.command)
    if module and not (ROOT / (module[1].replace(".", "/") + ".py")).is_file():
        origin += " The question is closed, and the script has left the project."
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


def pages(root: Path = ROOT) -> dict[str, str]:
    """The pages of all results and their index, by file name."""
    results = read_results(root / "benchmarks" / "results")
    return {"index.md": index(results), **{f"{result.benchmark}.md": page(result) for result in results}}


def documents(root: Path = ROOT) -> dict[Path, str]:
    """README and the pages of docs that have marked tables, by path."""
    results = read_results(root / "benchmarks" / "results")
    written = [path for path in (root / "docs").rglob("*.md") if "generated" not in path.parts]
    texts = {path: path.read_text(encoding="utf-8") for path in (root / "README.md", *sorted(written))}
    return {
        path: fill(text, results, str(path.relative_to(root))) for path, text in texts.items() if MARKED.search(text)
    }


def outdated(root: Path = ROOT) -> list[str]:
    """The documents that differ from the results; paths relative to the root."""
    stale = [path for path, text in documents(root).items() if path.read_text(encoding="utf-8") != text]
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
        path.write_text(texts[path], encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
