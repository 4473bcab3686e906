"""The threshold on the probability of the positive class, chosen by a metric and kept in the bundle."""

from __future__ import annotations

from tabapp.errors import UsageError
from tabapp.prices import prices_of
from tabapp.run.record.analysis import Analysis, DiagnosisTable, Lines, Question, Request, Series, Value
from tabapp.run.record.event_base import AnalysisEvent
from tabapp.run.record.score_text import format_score
from tabapp.run.record.state import RunState


class ThresholdChosen(AnalysisEvent, tag="threshold.chosen", frozen=True, kw_only=True):
    """The threshold on the probability of the positive class that the bundle uses; `value` None restores 0.5.

    Attributes:
        metric: the metric of labels that the threshold optimizes.
        low, high: 95 % bootstrap interval of `value`.
        score: the metric with thresholds chosen on other folds than the scored one, with its interval; `at_half` is that of 0.5.
        curve: (threshold, metric) on all scored rows.
        tp, fp, fn, tn: scored rows by truth and label at `value`.
        counts: tp, fp, fn and tn at each place of the curve; empty in runs of earlier versions.
        by_hand: the user chose `value`, which then has no interval and need not be the best; `score` is on all scored rows.
    """

    value: float | None
    metric: str = ""
    metric_title: str = ""
    greater_is_better: bool = True
    positive: str = ""
    low: float = 0.0
    high: float = 0.0
    score: float = 0.0
    score_low: float = 0.0
    score_high: float = 0.0
    at_half: float = 0.0
    curve: tuple[tuple[float, float], ...] = ()
    tp: float = 0.0
    fp: float = 0.0
    fn: float = 0.0
    tn: float = 0.0
    counts: tuple[tuple[float, float, float, float], ...] = ()
    by_hand: bool = False

    @property
    def withdraws(self) -> bool:
        return self.value is None


def _tables(found: ThresholdChosen, state: RunState) -> list[DiagnosisTable]:
    """The threshold of the positive class, and the labels at it."""
    if found.value is None:
        return [DiagnosisTable("Threshold", ("The bundle labels rows by the more probable class again.",))]
    gain = found.score - found.at_half
    better = (gain > 0) == found.greater_is_better and gain != 0
    sentences = _sentences_by_hand(found) if found.by_hand else _sentences_of_best(found, better)
    rows = (
        (f"truly {found.positive}", f"{found.tp:,.0f}", f"{found.fn:,.0f}"),
        ("truly other", f"{found.fp:,.0f}", f"{found.tn:,.0f}"),
    )
    header = ("rows", f"labeled {found.positive}", "labeled other")
    return [DiagnosisTable("Threshold", sentences, header, rows, (1, 2))]


def _sentences_of_best(found: ThresholdChosen, better: bool) -> tuple[str, ...]:
    return (
        f"A row is labeled {found.positive} if the probability of {found.positive} is at least {found.value:.3f} (95 % interval "
        f"{found.low:.3f} to {found.high:.3f}), the best threshold by {found.metric_title}. The bundle keeps this threshold, and "
        "predict uses it.",
        f"On rows whose fold did not choose the threshold, the {found.metric_title} is {format_score(found.score)} (95 % interval "
        f"{format_score(found.score_low)} to {format_score(found.score_high)}); with 0.5 it is {format_score(found.at_half)}."
        + ("" if better else " The threshold is no better than 0.5 there."),
    )


def _sentences_by_hand(found: ThresholdChosen) -> tuple[str, ...]:
    """What the threshold that the user chose gives, and which would be the best."""
    best = best_of_curve(found)
    return (
        f"A row is labeled {found.positive} if the probability of {found.positive} is at least {found.value:.3f}, the threshold "
        "that you chose. The bundle keeps this threshold, and predict uses it.",
        f"With it, the {found.metric_title} is {format_score(found.score)} (95 % interval {format_score(found.score_low)} to "
        f"{format_score(found.score_high)}); with 0.5 it is {format_score(found.at_half)}."
        + (f" On the same rows, it is best at {best[0]:.3f}: {format_score(best[1])}." if best is not None else ""),
    )


def best_of_curve(found: ThresholdChosen) -> tuple[float, float] | None:
    """The place of the curve with the best value, and the value; None without a curve."""
    choose = max if found.greater_is_better else min
    return choose(found.curve, key=lambda point: point[1]) if found.curve else None


def _line(found: ThresholdChosen, state: RunState) -> str:
    if found.value is None:
        chosen = "0.5 again"
    else:
        chosen = f"{found.value:.3f} {'chosen by you' if found.by_hand else f'by {found.metric_title}'}"
    return f"Threshold of the positive class: {chosen}"


def _figures(found: ThresholdChosen, state: RunState) -> list[Lines]:
    return [Lines("Threshold", "threshold", found.metric_title, (Series(found.metric_title, found.curve),))]


def value_of_threshold(text: str) -> float:
    """A threshold as typed.

    Raises:
        UsageError: it is not a number between 0 and 1.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise UsageError(f"The threshold {text!r} is not a number between 0 and 1; write it as f1@0.3.")
    return value


def _checked_prices(text: str) -> str:
    prices_of(f"cost:{text}")
    return text.strip()


def _values(state: RunState) -> list[Value]:
    costs = Question(
        title="Threshold by costs",
        message="The costs of a false negative and of a false positive:",
        default="fn=5,fp=1",
        value="cost:{}",
        check=_checked_prices,
    )
    known = [metric for metric in state.plan.metrics if metric.chooses_threshold] if state.plan is not None else []
    return [
        *(
            Value(each.name, each.title[:1].upper() + each.title[1:], each.description.partition(";")[0])
            for each in known
        ),
        Value("cost", "Costs", "of a false negative and a false positive", costs),
        Value("none", "0.5", "restore the more probable class"),
    ]


ANALYSIS = Analysis(
    event=ThresholdChosen,
    rank=10,
    tables=_tables,
    line=_line,
    figures=_figures,
    request=Request(
        option="threshold",
        metavar="METRIC",
        help="Choose the threshold of a binary classifier by accuracy, balanced_accuracy, f1 or a cost such as cost:fn=5,fp=1, and "
        "keep it in the bundle of the run; f1@0.3 keeps 0.3, and none restores 0.5.",
        computation="tabapp.engine.analyses.diagnosing:choose_bundle_threshold",
        title="Threshold",
        note="by a metric or by costs; kept in the bundle",
        question="Threshold: the best by which metric",
        values=_values,
        is_offered=lambda state: state.plan is not None and state.plan.task == "binary",
        needs="two classes",
    ),
)
