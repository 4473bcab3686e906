"""How every screen looks, at both sizes, on recorded runs. `pytest --snapshot-update tests/tui/test_snapshots.py` keeps a new look;
look at it before: the pictures are in __snapshots__/."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tabapp.findings import Interaction
from tabapp.run.analyses.dependence import DependenceReady, GroupImportance
from tabapp.run.analyses.interactions import InteractionsReady
from tabapp.run.protocol.comparing import ComparedModel, ComparedRun, Comparison, Difference
from tabapp.run.record import events as ev
from tabapp.run.record.commands import Pause
from tabapp.run.record.folder import RunFolder
from tabapp.tui.app import AttachedApp
from tabapp.tui.dialogs.basic import Reading
from tabapp.tui.screens.predict import PredictView
from tabapp.tui.screens.row import RowView
from tabapp.tui.screens.whole_table import WholeTable
from tabapp.tui.viewmodels.comparison import comparison_content
from tabapp.tui.widgets.explanation import group_key
from tests.recordings import NAMES, events_of
from tests.recordings.replay import ReplayWorker, config_of
from tests.run.recording import analyses
from tests.tables import write_breast_cancer, write_mixed, write_wine
from tests.tui.explained import CannedClient

WIDE, NARROW = (120, 36), (80, 24)
TABLES = {"cancer": write_breast_cancer, "prices": write_mixed, "wine": write_wine, "tuned": write_breast_cancer}
MOST_PICTURES = 49
MOST_BYTES = 3_200_000

Play = Callable[[ReplayWorker], None]


@pytest.fixture(autouse=True)
def nothing_is_painted() -> None:
    """Pictures show what is painted."""


def before(worker: ReplayWorker) -> None:
    """Planned, and waiting for the start."""
    worker.play_to(ev.PlanMade)
    worker.play()


def during(worker: ReplayWorker) -> None:
    """In the middle of the fits, with a score for some models and some running."""
    worker.play_to(ev.TrialFinished, 3)


def paused(worker: ReplayWorker) -> None:
    during(worker)
    worker.steer(Pause())


def after(worker: ReplayWorker) -> None:
    worker.play_all()


def analyzed(worker: ReplayWorker) -> None:
    """Finished, with analyses that a user has requested, and a group of the two columns that matter most."""
    after(worker)
    assert worker.state.importances is not None
    first = worker.state.importances.rows[:2]
    group = GroupImportance(columns=tuple(row.feature for row in first), permutation=0.1, low=0.08, high=0.12)
    for event in analyses():
        if isinstance(event, DependenceReady):
            event = msgspec.structs.replace(event, groups=(group,))
        if isinstance(event, InteractionsReady):
            event = interactions_of([row.feature for row in worker.state.importances.rows[:4]])
        worker.write(event)


def interactions_of(columns: list[str]) -> InteractionsReady:
    """Interactions of columns, the largest first."""
    pairs = [(a, b) for i, a in enumerate(columns) for b in columns[i + 1 :]]
    views = [Interaction(a=a, b=b, h=0.9 / (n + 1), size=0.05 / (n + 1)) for n, (a, b) in enumerate(pairs)]
    return InteractionsReady(model="linear", label="malignant", columns=tuple(columns), pairs=tuple(views))


class Still(AttachedApp):
    """The app on a run whose engine is taken for alive, with nothing that moves by itself."""

    async def _check_engine(self) -> None:
        pass


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Still]]:
    """Makes the app on a recorded run, the same on every machine and at every hour."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setenv("TABAPP_RUNS_DIR", "runs")
    monkeypatch.chdir(tmp_path)

    def folder_of(name: str) -> RunFolder:
        folder = RunFolder(Path("runs") / f"20260921-120000-{name}-a3f9")
        folder.path.mkdir(parents=True)
        data = TABLES[name](Path(f"{name}.csv"))
        folder.save_config(msgspec.structs.replace(config_of(events_of(name)), data=str(data)))
        return folder

    def make(name: str, play: Play) -> Still:
        for other in NAMES:
            if other != name and name == "wine":
                ReplayWorker(folder_of(other), events_of(other)).play_all()
        folder = folder_of(name)
        worker = ReplayWorker(folder, events_of(name))
        if play in (after, analyzed):
            folder.bundle.write_bytes(b"a bundle")
        play(worker)
        app = Still(folder, runs_dir=Path("runs"), clock=lambda: worker.state.time)
        app.animation_level = "none"
        app.expected_seq = worker.state.seq
        return app

    yield make
    monkeypatch.undo()
    time.tzset()


async def settled(pilot: Pilot[None]) -> None:
    """Wait until the app has read all events and what it does in the background is done."""
    app = pilot.app
    assert isinstance(app, Still)
    for _ in range(3000):
        await pilot.pause(0.02)
        if app.snapshot().state.seq == app.expected_seq:
            break
    else:
        raise AssertionError("the app has not read its run")
    app.draw_changes()
    await pilot.pause(0.1)


def going(*keys: str, move: str = "", rest: float = 0.0) -> Callable[[Pilot[None]], object]:
    """Press keys once the app has read its run; `move` puts the cursor of the main table on a row after the first key."""

    async def run(pilot: Pilot[None]) -> None:
        await settled(pilot)
        for index, key in enumerate(keys):
            await pilot.press(key)
            await pilot.pause(0.05)
            if index == 0 and move:
                pilot.app.screen.query_one(pilot.app.screen.MAIN).move_to_key(move)
                await pilot.pause(0.05)
        if isinstance(pilot.app.screen, WholeTable):
            for _ in range(3000):
                await pilot.pause(0.02)
                if (
                    "…" not in pilot.app.screen.query_one("#table").render_line(3).text
                    and not pilot.app.screen._rows.busy
                ):
                    break
        if isinstance(pilot.app.screen, PredictView):
            pilot.app.screen.redraw()
        await settled(pilot)
        await pilot.pause(rest)
        for field in pilot.app.screen.query(Input):
            field.cursor_blink = False
            field._cursor_visible = True
        await pilot.pause(0.05)

    return run


async def explaining(pilot: Pilot[None]) -> None:
    """Open the explanation of a row, and search for changes."""
    await settled(pilot)
    row = RowView(CannedClient(), 3, 30, "income")
    await pilot.app.push_screen(row)
    for _ in range(3000):
        await pilot.pause(0.02)
        if row._row.curve is not None and not row._row.working:
            break
    await pilot.press("j", "j")
    await row._row.search("<=50K")
    await settled(pilot)


async def explaining_and_switching(pilot: Pilot[None]) -> None:
    """Open the explanation of a row, and show the curve over a column instead of the contributions."""
    await explaining(pilot)
    await pilot.press("c")
    await settled(pilot)


async def asking_what_if(pilot: Pilot[None]) -> None:
    """Open the explanation of a row, and the dialog that changes a value."""
    await explaining(pilot)
    await pilot.press("enter")
    await pilot.pause(0.1)
    field = pilot.app.screen.query_one(Input)
    field.cursor_blink = False
    field._cursor_visible = True
    await pilot.pause(0.05)


async def opening_a_group(pilot: Pilot[None]) -> None:
    """Open the group of columns on the Explain screen."""
    await going("5")(pilot)
    table = pilot.app.screen.query_one(pilot.app.screen.MAIN)
    table.move_to_key(group_key([row.feature for row in pilot.app.snapshot().state.importances.rows[:2]]))
    await pilot.press("enter")
    await settled(pilot)


async def comparing(pilot: Pilot[None]) -> None:
    """Show the comparison of two runs over the Runs screen."""
    await going("7", rest=0.3)(pilot)
    models = [ComparedModel(model=n, title=t, a=a, b=b) for n, t, a, b in MODELS]
    found = Comparison(
        a=ComparedRun(run="20260921-120000-wine-a3f9", name="wine", best="Ensemble of 3", rows=178),
        b=ComparedRun(run="20260922-090000-wine-b1c2", name="wine", best="CatBoost", rows=178),
        metric="log_loss", metric_title="Log loss", common_rows=178, matched_by="number in the same file",
        score_a=0.031, score_b=0.058, difference=0.027, low=0.009, high=0.047, better="a",
        leaderboard=tuple(models),
        differences=(Difference(part="plan", name="budget", a="60 s", b="20 s"),),
    )  # fmt: skip
    await pilot.app.push_screen(Reading("Comparison", comparison_content(found, "first", "second")))
    await settled(pilot)


MODELS = (("mlp", "MLP", 0.035, None), ("catboost", "CatBoost", 0.061, 0.058), ("linear", "Linear", 0.066, 0.066))
SCREENS: dict[str, tuple[str, Play, Callable[[Pilot[None]], object]]] = {
    "data": ("wine", before, going("2", "j", "j")),
    "table": ("wine", before, going("2", "a", "j", "l", "l")),
    "run": ("cancer", during, going("1", "j")),
    "models": ("cancer", after, going("3", move="lightgbm")),
    "tuning": ("tuned", after, going("4", move="lightgbm#0")),
    "explain": ("cancer", after, going("5", "j")),
    "predict": ("cancer", after, going("6")),
    "row": ("cancer", after, explaining),
    "runs": ("wine", after, going("7", rest=0.3)),
    "log": ("prices", after, going("8")),
    "what-if": ("cancer", after, asking_what_if),
    "groups": ("cancer", analyzed, opening_a_group),
    "diagnosed": ("cancer", analyzed, going("9")),
    "attention-map": ("cancer", analyzed, going("9", move="attention.ready ft_transformer")),
    "interactions": ("cancer", analyzed, going("9", move="interactions.ready ")),
    "comparison": ("wine", after, comparing),
    "compare": ("prices", after, going("3", "space", "j", "space", move="linear")),
}
# Panels that a narrow screen shows after a key.
PANELS: dict[str, tuple[str, Play, Callable[[Pilot[None]], object]]] = {
    "effect": ("cancer", after, going("5", "j", "c")),
    "errors": ("cancer", after, going("5", "c", "c")),
    "row-curve": ("cancer", after, explaining_and_switching),
}
STATES: dict[str, tuple[str, Play, Callable[[Pilot[None]], object]]] = {
    "run-paused": ("prices", paused, going("1")),
    "confusion": ("wine", after, going("3", move="mlp")),
    "residuals": ("prices", after, going("3", "right", move="linear")),
}
DIALOGS: dict[str, tuple[str, Play, Callable[[Pilot[None]], object]]] = {
    "failed-model": ("cancer", after, going("1", "enter", move="mlp")),
    "help": ("cancer", during, going("1", "question_mark")),
    "palette": ("cancer", during, going("1", "ctrl+p", rest=0.3)),
    "export": ("wine", after, going("1", "e")),
    "quit": ("cancer", during, going("1", "q")),
    "more-budget": ("cancer", during, going("1", "plus", move="lightgbm")),
    "target": ("wine", before, going("2", "t")),
    "file": ("wine", after, going("6", "enter")),
}


SLOW_WHEN_NARROW = ("what-if", "groups", "diagnosed", "attention-map", "interactions", "comparison", "compare")
SIZED = [
    pytest.param(name, size, id=f"{name}-{label}", marks=[pytest.mark.slow] if is_slow else [])
    for name in SCREENS
    for size, label in ((WIDE, "120x36"), (NARROW, "80x24"))
    for is_slow in (size == NARROW and name in SLOW_WHEN_NARROW,)
]


@pytest.mark.parametrize(("name", "size"), SIZED)
def test_screen(snap_compare, show, name, size):
    recording, play, do = SCREENS[name]
    assert snap_compare(show(recording, play), terminal_size=size, run_before=do)


@pytest.mark.slow
@pytest.mark.parametrize("name", PANELS)
def test_panel(snap_compare, show, name):
    recording, play, do = PANELS[name]
    assert snap_compare(show(recording, play), terminal_size=NARROW, run_before=do)


@pytest.mark.parametrize("name", STATES)
def test_state(snap_compare, show, name):
    recording, play, do = STATES[name]
    assert snap_compare(show(recording, play), terminal_size=WIDE, run_before=do)


@pytest.mark.parametrize("name", DIALOGS)
def test_dialog(snap_compare, show, name):
    recording, play, do = DIALOGS[name]
    assert snap_compare(show(recording, play), terminal_size=NARROW, run_before=do)


def test_one_line_below_the_smallest_size(snap_compare, show):
    assert snap_compare(show("cancer", during), terminal_size=(50, 12), run_before=going())


def test_the_pictures_are_few_and_small(request):
    if request.config.getoption("update_snapshots"):
        pytest.skip("they are written when the session ends")
    pictures = list((Path(__file__).parent / "__snapshots__" / "test_snapshots").glob("*.svg"))
    assert len(pictures) == 2 * len(SCREENS) + len(PANELS) + len(STATES) + len(DIALOGS) + 1 <= MOST_PICTURES
    assert sum(picture.stat().st_size for picture in pictures) < MOST_BYTES
