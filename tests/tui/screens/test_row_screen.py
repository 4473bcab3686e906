"""The explanation of one row over a real bundle, which this process loads in place of the explainer process."""

from __future__ import annotations

import shutil

import msgspec
import polars as pl
import pytest

from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.threshold import set_threshold
from tabapp.bundle.writing.write import write_bundle
from tabapp.errors import TabappError
from tabapp.processes.explainer import RowExplainer
from tabapp.run.analyses.threshold import ThresholdChosen
from tabapp.run.protocol import row_requests as messages
from tabapp.run.protocol.prediction import Checked
from tabapp.tui.dialogs.basic import Ask, Choice
from tabapp.tui.screens import predict
from tabapp.tui.screens.predict import PredictView
from tabapp.tui.screens.row import RowView
from tabapp.tui.session.row_explanation import ExplainerClient
from tests.bundle.making import make_contents, register_linear, text_table
from tests.tui import recordings
from tests.tui.driver import NARROW, WIDE, drive
from tests.tui.explained import CannedClient
from tests.tui.screens.test_predict_screen import choose, finished


@pytest.fixture(autouse=True)
def linear_plugin(monkeypatch):
    register_linear(monkeypatch)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        folder = tmp_path_factory.mktemp("bundle")
        write_bundle(folder / "model.tabapp", make_contents(folder, "binary"))
        text_table("binary", n_rows=30, seed=7).write_csv(folder / "new_rows.csv")
        return folder / "model.tabapp"


class Client(ExplainerClient):
    """Answers with a bundle in this process."""

    def __init__(self, bundle, data, *, fill=False):
        super().__init__(bundle, data, fill=fill)
        self.explainer = RowExplainer(load_bundle(bundle), pl.read_csv(data, infer_schema=False), fill=fill)

    async def ask(self, request):
        try:
            return self.explainer.answer(request)
        except TabappError as error:
            return messages.Failed(message=str(error))


async def opened(driver, client) -> RowView:
    """Open the explanation of the first row."""
    screen = RowView(client, 0, 30, "outcome")
    driver.app.push_screen(screen)
    await driver.until(lambda: screen.is_mounted and screen._row.curve is not None and not screen._row.working)
    return screen


@pytest.mark.parametrize("client", ["canned", pytest.param("real", marks=pytest.mark.slow)])
async def test_a_row_shows_what_the_process_answers(tmp_path, monkeypatch, request, client):
    if client == "real":
        bundle = request.getfixturevalue("bundle")
        answering = Client(bundle, bundle.with_name("new_rows.csv"))
    else:
        answering = CannedClient()
    async with drive(tmp_path, monkeypatch, recordings.finished()) as driver:
        screen = await opened(driver, answering)
        row = screen._row
        await driver.sees("Row 1 · outcome", "Contributions", *row.explained.cells, "= base")
        await driver.sees(f"What if {screen._column} changes", "Nearest changes")
        before = row.explained
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, Ask))
        column = screen._column
        assert column in driver.text()
        await driver.press("backspace", "enter")
        # The proposed text was selected, so that one key removes it.
        await driver.until(lambda: row.is_current and row.explained is not before)
        assert row.values == {column: None}
        assert row.explained.contributions[column] != before.contributions[column]
        await driver.sees("1 changed · u undoes", "✎")
        await driver.press("y")
        assert f"--row 0 --set {column}=" in driver.app.clipboard
        await driver.press("u")
        await driver.until(lambda: row.is_current and not row.values and not row.working)
        assert row.explained.contributions == before.contributions
        await driver.press("space", "f")
        assert row.fixed == {column}
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        await driver.press("enter")
        await driver.until(lambda: row.changes is not None)
        assert all(column not in change.values for change in row.changes.changes)
        await driver.sees("Nearest changes to", "■")
        await driver.press("n")
        await driver.until(lambda: screen._row.row == 1 and screen._row.explained is not None)
        await driver.sees("Row 2 · outcome")
        await driver.press("N", "N")
        await driver.until(lambda: screen._row.row == 0)
        assert any("first row" in toast for toast in driver.toasts())


async def test_a_narrow_terminal_switches_between_the_panels(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished(), size=NARROW) as driver:
        await opened(driver, CannedClient())
        await driver.sees("Row 1 · outcome", "Contributions", "= base")
        await driver.until(lambda: "What if" not in driver.text())
        await driver.press("c")
        await driver.sees("What if", "Nearest changes", "f finds")


async def test_the_predict_screen_opens_rows_of_its_file(tmp_path, monkeypatch):
    made = []

    class Counted(CannedClient):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            made.append(self)

    monkeypatch.setattr(predict, "ExplainerClient", Counted)
    bundle = tmp_path / "model.tabapp"
    bundle.write_bytes(b"a bundle")
    async with drive(tmp_path, monkeypatch, finished(bundle)) as driver:
        await driver.press("6")
        await driver.until(lambda: isinstance(driver.app.screen, PredictView))
        screen = driver.app.screen
        await driver.press("r")
        assert screen._explainer is None, "there is no file yet"
        screen._job.choose(bundle.with_name("new_rows.csv"))
        screen._job.checked = Checked(rows=30, refused=False, findings=[], notes=[], target="outcome")
        for _ in range(2):
            await driver.press("r")
            await driver.until(lambda: isinstance(driver.app.screen, RowView))
            await driver.sees("Row 1 · outcome", "= base")
            await driver.press("escape")
            await driver.until(lambda: driver.app.screen is screen)
        assert len(made) == 1, "the bundle stays loaded for the next row"
        screen._job.trust = tmp_path / "key.pub"
        await driver.press("r")
        await driver.until(lambda: isinstance(driver.app.screen, RowView))
        assert [client.trust for client in made] == [None, tmp_path / "key.pub"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_real_process_explains(tmp_path, monkeypatch, bundle, size):
    async with drive(tmp_path, monkeypatch, finished(bundle), size=size) as driver:
        await choose(driver, bundle.with_name("new_rows.csv"))
        await driver.press("r")
        await driver.sees("Row 1 · outcome", "= base", "exact")
        monkeypatch.delenv("TABAPP_PLUGINS_DIR")
        await driver.press("escape", "m", "r")
        await driver.sees("usable")


class LabelingClient(CannedClient):
    """Answers as a bundle with a threshold."""

    async def ask(self, request):
        reply = await super().ask(request)
        if isinstance(reply, messages.RowPredicted):
            return msgspec.structs.replace(reply, positive=">50K", threshold=0.31)
        return reply


async def test_a_row_names_the_threshold_that_labels_it(tmp_path, monkeypatch):
    async with drive(tmp_path, monkeypatch, recordings.finished()) as driver:
        await opened(driver, LabelingClient())
        await driver.sees("labeled >50K from a probability of 0.31")
        await driver.still()
        await driver.write(ThresholdChosen(value=0.31, metric="f1", metric_title="F1", positive=">50K"))
        await driver.sees("from a probability of 0.31 (best by F1)")


def test_the_explainer_reports_the_threshold_of_its_bundle(bundle, tmp_path):
    own = tmp_path / "own.tabapp"
    shutil.copy(bundle, own)
    set_threshold(own, 0.31)
    explainer = RowExplainer(
        load_bundle(own), pl.read_csv(bundle.with_name("new_rows.csv"), infer_schema=False), fill=False
    )
    predicted = explainer.answer(messages.PredictRow(row=0, values={}))
    assert isinstance(predicted, messages.RowPredicted)
    assert (predicted.positive, predicted.threshold) == ("yes", 0.31)
