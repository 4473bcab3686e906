"""Features that know too much: how well each alone tells the target, sums that make it, and names that say "afterwards"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp.data.names import AFTERWARDS, is_twin, stem, words_of
from tabapp.data.schema import Column, DataWarning

Codes = npt.NDArray[np.intp]
Float64 = npt.NDArray[np.float64]

MAX_ROWS = 5_000
"""Rows that are looked at, evenly spaced; what takes more rows to be seen is no leak that ruins a run."""
_MAX_CELLS = 20_000_000
_FOLDS = 3
_BINS = 64
_ALONE = 0.99
"""A feature alone at this score (roc_auc, R² or the share of right classes beyond guessing) knows the answer."""
_LINE, _SAME_ORDER = 0.9999, 0.999
_ALREADY_STRONG = 0.5
_FAR_AHEAD = 0.15
_RARE = 3
_OFTEN_ONE_VALUE = 0.5
_MAX_PARTS = 300
_LEAKS_BEHIND = 2

_ACTION = "kept; if it is known only after the fact, leave it out with --ignore {}"


def rows_to_look_at(n_rows: int, n_columns: int) -> int:
    """How many rows of a table the checks sample, so that very wide tables are not slow."""
    return min(n_rows, MAX_ROWS, max(200, _MAX_CELLS // max(1, n_columns)))


def codes_of(values: pl.Series) -> Codes:
    """Typed values as small integers: numbers and dates by quantile bin, texts by level; 0 is missing."""
    if values.dtype == pl.String:
        codes = values.rank("dense").fill_null(0).to_numpy().astype(np.intp)
        # Levels seen once or twice are told apart from nothing by themselves, but together they may say something.
        return np.where((np.bincount(codes)[codes] < _RARE) & (codes > 0), int(codes.max()) + 1, codes)
    numbers = values.to_physical().cast(pl.Float64)
    known = numbers.drop_nulls().to_numpy()
    distinct = np.unique(known)
    edges = distinct
    if len(distinct) > _BINS:
        edges = np.unique(np.quantile(known, np.linspace(0, 1, _BINS + 1)[1:-1]))
    filled = numbers.fill_null(np.nan).to_numpy()
    return np.where(np.isnan(filled), 0, np.searchsorted(edges, filled, side="right") + 1).astype(np.intp)


def _fold_of(n_rows: int) -> Codes:
    return np.random.default_rng(0).permutation(n_rows) % _FOLDS


def _out_of_fold_means(codes: Codes, answers: Float64) -> Float64:
    """(rows, outputs) mean of the answers of rows with the same code in the other folds, drawn a little to the mean of all."""
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
    """Area under the ROC curve, ties counted by halves; 0.5 where there is one class only."""
    _, level = np.unique(scores, return_inverse=True)
    hits, misses = np.bincount(level[positive]), np.bincount(level[~positive])
    length = max(len(hits), len(misses))
    hits, misses = np.pad(hits, (0, length - len(hits))), np.pad(misses, (0, length - len(misses)))
    if hits.sum() == 0 or misses.sum() == 0:
        return 0.5
    below = np.cumsum(misses) - misses
    return float((hits * (below + misses / 2)).sum() / (hits.sum() * misses.sum()))


def score_alone(codes: Codes, answer: pl.Series, classes: int) -> tuple[float, str]:
    """How well a feature alone tells the answer, out of fold: 0 is guessing, 1 is knowing.

    Args:
        codes: (rows,) the feature as `codes_of` gives it.
        answer: (rows,) Float64 for a regression, else Int64 class codes.
        classes: number of classes, 0 for a regression.

    Returns:
        The score, and what it is in words.
    """
    if classes == 2:
        positive = answer.to_numpy().astype(bool)
        area = area_under_curve(_out_of_fold_means(codes, positive.astype(np.float64)[:, None])[:, 0], positive)
        return max(0.0, 2 * area - 1), f"roc_auc {area:.3f}"
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
        # A target that is mostly one value, as claims are mostly 0: knowing when it is not gives the answer away too.
        values, counts = np.unique(truth, return_counts=True)
        if counts.max() > _OFTEN_ONE_VALUE * len(truth):
            usual = values[counts.argmax()]
            unusual = truth != usual
            area = area_under_curve(_out_of_fold_means(codes, unusual.astype(np.float64)[:, None])[:, 0], unusual)
            if 2 * area - 1 > score:
                return max(0.0, 2 * area - 1), f"roc_auc {area:.3f} for whether it is {usual:g}"
    return score, f"R² {score:.3f}"


def _knows(score: float, classes: int) -> bool:
    return score >= (2 * _ALONE - 1 if classes == 2 else _ALONE)


def leak_warnings(
    columns: Sequence[Column], features: Mapping[str, pl.Series], answer: pl.Series, target: str, classes: int
) -> list[DataWarning]:
    """Features that give the answer away, each with what says so.

    Args:
        columns: of the table; those with the role "feature" are looked at.
        features: typed values by name, of the rows that are looked at.
        answer: (rows,) class codes or numbers of the same rows, none missing.
        classes: number of classes, 0 for a regression.
    """
    found: dict[str, str] = {}
    scores: dict[str, tuple[float, str]] = {}
    looked_at = [column for column in columns if column.role == "feature" and column.name in features]
    for column in looked_at:
        score, words = score_alone(codes_of(features[column.name]), answer, classes)
        scores[column.name] = (score, words)
        of_mode = "whether" in words
        if classes == 0 and column.kind == "numeric" and _on_a_line(features[column.name], answer):
            found[column.name] = "It is the target on another scale."
            continue
        if _knows(score, 2 if of_mode else classes):
            found[column.name] = f"It alone tells the target almost perfectly ({words} out of fold)."
    if classes == 0:
        found |= _parts_of_sum(looked_at, features, answer, target, found)
    found |= _afterwards(scores, target, found)
    found |= _named_like(looked_at, target, found)
    found |= _behind_target(columns, target, found)
    return [
        DataWarning(check="leak", column=name, message=message, action=_ACTION.format(name))
        for name, message in found.items()
    ]


def _on_a_line(feature: pl.Series, answer: pl.Series) -> bool:
    pairs = pl.DataFrame({"x": feature, "y": answer}).drop_nulls()
    if pairs.height < 20:
        return False
    ranks = pairs.select(pl.all().rank())
    return any(
        abs(np.nan_to_num(np.corrcoef(table["x"].to_numpy(), table["y"].to_numpy())[0, 1])) >= limit
        for table, limit in ((pairs, _LINE), (ranks, _SAME_ORDER))
        if min(table["x"].n_unique(), table["y"].n_unique()) > (1 if limit == _LINE else _BINS)
    )


def _parts_of_sum(
    columns: Sequence[Column],
    features: Mapping[str, pl.Series],
    answer: pl.Series,
    target: str,
    known: Mapping[str, str],
) -> dict[str, str]:
    """Pairs of numbers whose sum, difference or product is the target in every row."""
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
                        sentence = f"{name} {sign} {names[j]} is the target {target!r} in every row."
                        found[name] = found[names[j]] = sentence
    return found


def _afterwards(scores: Mapping[str, tuple[float, str]], target: str, known: Mapping[str, str]) -> dict[str, str]:
    """The strongest feature, far ahead of all others, under a name that says it is known afterwards or names the target."""
    ordered = sorted(((score, name) for name, (score, _) in scores.items() if name not in known), reverse=True)
    if not ordered:
        return {}
    best, name = ordered[0]
    second = ordered[1][0] if len(ordered) > 1 else 0.0
    telling = AFTERWARDS | {word for word in words_of(target) if len(word) > 3}
    if best < _ALREADY_STRONG or best - second < _FAR_AHEAD or not telling & set(words_of(name)):
        return {}
    return {
        name: f"It tells far more than any other ({scores[name][1]}), and its name says that it may be known only afterwards."
    }


def _behind_target(columns: Sequence[Column], target: str, known: Mapping[str, str]) -> dict[str, str]:
    """The rest of a few columns behind the target most of which give it away: tables are often filled in from left to right."""
    place = next(i for i, column in enumerate(columns) if column.name == target)
    behind = [column.name for column in columns[place + 1 :] if column.role == "feature"]
    leaks = sum(name in known for name in behind)
    if leaks < _LEAKS_BEHIND or leaks <= len(behind) / 2 or len(behind) > len(columns) / 3:
        return {}
    message = (
        f"It stands behind the target {target!r}, where most columns give it away, so it may be known only afterwards."
    )
    return {name: message for name in behind if name not in known}


def _named_like(columns: Sequence[Column], target: str, known: Mapping[str, str]) -> dict[str, str]:
    """Columns named like the target or like one that gives it away: `y_2` beside `y_1`, `status_date` beside `status`."""
    found: dict[str, str] = {}
    names = [column.name for column in columns if column.name not in known]
    for leak in known:
        for name in names:
            if stem(name) == stem(leak) or (name.startswith(leak) and name[len(leak)] in "_ -."):
                found[name] = f"Its name goes with {leak!r}, which gives the target away."
    twins = [name for name in names if is_twin(name, target) and name not in found]
    if len(twins) <= 3:
        found |= dict.fromkeys(
            twins, f"Its name is so like the target's that it may be a second outcome of {target!r}."
        )
    return found
