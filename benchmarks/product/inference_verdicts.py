"""Column kinds of 38 public tables: manual labels compared with tabapp, pandas, skrub and AutoGluon.

python -m benchmarks.product.inference_verdicts [--data FOLDER] [--others PYTHON] [--out FILE.json]

`column_labels.json` next to this file has the kind of each column, or two kinds if both are suitable. A system is right if its
kind is one of them. pandas has no kinds for text, identifiers and constants, so `object` counts as right for categories and
texts, like `high_cardinality` of skrub. --others names a Python that has pandas, skrub and autogluon.features, which are not
needed otherwise; they receive the separator and encoding, which tabapp detects. The tables are read from --data, $TABAPP_DATA and
../shared/data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LABELS = Path(__file__).with_name("column_labels.json")
OTHERS = ("pandas", "skrub", "autogluon")
NEEDED = 0.97


def data_folder(given: Path | None) -> Path:
    """The folder of the tables."""
    named = os.environ.get("TABAPP_DATA")
    return given or (Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data")


def our_verdicts(path: Path, label: dict[str, Any]) -> dict[str, Any]:
    """Kinds with a given target, target and task proposed without one, and warnings."""
    from tabapp.data.infer import infer_schema
    from tabapp.data.reading.read import read_table

    reading = read_table(path)
    proposed, given = infer_schema(reading.frame), infer_schema(reading.frame, target=label["target"])
    return {
        "kinds": {column.name: column.kind for column in given.columns},
        "reasons": {column.name: column.reason for column in given.columns},
        "target": proposed.target,
        "task": given.task,
        "delimiter": reading.delimiter,
        "flagged": sorted({w.column for w in given.warnings if w.check in ("identifier", "leak", "time") and w.column}),
        "leaks": sorted({w.column for w in given.warnings if w.check == "leak" and w.column}),
    }


def their_kinds(system: str, path: Path, label: dict[str, Any]) -> dict[str, str]:
    """Kinds by column name from another system, converted to ours."""
    import pandas as pd  # pyright: ignore[reportMissingImports]

    options = {"sep": label["delimiter"], "encoding": label.get("encoding", "utf-8-sig"), "low_memory": False}
    try:
        table = pd.read_csv(path, **options)
    except UnicodeDecodeError:
        table = pd.read_csv(path, **{**options, "encoding": "latin-1"})
    target, features = label["target"], [name for name in table.columns if name != label["target"]]
    if system == "pandas":
        return {str(name): _pandas_kind(table[name].dtype, pd) for name in table.columns}
    if system == "skrub":
        from skrub import TableVectorizer  # pyright: ignore[reportMissingImports]

        vectorizer = TableVectorizer().fit(table[features])
        words = {"low_cardinality": "categorical", "high_cardinality": "object", "specific": "other"}
        found = {
            str(c): words.get(kind, kind) for kind, columns in vectorizer.kind_to_columns_.items() for c in columns
        }
        return {str(name): found.get(str(name), "constant") for name in features}
    from autogluon.features.generators import AutoMLPipelineFeatureGenerator  # pyright: ignore[reportMissingImports]

    generator = AutoMLPipelineFeatureGenerator(verbosity=0)
    generator.fit_transform(X=table[features], y=table[target])
    words = {
        "int": "numeric",
        "float": "numeric",
        "object": "categorical",
        "category": "categorical",
        "bool": "boolean",
    }
    kinds: dict[str, str] = {}
    used = generator.feature_metadata_in
    for name in features:
        if name not in used.get_features():
            kinds[str(name)] = "constant"
            continue
        special = used.get_feature_types_special(name)
        raw = words.get(used.get_feature_type_raw(name), "datetime")
        kinds[str(name)] = next(
            (k for s, k in (("datetime_as_object", "datetime"), ("text", "text"), ("bool", "boolean")) if s in special),
            raw,
        )
    return kinds


def _pandas_kind(dtype: Any, pd: Any) -> str:
    if pd.api.types.is_bool_dtype(dtype):
        return "boolean"
    if pd.api.types.is_numeric_dtype(dtype):
        return "numeric"
    return "datetime" if pd.api.types.is_datetime64_any_dtype(dtype) else "object"


def is_right(kind: str | None, label: str) -> bool:
    """Whether a verdict is among the kinds of the label; leaving a useless column out is right for constants and identifiers."""
    allowed = set(label.split("|"))
    if kind == "object":
        return bool(allowed & {"categorical", "text"})
    if kind in ("constant", "identifier"):
        return bool(allowed & {"constant", "identifier"})
    return kind in allowed


def main() -> int:
    """Print the comparison; returns 1 if tabapp is right for fewer columns than required."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--others", metavar="PYTHON")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/inference_verdicts.json"))
    parser.add_argument("--system", choices=OTHERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = data_folder(arguments.data)
    labels: dict[str, Any] = json.loads(LABELS.read_text())
    labels = {name: label for name, label in labels.items() if (folder / label["file"]).is_file()}
    if not labels:
        print(f"{folder} has none of the tables")
        return 0
    if arguments.system:
        found = {n: their_kinds(arguments.system, folder / label["file"], label) for n, label in labels.items()}
        Path(str(arguments.out)).write_text(json.dumps(found))
        return 0
    return compare(folder, labels, arguments.others, arguments.out)


def compare(folder: Path, labels: dict[str, Any], others: str | None, out: Path | None) -> int:
    """Compare all systems with the labels."""
    from benchmarks.machine import machine, report

    ours = {name: our_verdicts(folder / label["file"], label) for name, label in labels.items()}
    kinds: dict[str, dict[str, dict[str, str]]] = {"tabapp": {name: verdict["kinds"] for name, verdict in ours.items()}}
    for system in OTHERS if others else ():
        answer = Path(f"{out or 'verdicts'}.{system}.json")
        done = subprocess.run(
            [str(others), __file__, "--system", system, "--data", str(folder), "--out", str(answer)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            answers: dict[str, dict[str, str]] = json.loads(answer.read_text())
            kinds[system] = {t: {" ".join(c.split()): k for c, k in found.items()} for t, found in answers.items()}
        else:
            print(f"{system} is skipped: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
        answer.unlink(missing_ok=True)
    groups = ("numeric", "categorical", "boolean", "datetime", "text", "identifier", "constant")
    rows: list[list[str]] = []
    result: dict[str, Any] = {"columns": sum(len(label["columns"]) for label in labels.values()), "systems": {}}
    for system, found in kinds.items():
        right: dict[str, list[bool]] = {}
        wrong: list[str] = []
        for name, label in labels.items():
            for column, expected in label["columns"].items():
                if column == label["target"]:
                    continue
                verdict = found[name].get(column)
                ok = is_right(verdict, expected)
                right.setdefault(expected.split("|")[0], []).append(ok)
                if not ok:
                    wrong.append(f"{name}.{column}: {verdict}, not {expected}")
        flat = [ok for oks in right.values() for ok in oks]
        share = sum(flat) / len(flat)
        result["systems"][system] = {"right": share, "wrong": wrong}
        cells = [f"{sum(right[g])} of {len(right[g])}" if g in right else "—" for g in groups]
        rows.append([system, f"{share:.1%}", *cells])
    report(machine("polars"), ["system", "right", *groups], rows, result, out, right=(1, 2, 3, 4, 5, 6, 7, 8))
    print("\nwrong by tabapp:")
    for line in result["systems"]["tabapp"]["wrong"]:
        print("  " + line)
    for what in ("target", "task", "delimiter"):
        odd = [f"{n} ({ours[n][what]})" for n, label in labels.items() if ours[n][what] != label[what]]
        print(f"{what}: {len(labels) - len(odd)} of {len(labels)} right" + (f"; not {', '.join(odd)}" if odd else ""))
    named = [(n, column) for n, label in labels.items() for column in label["identifiers_or_leaks"]]
    missed = [f"{n}.{column}" for n, column in named if column not in ours[n]["flagged"]]
    print(
        f"identifiers and leaks flagged: {len(named) - len(missed)} of {len(named)}"
        + (f"; not {', '.join(missed)}" if missed else "")
    )
    extra = [f"{n}.{c}" for n in labels for c in ours[n]["leaks"] if (n, c) not in named]
    print(f"leaks flagged beyond those named: {', '.join(extra) or 'none'}")
    return 0 if result["systems"]["tabapp"]["right"] >= NEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
