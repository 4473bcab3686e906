"""Attention and permutation importance, their agreement, and notes on both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tabapp import charts
from tabapp.findings import ImportanceRow, ModelAttention
from tabapp.run.analyses.dependence import DependenceReady
from tabapp.run.record import events as ev
from tabapp.run.record.belonging import earlier_subject
from tabapp.run.record.importance_notes import UNSTABLE, measured, notes, ranked
from tabapp.run.record.state import RunState, title_of
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.attention_choice import attention_note, kind_of, more_notes
from tabapp.tui.viewmodels.texts import MUTED, made_at, signed
from tabapp.tui.widgets.importance import ImportanceFacts, importance_facts

BOTH_BARS_WIDTH = 70
LEAST_BAR = 6
SHORT = {"attention": "attn.", "selection": "sel."}
LEAST_MIDDLE_HEIGHT, LEAST_FULL_HEIGHT = 9, 16


def places(rows: tuple[ImportanceRow, ...]) -> dict[str, tuple[int, int]]:
    """Ranks by attention and by permutation, from 0, of each feature that has both."""
    both = [row for row in rows if row.attention is not None and not row.unstable]
    by_attention = sorted(both, key=lambda row: -(row.attention or 0.0))
    by_permutation = sorted(both, key=lambda row: -row.permutation)
    return {row.feature: (by_attention.index(row), by_permutation.index(row)) for row in both}


def agreement_mark(place: tuple[int, int] | None, number: int) -> Content:
    """Agreement of the two ranks of a feature: within a tenth of the ranking, within a third, or apart."""
    if place is None:
        return Content.styled("—", MUTED)
    distance = abs(place[0] - place[1])
    if distance <= max(1, number // 10):
        return Content.assemble(("●", "$success"), " same")
    if distance <= max(2, number // 3):
        return Content.assemble(("◐", "$warning"), " near")
    return Content.assemble(("○", "$error"), " apart")


def reading(agreement: float | None, *, has_attention: bool = True) -> str:
    """A rank correlation in words."""
    if not has_attention:
        return "No fitted model weighs columns by attention, as FT-Transformer, AMFormer and TabNet do. Only permutation is shown."
    if agreement is None:
        return "A rank correlation needs three columns with both measures, of different values."
    if agreement >= 0.9:
        words = "both rankings agree"
    elif agreement >= 0.7:
        words = "both rankings broadly agree"
    elif agreement >= 0.4:
        words = "they agree in part, so trust permutation where they differ"
    elif agreement >= 0.0:
        words = "they hardly agree, so trust permutation"
    else:
        words = "they contradict each other, so trust permutation"
    return f"Rank correlation {agreement:+.2f}: {words}."


GROUP = "group "
"""Start of the key of a group of correlated columns."""


def group_key(columns: Sequence[str]) -> str:
    """The key of a group."""
    return GROUP + " + ".join(columns)


def grouped_rows(
    rows: Sequence[ImportanceRow], dependence: DependenceReady | None, opened: set[str]
) -> list[ImportanceRow]:
    """The rows with one for each group of correlated columns, whose members are left out unless it is opened."""
    if dependence is None:
        return list(rows)
    by_name = {row.feature: row for row in rows}
    found = dict(by_name)
    for group in dependence.groups:
        key, members = group_key(group.columns), [by_name[name] for name in group.columns if name in by_name]
        shares = [row.attention for row in members if row.attention is not None]
        found[key] = ImportanceRow(
            feature=key,
            attention=sum(shares) if len(shares) == len(members) else None,
            permutation=group.permutation,
            low=group.low,
            high=group.high,
            unstable=group.unstable,
        )
        if key not in opened:
            found = {name: row for name, row in found.items() if name not in group.columns}
    return list(found.values())


def _members_below(rows: list[ImportanceRow], dependence: DependenceReady | None) -> list[ImportanceRow]:
    """The rows with the members of a group directly below it."""
    groups = {group_key(group.columns): group.columns for group in dependence.groups} if dependence is not None else {}
    members = {name for columns in groups.values() for name in columns}
    by_name = {row.feature: row for row in rows}
    ordered: list[ImportanceRow] = []
    for row in rows:
        if row.feature in groups:
            ordered.append(row)
            ordered += [each for each in rows if each.feature in groups[row.feature]]
        elif row.feature not in members or not any(row.feature in groups[key] for key in groups if key in by_name):
            ordered.append(row)
    return ordered


class Explanation(Table):
    """A row for each feature. A narrow table has one bar, of the measure that sorts."""

    def __init__(self) -> None:
        super().__init__([], id="explanation")
        set_titles(self, "Importance")
        self.sort = "permutation"
        self._state = RunState()
        self._opened: set[str] = set()
        """Keys of the groups whose members are shown."""

    def show_state(self, state: RunState) -> None:
        """Draw the importances of a state."""
        self._state = state
        facts = importance_facts(state)
        ready = facts.importances
        self.set_empty(facts.waiting)
        if ready is None:
            set_titles(self, "Importance", "")
            self.show([], [Column("feature")])
            return
        attention = any(row.attention is not None for row in ready.rows)
        sort = self.sort if attention else "permutation"
        is_stale = ready.preliminary or bool(earlier_subject(ready, state.leaderboard))
        preliminary = "preliminary, of " if ready.preliminary else ""
        # A long title is cut at its end.
        of = f"{preliminary}{facts.title} · " if is_stale or not attention else ""
        title = f"Importance · {of}sorted by {sort}"
        if attention and ready.attention_model is not None:
            kind = kind_of(state, ready.attention_model)
            title += f" · m {kind} of {title_of(state, ready.attention_model)}"
        set_titles(
            self,
            title,
            f"{measured(ready, 'features')} · {ready.n_rows:,} held-out rows · {made_at(ready)}",
            is_stale=is_stale,
        )
        dependence = state.result(DependenceReady)
        grouped = grouped_rows(ready.rows, dependence, self._opened)
        rows = ranked(grouped) if sort == "permutation" else sorted(grouped, key=lambda row: -(row.attention or 0.0))
        rows = _members_below(rows, dependence)
        bars = (["permutation", "attention"] if self.size.width >= BOTH_BARS_WIDTH else [sort]) if attention else [sort]
        columns, width = self._layout(rows, bars, kind_of(state, ready.attention_model) if attention else "")
        place = places(ready.rows)
        groups = dependence.groups if dependence is not None else ()
        # The members of a group that is closed are not among the rows.
        members = {name for group in groups for name in group.columns}
        self.show(
            [_row(row, bars, width, rows, place.get(row.feature), attention, self._opened, members) for row in rows],
            columns,
        )

    def on_resize(self) -> None:
        super().on_resize()
        self.show_state(self._state)

    def toggle(self, key: str) -> bool:
        """Show or hide the members of a group; False for a column without group."""
        if not key.startswith(GROUP):
            return False
        self._opened ^= {key}
        self.show_state(self._state)
        return True

    def close_groups(self) -> None:
        """Hide the members of all groups, before those of another target are shown."""
        self._opened.clear()

    def _layout(self, rows: list[ImportanceRow], bars: list[str], kind: str) -> tuple[list[Column], int]:
        """The columns and the width of a bar; `kind` is what the attention is called, empty without it."""
        longest = min(max([7, *(len(row.feature) for row in rows)]), max(10, self.size.width // 4))
        # Two cells between columns and one at each side; permutation is 7 wide, its margin 7, attention 5, agreement 7.
        fixed = 2 + longest + 2 + 7 + 2 + 7 + (2 + 5 + 2 + 7 if kind else 0)
        width = max(LEAST_BAR, (self.size.width - fixed) // len(bars) - 2)
        columns = [Column("feature", width=longest)]
        if "permutation" in bars:
            columns.append(Column("permutation" if width >= len("permutation") else "permut.", width=width))
        columns += [Column("" if "permutation" in bars else "permut.", "right", width=7), Column("±", "right", width=7)]
        if "attention" in bars:
            columns.append(Column(kind if width >= len(kind) else SHORT[kind], width=width))
        if kind:
            columns += [Column("" if "attention" in bars else SHORT[kind], "right", width=5), Column("agree", width=7)]
        return columns, width


def _name(key: str, opened: set[str], members: set[str]) -> Content:
    """A column, indented below its group, or a group."""
    if key.startswith(GROUP):
        return Content.assemble(("▾ " if key in opened else "▸ ", "bold $accent"), key.removeprefix(GROUP))
    return Content(f"  {key}" if key in members else key)


def _row(
    row: ImportanceRow,
    bars: list[str],
    width: int,
    rows: list[ImportanceRow],
    place: tuple[int, int] | None,
    attention: bool,
    opened: set[str],
    members: set[str],
) -> Row:
    cells = [_name(row.feature, opened, members)]
    if "permutation" in bars:
        if row.unstable:
            cells.append(Content.styled(UNSTABLE[:width], "$warning"))
        else:
            top = max(each.high for each in rows if not each.unstable)
            solid, light = charts.interval_rule(row.permutation, row.low, row.high, top, width)
            cells.append(Content.assemble((solid, "$primary"), (light, "$primary 60%")))
    cells += [Content(signed(row.permutation)), Content.styled(f"±{signed((row.high - row.low) / 2).strip()}", MUTED)]
    if "attention" in bars:
        most = max(each.attention_high or each.attention or 0.0 for each in rows)
        share, low, high = row.attention or 0.0, row.attention_low, row.attention_high
        if low is None or high is None:
            cells.append(Content.styled(charts.rule(share / most if most > 0 else 0.0, width), "$secondary"))
        else:
            solid, light = charts.interval_rule(share, low, high, most, width)
            cells.append(Content.assemble((solid, "$secondary"), (light, "$secondary 60%")))
    if attention:
        cells.append(Content("—" if row.attention is None else f"{row.attention:.0%}"))
        cells.append(agreement_mark(place, sum(each.attention is not None for each in rows)))
    return Row(row.feature, tuple(cells))


@dataclass(frozen=True)
class NotesFacts:
    """What the notes are about: the importances, the title of the metric, and the attention beside them with the title of its
    model; `attention` is None in runs of earlier versions, and `attends` is None without attention."""

    importance: ImportanceFacts
    metric: str
    attends: str | None
    attention: ModelAttention | None = None


class ReadingNotes(Panel[NotesFacts]):
    """Notes on the measures, rows and models."""

    def draw(self, facts: NotesFacts, width: int, height: int) -> list[Content]:
        ready = facts.importance.importances
        if ready is None:
            return Content(facts.importance.waiting).wrap(width)
        mark = "●" if (ready.agreement or 0.0) >= 0.7 else "◐" if (ready.agreement or 0.0) >= 0.4 else "○"
        style = "bold $success" if mark == "●" else "bold $warning"
        paragraphs = [_paragraph("Note", "$warning", f": {sentence}") for sentence in notes(ready)]
        agreement = reading(ready.agreement, has_attention=facts.attends is not None)
        paragraphs.append(Content.assemble((f"{mark} ", style), (agreement, "bold")))
        if height < LEAST_FULL_HEIGHT:
            paragraphs += _short_notes(facts, has_room=height >= LEAST_MIDDLE_HEIGHT)
            return [line for paragraph in paragraphs for line in paragraph.wrap(width)]
        paragraphs += _full_notes(facts, ready)
        lines: list[Content] = []
        for paragraph in paragraphs:
            lines += [Content("")] if lines and height >= 12 else []
            lines += paragraph.wrap(width)
        return lines


def _short_notes(facts: NotesFacts, *, has_room: bool) -> list[Content]:
    text = f": loss of {facts.metric} when a column is shuffled ({facts.importance.title})."
    paragraphs = [_paragraph("Permutation", "$primary", text)]
    if facts.attends is not None:
        selects = facts.attention is not None and facts.attention.kind != "attention"
        verb, name = ("selects", "Selection") if selects else ("attends", "Attention")
        text = f": where {facts.attends} {verb}, not what drives the prediction."
        paragraphs.append(_paragraph(name, "$secondary", text))
    if has_room and facts.importance.importances is not None:
        found = more_notes(facts.attention, facts.importance.importances)
        paragraphs += [_paragraph(name, "$secondary", text) for name, text in found]
        paragraphs.append(_paragraph("Correlated columns", "$foreground", " share their importance."))
    paragraphs.append(Content.styled("? explains both, and what to do where they differ.", MUTED))
    return paragraphs


def _full_notes(facts: NotesFacts, ready: ev.ImportancesReady) -> list[Content]:
    paragraphs = [
        _paragraph(
            "Permutation",
            "$primary",
            f" is how much {facts.metric} of {facts.importance.title} worsens when a column is shuffled among {ready.n_rows:,} "
            "rows that it was not fitted on; the thin line ends at the upper end of its 95 % interval over rows. "
            "Near or below zero: not needed.",
        )
    ]
    if facts.attends is not None:
        text = attention_note(facts.attention, facts.attends) + " drives the prediction: do not rely on it alone."
        name = "Attention" if facts.attention is None else facts.attention.kind.capitalize()
        paragraphs.append(_paragraph(name, "$secondary", text))
        paragraphs += [_paragraph(name, "$secondary", text) for name, text in more_notes(facts.attention, ready)]
    text = " share their importance: each seems less important, because the others replace it."
    return [*paragraphs, _paragraph("Correlated columns", "$foreground", text)]


def _paragraph(name: str, style: str, text: str) -> Content:
    return Content.assemble((name, f"bold {style}"), text)
