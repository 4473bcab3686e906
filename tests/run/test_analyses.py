"""Declarations of analyses, and tables of attention maps."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

import msgspec

from tabapp.engine.analyses.finished_run import FinishedRun
from tabapp.run.analyses.attention import AttentionMap, AttentionReady, attention_tables
from tabapp.run.analyses.fairness import FairnessReady
from tabapp.run.analyses.threshold import ThresholdChosen
from tabapp.run.record.analysis import PACKAGE, all_analyses, all_requests
from tabapp.run.record.reducing.reduce import replay
from tabapp.run.record.state import RunState
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
        expected += [str | None, float | None] if request.trains else []
        compute = getattr(import_module(module), function)
        first, *others = inspect.signature(compute, eval_str=True).parameters.values()
        assert first.annotation is FinishedRun
        assert [each.annotation for each in others] == expected
        assert (request.metavar is None) == (request.values is None)


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
