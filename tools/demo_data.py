"""Write the table of `make demo` as CSV: python -m tools.demo_data FOLDER.

The Wisconsin diagnostic breast cancer data (Wolberg, Street, Mangasarian 1995; UCI, CC BY 4.0) as scikit-learn bundles it: 569
tumors with 30 measurements of the cell nuclei in a needle biopsy. A fifth of the rows is written separately as new patients.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split


def demo_table() -> pl.DataFrame:
    """All rows, with column names as a spreadsheet would have them and the diagnosis as text."""
    bundled: Any = load_breast_cancer()
    measurements = {
        name.replace(" ", "_"): bundled.data[:, index] for index, name in enumerate(bundled.feature_names.tolist())
    }
    return pl.DataFrame({**measurements, "diagnosis": bundled.target_names[bundled.target].tolist()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    table = demo_table()
    known, to_come = train_test_split(
        np.arange(table.height), test_size=0.2, stratify=table["diagnosis"].to_numpy(), random_state=0
    )
    for name, rows in (("breast_cancer.csv", known), ("new_patients.csv", to_come)):
        part = table[np.sort(rows)]
        part.write_csv(folder / name)
        print(f"{folder / name}: {part.height} rows, {part.width} columns")


if __name__ == "__main__":
    main()
