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


def write_noise(path: Path, rows: int = 300, seed: int = 0) -> Path:
    """Numbers that say nothing about the target `chance`, which has two classes."""
    generator = np.random.default_rng(seed)
    columns = {f"x{number}": generator.normal(0, 1, rows).round(3) for number in range(4)}
    pl.DataFrame({**columns, "chance": generator.choice(["no", "yes"], rows)}).write_csv(path)
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


def write_shops(path: Path, rows: int = 900, seed: int = 0) -> Path:
    """A binary target with numbers, a category of 90 levels and a text; the target column is `sold`."""
    generator = np.random.default_rng(seed)
    words = np.array(["blue", "red", "large", "small", "old", "new", "round", "flat", "light", "dark", "soft", "hard"])
    shop, price = generator.integers(0, 90, rows), generator.lognormal(3, 1, rows).round(2)
    stock = generator.integers(0, 12, rows)
    texts = [generator.choice(words, 5, replace=False) for _ in range(rows)]
    liked = np.array([("blue" in text) + ("new" in text) for text in texts])
    logit = 1.2 * np.sin(shop) - 0.8 * np.log(price / 20) + liked - 0.8 + generator.logistic(0, 0.7, rows)
    frame = pl.DataFrame({
        "shop": [f"shop {number}" for number in shop],
        "price": price,
        "stock": stock,
        "description": [" ".join(text) for text in texts],
        "sold": np.where(logit > 0, "yes", "no"),
    })  # fmt: skip
    frame.write_csv(path)
    return path
