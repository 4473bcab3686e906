"""Declarations of analyses, and tables of attention maps."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

import msgspec
import pytest

from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.errors import UsageError
from tabapp.run.analyses.attention import AttentionMap, AttentionReady, attention_tables
from tabapp.run.analyses.fairness import FairnessReady
from tabapp.run.analyses.threshold import ThresholdChosen
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import PACKAGE, all_analyses, all_requests
from tabapp.run.record.reducing.reduce import replay
from tabapp.run.record.state import RunState
from tabapp.run.texts.diagnoses import tables_of
from tests.run.recording import analyses
from tests.run.test_state import numbered


def test_attention_of_one_query_is_a_column_sorted_by_its_ratio_to_chance():
    found = AttentionMap(
        title="layer 2",
        queries=("[CLS]",),
        keys=("a", "b", "c", "other"),
        chance=(0.1, 0.1, 0.01, 0.79),
        heads=(((0.1, 0.3, 0.11, 0.49),), ((0.0, 0.2, 0.11, 0.69),)),
        spread=((0.0, 0.0, 0.0, 0.0),),
    )
    (table,) = attention_tables(AttentionReady(model="ft_transformer", n_rows=10, maps=(found,)), RunState())
    assert table.header == ("from [CLS] to", "attention")
    assert table.rows == (("c", "11.0"), ("b", "2.5"), ("other", "0.7"), ("a", "0.5"))


def test_every_declaration_is_complete():
    """Each module but those of common parts declares an analysis, and the engine has the function that computes it."""
    names = {module.name for module in pkgutil.iter_modules(import_module(PACKAGE).__path__)}
    assert {analysis.event.__module__.rpartition(".")[2] for analysis in all_analyses()} == names - {"parts"}
    assert len({analysis.rank for analysis in all_analyses()}) == len(names) - 1
    for request in all_requests():
        module, _, function = request.computation.partition(":")
        expected = [] if request.metavar is None else [str]
        expected += [str | None, float | None] if request.is_limited else []
        compute = getattr(import_module(module), function)
        first, *others = inspect.signature(compute, eval_str=True).parameters.values()
        assert first.annotation is FinishedRun
        assert [each.annotation for each in others] == expected
        assert (request.metavar is None) == (request.values is None)


def test_the_analysis_in_progress_is_known_to_every_view():
    stream = numbered(
        [
            ev.AnalysisStarted(option="fairness", value="city"),
            ev.AnalysisProgress(option="fairness", value="city", share=0.4),
        ]
    )
    state = replay(stream)
    assert state.underway is not None
    assert (state.underway.option, state.underway.value, state.underway.share) == ("fairness", "city", 0.4)
    assert state.feed[-1].text == "Analysis started: Groups of a column: city"
    for status, message, line in (
        ("canceled", "", "Analysis canceled: Groups of a column: city"),
        ("failed", "There is no column.", "No result of the analysis Groups of a column: city: There is no column."),
    ):
        end = ev.AnalysisEnded(option="fairness", value="city", status=status, message=message)
        ended = replay(numbered([*stream, end]))
        assert ended.underway is None
        assert ended.feed[-1].text == line


def test_prices_are_checked_before_an_analysis_starts():
    (threshold,) = [each for each in all_requests() if each.option == "threshold"]
    (costs,) = [each.question for each in threshold.values(RunState()) if each.question is not None]
    assert costs.check(" fn=5,fp=1 ") == "fn=5,fp=1"
    with pytest.raises(UsageError, match="not a number of 0 or more"):
        costs.check("fn=5,fp=x")


def test_a_threshold_of_the_user_says_which_would_be_best():
    chosen = next(event for event in analyses() if isinstance(event, ThresholdChosen))
    by_hand = msgspec.structs.replace(chosen, value=0.2, by_hand=True)
    (table,) = tables_of(by_hand, RunState())
    assert "the threshold that you chose" in table.sentences[0]
    assert "best at 0.310: 0.7100" in table.sentences[1]


def test_each_result_is_kept_until_a_later_one_of_the_same_part():
    results = {type(event).__name__: event for event in analyses()}
    city = results["FairnessReady"]
    other, again = msgspec.structs.replace(city, column="age"), msgspec.structs.replace(city, left_out=3)
    state = replay(numbered([city, other, again]))
    assert [(each.column, each.left_out) for each in state.results(FairnessReady)] == [("city", 3), ("age", 0)]
    chosen = results["ThresholdChosen"]
    assert replay(numbered([chosen])).result(ThresholdChosen).value == chosen.value
    withdrawn = replay(numbered([chosen, ThresholdChosen(value=None)]))
    assert withdrawn.analyses == {}
    assert withdrawn.feed[-1].text == "Threshold of the positive class: 0.5 again"
