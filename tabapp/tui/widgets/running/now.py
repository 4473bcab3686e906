"""What the workers do now, what comes next, and why."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp.run.options.units import format_duration
from tabapp.run.record.state import ActiveFit, RunState, title_of
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel, set_titles
from tabapp.tui.viewmodels.texts import MUTED, count

BAR_WIDTH = 6
LEAST_BAR = 44
"""Width of the panel from which a bar is drawn."""
MOST_WAITING = 6


@dataclass(frozen=True)
class Work:
    """A fit in progress: what it is, its last step, and its elapsed and expected seconds."""

    title: str
    what: str
    step: int | None
    elapsed: int
    expected: float | None


@dataclass(frozen=True)
class NowFacts:
    """What happens now.

    Attributes:
        resting: what is done instead of fits, or why there are none.
        then: the next fits in words, and the reason of the first.
        waiting: the first models whose defaults lack folds and wait, with the expected seconds of one.
        n_waiting: the number of all of them.
        n_ready: the number of these that may start or continue now.
        in_time: the number of these ready ones that is expected to end in time, one after the other; None without a time limit.
    """

    work: tuple[Work, ...]
    n_workers: int
    resting: str
    then: tuple[str, ...] = ()
    why: str = ""
    waiting: tuple[str, ...] = ()
    n_waiting: int = 0
    n_ready: int = 0
    in_time: int | None = None


RESTING = {
    "starting": "Starting…",
    "reading": "Reading the data…",
    "ready": "The run has not started.",
    "ensembling": "Selecting the final ensemble…",
    "explaining": "Computing importances and effects…",
    "exporting": "Writing and checking the bundle…",
    "done": "The run has ended.",
}


def now_facts(state: RunState, now: float) -> NowFacts:
    """The facts of a state at a time, which change once a second."""
    fits = sorted(state.active.values(), key=lambda fit: (fit.started, fit.fit))
    work = tuple(_work(state, fit, now) for fit in fits)
    n_workers = state.plan.workers if state.plan else 0
    if state.is_stopped:
        return NowFacts(work, 0, "The engine has stopped; r resumes the run.")
    if state.finished is not None or state.stage != "fitting":
        return NowFacts(work, n_workers if work else 0, RESTING.get(state.stage, ""))
    resting = "Paused; p resumes the run." if state.paused else "" if work else "Preparing the first fits…"
    planned, running = state.planned, {fit.model for fit in fits}
    begun = {(fit.model, fit.trial, fit.fold) for fit in fits}
    chosen = {fit.model for fit in planned.next}
    begun |= {(fit.model, fit.trial, fit.fold) for fit in state.fits.values() if fit.model in chosen}
    left = [fit for fit in planned.next if (fit.model, fit.trial, fit.fold) not in begun]
    waiting = [each for each in planned.waiting if each.model not in running]
    return NowFacts(
        work=work,
        n_workers=n_workers,
        resting=resting,
        then=tuple(f"{title_of(state, fit.model)} {_place(fit.trial, fit.fold, fit.folds)}" for fit in left),
        why=f"{title_of(state, left[0].model)}: {left[0].reason}" if left and left[0].reason else "",
        waiting=tuple(
            f"{title_of(state, each.model)} {format_duration(each.seconds)}" for each in waiting[:MOST_WAITING]
        ),
        n_waiting=len(planned.waiting),
        n_ready=sum(not each.note or each.model in chosen for each in planned.waiting),
        in_time=planned.in_time,
    )


def _work(state: RunState, fit: ActiveFit, now: float) -> Work:
    return Work(
        title=title_of(state, fit.model),
        what=_place(fit.trial, fit.fold, fit.folds),
        step=fit.curve[-1][0] if fit.curve else None,
        elapsed=int(max(0.0, now - fit.started)),
        expected=fit.seconds,
    )


def _place(trial: int, fold: int, folds: int) -> str:
    """The trial and the fold of a fit in few words."""
    of = f" fold {fold + 1}/{folds}" if folds > 1 else ""
    return f"{f'#{trial}' if trial else 'defaults'}{of}"


class Now(Panel[NowFacts]):
    """A line for each fit in progress; then what follows, why, and the models that wait."""

    def on_facts(self, facts: NowFacts) -> None:
        busy = f"{len(facts.work)} of {count(facts.n_workers, 'worker')} busy" if facts.n_workers else ""
        set_titles(self, "Now", busy)

    def draw(self, facts: NowFacts, width: int, height: int) -> list[Content]:
        lines = [Content.styled(facts.resting, "$warning")] if facts.resting else []
        shown = facts.work[: max(1, height - 3)]
        lines += [_line(work, width) for work in shown]
        if len(facts.work) > len(shown):
            lines.append(Content.styled(f"and {len(facts.work) - len(shown)} more", MUTED))
        if facts.then:
            lines.append(_labeled("next", " · ".join(facts.then)))
        if facts.why:
            room = max(1, height - len(lines) - bool(facts.n_waiting))
            wrapped = list(_labeled("why ", facts.why).wrap(width))
            lines += wrapped[:room]
        if facts.n_waiting:
            lines += list(_waiting(facts).wrap(width))
        return lines


def _labeled(label: str, text: str) -> Content:
    return Content.assemble((f"{label} ", "$secondary"), text)


def _waiting(facts: NowFacts) -> Content:
    models = " · ".join(facts.waiting) + (" · …" if facts.n_waiting > len(facts.waiting) else "")
    return _labeled(
        "wait", f"{count(facts.n_waiting, 'model')}{_prospects(facts)}{': ' if facts.waiting else ''}{models}"
    )


def _prospects(facts: NowFacts) -> str:
    """How many of the waiting models would end in time. Models that may not start now can start later all the same."""
    if facts.in_time is None:
        return ""
    return f", {facts.in_time or 'none'} would end in time" if facts.n_ready else ", none may start yet"


def _line(work: Work, width: int) -> Content:
    """A fit in progress. The title is cut first, since what follows is shorter than many titles."""
    step = f" step {work.step:,}" if work.step is not None else ""
    left = ""
    share: float | None = None
    if work.expected:
        share = min(work.elapsed / work.expected, 1.0)
        remaining = work.expected - work.elapsed
        word = " left" if width >= LEAST_BAR else ""
        left = f"~{format_duration(remaining)}{word}" if remaining >= 1 else format_duration(work.elapsed)
    else:
        left = format_duration(work.elapsed)
    bar = ""
    if share is not None and width >= LEAST_BAR:
        filled = round(share * BAR_WIDTH)
        bar = f" {'▓' * filled}{'░' * (BAR_WIDTH - filled)}"
    rest = f" {work.what}"
    room = max(4, width - len(rest) - len(bar) - len(left) - 3)
    title = Content(work.title).truncate(min(room, 20), ellipsis=True)
    tail = f" {left}"
    spare = width - 2 - title.cell_length - len(rest) - len(bar) - len(tail)
    if len(step) > spare:
        step = ""
    return Content.assemble(("▸ ", "$primary"), title, (rest, MUTED), (bar, "$primary"), (step, MUTED), tail)
