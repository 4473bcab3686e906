"""The threshold on the probability of the positive class, chosen by a metric and kept in the bundle."""

from __future__ import annotations

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

    @property
    def withdraws(self) -> bool:
        return self.value is None


def _tables(found: ThresholdChosen, state: RunState) -> list[DiagnosisTable]:
    """The threshold of the positive class, and the labels at it."""
    if found.value is None:
        return [DiagnosisTable("Threshold", ("The bundle labels rows by the more probable class again.",))]
    gain = found.score - found.at_half
    better = (gain > 0) == found.greater_is_better and gain != 0
    sentences = (
        f"A row is labeled {found.positive} if the probability of {found.positive} is at least {found.value:.3f} (95 % interval "
        f"{found.low:.3f} to {found.high:.3f}), the best threshold by {found.metric_title}. The bundle keeps this threshold, and "
        "predict uses it.",
        f"On rows whose fold did not choose the threshold, the {found.metric_title} is {format_score(found.score)} (95 % interval "
        f"{format_score(found.score_low)} to {format_score(found.score_high)}); with 0.5 it is {format_score(found.at_half)}."
        + ("" if better else " The threshold is no better than 0.5 there."),
    )
    rows = (
        (f"truly {found.positive}", f"{found.tp:,.0f}", f"{found.fn:,.0f}"),
        ("truly other", f"{found.fp:,.0f}", f"{found.tn:,.0f}"),
    )
    header = ("rows", f"labeled {found.positive}", "labeled other")
    return [DiagnosisTable("Threshold", sentences, header, rows, (1, 2))]


def _line(found: ThresholdChosen, state: RunState) -> str:
    chosen = "0.5 again" if found.value is None else f"{found.value:.3f} by {found.metric_title}"
    return f"Threshold of the positive class: {chosen}"


def _figures(found: ThresholdChosen, state: RunState) -> list[Lines]:
    return [Lines("Threshold", "threshold", found.metric_title, (Series(found.metric_title, found.curve),))]


def _values(state: RunState) -> list[Value]:
    costs = Question(
        title="Threshold by costs",
        message="The costs of a false negative and of a false positive:",
        default="fn=5,fp=1",
        value="cost:{}",
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
        "keep it in the bundle of the run; none restores 0.5.",
        computation="tabapp.engine.analyses.diagnosing:choose_bundle_threshold",
        title="Threshold",
        note="by a metric or by costs; kept in the bundle",
        question="Threshold: the best by which metric",
        values=_values,
        is_offered=lambda state: state.plan is not None and state.plan.task == "binary",
    ),
)
