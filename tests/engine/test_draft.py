"""Drafts of a run that a screen changes before the start."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tabapp.engine.draft import Draft, Inputs, changed_draft, make_draft
from tabapp.engine.plan.prepare import read_data, read_more
from tabapp.errors import TabappError
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev

N = 60


@pytest.fixture
def drafted(tmp_path: Path) -> tuple[Draft, Inputs]:
    path = tmp_path / "shop.csv"
    path.write_text("a;b;y\n" + "".join(f"{i};{i % 7},5;{i % 2}\n" for i in range(N)))
    config = RunConfig(data=str(path), target="y", models=("linear",), start=False)
    inputs = Inputs(read_data(config), read_more(config))
    return make_draft(config, inputs.reading, inputs.more, show=lambda event: None), inputs


def kinds(events: list[ev.Event]) -> list[type[ev.Event]]:
    return [type(event) for event in events]


def test_another_way_to_read_the_file_reads_it_again(drafted):
    draft, inputs = drafted
    new, again, events = changed_draft({"delimiter": ";", "decimal": ","}, draft, inputs, None)
    assert kinds(events) == [ev.DataRead, ev.SchemaInferred, ev.PlanMade]
    assert again.reading is not inputs.reading
    assert new.schema.column("b").kind == "numeric"
    _, same, events = changed_draft({"seed": 3}, new, again, None)
    assert kinds(events) == [ev.SchemaInferred, ev.PlanMade]
    assert same.reading is again.reading


def test_a_file_of_unlabeled_rows_is_read_if_its_owner_has_chosen_it(drafted, tmp_path):
    draft, inputs = drafted
    more = tmp_path / "more.csv"
    more.write_text("a;b\n" + "".join(f"{i};1,5\n" for i in range(30)))
    own = msgspec.structs.replace(draft.config, unlabelled=str(more))
    new, again, events = changed_draft({"unlabelled": str(more)}, draft, inputs, own)
    assert again.more is not None
    assert again.more.height == 30
    assert next(event for event in events if isinstance(event, ev.SchemaInferred)).rows_unlabelled == 30
    assert new.config.unlabelled == str(more)
    _, without, _ = changed_draft({"unlabelled": None}, new, again, msgspec.structs.replace(own, unlabelled=None))
    assert without.more is None
    with pytest.raises(TabappError, match="--unlabelled is chosen when a run is created"):
        changed_draft({"unlabelled": str(more)}, draft, inputs, draft.config)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"time": "a", "folds": 3}, "which have no --folds. Remove one of them"),
        ({"validation": "holdout", "folds": 3}, "which has no --folds"),
        ({"folds": 100}, "--folds 100 is not valid. Use a whole number, 2 to 50."),
        ({"fixed": {"linear.penalti": "1"}}, "linear has no hyperparameter 'penalti'"),
        ({"group": "c"}, "--group: there is no column 'c'"),
        ({"kinds": {"a": "number"}}, "there is no such kind"),
    ],
)
def test_a_change_is_refused_with_the_sentence_of_the_command_line(drafted, options, problem):
    draft, inputs = drafted
    with pytest.raises(TabappError, match=problem):
        changed_draft(options, draft, inputs, None)
