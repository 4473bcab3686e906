"""Attention and permutation importance, their agreement, and notes on both."""

from __future__ import annotations

from collections.abc import Sequence

from tabapp import charts
from tabapp.findings import ImportanceRow
from tabapp.run.analyses.dependence import DependenceReady
from tabapp.run.record.belonging import earlier_subject
from tabapp.run.record.importance_notes import UNSTABLE, measured, notes, ranked
from tabapp.run.record.state import RunState
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.parts.table import Column, Row, Table
from tabapp.tui.viewmodels.texts import MUTED, signed
from tabapp.tui.widgets.importance import ImportanceFacts, importance_facts

BOTH_BARS_WIDTH = 70
LEAST_BAR = 6
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


def reading(agreement: float | None) -> str:
    """A rank correlation in words."""
    if agreement is None:
        return "No fitted model weighs columns by attention, as FT-Transformer, NODE and TabNet do. Only permutation is shown."
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
        title = f"Importance · sorted by {sort}" + (" · a swaps" if attention else "")
        title += f" · {facts.title}" if earlier_subject(ready, state.leaderboard) else ""
        set_titles(self, title, f"{measured(ready, 'features')} · {ready.n_rows:,} held-out rows")
        dependence = state.result(DependenceReady)
        grouped = grouped_rows(ready.rows, dependence, self._opened)
        rows = ranked(grouped) if sort == "permutation" else sorted(grouped, key=lambda row: -(row.attention or 0.0))
        rows = _members_below(rows, dependence)
        bars = (["permutation", "attention"] if self.size.width >= BOTH_BARS_WIDTH else [sort]) if attention else [sort]
        columns, width = self._layout(rows, bars, attention)
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

    def _layout(self, rows: list[ImportanceRow], bars: list[str], attention: bool) -> tuple[list[Column], int]:
        longest = min(max([7, *(len(row.feature) for row in rows)]), max(10, self.size.width // 4))
        # Two cells between columns and one at each side; permutation is 7 wide, its margin 7, attention 5, agreement 7.
        fixed = 2 + longest + 2 + 7 + 2 + 7 + (2 + 5 + 2 + 7 if attention else 0)
        width = max(LEAST_BAR, (self.size.width - fixed) // len(bars) - 2)
        columns = [Column("feature", width=longest)]
        if "permutation" in bars:
            columns.append(Column("permutation" if width >= len("permutation") else "permut.", width=width))
        columns += [Column("" if "permutation" in bars else "permut.", "right", width=7), Column("±", "right", width=7)]
        if "attention" in bars:
            columns.append(Column("attention" if width >= len("attention") else "attn.", width=width))
        if attention:
            columns += [Column("" if "attention" in bars else "attn.", "right", width=5), Column("agree", width=7)]
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
        most = max(each.attention or 0.0 for each in rows)
        share = (row.attention or 0.0) / most if most > 0 else 0.0
        cells.append(Content.styled(charts.rule(share, width), "$secondary"))
    if attention:
        cells.append(Content("—" if row.attention is None else f"{row.attention:.0%}"))
        cells.append(agreement_mark(place, sum(each.attention is not None for each in rows)))
    return Row(row.feature, tuple(cells))


class ReadingNotes(Panel[tuple[ImportanceFacts, str, str | None]]):
    """Notes on the measures, rows and models."""

    def draw(self, facts: tuple[ImportanceFacts, str, str | None], width: int, height: int) -> list[Content]:
        importance, metric, attention_title = facts
        ready = importance.importances
        if ready is None:
            return Content(importance.waiting).wrap(width)
        mark = "●" if (ready.agreement or 0.0) >= 0.7 else "◐" if (ready.agreement or 0.0) >= 0.4 else "○"
        style = "bold $success" if mark == "●" else "bold $warning"
        paragraphs = [_paragraph("Note", "$warning", f": {sentence}") for sentence in notes(ready)]
        paragraphs.append(Content.assemble((f"{mark} ", style), (reading(ready.agreement), "bold")))
        if height < LEAST_FULL_HEIGHT:
            paragraphs.append(
                _paragraph(
                    "Permutation", "$primary", f": loss of {metric} when a column is shuffled ({importance.title})."
                )
            )
            if attention_title is not None:
                paragraphs.append(
                    _paragraph(
                        "Attention", "$secondary", f": where {attention_title} attends, not what drives the prediction."
                    )
                )
            if height >= LEAST_MIDDLE_HEIGHT:
                paragraphs.append(_paragraph("Correlated columns", "$foreground", " share their importance."))
            paragraphs.append(Content.styled("? explains both, and what to do where they differ.", MUTED))
            return [line for paragraph in paragraphs for line in paragraph.wrap(width)]
        paragraphs.append(
            _paragraph(
                "Permutation",
                "$primary",
                f" is how much {metric} of {importance.title} worsens when a column is shuffled among {ready.n_rows:,} rows that "
                "it was not fitted on; the thin line ends at the upper end of its 95 % interval over rows. "
                "Near or below zero: not needed.",
            )
        )
        if attention_title is not None:
            paragraphs.append(
                _paragraph(
                    "Attention",
                    "$secondary",
                    f" is the share of its attention that {attention_title} gives a column, averaged over heads, layers and rows. "
                    "It shows where the model attends, not what drives the prediction: do not rely on it alone.",
                )
            )
        paragraphs.append(
            _paragraph(
                "Correlated columns",
                "$foreground",
                " share their importance: each seems less important, because the others replace it.",
            )
        )
        lines: list[Content] = []
        for paragraph in paragraphs:
            lines += [Content("")] if lines and height >= 12 else []
            lines += paragraph.wrap(width)
        return lines


def _paragraph(name: str, style: str, text: str) -> Content:
    return Content.assemble((name, f"bold {style}"), text)
