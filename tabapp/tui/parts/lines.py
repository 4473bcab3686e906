"""The one-line parts around every screen: header with progress, tabs, footer with keys, and the status of small terminals."""

from __future__ import annotations

from textual import events
from textual.widget import Widget

from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.score_text import folds_text, interval_text
from tabapp.run.record.state import RunState, format_score
from tabapp.run.texts.differences import ALIKE, alike
from tabapp.run.texts.progress import progress_of
from tabapp.tui.chrome.actions import ACTIONS, TABS, Phase, Scope, View, actions_for, has_started
from tabapp.tui.content import Content, flat
from tabapp.tui.viewmodels.texts import (
    FIT_STAGES,
    MUTED,
    ReplayPlace,
    Snapshot,
    count,
    metric_with_arrow,
    one_line_status,
)

SHORTEST_TRACK = 16
"""Fewest cells of the track of a replay."""
NEXT_TARGET = "run.next_target"
TRANSPORT = (
    (("replay.pause",), "pause"),
    (("replay.forward",), "10 s"),
    (("replay.previous", "replay.next"), "event"),
    (("replay.slower", "replay.faster"), "speed"),
    (("replay.leave",), "run"),
)
"""The keys of a replay, as actions and a word."""

BEST_FROM = 130
"""Width from which the header has room for the best score during a run."""


ALL_PANELS = 100
"""Columns from which a screen shows all its panels."""


class ClickableLine(Widget):
    """A line of parts, some of which are clickable."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._line = Content("")
        self._spots: list[tuple[int, int, str]] = []

    def set_parts(self, parts: list[tuple[Content, str | None]]) -> None:
        """Show parts in order, each with the Textual action of a click on it."""
        self._spots.clear()
        start = 0
        parts = [(flat(content), action) for content, action in parts]
        for content, action in parts:
            end = start + content.cell_length
            if action:
                self._spots.append((start, end, action))
            start = end
        line = Content("").join([content for content, _ in parts])
        if line.plain != self._line.plain or line.spans != self._line.spans:
            self._line = line
            self.refresh()

    def render(self) -> Content:
        return self._line.truncate(self.size.width, ellipsis=True)

    async def on_click(self, event: events.Click) -> None:
        for start, end, action in self._spots:
            if start <= event.x < end:
                event.stop()
                await self.run_action(action if action.startswith("app.") else f"screen.{action}")


class Header(ClickableLine):
    """The target, the metric and the progress of the run."""

    def show(self, snapshot: Snapshot) -> None:
        """Draw a snapshot at the current width."""
        width = self.size.width
        right = self._progress(snapshot, width)
        left = self._title(snapshot, width >= 100)
        room = width - right.cell_length - 2
        left = left.truncate(max(0, room - 1), ellipsis=True)
        gap = max(1, room - left.cell_length)
        self.set_parts([(Content.assemble(" ", left, " " * gap, right, " "), None)])

    def _title(self, snapshot: Snapshot, wide: bool) -> Content:
        state = snapshot.state
        parts = [Content.styled(snapshot.file, "bold $foreground")]
        plan, read = state.plan, state.read
        if plan is not None:
            kind = f"{plan.task} · " if wide else ""
            parts.append(Content.assemble((" › ", MUTED), (_target_text(state, plan), "bold $primary")))
            parts.append(Content.styled(f" · {kind}{metric_with_arrow(plan)}", MUTED))
            if not has_started(state) and read is not None and wide:
                parts.append(Content.styled(f" · {read.rows:,} rows × {read.columns} columns", MUTED))
        return Content("").join(parts)

    def _progress(self, snapshot: Snapshot, width: int) -> Content:
        state, wide = snapshot.state, width >= 100
        if snapshot.trouble:
            return Content.assemble(("✗ the engine has stopped", "bold $error"), *_last_best(state, wide))
        if state.finished is not None:
            return _ending(state, wide)
        progress = progress_of(state, snapshot.now)
        if progress is None:
            if snapshot.start:
                text = "▸ starts when the plan is ready" if snapshot.start == "waiting" else "starting the run…"
                return Content.styled(text, "$primary")
            ready = state.stage == "ready"
            if ready and snapshot.replay is not None:
                return Content.styled("before its start", MUTED)
            text = ("▸ ctrl+r starts the run" if wide else "▸ ctrl+r starts") if ready else FIT_STAGES[state.stage]
            return Content.styled(text, "$success" if ready else MUTED)
        parts: list[Content] = []
        if progress.share is not None:
            cells = 20 if wide else 10
            filled = round(progress.share * cells)
            parts.append(Content.assemble(("━" * filled, "$primary"), ("━" * (cells - filled), "$surface-lighten-3")))
            parts.append(Content.styled(f" {progress.share:4.0%}  ", "bold"))
        if state.paused:
            parts.append(Content.styled("‖ paused  ", "bold $warning"))
        elif state.stage != "fitting":
            parts.append(Content.styled(FIT_STAGES[state.stage] + "  ", "$primary"))
        time = format_duration(int(progress.elapsed)) + (" elapsed" if wide else "")
        if progress.left is not None:
            time += f" · ~{format_duration(int(progress.left))} left"
        if wide and state.plan is not None:
            time += f" · {count(state.plan.workers, 'worker')}"
        parts.append(Content.styled(time, MUTED))
        if width >= BEST_FROM and state.best is not None:
            partial = folds_text(state.best, state.plan.folds if state.plan else 0)
            parts.append(Content.assemble(f"  best {format_score(state.best.score)}", (_alike(state), MUTED)))
            parts.append(Content.styled(f" · {partial}" if partial else "", "$warning"))
        return Content("").join(parts)


def _target_text(state: RunState, plan: ev.PlanMade) -> str:
    """The target; with several, which of them is shown, or all of them before the start."""
    if state.target_index is not None and len(state.targets) > 1:
        return f"{plan.target} ({state.target_index + 1} of {len(state.targets)} · ctrl+n)"
    return ", ".join(plan.targets or (plan.target,))


def _ending(state: RunState, wide: bool) -> Content:
    finished = state.finished
    assert finished is not None
    glyph, word, style = {
        "ok": ("✓", "done", "$success"),
        "interrupted": ("■", "stopped", "$warning"),
        "failed": ("✗", "failed", "$error"),
    }[finished.status]
    time = f" in {format_duration(finished.seconds)}"
    return Content.assemble((f"{glyph} {word}", f"bold {style}"), (time, MUTED), *_last_best(state, wide))


def _last_best(state: RunState, wide: bool) -> list[tuple[str, str]]:
    """The best score at the end of a run, however it ended, and its folds if they are not all of the plan."""
    row = state.best
    if row is None:
        return []
    text = f" · best {format_score(row.score)}"
    if wide:
        interval = f" ({interval_text(row)})" if row.low is not None else ""
        text += f"{interval}{_alike(state)}"
    partial = folds_text(row, state.plan.folds if state.plan else 0)
    return [(text, MUTED), *([(f" · {partial}", "$warning")] if partial else [])]


def _alike(state: RunState) -> str:
    """The best single model if it is not clearly behind the ensemble."""
    single = alike(state)
    return "" if single is None else f" {ALIKE} {single.title}"


class Tabs(ClickableLine):
    """The screens with their digits."""

    def __init__(self, current: View) -> None:
        super().__init__()
        self._current: View = current

    def on_resize(self) -> None:
        """Draw for the current width: with gaps, without gaps, closer together, or with only the digits of other screens."""
        width, titles = self.size.width, [title for _, _, title in TABS]
        whole = sum(len(title) + 4 for title in titles)
        gap = " " if whole + len(titles) + 2 <= width else ""
        parts: list[tuple[Content, str | None]] = [(Content("  " if gap else " "), None)]
        for digit, view, title in TABS:
            if view == self._current:
                tab = Content.styled(f" {digit} {title} ", "bold $background on $primary")
            else:
                end = " " if whole < width else ""
                shown = f"{title}{end}" if whole - len(titles) < width else ""
                tab = Content.assemble((f" {digit} ", "$primary"), (shown, MUTED))
            parts += [(tab, f"app.view('{view}')"), (Content(gap), None)]
        self.set_parts(parts)


class KeyBar(ClickableLine):
    """The most useful keys of the phase; help and palette list all keys."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self._scope: Scope = scope

    def show(self, phase: Phase, *, several_targets: bool = False) -> None:
        """Draw the keys available in a phase, as many as fit; that of the next target first in a run with several."""
        shown = [action for action in actions_for(self._scope, phase) if action.label]
        # Switching between panels comes first where they have no room together, and does nothing elsewhere.
        switches = [action for action in shown if action.action == "charts"]
        shown = [action for action in shown if action not in switches]
        if self.size.width < ALL_PANELS:
            shown = [*shown[:1], *switches, *shown[1:]]
        shown.sort(key=lambda action: action.id != NEXT_TARGET)
        if not several_targets:
            shown = [action for action in shown if action.id != NEXT_TARGET]
        palette = Content.assemble(("^p", "bold $primary"), (" palette ", MUTED))
        last = [action for action in shown if action.id in ("app.help", "app.quit")]
        parts = [(_key(action.shown_key, action.label), action.action) for action in shown if action not in last]
        ending = [(_key(action.shown_key, action.label), action.action) for action in last]
        # The palette is always shown: with a mouse it gives access to actions that have no room here.
        room = self.size.width - 1 - palette.cell_length - sum(content.cell_length for content, _ in ending)
        kept: list[tuple[Content, str | None]] = [(Content(" "), None)]
        for content, action in parts:
            if content.cell_length > room:
                break
            room -= content.cell_length
            kept.append((content, action))
        kept += [*ending, (Content(" " * room), None), (palette, "app.command_palette")]
        self.set_parts(kept)


def _key(key: str, label: str) -> Content:
    return Content.assemble((key, "bold $primary"), (f" {label}  ", MUTED))


class ReplayBar(ClickableLine):
    """The place of a replay with its keys; not shown for other runs."""

    def show(self, place: ReplayPlace | None) -> None:
        """Draw a place."""
        self.display = place is not None
        if place is None:
            return
        state = "‖ paused" if place.is_paused else "■ at its end" if place.position >= place.length else "▶"
        left = Content.assemble(
            (f" REPLAY {place.speed:g}x ", "bold $background on $accent"), (f" {state} ", "$accent")
        )
        time = f" {format_duration(int(place.position))} of {format_duration(int(place.length))} "
        shown_keys = {action.id: action.shown_key for action in ACTIONS if action.scope == "replay"}
        keys = [_key(" ".join(shown_keys[name] for name in names), word) for names, word in TRANSPORT]
        room = self.size.width - left.cell_length - len(time)
        step = f"· event {place.events} of {place.n_events} " if place.is_paused else ""
        shown: list[Content] = []
        for key in keys:
            # The event of a paused replay goes before the key that leaves it.
            least = SHORTEST_TRACK + (len(step) if key is keys[-1] else 0)
            if sum(each.cell_length for each in shown) + key.cell_length > room - least:
                break
            shown.append(key)
        room -= sum(each.cell_length for each in shown)
        if len(step) <= room - SHORTEST_TRACK:
            time, room = time + step, room - len(step)
        cells = max(SHORTEST_TRACK - 2, room - 2)
        at = round((cells - 1) * (place.position / place.length if place.length else 1.0))
        track = Content.assemble(
            ("├" + "─" * at, "$accent"), ("●", "bold $accent"), ("─" * (cells - 1 - at) + "┤", MUTED)
        )
        self.set_parts(
            [(left, "app.replay_pause"), (track, None), (Content(time), None), *((key, None) for key in shown)]
        )


class StatusLine(ClickableLine):
    """The run in one line, shown alone if the terminal is smaller than 60 × 16."""

    def show(self, snapshot: Snapshot) -> None:
        """Draw a snapshot."""
        self.set_parts([(Content(one_line_status(snapshot)), None)])
