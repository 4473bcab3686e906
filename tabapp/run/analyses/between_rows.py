"""On which rows the predictions of a model rest: attention between rows, and what corrupting or deleting rows changes."""

from __future__ import annotations

from math import isfinite, isnan

import msgspec

from tabapp.run.analyses.parts import Gain, gain_text
from tabapp.run.options.units import format_duration
from tabapp.run.record.analysis import Analysis, DiagnosisTable, Grid, Lines, Request, Series
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.score_text import format_score
from tabapp.run.record.state import RunState, subject_of, title_of

HARDLY = 0.05
"""The mean change of predictions, as a share of their spread, up to which they hardly change."""
NEAR = 0.05
"""The share of the nearest rows that sentences and tables name."""


class RowLink(msgspec.Struct, frozen=True, kw_only=True):
    """A stored row on which a prediction rests.

    Attributes:
        row: its number in the training file, from 0; `target` is its target as text.
        distance: in encoded features; `rank` is its rank among the stored rows by distance, from 1.
        weight: its share in the prediction.
    """

    row: int
    target: str
    distance: float
    rank: int
    weight: float


class LinkedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A held-out row, its prediction and target as text, the stored rows nearest to it, and those with the largest
    weights."""

    row: int
    prediction: str
    target: str
    nearest: tuple[RowLink, ...]
    attended: tuple[RowLink, ...]


class WeightMap(msgspec.Struct, frozen=True, kw_only=True):
    """Weights by similarity, averaged over folds: rows are groups of held-out rows, columns are groups of stored rows, both
    ordered by their distance to the same row. Cells are weights divided by those of equal weights. The title is that of a
    layer, empty for the mean over layers."""

    title: str
    cells: tuple[tuple[float, ...], ...]


class HeadWeight(msgspec.Struct, frozen=True, kw_only=True):
    """By head of a layer, the weight of the nearest 5 % of the stored rows, divided by that of equal weights."""

    title: str
    heads: tuple[float, ...]


class NearWeight(msgspec.Struct, frozen=True, kw_only=True):
    """The share of the weight on the nearest stored rows, with its 95 % interval over held-out rows; `chance` is their share
    of the stored rows."""

    chance: float
    weight: float
    low: float
    high: float


class FewRows(msgspec.Struct, frozen=True, kw_only=True):
    """Predictions from a share of the stored rows only.

    Attributes:
        by_weight, at_random: mean change of the predictions as a share of their spread, from the rows with the largest
            weights of each prediction, and from as many random ones.
        p: of Wilcoxon's signed-rank test that the first change is smaller; None if undefined.
        score_by_weight, score_at_random: score of the predictions.
    """

    share: float
    by_weight: float
    at_random: float
    p: float | None
    score_by_weight: float
    score_at_random: float


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """Rows deleted one by one as long as a prediction hardly changes (Kossen et al. 2021, Algorithm 2).

    Attributes:
        n_rows: predictions; `n_stored` is the number of stored rows, or of a random sample of them, from which they begin.
        share_left: mean share of these rows that are left.
        left, random, deleted: mean distance to the rows that are left, to as many random ones, and to the deleted ones.
        p_random, p_deleted: of Wilcoxon's signed-rank tests that the rows that are left are nearer; None if undefined.
    """

    n_rows: int
    n_stored: int
    share_left: float
    left: float
    random: float
    deleted: float | None
    p_random: float | None
    p_deleted: float | None


class BetweenRowsReady(AnalysisEvent, tag="between_rows.ready", frozen=True, kw_only=True):
    """On which stored rows the predictions of `model` for held-out rows rest.

    Attributes:
        n_rows: held-out rows; `n_stored` is the mean number of stored rows of a fold.
        metric_title: of the scores.
        n_corrupted: held-out rows predicted from corrupted rows; `score` and `corrupted` are their scores before and after.
        gain: `corrupted` minus `score` as an improvement: negative if the score is worse, with its interval.
        change: mean change of these predictions as a share of their spread, with its 95 % interval.
        near: weight of the nearest stored rows.
        common: share of the five rows with the largest weights that are among the five nearest; `common_chance` by chance.
        heads: by layer; empty for a model without layers.
        n_few: held-out rows predicted from few rows.
        deletion: None if there was no time for it.
        seconds: the time limit, if it ended the analysis early.
    """

    n_rows: int
    n_stored: float
    metric_title: str
    n_corrupted: int
    score: float
    corrupted: float
    gain: Gain
    change: tuple[float, float, float]
    near: tuple[NearWeight, ...]
    common: float
    common_chance: float
    maps: tuple[WeightMap, ...]
    heads: tuple[HeadWeight, ...] = ()
    few: tuple[FewRows, ...] = ()
    n_few: int = 0
    deletion: Deletion | None = None
    rows: tuple[LinkedRow, ...] = ()
    seconds: float | None = None

    @property
    def part(self) -> str:
        return self.model

    @property
    def is_independent(self) -> bool:
        """Whether predictions hardly change when all other rows are corrupted."""
        return self.change[0] <= HARDLY


def percent(share: float, digits: int = 0) -> str:
    """A share as text, such as "5 %"."""
    return f"{100 * share:.{digits}f} %"


def verdict(found: BetweenRowsReady, model: str) -> str:
    """Whether the model uses other rows, with the change of predictions and of the score when they are corrupted."""
    change, low, high = (percent(value, 1) for value in found.change)
    scores = f"{found.metric_title} {format_score(found.score)} before and {format_score(found.corrupted)} after"
    size = f"{change} of their spread (95 % interval {low} to {high})"
    if found.is_independent:
        return (
            f"Predictions hardly change when all other rows are corrupted ({size}; {scores}): this {model} predicts from the "
            "row itself."
        )
    gain = found.gain
    if gain.high < 0:
        worse = f"{-gain.value:.4g} (95 % interval {-gain.high:.4g} to {-gain.low:.4g})"
        return (
            f"{model} predicts from other rows: when all of them are corrupted, predictions change by {size}, and the score "
            f"is worse by {worse}: {scores}."
        )
    if gain.low > 0:
        return (
            f"Predictions change by {size} when all other rows are corrupted, and the score is better by "
            f"{gain_text(gain.value, gain.low, gain.high)}: {scores}. The other rows mislead this {model}."
        )
    return (
        f"Predictions change by {size} when all other rows are corrupted, but the score is not clearly worse: {scores}; the "
        "difference is within chance."
    )


def _tables(found: BetweenRowsReady, state: RunState) -> list[DiagnosisTable]:
    model = subject_of(state, found)
    tables = [DiagnosisTable(f"Other rows of {model}", (verdict(found, model), *_near_sentences(found)))]
    if found.heads:
        tables.append(_heads_table(found, model))
    if found.few:
        tables.append(_few_table(found, model))
    if found.deletion is not None:
        tables.append(_deletion_table(found.deletion, model))
    if found.rows:
        tables.append(_rows_table(found, model))
    if found.seconds is not None:
        note = f"Partial result: the time limit of {format_duration(found.seconds)} ended the analysis. Choose a longer --budget."
        tables[0] = DiagnosisTable(tables[0].title, (*tables[0].sentences, note))
    return tables


def _near_sentences(found: BetweenRowsReady) -> tuple[str, ...]:
    sentences: list[str] = []
    if found.near:
        # With few rows, 5 % of them is no whole number.
        near = min(found.near, key=lambda each: abs(each.chance - NEAR))
        sentences.append(
            f"The nearest {percent(near.chance)} of the {found.n_stored:,.0f} stored rows, by distance in encoded features, have "
            f"{percent(near.weight, 1)} of the weight of a prediction (95 % interval {percent(near.low, 1)} to "
            f"{percent(near.high, 1)}), {near.weight / near.chance:.1f} times chance; {found.n_rows:,} held-out rows."
        )
    sentences.append(
        f"Of the five rows with the largest weights, {percent(found.common)} are among the five nearest; by chance, it would be "
        f"{percent(found.common_chance, 1)}."
    )
    return tuple(sentences)


def _heads_table(found: BetweenRowsReady, model: str) -> DiagnosisTable:
    n_heads = max(len(each.heads) for each in found.heads)
    header = ("layer", *(f"head {number}" for number in range(1, n_heads + 1)))
    rows = tuple(
        (each.title, *(f"{value:.1f}" for value in each.heads), *("—",) * (n_heads - len(each.heads)))
        for each in found.heads
    )
    most = max(2.0, *(value for each in found.heads for value in each.heads))
    shades = tuple(
        (*(value / most for value in each.heads), *(0.0,) * (n_heads - len(each.heads))) for each in found.heads
    )
    sentence = (
        f"Attention of {model} to the nearest {percent(NEAR)} of the stored rows, divided by chance. Not every head needs to "
        "find similar rows."
    )
    return DiagnosisTable("Attention to similar rows", (sentence,), header, rows, tuple(range(1, n_heads + 1)), shades)


def _few_table(found: BetweenRowsReady, model: str) -> DiagnosisTable:
    sentence = (
        f"{found.n_few} predictions of {model} from the stored rows with the largest weights only, and from as many random "
        f"ones: their mean change as a share of their spread, and the {found.metric_title}. p is of Wilcoxon's signed-rank test "
        "that the rows with the largest weights change a prediction less."
    )
    rows = tuple(
        (
            percent(each.share),
            percent(each.by_weight, 1),
            percent(each.at_random, 1),
            _p(each.p),
            format_score(each.score_by_weight),
            format_score(each.score_at_random),
        )
        for each in found.few
    )
    header = ("rows left", "by weight", "at random", "p", "score by weight", "score at random")
    return DiagnosisTable("Deletion by weight", (sentence,), header, rows, tuple(range(6)))


def _deletion_table(found: Deletion, model: str) -> DiagnosisTable:
    sentence = (
        f"Of {found.n_stored} stored rows, random ones are deleted as long as a prediction of {model} hardly changes, until 2 % "
        f"are left: on average over {found.n_rows} predictions, {percent(found.share_left, 1)} are left. Distances are in encoded "
        "features; p is of Wilcoxon's signed-rank test that the rows that are left are nearer."
    )
    deleted = "—" if found.deleted is None else f"{found.deleted:.3g}"
    rows = (
        ("rows that are left", f"{found.left:.3g}", ""),
        ("as many random rows", f"{found.random:.3g}", _p(found.p_random)),
        ("deleted rows", deleted, _p(found.p_deleted)),
    )
    return DiagnosisTable("Deletion of rows", (sentence,), ("rows", "mean distance", "p"), rows, (1, 2))


def _p(value: float | None) -> str:
    return "—" if value is None or isnan(value) else f"{value:.2g}"


def _rows_table(found: BetweenRowsReady, model: str) -> DiagnosisTable:
    sentence = (
        f"Held-out rows one by one, by their number in the training file: the nearest rows with their targets, and the rows "
        f"with the largest weights of {model}, with their weight and their rank by distance."
    )
    rows = tuple(
        (
            f"{each.row}",
            each.prediction,
            each.target,
            ", ".join(f"{link.row} ({link.target})" for link in each.nearest),
            ", ".join(
                f"{link.row} ({link.target}; {percent(link.weight)}, {_nth(link.rank)})" for link in each.attended
            ),
        )
        for each in found.rows
    )
    header = ("row", "prediction", "target", "nearest rows", "rows with the largest weights")
    return DiagnosisTable("Nearest and attended rows", (sentence,), header, rows, (0,))


def _nth(rank: int) -> str:
    return "nearest" if rank == 1 else f"rank {rank:,}"


def _figures(found: BetweenRowsReady, state: RunState) -> list[Lines | DiagnosisTable | Grid]:
    model = subject_of(state, found)
    points = tuple((each.chance, each.weight) for each in found.near if isfinite(each.weight))
    low, high = (tuple(getattr(each, side) for each in found.near if isfinite(each.weight)) for side in ("low", "high"))
    curve = Lines(
        f"Weight on the nearest rows: {model}",
        "share of the stored rows, nearest first",
        "share of the weight",
        (Series("weight", points, low, high),),
        reference=((0.0, 0.0), (1.0, 1.0)),
        x_range=(0.0, 1.0),
        y_range=(0.0, 1.0),
    )
    return [
        *(
            Grid(
                f"Weights between rows: {model}" + (f", {each.title}" if each.title else ""),
                "held-out rows, by similarity",
                "stored rows, by similarity",
                each.cells,
                "times the weight of equal weights",
            )
            for each in found.maps
        ),
        curve,
    ]


def _line(found: BetweenRowsReady, state: RunState) -> str:
    uses = "hardly uses other rows" if found.is_independent else "predicts from other rows"
    return f"{title_of(state, found.model)} {uses}: {percent(found.change[0])} change when they are corrupted"


def models_of_rows(state: RunState) -> list[str]:
    """The models of a run that predict from rows and have a score, best first."""
    able = (
        {view.name for view in state.plan.models if view.predicts_from_rows} if state.plan is not None else set[str]()
    )
    return [row.model for row in state.leaderboard if row.model in able and row.score is not None]


ANALYSIS = Analysis(
    event=BetweenRowsReady,
    rank=75,
    tables=_tables,
    line=_line,
    figures=_figures,
    request=Request(
        option="rows",
        help="Show which rows the predictions of a model rest on, and whether it uses other rows at all; for models that "
        "predict from rows, such as NPT, TabR and ModernNCA.",
        computation="tabapp.engine.analyses.between_rows:measure_rows",
        title="Other rows",
        note="which rows do predictions rest on?",
        of_model=True,
        models=models_of_rows,
        is_offered=lambda state: bool(models_of_rows(state)),
        needs="a model that predicts from rows, such as npt, tabr or modern_nca",
    ),
)
