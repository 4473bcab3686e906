"""The attention of each model in a report, on stdout, and in Python."""

from __future__ import annotations

import msgspec
import pytest

import tabapp
from tabapp.errors import UsageError
from tabapp.headless.summary import print_importances
from tabapp.report.html import to_html
from tabapp.report.importances import importance_parts
from tabapp.report.make import make_report
from tabapp.report.markdown import to_markdown
from tabapp.report.parts import Bars, Table, Text
from tabapp.run.analyses.attention_importances import AttentionImportancesReady
from tabapp.run.record import events as ev
from tabapp.run.record.reducing.reduce import replay
from tests.run.recording import ATTENTION, IMPORTANCE, LIGHTGBM_ROW, PLAN, write_run

NPT = msgspec.structs.replace(
    ATTENTION, model="npt", kind="attention", streams=(), combinations=(), agreement=-0.25,
    rows=tuple(msgspec.structs.replace(row, streams=(), share=1 - row.share) for row in ATTENTION.rows[::-1]),
)  # fmt: skip
IMPORTANCES = ev.ImportancesReady(
    rows=(IMPORTANCE, msgspec.structs.replace(IMPORTANCE, feature="city", permutation=0.01)),
    model="lightgbm", attention_model="lightgbm", n_rows=200, agreement=0.5,
)  # fmt: skip


@pytest.fixture
def state():
    plan = msgspec.structs.replace(PLAN, models=(*PLAN.models, ev.ModelView(name="npt", title="NPT", family="deep")))
    return replay(
        [
            plan,
            IMPORTANCES,
            AttentionImportancesReady(model="lightgbm", trial=1, found=ATTENTION),
            AttentionImportancesReady(model="npt", trial=0, found=NPT),
            AttentionImportancesReady(model="tabnet", trial=0, reason="the time of the run ended before"),
        ]
    )


def test_every_model_has_bars_with_intervals_and_is_compared(state):
    parts = importance_parts(state)
    bars = {part.title: part for part in parts if isinstance(part, Bars)}
    assert list(bars) == ["Permutation importance", "Attention of LightGBM", "Attention of NPT"]
    first = bars["Attention of LightGBM"].rows[0]
    assert (first.label, first.value, first.low, first.high) == ("age", 0.7, 0.6, 0.8)
    tables = {part.title: part for part in parts if isinstance(part, Table)}
    compared = tables["Attention of each model"]
    assert compared.header == ("column", "permutation", "LightGBM", "NPT")
    assert compared.rows[0][:1] + compared.rows[0][2:] == ("age", "70.0%", "30.0%")
    assert compared.rows[-1] == ("rank correlation", "", "+0.50", "-0.25")
    assert tables["Sums and products of LightGBM"].rows == (("age", "70.0%", "40.0%"), ("city", "30.0%", "60.0%"))
    assert tables["Products of LightGBM"].rows == (("age × city", "90%", "4", "5 of 5"),)
    texts = [part.text for part in parts if isinstance(part, Text)]
    assert "There is no attention of tabnet: the time of the run ended before." in texts


def test_reports_of_all_formats_name_each_model_once(state):
    report = make_report(state)
    titles = [getattr(part, "title", "") for section in report.sections for part in section.parts]
    assert titles.count("Attention of NPT") == titles.count("Products of LightGBM") == 1
    for text in (to_html(report), to_markdown(report)):
        assert "Attention of NPT" in text
        assert "age × city" in text
    assert b"Attention of NPT" in msgspec.json.encode(report)


def test_a_run_of_an_earlier_version_keeps_its_attention():
    parts = importance_parts(replay([PLAN, IMPORTANCES]))
    assert [part.title for part in parts if isinstance(part, Bars)][-1] == "Attention of LightGBM"
    assert any("rank correlation" in part.text for part in parts if isinstance(part, Text))


def test_the_final_text_compares_the_models(state, capsys):
    print_importances("r", state)
    out = capsys.readouterr().out
    assert "Attention of each model" in out
    assert "rank correlation" in out
    assert "No attention of tabnet: the time of the run ended before." in out
    assert "--attention tabnet" in out


def test_python_has_a_row_for_each_model_and_column(tmp_path):
    run = write_run(tmp_path)
    with run.events.open("ab") as file:
        for number, found in enumerate((ATTENTION, NPT)):
            event = AttentionImportancesReady(seq=1000 + number, model=found.model, trial=found.trial, found=found)
            file.write(msgspec.json.encode(event) + b"\n")
    (found,) = tabapp.runs(tmp_path)
    frame = found.attention()
    assert frame.columns == ["model", "trial", "kind", "feature", "attention", "low", "high", "agreement"]
    assert frame["model"].to_list() == ["lightgbm", "lightgbm", "npt", "npt"]
    assert frame.row(0) == ("lightgbm", 1, "attention", "age", 0.7, 0.6, 0.8, 0.5)
    assert found.attention("npt")["agreement"].to_list() == [-0.25, -0.25]
    with pytest.raises(UsageError, match=r"no attention of 'catboost'; there is that of: lightgbm, npt\."):
        found.attention("catboost")


def test_what_fitted_models_report_is_in_the_report():
    row = msgspec.structs.replace(LIGHTGBM_ROW, summary={"trees": 120, "used columns": {"age": 0.75}})
    text = to_markdown(make_report(replay([PLAN, ev.LeaderboardChanged(rows=(row,))])))
    assert "Reported by the fitted models" in text
    assert "age 0.75" in text
