from __future__ import annotations

import msgspec
import pytest

from tabapp.column_names import ColumnNames
from tabapp.errors import UsageError
from tabapp.headless.follow import PlainView
from tabapp.run.lists.description import describe_run
from tabapp.run.options.config import RunConfig
from tabapp.run.options.targets import folders_of_targets, resolve_targets
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import encode
from tabapp.run.record.folder import create_run
from tabapp.run.record.reducing.reduce import reduce, replay
from tabapp.run.record.state import RunState, history_until_now
from tabapp.run.run_of_target import run_of_target
from tabapp.run.texts.mean_score import mean_score
from tabapp.tui.widgets.feed import newest
from tests.run.recording import LIGHTGBM_ROW, PLAN, recorded, target_result
from tests.run.test_state import numbered

NAMES = ("height", "species")


def stream(second_plan: ev.PlanMade = PLAN) -> list[ev.AnyEvent]:
    """The events of a run with two targets."""
    events: list[ev.Event] = [
        ev.RunStarted(run="a", name="a", data="t.csv", pid=1, seed=0, budget=None, version="1"),
    ]
    results: list[ev.TargetResult] = []
    for index, (name, score, plan) in enumerate(zip(NAMES, (0.9, 0.7), (PLAN, second_plan), strict=True)):
        results.append(target_result(name, score))
        events += [
            ev.TargetStarted(index=index, target=name, targets=NAMES, folder=f"targets/{index + 1}-{name}"),
            msgspec.structs.replace(plan, target=name, targets=NAMES),
            ev.LeaderboardChanged(rows=(msgspec.structs.replace(LIGHTGBM_ROW, score=score),)),
            ev.TargetFinished(index=index, result=results[-1]),
        ]
    first = msgspec.structs.asdict(results[0])
    events.append(ev.RunFinished(**{**first, "run": "a", "targets": tuple(results)}))
    return numbered(events)


def test_the_name_of_a_column_is_one_target_even_with_a_comma():
    assert resolve_targets("a,b", ColumnNames(["a", "b", "a,b"])) == ("a,b",)
    assert resolve_targets("a,b", ColumnNames(["a", "b"])) == ("a", "b")
    assert resolve_targets('"a,b"', ColumnNames(["a,b", "c"])) == ("a,b",)
    assert resolve_targets(("a", '"a,b",c'), ColumnNames(["a", "b", "a,b", "c"])) == ("a", "a,b", "c")


def test_folders_of_targets_are_plain_and_distinct():
    folders = [run.folder for run in folders_of_targets(["Ünit/../x", "unit", "…"]).targets]
    assert folders == ["targets/1-nit-x", "targets/2-unit", "targets/3-target"]


def test_the_feed_reports_the_table_once_and_the_plan_of_each_target_once():
    read = next(event for event in recorded("a") if isinstance(event, ev.DataRead))
    started, *own = stream()
    plan = msgspec.structs.replace(PLAN, target=NAMES[0], targets=NAMES)
    repeated = [event for each in own for event in ((each, read) if isinstance(each, ev.TargetStarted) else (each,))]
    feed = [line.text for line in replay(numbered([started, read, plan, plan, *repeated])).feed]
    assert feed[1:3] == ["Read 1,000 rows × 3 columns of shop.csv", "2 targets: height, species"]
    assert sum(text.startswith("Read") for text in feed) == 1
    for index, name in enumerate(NAMES, start=1):
        at = feed.index(f"Target {index} of 2: {name}")
        assert feed[at + 1].startswith(f"{name}: {PLAN.task}, ")
    assert sum(PLAN.validation in text for text in feed) == 2


def test_the_feed_ends_with_the_plan_when_a_second_target_is_taken_back():
    read = next(event for event in recorded("a") if isinstance(event, ev.DataRead))
    several = msgspec.structs.replace(PLAN, targets=(PLAN.target, "other"))
    feed = [line.text for line in replay(numbered([read, PLAN, several, PLAN])).feed]
    assert feed[-2:] == [f"2 targets: {PLAN.target}, other", feed[1]]
    assert feed[1].startswith(f"{PLAN.target}: {PLAN.task}, ")


def test_a_state_keeps_each_target_and_ends_with_the_first():
    events = stream()
    working = replay(events[:8])
    assert working.target_index == 1
    assert working.plan is not None
    assert working.plan.target == "species"
    assert working.best is not None
    assert working.best.score == 0.7
    assert working.targets[0].state is not None
    assert working.targets[1].state is None
    state = replay(events)
    assert [view.folder for view in state.targets] == ["targets/1-height", "targets/2-species"]
    scores = [view.state.best.score for view in state.targets if view.state is not None and view.state.best is not None]
    assert scores == [0.9, 0.7]
    assert state.plan is not None
    assert state.plan.target == "height"
    assert state.stage == "done"
    assert state.best is not None
    assert state.best.score == 0.9
    for event in events:
        assert reduce(state, event) == state


def several_bests() -> list[ev.AnyEvent]:
    """Two targets, the second with lower scores than the first, each of which has three new best scores."""
    events: list[ev.Event] = [stream()[0]]
    for index, name in enumerate(NAMES):
        rows = [(msgspec.structs.replace(LIGHTGBM_ROW, score=0.9 - 0.3 * index + 0.01 * n),) for n in range(3)]
        events += [
            ev.TargetStarted(index=index, target=name, targets=NAMES, folder=f"targets/{index + 1}-{name}"),
            msgspec.structs.replace(PLAN, target=name, targets=NAMES, metric_title=f"metric of {name}"),
            *(ev.LeaderboardChanged(rows=each) for each in rows),
            ev.TargetFinished(index=index, result=target_result(name, rows[-1][0].score, leaderboard=rows[-1])),
        ]
    events.append(ev.RunFinished(**{**msgspec.structs.asdict(target_result(NAMES[0], 0.92)), "leaderboard": ()}))
    return numbered(events)


def test_each_target_has_a_history_of_its_own():
    events = several_bests()
    bests = {0: [0.9, 0.91, 0.92], 1: [0.6, 0.61, 0.62]}
    working = replay(events[:-2])
    assert [score for _, score in working.history] == pytest.approx(bests[1])
    state = replay(events)
    for index, view in enumerate(state.targets):
        assert view.state is not None
        assert [score for _, score in view.state.history] == pytest.approx(bests[index])
        assert history_until_now(view.state)[-1] == (view.state.time, pytest.approx(bests[index][-1]))
    assert [score for _, score in state.history] == pytest.approx(bests[0])


@pytest.mark.parametrize(("end", "index"), [(-2, 1), (None, 0)])
def test_a_list_of_runs_shows_one_target(tmp_path, end, index):
    folder = create_run(RunConfig(data="t.csv"), tmp_path)
    with folder.events.open("ab") as file:
        file.writelines(encode(event) for event in several_bests()[:end])
    described = describe_run(folder)
    assert described.history == pytest.approx([0.9 - 0.3 * index + 0.01 * n for n in range(3)])
    assert described.metric_title == f"metric of {NAMES[index]}"


def test_an_ensemble_is_reported_for_each_target(capsys):
    ensemble = ev.EnsembleChanged(
        members=(ev.EnsembleMember(model="m", trial=0, weight=1.0),), score=0.9, low=0, high=1
    )
    events = numbered([event for index in (0, 1) for event in (several_bests()[6 * index + 1], ensemble, ensemble)])
    view, state = PlainView("last", quiet=False, verbose=False), RunState()
    for event in events:
        state = reduce(state, event)
        view.show(event, state)
    assert capsys.readouterr().err.count("1 member") == 2
    assert sum("1 member" in line.text for line in newest(state.feed, 10)) == 2


def test_a_resumed_target_starts_from_an_empty_state():
    events = stream()
    again = msgspec.structs.replace(events[1], seq=len(events) + 1)
    state = reduce(replay(events), again)
    assert (state.leaderboard, state.plan, state.finished) == ((), None, None)
    # Views must not take it for a run that was never started.
    assert state.stage == "fitting"
    assert state.targets[0].state is None
    assert state.targets[1].state is not None


def test_scores_are_averaged_on_a_common_scale_only():
    assert mean_score(replay(stream())) == ("ROC AUC", pytest.approx(0.8))
    other = msgspec.structs.replace(PLAN, task="regression", metric="rmse")
    assert mean_score(replay(stream(other))) is None
    assert mean_score(replay(stream()[:8])) is None


def test_a_command_on_one_target_finds_its_run_or_names_the_targets(tmp_path):
    folder = create_run(RunConfig(data="t.csv"), tmp_path)
    assert run_of_target(folder, None) == folder
    with pytest.raises(UsageError, match="it has a single target"):
        run_of_target(folder, "height")
    with folder.events.open("ab") as file:
        file.writelines(encode(event) for event in numbered(stream()))
    assert run_of_target(folder, "species").path == folder.path / "targets" / "2-species"
    for wrong in (None, "weight"):
        with pytest.raises(UsageError, match="with --target; its targets are 'height', 'species'"):
            run_of_target(folder, wrong)
