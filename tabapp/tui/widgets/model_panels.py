"""Panels of the Models screen: the list of models, and facts, folds and hyperparameters of one or two models."""

from __future__ import annotations

from statistics import fmean, pstdev

from tabapp import charts
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.score_text import folds_text, written_like
from tabapp.run.record.state import RunState, format_score
from tabapp.tui.chrome.actions import phase_of
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.parts.pictures import GLYPHS, STYLES, comparison_title
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.model_card import Comparison, ModelCard, differences, score_verdict
from tabapp.tui.viewmodels.texts import (
    MUTED,
    Snapshot,
    brief,
    count,
    file_size,
    is_partial,
    metric_with_arrow,
    model_name,
    score_margin,
    status_content,
)
from tabapp.tui.widgets.model_table import FOLD_KEY, ModelTable, split_not_started

LABEL_WIDTH = 10
MOST_FOLDS, BESIDE_FOLDS = 10, 4
"""Folds that the panel shows at most without zoom, and its other lines: mean, spread and borders."""
WHOLE_SCORE_WIDTH = 36
"""Least width in cells for a score with its interval on one line."""


class Models(ModelTable):
    """The models of the run, with marks on those that are compared."""

    def __init__(self) -> None:
        super().__init__([], id="models", empty="No model yet.")
        set_titles(self, "Models", "space compares")
        self.marked: tuple[str, ...] = ()

    def toggle_mark(self) -> None:
        """Mark or unmark the model under the cursor; a third mark replaces the oldest."""
        key = self.model
        if key is not None:
            rest = tuple(model for model in self.marked if model != key)
            self.marked = rest if key in self.marked else (*rest, key)[-2:]

    @property
    def compared(self) -> tuple[str, ...]:
        """The models to show: the marked ones, or a single marked one and the one under the cursor."""
        key = self.model
        if len(self.marked) < 2 and key is not None and key not in self.marked:
            return (*self.marked, key)
        return self.marked

    def show_state(self, state: RunState) -> None:
        """Draw the models of a state."""
        columns = (
            Column("", width=1),
            Column("Model", flexible=True, width=24, least=12),
            Column(metric_with_arrow(state.plan), "right"),
        )
        folds = state.plan.folds if state.plan else 0
        shown, folded = split_not_started(state.leaderboard)
        rows = [self._row(row, folds) for row in shown]
        if folded:
            rows.append(
                Row(
                    FOLD_KEY,
                    (Content(" "), self.fold_line(len(folded), short=True), Content.styled("unstarted", MUTED)),
                )
            )
        if self.unfolded:
            rows += [self._row(row, folds) for row in folded]
        self.show(rows, columns)

    def _row(self, row: ev.LeaderboardRow, folds: int) -> Row:
        place = self.marked.index(row.model) if row.model in self.marked else None
        mark = Content(" ") if place is None else Content.styled(GLYPHS[place], f"bold {STYLES[place]}")
        words = {
            "failed": "✗ failed",
            "skipped": "unstarted" if row.not_started else "– skipped",
            "queued": "· queued",
            "running": "…",
            "pruned": "⊘ pruned",
        }
        if row.held:
            words[row.status] = "■ stopped" if row.held == "stopped" else "‖ paused"
        style = {"failed": "$error", "pruned": "$warning"}.get(row.status, MUTED)
        score = (
            Content.styled(f"◔ {format_score(row.score)}", MUTED)
            if is_partial(row, folds)
            else Content(format_score(row.score))
            if row.score is not None
            else Content.styled(words.get(row.status, "—"), style)
        )
        name = Content.styled(model_name(row), "bold $accent" if row.rank == 1 else MUTED if row.score is None else "")
        return Row(row.model, (mark, name, score))


class CardFacts(Panel[Comparison]):
    """Score, status with its reason, times and weight, a column for each model."""

    def on_facts(self, facts: Comparison) -> None:
        set_titles(self, " ⇄ ".join(card.name for card in facts.cards) or "Model", score_verdict(facts.cards))
        self.set_class(len(facts.cards) > 1, "-two")

    def draw(self, facts: Comparison, width: int, height: int) -> list[Content]:
        if not facts.cards:
            return [Content.styled("No model yet.", MUTED)]
        each = max(8, (width - LABEL_WIDTH) // len(facts.cards))
        rows: list[tuple[str, list[Content]]] = [
            (facts.metric, [_score(card, each) for card in facts.cards]),
            *([("95 %", [_interval(card) for card in facts.cards])] if each < WHOLE_SCORE_WIDTH else []),
            ("Status", [_status(card, facts) for card in facts.cards]),
            ("Fit", [_fit_time(card) for card in facts.cards]),
            ("Predict", [_predict_time(card) for card in facts.cards]),
            ("Ensemble", [_weight(card) for card in facts.cards]),
        ]
        lines: list[Content] = []
        for name, cells in rows:
            shown = [cell.truncate(each - 2, ellipsis=True) for cell in cells]
            padded = [cell.pad_right(max(0, each - cell.cell_length)) for cell in shown]
            label = Content(name).truncate(LABEL_WIDTH - 1, ellipsis=True, pad=True)
            lines.append(Content.assemble((label.plain + " ", MUTED), *padded))
        reasons = [(card, card.row.reason) for card in facts.cards if card.row.reason]
        for card, reason in reasons:
            name = f"{card.row.title}: " if len(facts.cards) > 1 else ""
            lines += Content.assemble((name, "bold"), (reason or "", "$warning")).wrap(width)
        return lines


def _score(card: ModelCard, width: int) -> Content:
    if card.row.score is None:
        return Content.styled("—", MUTED)
    margin = f"  {score_margin(card.row)}" if card.row.low is not None else ""
    if margin and width >= WHOLE_SCORE_WIDTH:
        margin += f"  ({format_score(card.row.low)} … {format_score(card.row.high)})"
    return Content.assemble((format_score(card.row.score), "bold"), (margin, MUTED))


def _interval(card: ModelCard) -> Content:
    if card.row.low is None:
        return Content.styled("—", MUTED)
    return Content(f"{format_score(card.row.low)} … {format_score(card.row.high)}")


def _status(card: ModelCard, facts: Comparison) -> Content:
    return status_content(card.row, facts.frame, members=facts.n_members, folds=facts.n_folds)


def _fit_time(card: ModelCard) -> Content:
    if not card.row.fit_seconds:
        return Content.styled("—", MUTED)
    return Content(f"{format_duration(card.row.fit_seconds)} for {count(card.row.folds, 'fold')}")


def _predict_time(card: ModelCard) -> Content:
    if card.row.predict_ms_per_1k is None:
        return Content.styled("—", MUTED)
    known = card.evaluation is not None and not card.evaluated
    size = f" · {file_size(card.evaluation.size)}" if known and card.evaluation and card.evaluation.size else ""
    return Content(f"{format_duration(card.row.predict_ms_per_1k / 1000)} for 1,000 rows{size}")


def _weight(card: ModelCard) -> Content:
    if card.row.model == "ensemble":
        return Content(count(len(card.members), "member"))
    return (
        Content(f"{card.row.in_ensemble:.0%} of the weight")
        if card.row.in_ensemble > 0
        else Content.styled("no", MUTED)
    )


class Folds(Panel[Comparison]):
    """The score of each fold between the lowest and the highest, with mean and spread."""

    def on_facts(self, facts: Comparison) -> None:
        set_titles(self, comparison_title(facts, "Folds"), facts.validation.removesuffix(" cross-validation"))
        n_folds = max([5, *(len(card.folds) for card in facts.cards)])
        self.styles.height = min(n_folds, MOST_FOLDS) + BESIDE_FOLDS

    def draw(self, facts: Comparison, width: int, height: int) -> list[Content]:
        cards = [card for card in facts.cards if any(score is not None for score in card.folds)]
        known = [score for card in cards for score in card.folds if score is not None]
        if not known:
            ensemble = any(card.row.model == "ensemble" for card in facts.cards)
            partial = next((folds_text(card.row, facts.n_folds) for card in facts.cards), "")
            rows = f"the rows of {partial}" if partial else "all rows"
            text = (
                f"The ensemble is scored on {rows} together, with weights chosen without them."
                if ensemble
                else "No fold is complete yet."
            )
            return Content.styled(text, MUTED).wrap(width)
        low, high = charts.extent(known)
        room = max(4, width - 8 - 10 * len(facts.cards))
        lines: list[Content] = []
        for fold in range(max(len(card.folds) for card in cards)):
            scores = [card.folds[fold] if fold < len(card.folds) else None for card in facts.cards]
            lines.append(_fold_line(f"fold {fold + 1:<2}", scores, low, high, room))
        ends = format_score(low), format_score(high)
        gap = room - sum(map(len, ends))
        scale = f" {ends[0]}{' ' * gap}{ends[1]}" if gap > 0 else ""
        cells = [
            Content.styled(f"{format_score(fmean(known)) if known else '—':>10}", "bold")
            for known in ([score for score in card.folds if score is not None] for card in facts.cards)
        ]
        closing = [Content.assemble(("mean   ", MUTED), *cells, (scale, MUTED))]
        spreads = [
            f"{written_like(pstdev(known), fmean(known)):>10}" if len(known) > 1 else f"{'—':>10}"
            for known in ([score for score in card.folds if score is not None] for card in facts.cards)
        ]
        closing.append(Content.styled("spread " + "".join(spreads), MUTED))
        numbers = [line[: 7 + 10 * len(facts.cards)] for line in lines]
        return [*_within(lines, numbers, width, max(1, height - len(closing))), *closing]


def _within(lines: list[Content], numbers: list[Content], width: int, height: int) -> list[Content]:
    """Folds in a height: all, or in two columns without their tracks, or as many as fit and the number of the others."""
    if len(lines) <= height:
        return lines
    half = (len(lines) + 1) // 2
    if half <= height and 2 * numbers[0].cell_length + 2 <= width:
        right = [*numbers[half:], *[Content("")] * (2 * half - len(numbers))]
        return [Content.assemble(one, "  ", other) for one, other in zip(numbers[:half], right, strict=True)]
    shown = max(0, height - 1)
    return [*lines[:shown], Content.styled(f"… {len(lines) - shown} more folds · z fills the screen", "$warning")]


def _fold_line(name: str, scores: list[float | None], low: float, high: float, room: int) -> Content:
    styles: list[tuple[int, str, str]] = []
    for index, score in enumerate(scores):
        if score is not None:
            place = round((score - low) / (high - low) * (room - 1)) if high > low else room // 2
            styles.append((place, GLYPHS[index], f"bold {STYLES[index]}"))
    track = Content.styled("·" * room, "$foreground 25%")
    for place, glyph, style in styles:
        track = Content.assemble(track[:place], (glyph, style), track[place + 1 :])
    numbers = "".join(f"{format_score(score):>10}" for score in scores)
    return Content.assemble((name, MUTED), f"{numbers} ", track)


class Parameters(Table):
    """The hyperparameters of one model and its defaults, or of two models; members for the ensemble."""

    def __init__(self) -> None:
        super().__init__([], id="parameters", empty="No hyperparameters are known yet.")

    def show_comparison(self, facts: Comparison) -> None:
        """Draw one model or two."""
        cards = facts.cards
        if len(cards) == 1 and cards[0].members:
            set_titles(self, "Members", "their weights sum to 1")
            columns = (Column("", width=1), Column("member", flexible=True), Column("weight", "right"))
            members = sorted(cards[0].members, key=lambda member: -member[1])
            self.show(
                [Row(name, (Content(""), Content(name), Content(f"{weight:.1%}"))) for name, weight in members], columns
            )
            return
        found = differences(cards) if cards else []
        differing = sum(row.differs for row in found)
        shared = sum(all(value is not None for value in row.values) for row in found)
        subtitle = ""
        if found and len(cards) > 1:
            subtitle = f"{differing} of {shared} that both have differ" if shared else "no hyperparameter in common"
        elif found:
            subtitle = f"{differing} of {len(found)} differ from the defaults"
            if len(cards) == 1 and cards[0].defaults is None:
                subtitle = "the defaults are not known yet"
            elif len(cards) == 1 and cards[0].trial == 0:
                subtitle = "these are the defaults"
        set_titles(self, "Hyperparameters", subtitle)
        names = list(GLYPHS[: len(cards)]) if len(cards) > 1 else ["value"]
        columns = (
            Column("", width=1),
            Column("name", flexible=True, least=12),
            *(Column(name, "right") for name in names),
            *((Column("default", "right", priority=1),) if len(cards) == 1 else ()),
        )
        rows: list[Row] = []
        for row in found:
            style = "" if row.differs else MUTED
            values = [Content.styled("—" if value is None else brief(value), style) for value in row.values]
            default = (
                [Content.styled("—" if row.default is None else brief(row.default), MUTED)] if len(cards) == 1 else []
            )
            mark = Content.styled("≠" if row.differs else "", "$warning")
            rows.append(Row(row.name, (mark, Content.styled(row.name, style), *values, *default)))
        self.show(rows, columns)


def comparison(snapshot: Snapshot, cards: tuple[ModelCard, ...]) -> Comparison:
    """The facts of models in a snapshot."""
    state = snapshot.state
    plan = state.plan
    return Comparison(
        cards=cards,
        metric=plan.metric_title if plan else "Score",
        greater_is_better=plan.greater_is_better if plan else True,
        validation=plan.validation if plan else "",
        n_members=len(state.ensemble.members) if state.ensemble else 0,
        n_folds=plan.folds if plan else 0,
        is_regression=plan is not None and plan.task == "regression",
        is_over=phase_of(snapshot.state) == "after",
        frame=snapshot.frame,
    )
