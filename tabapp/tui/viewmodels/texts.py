"""Text formats shared by several panels."""

from __future__ import annotations

import math
import os
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tabapp.run.analyses.threshold import ThresholdChosen
from tabapp.run.options.units import format_duration
from tabapp.run.record import events as ev
from tabapp.run.record.score_text import folds_text, score_with_folds, written_like
from tabapp.run.record.state import RunState, is_partial
from tabapp.run.texts.progress import progress_of
from tabapp.tui.chrome.actions import Phase, has_started, phase_of
from tabapp.tui.content import Content

SEE_REASON = " (enter)"
"""After the status of a model whose reason is a key away."""
MUTED = "$foreground 60%"
UNITS = ("", "k", "M", "G", "T", "P", "E")
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FIT_STAGES = {
    "starting": "starting…",
    "reading": "reading…",
    "ready": "ready",
    "fitting": "fitting",
    "ensembling": "ensembling",
    "explaining": "explaining",
    "exporting": "saving the bundle",
    "done": "done",
}


StartStage = Literal["", "waiting", "sent"]


NUMBER = re.compile(
    r"[+−-]?[$€£¥]?\s?(\d+|\d{1,3}([.,'’\s]\d{3})+)?([.,]\d+)?(?<=\d)(e[+-]?\d+)?\s?[%$€£¥]?", re.IGNORECASE
)
LEAST_NUMBERS = 0.9
"""Share of the cells of a column of numbers that are numbers."""


@dataclass(frozen=True)
class ReplayPlace:
    """The place of a replay: seconds and events from its start, of how many, its speed, and whether it is paused."""

    position: float
    length: float
    events: int
    n_events: int
    speed: float
    is_paused: bool


@dataclass(frozen=True)
class Snapshot:
    """The data that a screen draws: the state of the run, the time, and facts known only to this view.

    Attributes:
        now: seconds since the epoch.
        frame: of the spinner; None without animation.
        trouble: a sentence about an engine that has stopped; None while it runs.
        start: whether the user has requested the start, and the request waits for a plan or is sent to the engine.
        history: (time, score) of each new best, oldest first.
        replay: where a replay is; None outside of one.
    """

    state: RunState
    now: float
    file: str
    frame: int | None = None
    trouble: str | None = None
    start: StartStage = ""
    history: tuple[tuple[float, float], ...] = ()
    replay: ReplayPlace | None = None

    @property
    def phase(self) -> Phase:
        """The phase of the run as this view knows it."""
        if self.replay is not None:
            return "replaying"
        phase = phase_of(self.state)
        if self.trouble is not None and phase == "during":
            return "stopped"
        return "starting" if self.start and not has_started(self.state) else phase


def made_at(event: ev.Described) -> str:
    """The time of day at which a result was computed."""
    return time.strftime("%H:%M:%S", time.localtime(event.t))


def file_size(n_bytes: float) -> str:
    """Bytes as people read them: 812 B, 60.3 kB, 3.8 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 999.5 or unit == "GB":
            return f"{n_bytes:.0f} {unit}" if unit == "B" or n_bytes >= 99.5 else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    raise AssertionError("unreachable")


def gibibytes(n_bytes: float) -> str:
    """Memory in GiB without the unit: 3.1, 16."""
    size = n_bytes / 2**30
    return f"{size:.1f}" if size < 9.95 else f"{size:.0f}"


def metric_with_arrow(plan: ev.PlanMade | None) -> str:
    """The title of the metric with ↑ if greater is better, else ↓."""
    return f"{plan.metric_title} {'↑' if plan.greater_is_better else '↓'}" if plan is not None else "Score"


def threshold_metric(state: RunState, threshold: float | None) -> str:
    """The title of the metric by which the run chose the threshold of a bundle; empty if it chose another one."""
    chosen = state.result(ThresholdChosen)
    return chosen.metric_title if chosen is not None and chosen.value == threshold else ""


def best_text(state: RunState) -> str:
    """The best score, with its folds if it covers only some; a dash without one."""
    return "—" if state.best is None else score_with_folds(state.best, state.plan.folds if state.plan else 0)


def score_margin(row: ev.LeaderboardRow) -> str:
    """Half the width of a score's 95 % interval, with as many digits as the score."""
    if row.low is None or row.high is None or row.score is None:
        return "—"
    return f"±{written_like((row.high - row.low) / 2, row.score)}"


def brief(value: object) -> str:
    """A value in few characters: three digits of a small number, thousands grouped, millions and more as 1.23M."""
    if not isinstance(value, float) or not math.isfinite(value):
        return str(value)
    if abs(value) < 999.5:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) < 999_999.5 else _with_unit(value)


def short_range(text: str, width: int) -> str:
    """A range in fewer characters, with both of its ends: 12285 … 1490400 as 12.3k … 1.49M or 12.3k…1.49M.

    Ends that are no numbers, such as dates, keep their beginnings. Other texts stay as they are.
    """
    low, dots, high = text.partition(" … ")
    if not dots or len(text) <= width:
        return text
    try:
        ends = [_short_number(float(end)) for end in (low, high)]
    except ValueError:
        room = max(1, (width - 1) // 2)
        ends = [_beginning(end, room) for end in (low, high)]
    spaced = " … ".join(ends)
    return spaced if len(spaced) <= width else "…".join(ends)


def are_numbers(cells: Sequence[str | None]) -> bool:
    """Whether the cells of a column are numbers, in whatever way they are written; some may be texts such as `?`."""
    present = [cell.strip() for cell in cells if cell is not None and cell.strip()]
    return bool(present) and sum(map(bool, map(NUMBER.fullmatch, present))) >= LEAST_NUMBERS * len(present)


def _beginning(text: str, room: int) -> str:
    """The beginning of a text; that of a date ends with its time, day, month or year."""
    if re.match(r"\d{4}-\d{2}-\d{2}", text) is None:
        return text[:room]
    return next((text[:length] for length in (19, 16, 10, 7, 4) if length <= min(room, len(text))), text[:room])


def _short_number(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 9_999.5 else _with_unit(value)


def signed(value: float) -> str:
    """An importance in seven cells: four decimals below 10, fewer above, thousands grouped or with their unit."""
    size = abs(value)
    if size < 9.99995:
        return f"{value:7.4f}"
    if size < 999.95:
        return f"{value:7.4g}"
    return f"{value:7,.0f}" if size < 99_999.5 else f"{_with_unit(value):>7}"


def _with_unit(value: float) -> str:
    """Three digits and a unit: 839k, 1.23M, -12.3G."""
    digits, exponent = f"{value:.2e}".split("e")
    power = int(exponent) // 3
    if power >= len(UNITS):
        return f"{value:.0e}"
    places = int(exponent) % 3
    return f"{float(digits) * 10**places:.{2 - places}f}{UNITS[power]}"


def spinner(frame: int | None) -> str:
    """A frame of the spinner, or a steady mark without animation."""
    return "●" if frame is None else SPINNER[frame % len(SPINNER)]


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: 1 model, 3 models."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def model_name(row: ev.LeaderboardRow) -> str:
    """The title of a row with the number of its best trial; the ensemble without its text in brackets, which the status shows."""
    if row.model == "ensemble":
        return row.title.partition(" (")[0]
    return row.title if row.trial is None else f"{row.title} #{row.trial}"


def short_reason(reason: str) -> str:
    """Why a model is skipped or has failed, as a clause of a sentence that begins with the model: needs at least 500 rows."""
    return re.split(r"; |: `", reason)[0].removeprefix("It ").rstrip(".")


def status_content(row: ev.LeaderboardRow, frame: int | None, *, members: int, folds: int) -> Content:
    """The status of a model as a glyph, a word and a color. A diamond marks the ensemble and its members.

    `members` is the size of the ensemble, `folds` the number of folds of a complete score.
    """
    if row.held and not row.activity:
        glyph, words = ("■", "stopped by you") if row.held == "stopped" else ("‖", "paused by you")
        return Content.assemble((glyph, "$warning"), f" {words}", _membership(row))
    if row.activity or row.status == "running":
        first, *others = (row.activity or "running").split(", ")
        return Content.assemble(
            (spinner(frame), "$primary"), f" {first}", (f" +{len(others)}" if others else "", MUTED)
        )
    member = _membership(row)
    match row.status:
        case "ok" if is_partial(row, folds):
            of = (f" · {members} members", MUTED) if row.model == "ensemble" and members > 1 else ""
            return Content.assemble(("◔", "$warning"), f" {folds_text(row, folds)}", of)
        case "ok" if row.model == "ensemble":
            return Content.assemble(("◆", "$accent"), f" {count(members, 'member')}")
        case "ok":
            return Content.assemble(("✓", "$success"), f" {count(row.trials, 'trial')}", member)
        case "failed":
            return Content.assemble(("✗ failed", "$error"), (SEE_REASON, MUTED))
        case "pruned":
            return Content.assemble(("⊘ pruned", "$warning"), (SEE_REASON, MUTED))
        case "skipped" if row.not_started:
            return Content.styled("– not started", MUTED)
        case "skipped":
            return Content.styled(f"– skipped{SEE_REASON}", MUTED)
        case _:
            return Content.styled("· queued", MUTED)


def _membership(row: ev.LeaderboardRow) -> tuple[str, str]:
    """Marks a member of the ensemble, or a model that the user excluded."""
    if row.in_ensemble > 0:
        return ("  ◆", "$accent")
    return ("  ◇ excluded", MUTED) if row.left_out else ("", "")


def share_text(share: float) -> str:
    """A share of the time as text: ×2, ×½."""
    fractions = {0.5: "½", 0.25: "¼", 0.125: "⅛"}
    return f"×{fractions.get(share) or format(share, 'g')}"


def short_path(path: Path) -> str:
    """A path relative to the working folder or the home folder, if it is in one of them."""
    for base, mark in ((os.curdir, ""), (os.path.expanduser("~"), "~/")):
        folder = os.path.abspath(base)
        if path.is_absolute() and path.is_relative_to(folder) and path != Path(folder):
            return mark + str(path.relative_to(folder))
    return str(path)


def keep_end(text: str, width: int) -> str:
    """A path cut at the front, its least informative part."""
    return text if len(text) <= width else "…" + text[len(text) - max(1, width) + 1 :]


def cut_labels(labels: Sequence[str], width: int) -> list[str]:
    """Labels cut to a width, at the front if they would not differ otherwise."""
    cut = [Content(label).truncate(width, ellipsis=True).plain for label in labels]
    return cut if len(set(cut)) == len(set(labels)) else [keep_end(label, width) for label in labels]


def short_command(command: str) -> str:
    """A command with short paths, equivalent in the current working folder."""
    return " ".join(_short_word(word) for word in shlex.split(command))


def _short_word(word: str) -> str:
    short = short_path(Path(word)) if word.startswith("/") else word
    # A shell knows the tilde only where it is not quoted.
    return f"~/{shlex.quote(short[2:])}" if short.startswith("~/") else shlex.quote(short)


def after_finishing(state: RunState) -> str:
    """What follows once the user ends fitting: of several targets, the next."""
    is_last = (state.target_index or 0) + 1 >= len(state.targets)
    return "the best models so far become the bundle" if is_last else "the next target follows"


def one_line_status(snapshot: Snapshot) -> str:
    """The run in one line, for terminals too small for the screens."""
    state = snapshot.state
    if snapshot.trouble:
        return " · ".join([f"✗ {snapshot.trouble}", *_best_words(state)])
    words = [snapshot.file]
    progress = progress_of(state, snapshot.now)
    if phase_of(state) != "during":
        words.append(FIT_STAGES[state.stage])
    elif state.paused:
        words.append("paused")
    elif progress is not None and progress.share is not None:
        words.append(f"{progress.share:.0%}")
    words += _best_words(state)
    if progress is not None and progress.left is not None:
        words.append(f"~{format_duration(int(progress.left))} left")
    return " · ".join(words)


def _best_words(state: RunState) -> list[str]:
    return [] if state.best is None else [f"{best_text(state)} {state.best.title}"]
