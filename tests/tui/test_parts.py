"""The parts that need no app: the registry of actions, widths of columns, texts, plans asked for, agreement."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from textual.content import Content

from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.folder import create_run
from tabapp.run.record.reducing.reduce import replay
from tabapp.run.record.state import FeedLine, RunState, history_until_now
from tabapp.run.texts.progress import progress_of
from tabapp.tui.app import TabappApp
from tabapp.tui.chrome.actions import ACTIONS, TABS, Scope, actions_for, bindings_for, phase_of
from tabapp.tui.chrome.help_texts import PANELS, SCREENS
from tabapp.tui.door.screen import Door
from tabapp.tui.parts.table import GAP, Column, fit_widths
from tabapp.tui.paths import typed_path
from tabapp.tui.replay import ReplayApp
from tabapp.tui.screens.help import help_sections
from tabapp.tui.screens.registry import screen_class
from tabapp.tui.screens.row import RowView
from tabapp.tui.screens.whole_table import WholeTable
from tabapp.tui.session.plan_changes import PlanChanges
from tabapp.tui.session.run_follower import RunFollower
from tabapp.tui.viewmodels import texts
from tabapp.tui.widgets.checks import shorter_line
from tabapp.tui.widgets.explanation import agreement_mark, places, reading
from tabapp.tui.widgets.feed import newest
from tabapp.tui.widgets.leaderboard import Leaderboard, recent_gain
from tabapp.tui.widgets.plan import wrap_command
from tests.tui import recordings

VIEWS: dict[Scope, type] = {
    **{view: screen_class(view) for _, view, _ in TABS},
    "table": WholeTable,
    "row": RowView,
    "door": Door,
    "replay": ReplayApp,
    "everywhere": TabappApp,
}


def numbered(events: list[ev.Event]) -> list[ev.Event]:
    return [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events, 1)]


# Actions


def test_ids_are_unique_and_a_key_means_one_thing_on_a_screen():
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)
    for scope in VIEWS:
        if scope == "door":  # A dialog without the actions of all screens.
            continue
        keys = [key for action in actions_for(scope) for key in action.keys.split(",")]
        assert len(set(keys)) == len(keys), scope


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.id)
def test_every_action_exists_and_has_help(action):
    name = action.action.partition("(")[0]
    holder = VIEWS[action.scope] if action.scope in ("door", "replay") or not name.startswith("app.") else TabappApp
    assert hasattr(holder, f"action_{name.removeprefix('app.')}")
    assert action.help.endswith(".")
    noun, _, verb = action.name.partition(": ")
    assert noun
    assert verb
    view = "run" if action.scope in ("everywhere", "replay") else action.scope
    # The bar of a replay names its keys.
    assert action.scope == "replay" or any(
        action.help in part.plain for part in help_sections(view, None, RunState(), "ready")
    )


def test_bindings_have_ids_so_that_keys_can_be_changed():
    assert {binding.id for scope in VIEWS for binding in bindings_for(scope)} == {action.id for action in ACTIONS}


def test_every_panel_of_every_screen_has_a_help_text():
    assert {panel for panels in SCREENS.values() for panel in panels} == set(PANELS)
    titles = [part.plain.partition("\n")[0] for part in help_sections("run", "feed", RunState(), "ready")]
    assert titles.index("Events") < titles.index("Leaderboard"), "the focused panel comes first"


@pytest.mark.parametrize(
    ("events", "phase"),
    [
        ([], "reading"),
        (recordings.opening(), "ready"),
        (recordings.running(), "during"),
        (recordings.finished(), "after"),
    ],
)
def test_phases_of_a_run(events, phase):
    assert phase_of(replay(numbered(events))) == phase


# Widths


COLUMNS = [Column("a"), Column("b", priority=1), Column("c", priority=2), Column("d", flexible=True, least=6)]


@pytest.mark.parametrize("available", range(12, 60))
def test_columns_fit_and_leave_by_priority(available):
    widths = fit_widths(COLUMNS, [4, 5, 6, 20], available)
    shown = [width for width in widths if width]
    assert sum(shown) + GAP * (len(shown) - 1) == available
    assert widths[0] == 4
    assert widths[3] >= 6
    assert not (widths[2] and not widths[1]), "the highest number is hidden first"


# Texts


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("34900 … 755000", 14, "34900 … 755000"),
        ("34900 … 755000", 12, "34.9k … 755k"),
        ("34900 … 755000", 10, "34.9k…755k"),
        ("12285 … 1490400", 14, "12.3k … 1.49M"),
        ("0.4167 … 512.329", 14, "0.4167 … 512.3"),
        ("-1500000 … 0", 9, "-1.50M…0"),
        ("2011-01-01 … 2012-12-31", 12, "2011 … 2012"),
        ("2011-01-01 … 2012-12-31", 16, "2011-01…2012-12"),
        ("2011-01-01 … 2012-12-31", 20, "2011-01 … 2012-12"),
        ("2011-01-01 09:30:00 … 2011-01-02 10:00:00", 36, "2011-01-01 09:30 … 2011-01-02 10:00"),
        ("46% Married-civ-spouse", 9, "46% Married-civ-spouse"),
    ],
)
def test_a_range_keeps_both_of_its_ends(text, width, short):
    assert texts.short_range(text, width) == short


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, "⚠ Name: 891 of 891 are distinct → kept as text; more words; even more words"),
        (60, "⚠ Name: 891 of 891 are distinct → kept as text; more words"),
        (50, "⚠ Name: 891 of 891 are distinct → kept as text"),
        (40, "⚠ Name: 891 of 891 are d… → kept as text"),
        (24, "⚠ Name: 891… → kept as text"),
    ],
)
def test_a_short_warning_says_what_is_done(width, shown):
    line = Content("⚠ Name: 891 of 891 are distinct → kept as text; more words; even more words")
    assert (line.plain if len(line) <= width else shorter_line(line, width).plain) == shown


@pytest.mark.parametrize(
    ("size", "text"), [(812, "812 B"), (60_302, "60.3 kB"), (3_800_000, "3.8 MB"), (999_900, "1.0 MB")]
)
def test_file_sizes(size, text):
    assert texts.file_size(size) == text


def test_a_command_is_broken_after_commas_and_read_as_it_was():
    command = "tabapp --auto titanic.csv --models lightgbm,xgboost,ft_transformer,random_forest,linear"
    lines = wrap_command(command, 32)
    assert all(len(line) <= 32 for line in lines)
    assert all(line.endswith(",") for line in lines[1:-1])
    assert "".join("".join(lines).split()) == "".join(command.split())


def test_the_margin_has_the_digits_of_the_score():
    row = ev.LeaderboardRow(rank=1, model="m", title="M", family="f", score=46_521.3, low=46_000.0, high=47_100.0)
    assert texts.score_margin(row) == "±550"
    assert texts.score_margin(msgspec.structs.replace(row, score=0.9, low=0.89, high=0.91)) == "±0.0100"
    assert texts.score_margin(msgspec.structs.replace(row, low=None)) == "—"


def test_progress_by_the_clock_by_trials_and_at_the_end():
    state = replay(numbered(recordings.running()))
    progress = progress_of(state, recordings.START + 61)
    assert progress is not None
    assert (progress.elapsed, progress.left) == (60, 59)
    assert progress.share == pytest.approx(60 / 119)
    by_trials = msgspec.structs.replace(state, deadline=None, plan=recordings.plan(budget=None, trials=10))
    assert progress_of(by_trials, recordings.START + 61).share == len(state.trials) / 60
    assert progress_of(RunState(), 0.0) is None
    assert progress_of(replay(numbered(recordings.finished())), 1e12).elapsed == 116


def test_a_score_of_some_folds_is_marked_as_partial():
    state = replay(numbered(recordings.running()))
    rows = tuple(msgspec.structs.replace(r, folds=2) if r.model == "mlp" else r for r in state.leaderboard)
    rows = tuple(msgspec.structs.replace(r, activity="") for r in rows)
    snapshot = texts.Snapshot(msgspec.structs.replace(state, leaderboard=rows), 0.0, "titanic.csv")
    shown = {row.key: row.cells for row in Leaderboard().rows_of(snapshot)}
    assert shown["mlp"][-1].plain == "◔ 2 of 5 folds"
    assert shown["catboost"][-1].plain == "✓ 4 trials  ◆"


def test_fits_that_run_side_by_side_are_counted():
    row = ev.LeaderboardRow(rank=0, model="m", title="M", family="f", activity="trial 1 · fold 1/5, trial 1 · fold 2/5")
    assert texts.status_content(row, 0, members=0, folds=5).plain == "⠋ trial 1 · fold 1/5 +1"


def test_the_feed_leaves_out_single_fits_and_repeated_ensembles():
    lines = [("fit", "f"), ("ensemble", "A"), ("trial", "t"), ("ensemble", "A"), ("ensemble", "B")]
    feed = tuple(FeedLine(t=0.0, kind=kind, text=text) for kind, text in lines)
    assert [line.text for line in newest(feed, 10)] == ["B", "t", "A"]
    assert [line.text for line in newest(feed, 1)] == ["B"]


def test_the_gain_of_the_last_minute():
    state = replay(numbered(recordings.running()))
    history = ((0.0, 0.8), (50.0, 0.85), (100.0, 0.86))
    snapshot = texts.Snapshot(state=state, now=115.0, file="x.csv", history=history)
    assert recent_gain(snapshot) == pytest.approx(0.01)
    assert recent_gain(texts.Snapshot(state=state, now=200.0, file="x.csv", history=history)) is None


# Plans


def test_two_views_change_one_plan(tmp_path):
    """As in two browser tabs: the engine applies each change, saves the configuration and emits the plan."""
    folder = create_run(RunConfig(data="x.csv", ignore=("a",)), tmp_path)
    views = PlanChanges(folder), PlanChanges(folder)

    def change(view: PlanChanges, **options) -> None:
        view.add(options)
        assert view.waits
        folder.save_config(msgspec.convert({**msgspec.to_builtins(folder.config()), **options}, RunConfig))
        for other in views:
            other.on_event(recordings.plan())
            assert not other.waits

    one, other = views
    change(one, quality="best", ignore=[*one.ignored, "b"])
    change(other, target="y", ignore=[*other.ignored, "c"])
    change(one, kinds={**one.kinds, "d": "text"}, ignore=[name for name in one.ignored if name != "a"])
    assert folder.config() == RunConfig(
        data="x.csv", quality="best", target="y", ignore=("b", "c"), kinds={"d": "text"}
    )
    assert other.ignored == one.ignored == ["b", "c"]
    assert other.kinds == {"d": "text"}


def test_changes_in_quick_succession_build_on_each_other_and_a_refused_one_is_forgotten(tmp_path):
    planning = PlanChanges(create_run(RunConfig(data="x.csv"), tmp_path))
    planning.add({"ignore": ["a"]})
    planning.add({"ignore": [*planning.ignored, "b"], "quality": "best"})
    assert planning.ignored == ["a", "b"]
    planning.on_event(recordings.plan())
    assert planning.asked == {"ignore": ["a", "b"], "quality": "best"}
    planning.on_event(ev.PlanRefused(message="no"))
    assert (planning.asked, planning.ignored, planning.waits) == ({}, [], False)


def test_paths_are_shown_as_people_write_them_and_a_shell_reads_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    words = [
        "tabapp",
        "--auto",
        str(tmp_path / "my data.csv"),
        "--out",
        str(tmp_path.parent / "a b.tabapp"),
        "--test",
        "/x/y",
    ]
    shown = texts.short_command(shlex.join(words))
    assert shown == "tabapp --auto 'my data.csv' --out ~/'a b.tabapp' --test /x/y"
    read = subprocess.run(["sh", "-c", f'printf "%s\\n" {shown}'], check=True, capture_output=True, text=True).stdout
    assert read.splitlines()[4] == str(tmp_path.parent / "a b.tabapp")


# Agreement


def test_places_and_their_marks():
    rows = recordings.importances(0.0).rows
    place = places(rows)
    assert place["Sex"] == (0, 0)
    assert place["Ticket"] == (4, 6)
    assert agreement_mark(place["Sex"], 10).plain == "● same"
    assert agreement_mark(place["Ticket"], 10).plain == "◐ near"
    assert agreement_mark((0, 9), 10).plain == "○ apart"
    assert agreement_mark(None, 10).plain == "—"
    assert places(tuple(msgspec.structs.replace(row, attention=None) for row in rows)) == {}


@pytest.mark.parametrize(
    ("agreement", "words"),
    [
        (0.95, "both rankings agree"),
        (0.75, "broadly agree"),
        (0.5, "in part"),
        (0.1, "hardly"),
        (-0.4, "contradict"),
        (None, "A rank correlation needs three columns"),
    ],
)
def test_a_rank_correlation_in_words(agreement, words):
    assert words in reading(agreement)
    assert "No fitted model weighs columns by attention" in reading(agreement, has_attention=False)


# RunFollower


def test_following_folds_what_is_new_and_remembers_each_best(tmp_path):
    folder = recordings.make_run(tmp_path)
    recorder = recordings.Recorder(folder)
    following = RunFollower(folder)
    recorder.write(*recordings.opening())
    assert len(asyncio.run(following.read())) == 6
    recorder.write(*recordings.running()[6:])
    asyncio.run(following.read())
    scores = [score for _, score in following.state.history]
    assert scores == sorted(scores)
    assert scores[-1] == following.state.best.score
    assert history_until_now(following.state)[-1] == (following.state.time, scores[-1])
    following.engine_ended(-9)
    assert "SIGKILL" in following.trouble
    following.engine_lives()
    assert following.trouble is None


def test_a_score_of_some_folds_is_no_best(tmp_path):
    folder = recordings.make_run(tmp_path)
    recorder = recordings.Recorder(folder)
    recorder.write(*recordings.running())
    following = RunFollower(folder)
    asyncio.run(following.read())
    known = following.state.history
    rows = following.state.leaderboard
    partial = msgspec.structs.replace(rows[1], rank=1, score=0.99, folds=2)
    worse = msgspec.structs.replace(rows[0], score=0.8)
    recorder.write(ev.LeaderboardChanged(rows=(partial, *rows[:1])), ev.LeaderboardChanged(rows=(worse,)))
    asyncio.run(following.read())
    assert following.state.history == known


def test_the_view_loads_no_library_of_the_engine():
    screens = ", ".join(view.__module__ for name, view in VIEWS.items() if name != "everywhere")
    code = f"import sys, tabapp.tui.app, tabapp.tui.screens.palette, {screens}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    rooms = {name.split(".")[0] for name in loaded} | {".".join(name.split(".")[:2]) for name in loaded}
    heavy = {
        "numpy",
        "polars",
        "torch",
        "sklearn",
        "optuna",
        "scipy",
        "pandas",
        "xgboost",
        "lightgbm",
        "catboost",
        "tabapp_plugins",
    }
    ours = {
        f"tabapp.{room}"
        for room in ("data", "engine", "models", "features", "nn", "ensemble", "explain", "bundle", "metrics")
    }
    assert not rooms & (heavy | ours)


def test_content_compares_by_text_which_is_why_rows_compare_otherwise():
    assert Content.styled("a", "bold") == Content("a")
    assert not Content.styled("a", "bold").is_same(Content("a"))


@pytest.mark.parametrize("text", ["-new.csv", "./-new.csv", "-"])
def test_a_typed_path_is_never_an_option(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    assert typed_path(text) == tmp_path / text
    assert typed_path("new-.csv") == Path("new-.csv")
