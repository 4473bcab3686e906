"""Features that give the target away: by their values alone, as parts of a sum, by their names, or by their position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.kinds.names import AFTERWARDS, is_twin, stem, words_of
from tabapp.data.schema import Column
from tabapp.data.small import FEW

Codes = npt.NDArray[np.intp]
Float64 = npt.NDArray[np.float64]

MAX_ROWS = 5_000
"""Rows that are sampled; a leak that needs more rows to show does not ruin a run."""
_MAX_CELLS = 20_000_000
_MAX_EXAMINED = 2_000
"""Numeric features, and features of other kinds, that are examined in a wide table; each takes half a millisecond."""
_FOLDS = 3
_BINS = 64
_ALONE = 0.99
"""A feature that alone reaches this ROC AUC, R² or share of the errors of guessing removed determines the target."""
_CLASS_ALONE = 0.9
"""The same for a feature that is itself a class, and several classes to predict."""
_COARSER = 0.5
"""Smallest share of the target's entropy that a coarser label of the same classes explains."""
_FEWEST_CLASSES, _MOST_CLASSES, _MOST_INTEGER_CLASSES = 3, 50, 20
_LINE, _SAME_ORDER = 0.9999, 0.999
_ALREADY_STRONG = 0.5
_FAR_AHEAD = 0.15
_RARE = 3
_OFTEN_ONE_VALUE = 0.5
_MAX_PARTS = 300
_LEAKS_BEHIND = 2


def rows_to_sample(n_rows: int, n_columns: int) -> int:
    """Number of rows that the checks sample, fewer for very wide tables."""
    return min(n_rows, MAX_ROWS, max(200, _MAX_CELLS // max(1, n_columns)))


def codes_of(values: pl.Series) -> Codes:
    """Typed values as small integers: numbers and dates by quantile bin, texts by level; 0 is missing."""
    if values.dtype == pl.String:
        codes = _ranks(values)
        # A level of one or two rows says nothing alone, but all rare levels together may.
        return np.where((np.bincount(codes)[codes] < _RARE) & (codes > 0), int(codes.max()) + 1, codes)
    filled = (values if values.dtype == pl.Float64 else values.to_physical().cast(pl.Float64)).to_numpy()
    known = filled[~np.isnan(filled)]
    distinct = np.unique(known)
    edges = distinct
    if len(distinct) > _BINS:
        edges = np.unique(np.quantile(known, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return np.where(np.isnan(filled), 0, np.searchsorted(edges, filled, side="right") + 1).astype(np.intp)


def _ranks(texts: pl.Series) -> Codes:
    """Dense ranks of texts from 1; 0 for null."""
    if len(texts) > FEW:
        return texts.rank("dense").fill_null(0).to_numpy().astype(np.intp)
    cells: list[str | None] = texts.to_list()
    ranks: dict[str | None, int] = {text: rank for rank, text in enumerate(sorted({*cells} - {None}), 1)}  # pyright: ignore[reportArgumentType]
    return np.array([ranks.get(cell, 0) for cell in cells], dtype=np.intp)


@cache
def _fold_of(n_rows: int) -> Codes:
    return np.random.default_rng(0).permutation(n_rows) % _FOLDS


def _out_of_fold_means(codes: Codes, answers: Float64) -> Float64:
    """(rows, outputs) mean answer of the rows with the same code in the other folds, shrunk toward the overall mean."""
    fold = _fold_of(len(codes))
    n_codes = int(codes.max()) + 1
    means = np.empty_like(answers)
    for held in range(_FOLDS):
        learned, scored = fold != held, fold == held
        counts = np.bincount(codes[learned], minlength=n_codes)
        overall = answers[learned].mean(axis=0)
        for output in range(answers.shape[1]):
            sums = np.bincount(codes[learned], weights=answers[learned, output], minlength=n_codes)
            means[scored, output] = ((sums + overall[output]) / (counts + 1))[codes[scored]]
    return means


def area_under_curve(scores: Float64, positive: npt.NDArray[np.bool_]) -> float:
    """Area under the ROC curve, ties counting half; 0.5 if there is only one class."""
    _, level = np.unique(scores, return_inverse=True)
    hits, misses = np.bincount(level[positive]), np.bincount(level[~positive])
    length = max(len(hits), len(misses))
    hits, misses = np.pad(hits, (0, length - len(hits))), np.pad(misses, (0, length - len(misses)))
    if hits.sum() == 0 or misses.sum() == 0:
        return 0.5
    below = np.cumsum(misses) - misses
    return float((hits * (below + misses / 2)).sum() / (hits.sum() * misses.sum()))


def score_alone(codes: Codes, answer: pl.Series, classes: int) -> tuple[float, str]:
    """How well a feature alone predicts the answer, out of fold: 0 is random guessing, 1 is perfect.

    Args:
        codes: (rows,) the feature as `codes_of` returns it.
        answer: (rows,) Float64 for regression, else Int64 class codes.
        classes: number of classes, 0 for regression.

    Returns:
        The score, and the measure behind it in words.
    """
    if classes == 2:
        positive = answer.to_numpy().astype(bool)
        area = area_under_curve(_out_of_fold_means(codes, positive.astype(np.float64)[:, None])[:, 0], positive)
        return max(0.0, 2 * area - 1), f"ROC AUC {area:.3f}"
    if classes > 2:
        truth = answer.to_numpy().astype(np.intp)
        right = float((_out_of_fold_means(codes, np.eye(classes)[truth]).argmax(axis=1) == truth).mean())
        guessing = float(np.bincount(truth).max() / len(truth))
        return max(0.0, (right - guessing) / max(1e-9, 1 - guessing)), f"accuracy {right:.3f}"
    truth = answer.to_numpy().astype(np.float64)
    spread = float(((truth - truth.mean()) ** 2).sum())
    error = float(((truth - _out_of_fold_means(codes, truth[:, None])[:, 0]) ** 2).sum())
    score = max(0.0, 1 - error / spread) if spread > 0 else 0.0
    if score < _ALONE:
        # In a target that is mostly one value, as claims are mostly 0, a feature that predicts when it is not is a leak as well.
        values, counts = np.unique(truth, return_counts=True)
        if counts.max() > _OFTEN_ONE_VALUE * len(truth):
            usual = values[counts.argmax()]
            unusual = truth != usual
            area = area_under_curve(_out_of_fold_means(codes, unusual.astype(np.float64)[:, None])[:, 0], unusual)
            if 2 * area - 1 > score:
                return max(0.0, 2 * area - 1), f"ROC AUC {area:.3f} for whether it is {usual:g}"
    return score, f"R² {score:.3f}"


def _is_decisive(score: float, classes: int) -> bool:
    return score >= (2 * _ALONE - 1 if classes == 2 else _ALONE)


def find_leaks(
    columns: Sequence[Column], features: Mapping[str, pl.Series], answer: pl.Series, target: str, classes: int
) -> dict[str, str]:
    """Features that give the target away, each with the evidence in one sentence.

    Args:
        columns: of the table, in file order; those with the role "feature" are examined.
        features: typed values by name, of a sample of rows.
        answer: (rows,) class codes or numbers of the same rows, none missing.
        classes: number of classes, 0 for regression.
    """
    found: dict[str, str] = {}
    scores: dict[str, tuple[float, str]] = {}
    examined = [column for column in columns if column.role == "feature" and column.name in features]
    examined = _most_related(examined, features, answer, classes)
    for column in examined:
        codes = codes_of(features[column.name])
        score, measure = scores[column.name] = score_alone(codes, answer, classes)
        if classes == 0 and column.kind == "numeric" and _is_rescaled(features[column.name], answer):
            found[column.name] = "It is the target on another scale."
        elif _is_decisive(score, 2 if "whether" in measure else classes):
            found[column.name] = f"It alone predicts the target almost perfectly ({measure}, out of fold)."
        elif classes > 2 and _is_class(column, features[column.name]):
            if score >= _CLASS_ALONE:
                found[column.name] = f"Its classes all but determine the target ({measure}, out of fold)."
            elif _is_coarser_label(codes, answer.to_numpy().astype(np.intp)):
                found[column.name] = f"It groups the classes of the target: each class has one value of it ({measure})."
    if classes == 0:
        found |= _parts_of_target(examined, features, answer, target, found)
    found |= _known_afterwards(scores, target, found)
    found = _of_files(columns, found)
    of_file = [column for column in columns if column.marks_of is None]
    found |= _similar_names([column for column in examined if column.marks_of is None], target, found)
    found |= _after_target(of_file, target, found)
    return found


def _of_files(columns: Sequence[Column], found: Mapping[str, str]) -> dict[str, str]:
    """The leaks by column of the file: that of a companion is one of its column."""
    sources = {column.name: column.marks_of for column in columns if column.marks_of is not None}
    own = {name: sentence for name, sentence in found.items() if name not in sources}
    return {sources[name]: f"Its marks: {found[name]}" for name in found if name in sources} | own


def _most_related(
    columns: Sequence[Column], features: Mapping[str, pl.Series], answer: pl.Series, classes: int
) -> list[Column]:
    """The columns to examine, in file order: all of them, except in a table of several thousand columns.

    There, the first `_MAX_EXAMINED` columns that are not numbers, and as many numeric ones, those most correlated with the answer.
    """
    numeric = [column for column in columns if features[column.name].dtype == pl.Float64]
    others = [column for column in columns if features[column.name].dtype != pl.Float64]
    if len(numeric) > _MAX_EXAMINED:
        truth = answer.to_numpy().astype(np.float64)
        outputs = _standardized(np.eye(classes)[truth.astype(np.intp)] if classes > 2 else truth[:, None])
        strength = np.empty(len(numeric))
        for start in range(0, len(numeric), _MAX_EXAMINED):
            block = numeric[start : start + _MAX_EXAMINED]
            values = _standardized(np.column_stack([features[column.name].to_numpy() for column in block]))
            strength[start : start + len(block)] = np.abs(values.T @ outputs).max(axis=1)
        strongest = np.argsort(-strength, kind="stable")[:_MAX_EXAMINED]
        numeric = [numeric[index] for index in strongest]
    chosen = {column.name for column in (*numeric, *others[:_MAX_EXAMINED])}
    return [column for column in columns if column.name in chosen]


def _standardized(values: Float64) -> Float64:
    """Columns with mean 0 and length 1; missing values become the mean."""
    known = ~np.isnan(values)
    mean = np.where(known, values, 0).sum(axis=0) / np.maximum(1, known.sum(axis=0))
    centered = np.where(known, values - mean, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.sqrt((centered**2).sum(axis=0))
    return np.divide(centered, length, out=np.zeros_like(centered), where=np.isfinite(length) & (length > 0))


def _is_rescaled(feature: pl.Series, answer: pl.Series) -> bool:
    """Whether a feature is a linear function of the answer, or has the same order of rows."""
    pairs = pl.DataFrame({"x": feature, "y": answer}).drop_nulls()
    if pairs.height < 20:
        return False
    ranks = pairs.select(pl.all().rank())
    return any(
        abs(np.nan_to_num(np.corrcoef(table["x"].to_numpy(), table["y"].to_numpy())[0, 1])) >= limit
        for table, limit in ((pairs, _LINE), (ranks, _SAME_ORDER))
        if min(table["x"].n_unique(), table["y"].n_unique()) > (1 if limit == _LINE else _BINS)
    )


def _is_class(column: Column, values: pl.Series) -> bool:
    """Whether a feature has the form of a class: a category, or a few whole numbers."""
    if column.kind == "numeric":
        known = values.drop_nulls()
        return column.unique <= _MOST_INTEGER_CLASSES and bool((known == known.round()).all())
    return column.kind in ("categorical", "boolean") and column.unique <= _MOST_CLASSES


def _is_coarser_label(codes: Codes, truth: Codes) -> bool:
    """Whether a feature is a function of the class, as a genus is of a species, and explains at least half of its entropy."""
    if len(np.unique(codes)) < _FEWEST_CLASSES:
        return False
    table = np.zeros((int(codes.max()) + 1, int(truth.max()) + 1))
    np.add.at(table, (codes, truth), 1)
    joint, feature, classes = _entropy(table.ravel()), _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0))
    is_function = joint - classes <= (1 - _ALONE) * feature
    return is_function and feature + classes - joint >= _COARSER * classes


def _entropy(counts: Float64) -> float:
    """Entropy of a frequency table, in nats."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def _parts_of_target(
    columns: Sequence[Column],
    features: Mapping[str, pl.Series],
    answer: pl.Series,
    target: str,
    known: Mapping[str, str],
) -> dict[str, str]:
    """Pairs of numbers whose sum, difference or product equals the target in every row."""
    names = [column.name for column in columns if column.kind == "numeric" and column.name not in known][:_MAX_PARTS]
    if len(names) < 2:
        return {}
    parts = np.column_stack([features[name].fill_null(np.nan).to_numpy() for name in names])
    truth = answer.to_numpy().astype(np.float64)
    few = np.random.default_rng(0).permutation(len(truth))[:20]
    found: dict[str, str] = {}
    with np.errstate(all="ignore"):
        for i, name in enumerate(names):
            rest = truth[few] - parts[few, i]
            for sign, wanted in (("+", rest), ("−", -rest), ("×", truth[few] / parts[few, i])):
                fits = np.array(np.isclose(parts[few], wanted[:, None]).all(axis=0))
                fits[i] = False
                for j in np.flatnonzero(fits):
                    made = {"+": parts[:, i] + parts[:, j], "−": parts[:, i] - parts[:, j]}.get(
                        sign, parts[:, i] * parts[:, j]
                    )
                    if names[j] not in found and np.isclose(made, truth).mean() > 0.999 and len(np.unique(truth)) > 5:
                        sentence = f"{name} {sign} {names[j]} equals the target {target!r} in every row."
                        found[name] = found[names[j]] = sentence
    return found


def _known_afterwards(scores: Mapping[str, tuple[float, str]], target: str, known: Mapping[str, str]) -> dict[str, str]:
    """The strongest feature, if it is far ahead and its name implies that it is known afterwards or contains the target's."""
    ordered = sorted(((score, name) for name, (score, _) in scores.items() if name not in known), reverse=True)
    if not ordered:
        return {}
    best, name = ordered[0]
    second = ordered[1][0] if len(ordered) > 1 else 0.0
    usual = _in_most([set(words_of(name)) for name in scores])
    suspicious = AFTERWARDS | {word for word in words_of(target) if len(word) > 3 and word not in usual}
    if best < _ALREADY_STRONG or best - second < _FAR_AHEAD or not suspicious & set(words_of(name)):
        return {}
    sentence = f"It predicts far better than any other ({scores[name][1]}), and its name suggests that it is known only afterwards."
    return {name: sentence}


def _in_most(words: Sequence[set[str]]) -> set[str]:
    """The words that are in most names and in at least three, as in V1, V2, V3, where they say nothing of a column."""
    counts = Counter(word for each in words for word in each)
    return {word for word, count in counts.items() if count > max(2, len(words) / 2)}


def _after_target(columns: Sequence[Column], target: str, known: Mapping[str, str]) -> dict[str, str]:
    """The rest of a few columns after the target if most of them leak: tables are often filled in from left to right."""
    place = next(i for i, column in enumerate(columns) if column.name == target)
    after = [column.name for column in columns[place + 1 :] if column.role == "feature"]
    leaks = sum(name in known for name in after)
    if leaks < _LEAKS_BEHIND or leaks <= len(after) / 2 or len(after) > len(columns) / 3:
        return {}
    sentence = f"It comes after the target {target!r}, where most columns leak, so it may be known only afterwards."
    return {name: sentence for name in after if name not in known}


def _similar_names(columns: Sequence[Column], target: str, known: Mapping[str, str]) -> dict[str, str]:
    """Columns named like the target or like a leak: `y_2` next to `y_1`, `status_date` next to `status`."""
    found: dict[str, str] = {}
    names = [column.name for column in columns if column.name not in known]
    place_of = {leak: place for place, leak in enumerate(known)}
    usual = _in_most([{stem(column.name)} for column in columns])
    by_stem = {stem(leak): leak for leak in known if stem(leak) not in usual}
    for name in names:
        begins = (name[:end] for end, character in enumerate(name) if character in "_ -.")
        leaks = [leak for leak in (by_stem.get(stem(name)), *begins) if leak in place_of]
        if leaks:
            leak = max(leaks, key=lambda leak: place_of[leak])
            found[name] = f"Its name belongs to {leak!r}, which gives the target away."
    twins = [name for name in names if is_twin(name, target) and name not in found]
    if len(twins) <= 3:
        found |= dict.fromkeys(twins, f"Its name is so similar to {target!r} that it may be a second outcome.")
    return found
