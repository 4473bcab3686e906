"""Effects of features on the prediction, and the slices with the largest errors."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp import charts
from tabapp.findings import Effect, ErrorSlice
from tabapp.run.record import events as ev
from tabapp.run.record.belonging import earlier_subject
from tabapp.run.record.state import RunState, format_score, subject_of
from tabapp.tui.chrome.actions import phase_of
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.parts.pictures import ends, framed, layered
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED, brief, count, made_at
from tabapp.tui.widgets.explanation import GROUP

STYLES = ("$primary", "$secondary", "$accent")
FAINT = "$foreground 40%"
GLYPHS = ("●", "◆", "▲")
SIMILAR = 0.25
"""Bars of numbers that differ by less than this share of the longest do not start at 0."""


@dataclass(frozen=True)
class EffectFacts:
    """The effect of the feature under the cursor, or the reason why there is none."""

    feature: str
    effect: Effect | None
    n_rows: int
    missing: str
    earlier: str = ""
    """What it describes if the leaderboard has another trial by now."""


def effect_facts(state: RunState, feature: str | None) -> EffectFacts:
    """The facts of a feature."""
    found = state.effects.effects if state.effects is not None else ()
    if feature is not None and feature.startswith(GROUP):
        names = feature.removeprefix(GROUP)
        missing = (
            f"{names} depend on each other: this row shuffles them together. Press enter to show or hide each of them."
        )
        return EffectFacts(names, None, 0, missing)
    effect = next((effect for effect in found if effect.feature == feature), None)
    if state.effects is None:
        over = phase_of(state) == "after"
        missing = "No effects: the run ended before them." if over else coming(state)
    else:
        names = ", ".join(effect.feature for effect in found)
        missing = f"Drawn for the features that matter most and can be varied: {names}."
    n_rows = state.effects.n_rows if state.effects is not None else 0
    earlier = earlier_subject(state.effects, state.leaderboard) if state.effects is not None else ""
    return EffectFacts(feature or "", effect, n_rows, missing, earlier)


def coming(state: RunState) -> str:
    """When a result of the end of the run comes, of which there is none yet."""
    is_next = state.stage in ("ensembling", "explaining")
    return "The fits are done; computed next." if is_next else "Computed once the fits are done."


class Effects(Panel[EffectFacts]):
    """The mean prediction at each value of a feature, its spread over rows, and row counts."""

    def on_facts(self, facts: EffectFacts) -> None:
        title = f"Effect of {facts.feature}" if facts.feature else "Effect"
        set_titles(self, f"{title} · {facts.earlier}" if facts.earlier else title, is_stale=bool(facts.earlier))

    def draw(self, facts: EffectFacts, width: int, height: int) -> list[Content]:
        effect = facts.effect
        if effect is None:
            return Content.styled(facts.missing, MUTED).wrap(width)
        lines = _legend(effect, width)
        draw = _levels if effect.labels else _line
        return [*lines, *draw(effect, width, max(1, height - len(lines)))]


def _legend(effect: Effect, width: int) -> list[Content]:
    curves = effect.curves
    spread = "" if effect.labels else " · faint: inner 80 % of rows"
    if len(curves) == 1 and curves[0].ale:
        spread += " · second line: ALE"
    if not curves[0].label:
        start = _bar_range(effect)[0] if effect.labels else 0.0
        text = f"mean prediction · bars start at {brief(start)}" if start > 0 else "mean prediction"
        return [Content.styled(f"mean{spread}" if spread else text, MUTED)]
    if len(curves) == 1:
        return [Content.assemble(("mean for “", MUTED), curves[0].label, (f"”{spread}", MUTED))]
    parts = [
        Content.assemble((f"{glyph} ", style), curve.label, "  ")
        for glyph, style, curve in zip(GLYPHS, STYLES, curves, strict=False)
    ]
    return [Content.assemble(("mean for ", MUTED), *parts).truncate(width, ellipsis=True)]


def _line(effect: Effect, width: int, height: int) -> list[Content]:
    rows = max(1, height - 2)
    alone = len(effect.curves) == 1
    shown = [
        value
        for curve in effect.curves
        for value in (*curve.values, *((*curve.low, *curve.high, *curve.ale) if alone else ()))
    ]
    y_range, x_range = charts.extent(shown), charts.extent(effect.places)
    labels = charts.axis_labels(*y_range, rows, brief)
    room = max(1, width - len(labels[0]) - 1)
    layers: list[list[str]] = []
    styles: list[str] = []
    for style, curve in zip(STYLES, effect.curves, strict=False):
        bands = (curve.low, curve.high) if alone else ()
        for values, look in (*((band, FAINT) for band in bands), (curve.values, style)):
            points = list(zip(effect.places, values, strict=True))
            layers.append(charts.braille_line(points, room, rows, x_range=x_range, y_range=y_range))
            styles.append(look)
    bins = [0.0] * room
    for place, number in zip(effect.places, effect.counts, strict=True):
        across, _ = charts.cell_of((place, 0.0), room, 1, x_range, (0.0, 1.0))
        bins[across] += number
    if alone and effect.curves[0].ale:
        points = list(zip(effect.places, effect.curves[0].ale, strict=True))
        layers.append(charts.braille_line(points, room, rows, x_range=x_range, y_range=y_range))
        styles.append(STYLES[1])
    drawn = layered(layers, styles)
    lines = framed(labels, drawn, ends(brief(x_range[0]), "", brief(x_range[1]), room), room)
    under = " " * (len(labels[0]) + 1)
    return [*lines[:-1], Content.assemble(under, (charts.bars(bins, room, 1)[0], FAINT)), lines[-1]]


def _bar_range(effect: Effect) -> tuple[float, float]:
    """The values at the start and at the end of a bar: from 0, unless all bars would then be about equally long."""
    tops = [value for curve in effect.curves for value in curve.values]
    least, most = min(tops), max(tops)
    if effect.curves[0].label or least <= 0 or most - least > SIMILAR * most:
        return min(0.0, least), max(0.0, most)
    # The least one keeps a visible bar.
    return least - (most - least) * 0.1, most


def _levels(effect: Effect, width: int, height: int) -> list[Content]:
    shown = min(len(effect.labels), max(1, height // len(effect.curves)))
    longest = min(max(map(len, effect.labels[:shown])), max(6, width // 3))
    low, high = _bar_range(effect)
    room = max(1, width - longest - 17)
    lines: list[Content] = []
    for place in range(shown):
        name = Content(effect.labels[place]).truncate(longest, ellipsis=True, pad=True)
        for index, (style, curve) in enumerate(zip(STYLES, effect.curves, strict=False)):
            share = (curve.values[place] - low) / (high - low) if high > low else 0.0
            number = f"{brief(curve.values[place]):>8}"
            rows = f"{effect.counts[place]:>7,}" if index == 0 else " " * 7
            label = name if index == 0 else Content(" " * longest)
            lines.append(
                Content.assemble(label, " ", (charts.rule(share, room).ljust(room), style), number, (rows, MUTED))
            )
    return lines


class WeakSlices(Table):
    """The slices with the largest out-of-fold errors; ● marks those that chance does not explain."""

    def __init__(self) -> None:
        super().__init__([], id="slices", empty=coming(RunState()))
        set_titles(self, "Largest errors")

    def show_state(self, state: RunState) -> None:
        """Draw the slices of a state."""
        ready = state.slices
        if ready is None:
            over = phase_of(state) == "after"
            self.set_empty("None: no time was left, or there are too few rows." if over else coming(state))
            self.show([], [Column("where")])
            return
        clear = sum(row.clear for row in ready.rows)
        found = f"{clear} clearly worse" if clear else "none clearly worse than the rest"
        earlier = earlier_subject(ready, state.leaderboard)
        of = f" of {earlier}" if earlier else ""
        set_titles(
            self,
            f"Largest errors{of} · {ready.measure} {format_score(ready.overall)} in all",
            f"{found} · {ready.tested} slices of {count(ready.n_rows, 'row')} · {made_at(ready)}",
            is_stale=bool(earlier),
        )
        self.set_empty("No slice is worse than the rest beyond what chance explains.")
        wrong = any(row.share_wrong is not None for row in ready.rows)
        columns = [
            Column("", width=1),
            Column("where", flexible=True, least=24),
            Column("rows", "right"),
            Column("error", "right"),
            *([Column("wrong", "right", priority=1)] if wrong else []),
            Column("worse by", "right"),
            Column("adjusted interval", "right", priority=2),
        ]
        self.show([_slice_row(row, wrong) for row in ready.rows], columns)


def _slice_row(row: ErrorSlice, wrong: bool) -> Row:
    style = "" if row.clear else MUTED
    cells = [
        Content.styled("●" if row.clear else "·", "$error" if row.clear else MUTED),
        Content.assemble((row.column, style), (f" {row.level}", "bold" if row.clear else MUTED)),
        Content.styled(f"{row.n:,}", style),
        Content.styled(format_score(row.error), style),
        *([Content.styled("—" if row.share_wrong is None else f"{row.share_wrong:.0%}", style)] if wrong else []),
        Content.styled(f"+{brief(row.difference)}", style),
        Content.styled(f"{brief(row.low)} … {brief(row.high)}", MUTED),
    ]
    return Row(f"{row.column} {row.level}", tuple(cells))


def slice_details(ready: ev.SlicesReady, row: ErrorSlice, state: RunState) -> Content:
    """The facts of a slice in sentences."""
    model = subject_of(state, ready)
    paragraphs = [
        f"{row.n:,} of {ready.n_rows:,} rows have {row.column} {row.level}. On them the {ready.measure} of {model} is "
        f"{format_score(row.error)}; on all rows it is {format_score(ready.overall)}.",
    ]
    if row.share_wrong is not None:
        paragraphs.append(f"{row.share_wrong:.1%} of these rows are given the wrong class.")
    paragraphs.append(
        f"They are worse than the rest by {brief(row.difference)} (interval {brief(row.low)} … {brief(row.high)}). The "
        f"difference is shrunk towards 0, and the interval is widened, because {ready.tested} slices were looked at and some "
        "look bad by chance alone."
    )
    paragraphs.append(
        "The interval is above 0. More rows of this kind, or a feature that distinguishes them, may help most."
        if row.clear
        else "The interval includes 0, so chance may explain the difference."
    )
    return Content("\n\n").join([Content(paragraph) for paragraph in paragraphs])
