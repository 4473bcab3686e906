"""Tables for tests, written as CSV: data sets of scikit-learn and small synthetic ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl


def write_wine(path: Path, rows: int | None = None) -> Path:
    """Three classes of wine, 178 rows, 13 numbers; the target column is `cultivar`."""
    from sklearn.datasets import load_wine

    wine = load_wine()
    names = [name.replace("/", "_per_") for name in wine.feature_names]
    frame = pl.DataFrame(dict(zip(names, wine.data.T, strict=True)))
    frame = frame.with_columns(pl.Series("cultivar", [f"cultivar_{c}" for c in wine.target]))
    frame.sample(fraction=1.0, shuffle=True, seed=0).head(rows or frame.height).write_csv(path)
    return path


def write_breast_cancer(path: Path) -> Path:
    """Benign or malignant, 569 rows, 30 numbers; the target column is `diagnosis`."""
    from sklearn.datasets import load_breast_cancer

    cancer = load_breast_cancer()
    frame = pl.DataFrame(dict(zip(cancer.feature_names, cancer.data.T, strict=True)))
    frame.with_columns(pl.Series("diagnosis", [str(cancer.target_names[c]) for c in cancer.target])).write_csv(path)
    return path


def write_mixed(path: Path, rows: int = 400, seed: int = 0) -> Path:
    """A regression with numbers, a category, a date, gaps and rows without a target; the target column is `price`."""
    generator = np.random.default_rng(seed)
    area = generator.uniform(20, 200, rows).round(1)
    city = generator.choice(["Berlin", "Hamburg", "Köln"], rows)
    day = np.datetime64("2023-01-01") + generator.integers(0, 700, rows)
    price = 1000 + 40 * area + 3000 * (city == "Hamburg") + generator.normal(0, 200, rows)
    price_text = [f"{p:.2f}" if i % 50 else "" for i, p in enumerate(price)]
    area_text = [str(a) if i % 9 else "" for i, a in enumerate(area)]
    frame = pl.DataFrame({"area": area_text, "city": city, "day": [str(d) for d in day], "price": price_text})
    frame.write_csv(path)
    return path
