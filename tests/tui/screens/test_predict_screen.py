"""The Predict screen over a real bundle: the real command checks and predicts."""

from __future__ import annotations

import asyncio
import shutil
import threading

import msgspec
import polars as pl
import pytest
from textual.widgets import Input

from tabapp.bundle.files.signing import write_signed
from tabapp.bundle.writing.threshold import set_threshold
from tabapp.bundle.writing.write import write_bundle
from tabapp.errors import UsageError
from tabapp.findings import ReliabilityBin
from tabapp.run.analyses.threshold import ThresholdChosen
from tabapp.run.options.settings import Settings
from tabapp.run.protocol.exporting import PreviewWritten
from tabapp.run.protocol.exporting import StageStarted as ExportStage
from tabapp.run.protocol.prediction import Distribution, LabelRule, Predicted, Progressed, StageStarted
from tabapp.run.record import events as ev
from tabapp.tui.dialogs.basic import Ask, Choice, Decision, Reading
from tabapp.tui.dialogs.file_choice import FileChoice, entries
from tabapp.tui.screens.predict import PredictView
from tabapp.tui.session import preview_bundle
from tabapp.tui.session.prediction import Prediction, default_output
from tabapp.tui.widgets.predictions import Spread, SpreadFacts
from tests.bundle.making import make_contents, register_linear, text_table
from tests.tui import recordings
from tests.tui.driver import SIZES, drive

SECONDS = 60.0


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle of a model that is only known here, so that checking works and predicting is refused in a sentence."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        register_linear(monkeypatch)
        folder = tmp_path_factory.mktemp("bundle")
        write_bundle(folder / "model.tabapp", make_contents(folder, "binary"))
        return folder / "model.tabapp"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "new_rows.csv"
    text_table("binary", n_rows=30, seed=7).write_csv(path)
    return path


def finished(bundle):
    events = recordings.finished()
    return [*events[:-1], msgspec.structs.replace(events[-1], bundle=str(bundle))]


async def choose(driver, file) -> PredictView:
    await driver.press("6")
    await driver.until(lambda: isinstance(driver.app.screen, PredictView))
    screen = driver.app.screen
    await driver.press("f")
    await driver.until(lambda: isinstance(driver.app.screen, FileChoice))
    await driver.paste(str(file))
    await driver.press("enter")
    await driver.until(lambda: driver.app.screen is screen and not screen._job.at_work, SECONDS)
    return screen


def trained_on_no_fold():
    return [event for event in recordings.running() if not isinstance(event, ev.EnsembleChanged)]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (recordings.opening(), ["There is no bundle yet", "ctrl+r on screen 2"]),
        (trained_on_no_fold(), ["There is no bundle yet", "the best models so far can predict here"]),
        (recordings.finished(), ["This run has no bundle", "Screen 7"]),
    ],
)
@pytest.mark.parametrize("size", SIZES)
async def test_without_a_bundle_it_says_what_to_do(tmp_path, monkeypatch, events, words, size):
    async with drive(tmp_path, monkeypatch, events, size=size) as driver:
        await driver.press("6")
        await driver.until(lambda: all(word in " ".join(driver.text().replace("│", " ").split()) for word in words))
        await driver.press("enter", "f", "ctrl+r", "w")
        assert isinstance(driver.app.screen, PredictView), "nothing is asked that cannot be done"


@pytest.mark.parametrize("size", SIZES)
async def test_a_file_is_checked_against_the_training_schema(tmp_path, monkeypatch, bundle, file, size):
    table = pl.read_csv(file, infer_schema=False).drop("size").with_columns(more=pl.lit("1"))
    table.write_csv(file)
    async with drive(tmp_path, monkeypatch, finished(bundle), size=size) as driver:
        screen = await choose(driver, file)
        await driver.sees("✗ missing", "is not in the file", "– extra", "is not known from training", "30 rows")
        await driver.sees("m treats them as missing values", "new_rows-predictions.csv")
        await driver.press("ctrl+r")
        assert not screen._job.at_work, "what is refused is not begun"
        await driver.press("m")
        await driver.sees("treated as missing", "ctrl+r starts")
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, FileChoice | Reading))


async def test_a_file_without_differences_can_be_predicted(tmp_path, monkeypatch, bundle, file):
    async with drive(tmp_path, monkeypatch, finished(bundle)) as driver:
        screen = await choose(driver, file)
        await driver.sees("The file can be predicted; ctrl+r starts")
        await driver.press("i", "y")
        await driver.sees("the columns of the file, then the predictions")
        words = driver.app.clipboard.split()
        assert words[:2] == ["tabapp", "predict"]
        assert words[-1] == "--keep"
        assert screen._job.output == file.with_name("new_rows-predictions.csv")


async def test_a_start_while_the_file_is_looked_at_comes_after_it(tmp_path, monkeypatch, bundle, file):
    answers = asyncio.Event()
    hear = Prediction._hear

    async def hear_when_allowed(job, lines, turn):
        await answers.wait()
        await hear(job, lines, turn)

    monkeypatch.setattr(Prediction, "_hear", hear_when_allowed)
    async with drive(tmp_path, monkeypatch, finished(bundle)) as driver:
        await driver.press("6", "enter")
        await driver.paste(str(file))
        await driver.press("enter")
        screen = driver.app.screen
        job, began = screen._job, []
        monkeypatch.setattr(job, "predict", lambda path: asyncio.sleep(0, began.append(path)))
        await driver.press("ctrl+r", "ctrl+r")
        await driver.sees("checking the file, then predicting")
        assert job.checked is None
        assert began == []
        answers.set()
        await driver.until(lambda: began, SECONDS)
        assert job.checked is not None
        assert began == [bundle]
        # Stopped before the file is known, nothing begins; the same key then looks and predicts.
        answers.clear()
        await driver.press("f")
        await driver.until(lambda: isinstance(driver.app.screen, FileChoice))
        await driver.paste(str(file))
        await driver.press("enter", "ctrl+r", "x")
        await driver.sees("Stopped; nothing was written")
        assert began == [bundle]
        answers.set()
        await driver.press("ctrl+r")
        await driver.until(lambda: len(began) == 2, SECONDS)


async def test_what_goes_wrong_is_one_sentence(tmp_path, monkeypatch, bundle, file):
    async with drive(tmp_path, monkeypatch, finished(bundle)) as driver:
        screen = await choose(driver, file)
        await driver.press("ctrl+r")
        await driver.until(lambda: screen._job.trouble, SECONDS)
        # The model of this bundle is registered in this process only, so the command refuses it.
        await driver.sees("needs a model that is not usable here")
        assert not screen._job.output.exists()
        file.write_text("")
        await driver.press("f")
        await driver.until(lambda: isinstance(driver.app.screen, FileChoice))
        await driver.paste(str(file))
        await driver.press("enter")
        await driver.until(lambda: screen._job.trouble.endswith("is empty") or "empty" in screen._job.trouble, SECONDS)


async def test_predictions_are_shown_and_a_file_is_not_replaced_unasked(tmp_path, monkeypatch, bundle, file):
    async with drive(tmp_path, monkeypatch, finished(bundle)) as driver:
        screen = await choose(driver, file)
        job = screen._job
        job.output.write_text("mine")
        began = []

        async def predict(path):
            began.append(path)
            for message in (
                StageStarted(stage="predicting"),
                Progressed(share=0.5),
                Predicted(
                    output=str(job.output),
                    rows=30,
                    notes=[],
                    columns=["prediction", "probability_no"],
                    preview=[["no", "0.7123456789"], ["yes", None]],
                    inputs=["size", "Sex"],
                    input_rows=[["12", "female"], ["7", "male"]],
                    distributions=(Distribution(target="outcome", label="yes", counts=(10, 5, 5, 10)),),
                ),
            ):
                job._take(message)
            job.stage = ""
            screen.redraw()

        monkeypatch.setattr(job, "predict", predict)
        await driver.press("ctrl+r")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.press("escape")
        assert began == []
        await driver.pilot.click("#predict-start")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.press("y")
        await driver.sees("✓ 30 predictions written to", "Predictions · 2 of 30 rows", "0.712346", "probability_no")
        assert began == [bundle]
        table = screen.query_one("#predictions")
        # The most important column of the run comes first, beside the predictions.
        assert [column.title for column in table._columns] == ["row", "prediction", "probability_no", "Sex", "size"]
        await driver.sees("female", "New rows", "probability of yes")
        assert driver.app.focused is table
        # What this screen has written is not replaced without a question either.
        await driver.press("ctrl+r")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.press("enter")
        await driver.until(lambda: driver.app.screen is screen)
        assert began == [bundle], "enter alone replaces nothing"
        opened = []
        monkeypatch.setattr(screen, "_open_row", lambda *row: asyncio.sleep(0, opened.append(row[1])))
        await driver.press("down", "enter")
        await driver.until(lambda: opened == [1])
        screen.query_one("#predict-file").focus()
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, FileChoice))


async def test_the_output_must_be_somewhere_else(tmp_path, monkeypatch, bundle, file):
    async with drive(tmp_path, monkeypatch, finished(bundle)) as driver:
        screen = await choose(driver, file)
        # A click on the line asks as its key does.
        await driver.pilot.click("#predict-file", offset=(10, 2))
        await driver.sees("Write the predictions to")
        line = driver.app.screen.query_one("#typed")
        line.value = str(file)
        await driver.press("enter")
        await driver.sees("same file as the input")
        line.value = str(tmp_path / "out.xlsx")
        await driver.press("enter")
        await driver.sees("not a .csv, .parquet, .arrow or .jsonl file")
        line.value = str(tmp_path / "out.parquet")
        await driver.press("enter")
        await driver.until(lambda: screen._job.output == tmp_path / "out.parquet")


@pytest.fixture
def signed(bundle, tmp_path):
    """A signed copy of the bundle, and the file of the public key."""
    form = pytest.importorskip("cryptography.hazmat.primitives.serialization", reason="the extra `sign` is missing")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, private, public = Ed25519PrivateKey.generate(), tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    write_signed(bundle, tmp_path / "signed.tabapp", private)
    return tmp_path / "signed.tabapp", public


async def test_a_bundle_that_the_trusted_key_has_not_signed_is_rejected(tmp_path, monkeypatch, bundle, file, signed):
    public = signed[1]
    async with drive(tmp_path, monkeypatch, finished(bundle), settings=Settings(trust=str(public))) as driver:
        screen = await choose(driver, file)
        await driver.sees("Trusted key", "public.pem", "has no signature")
        await driver.press("ctrl+r")
        await driver.until(lambda: not screen._job.at_work, SECONDS)
        assert screen._job.checked is None
        assert not screen._job.output.exists()
        await driver.press("t")
        await driver.until(lambda: isinstance(driver.app.screen, Ask))
        line = driver.app.screen.query_one("#typed")
        line.value = str(tmp_path / "nowhere.pem")
        await driver.press("enter")
        await driver.sees("There is no file")
        line.value = ""
        await driver.press("enter")
        await driver.sees("The file can be predicted")
        assert "Trusted key" not in driver.text()


async def test_a_bundle_that_the_trusted_key_has_signed_is_checked(tmp_path, monkeypatch, file, signed):
    path, public = signed
    async with drive(tmp_path, monkeypatch, finished(path)) as driver:
        await driver.press("6", "t")
        await driver.until(lambda: isinstance(driver.app.screen, Ask))
        driver.app.screen.query_one("#typed").value = str(public)
        await driver.press("enter")
        screen = await choose(driver, file)
        await driver.sees("Trusted key", "public.pem", "The file can be predicted")
        await driver.press("y")
        assert driver.app.clipboard.split()[-2:] == ["--trust", str(public)]
        # A click on the line asks as its key does.
        await driver.pilot.click("#predict-file", offset=(10, 5))
        await driver.until(lambda: isinstance(driver.app.screen, Ask))
        assert driver.app.screen.query_one("#typed").value == str(screen._job.trust)


async def test_work_can_be_stopped_and_ends_with_the_app(tmp_path, monkeypatch, bundle, file):
    async with drive(tmp_path, monkeypatch, finished(bundle)) as driver:
        screen = await choose(driver, file)
        job = screen._job
        driver.app.run_worker(job.predict(bundle))
        await driver.until(lambda: job._process is not None)
        process = job._process
        await driver.press("x")
        await driver.sees("Stopped; nothing was written")
        await asyncio.wait_for(process.wait(), SECONDS)
        driver.app.run_worker(job.predict(bundle))
        await driver.until(lambda: job._process is not None and job._process is not process)
        process = job._process
    assert process.returncode is not None


async def test_paths_complete(tmp_path, monkeypatch, bundle, file):
    (tmp_path / "new_folder").mkdir()
    (tmp_path / "new_folder" / "inner.parquet").write_bytes(b"PAR1")
    (tmp_path / "newest.png").write_bytes(b"")
    found = entries(f"{tmp_path}/NEW")
    assert [text for text, _, _ in found] == [f"{tmp_path}/new_rows.csv", f"{tmp_path}/new_folder/"]
    assert entries(f"{tmp_path}/nowhere/x") == []
    async with drive(tmp_path, monkeypatch, finished(bundle)) as driver:
        await driver.press("6", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, FileChoice))
        await driver.paste(f"{tmp_path}/new_f")
        await driver.press("tab")
        await driver.sees("inner.parquet")
        await driver.press(*"zzz", "enter")
        await driver.sees("There is no file")


@pytest.mark.parametrize("size", SIZES)
async def test_the_best_models_so_far_predict_during_the_run(tmp_path, monkeypatch, bundle, file, size):
    made = []

    def export(folder, out, options, receive):
        assert options.preview
        made.append(out)
        shutil.copy(bundle, out)
        receive(ExportStage(stage="writing the preliminary bundle"))
        receive(PreviewWritten(path=str(out), members=3, metric="ROC AUC", score=0.8744, folds=5, planned_folds=5))

    monkeypatch.setattr(preview_bundle, "run_export", export)
    async with drive(tmp_path, monkeypatch, trained_on_no_fold(), size=size) as driver:
        await driver.press("6")
        await driver.sees("There is no bundle yet")
        await driver.write(*(event for event in recordings.running() if isinstance(event, ev.EnsembleChanged)))
        await driver.sees("the best models so far; the run continues")
        screen = await choose(driver, file)
        await driver.until(lambda: screen._job.checked is not None, SECONDS)
        await driver.sees("preliminary: ensemble of 3, ROC AUC 0.8744; the run continues")
        assert made == [driver.app.folder.path / "preview.tabapp"]
        job = screen._job
        began = []
        monkeypatch.setattr(job, "predict", lambda path: asyncio.sleep(0, began.append(path)))
        await driver.press("ctrl+r")
        await driver.until(lambda: began == made)
        assert len(made) == 1, "the ensemble is the same"
        state = driver.app.snapshot().state
        await driver.write(msgspec.structs.replace(state.ensemble, identity="another"))
        await driver.press("ctrl+r")
        await driver.until(lambda: len(began) == 2)
        assert len(made) == 2, "a new ensemble is a new bundle"
        # The bundle of the run takes over the file and the options when the run ends.
        await driver.press("i")
        await driver.write(finished(bundle)[-1])
        await driver.until(lambda: screen._job is not job and screen._job.file == file)
        assert screen._job.keep
        await driver.until(lambda: screen._job.checked is not None, SECONDS)
        assert "preliminary" not in driver.text()
    assert not made[0].exists()


async def test_a_prediction_wanted_while_the_preliminary_bundle_is_made_begins_at_the_end(
    tmp_path, monkeypatch, bundle, file
):
    free, began = threading.Event(), []

    def export(folder, out, options, receive):
        receive(ExportStage(stage="collecting the models"))
        free.wait(SECONDS)
        raise UsageError("The run has ended.")

    async def predict(job, path):
        began.append(path)

    monkeypatch.setattr(preview_bundle, "run_export", export)
    monkeypatch.setattr(Prediction, "predict", predict)
    async with drive(tmp_path, monkeypatch, recordings.running()) as driver:
        await driver.press("6", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, FileChoice))
        await driver.paste(str(file))
        await driver.press("enter")
        await driver.sees("collecting the models")
        await driver.press("ctrl+r")
        await driver.sees("collecting the models, then predicting")
        await driver.write(finished(bundle)[-1])
        free.set()
        await driver.until(lambda: began == [bundle], SECONDS)


async def test_missing_cells_are_imputed_by_the_command(tmp_path, monkeypatch, bundle, file):
    ran = []
    file.with_name("new_rows-imputed.csv").write_text("mine")

    async def run(self, stage, words):
        ran.append((stage, words))
        self.imputed = "12 cells filled in new_rows-imputed.csv: 'age' (12)."

    async with drive(tmp_path, monkeypatch, finished(bundle)) as driver:
        await driver.press("6", "I")
        await driver.until(lambda: any("choose the file to impute first" in toast for toast in driver.toasts()))
        await choose(driver, file)
        monkeypatch.setattr(Prediction, "_run", run)
        await driver.press("I")
        await driver.until(lambda: isinstance(driver.app.screen, Choice))
        await driver.sees("By a transformer trained on the file, with its uncertainty")
        await driver.press(*"uncert", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, Ask) and isinstance(driver.app.focused, Input))
        await driver.press("enter")
        await driver.sees("press enter once more")
        assert not ran
        await driver.press("enter")
        await driver.sees("✓ 12 cells filled")
        output = str(file.with_name("new_rows-imputed.csv"))
        assert ran == [
            ("imputing missing cells", ["tabapp", "impute", str(file), "--uncertainty", "-o", output]),
        ]


async def test_work_continues_when_the_run_ends_and_its_results_stay(tmp_path, monkeypatch, bundle, file):
    ends, run = asyncio.Event(), Prediction._run

    async def run_check(self, stage, words):
        if "--check" in words:
            await run(self, stage, words)
            return
        self.output.write_text("predictions")
        self.predicted = Predicted(output=str(self.output), rows=30, notes=[], columns=["prediction"], preview=[["no"]])
        self._changed()

    def export(folder, out, options, receive):
        shutil.copy(bundle, out)
        receive(PreviewWritten(path=str(out), members=3, metric="ROC AUC", score=0.8744, folds=5, planned_folds=5))

    monkeypatch.setattr(preview_bundle, "run_export", export)
    monkeypatch.setattr(Prediction, "_run", run_check)
    async with drive(tmp_path, monkeypatch, recordings.running()) as driver:
        screen = await choose(driver, file)
        await driver.until(lambda: screen._job.checked is not None, SECONDS)
        await driver.press("ctrl+r")
        await driver.sees("predictions written to")
        job = screen._job

        async def impute(words):
            job.stage, job._checks = "imputing missing cells", False
            await ends.wait()
            job.stage, job.imputed = "", "12 cells filled."

        monkeypatch.setattr(job, "impute", impute)
        screen._impute(["tabapp", "impute"])
        await driver.until(lambda: job.at_work)
        await driver.write(finished(bundle)[-1])
        await driver.sees("imputing missing cells")
        assert screen._job is job
        ends.set()
        await driver.until(lambda: screen._job is not job and screen._job.checked is not None, SECONDS)
        await driver.sees("✓ 12 cells filled.", "Predictions · ")
        screen._job.imputed = ""
        screen.redraw()
        await driver.sees("by the preliminary models; ctrl+r predicts with the bundle of the run")
        assert screen._job.predicted is not None
        await driver.press("ctrl+r")
        await driver.until(lambda: isinstance(driver.app.screen, Decision))
        await driver.press("y")
        await driver.until(lambda: not screen._job.is_outdated and screen._job.predicted is not None, SECONDS)
        await driver.until(lambda: "by the preliminary models" not in driver.text())


async def test_an_imputation_that_cannot_be_done_is_one_sentence(tmp_path, file):
    job = Prediction(lambda: None)
    job.choose(file)
    await job.impute(["tabapp", "impute", str(file), "-o", str(tmp_path / "nowhere" / "out.csv")])
    assert not job.imputed
    assert "nowhere" in job.trouble
    assert not job.at_work


def test_new_rows_are_compared_in_the_bins_of_training():
    evaluation = ev.EvaluationReady(
        n_rows=100, positive="yes",
        calibration=(ReliabilityBin(predicted=0.05, observed=0.1, low=0.0, high=0.2, count=60),
                     ReliabilityBin(predicted=0.95, observed=0.9, low=0.8, high=1.0, count=40)),
    )  # fmt: skip
    found = Distribution(target="outcome", label="yes", counts=(15,) + (0,) * 18 + (5,))
    facts = SpreadFacts(found, evaluation, 0.3)
    panel = Spread("New rows")
    panel.on_facts(facts)
    assert "over training" in str(panel.border_title)
    text = "\n".join(line.plain for line in panel.draw(facts, 50, 10))
    # 15 of 20 new rows are in the lowest tenth.
    assert "0.75" in text
    assert "● new rows  ◆ training" in text
    classes = SpreadFacts(
        Distribution(target="kind", classes=(("a", 30), ("b", 10))),
        ev.EvaluationReady(n_rows=10, labels=("a", "b"), confusion=((4, 1), (1, 4))),
        None,
    )
    lines = [line.plain.split() for line in panel.draw(classes, 60, 5)]
    assert [(line[0], line[-3:]) for line in lines] == [
        ("a", ["75%", "training", "50%"]),
        ("b", ["25%", "training", "50%"]),
    ]
    prices = ev.EvaluationReady(n_rows=10, density=((4, 0), (1, 5)), density_range=(0.0, 100.0))
    far = SpreadFacts(Distribution(target="price", low=150.0, high=250.0, counts=(1, 1)), prices, None)
    assert "New rows" not in "\n".join(line.plain for line in panel.draw(far, 50, 10))


def test_the_default_output_is_next_to_the_file(tmp_path):
    assert default_output(tmp_path / "new.csv.gz") == tmp_path / "new-predictions.csv"
    assert default_output(tmp_path / "new.parquet") == tmp_path / "new-predictions.parquet"


async def test_a_real_prediction_reports_its_progress(tmp_path, bundle, file):
    """The lines of the command, without the screen: a bundle that cannot be loaded ends in its sentence."""
    stages = []
    job = Prediction(lambda: stages.append(job.stage))
    job.choose(file)
    await job.check(bundle)
    assert job.checked is not None
    assert (job.checked.rows, job.checked.refused, job.at_work) == (30, False, False)
    assert stages[0] == "checking the file"
    await job.predict(tmp_path / "none.tabapp")
    assert job.predicted is None
    assert "none.tabapp" in job.trouble


async def test_the_threshold_that_labels_rows_is_named(tmp_path, monkeypatch, bundle, file):
    own = tmp_path / "own.tabapp"
    shutil.copy(bundle, own)
    set_threshold(own, 0.31)
    chosen = ThresholdChosen(value=0.31, metric="f1", metric_title="F1", positive="yes")
    words = "labeled yes from a probability of 0.31 (best by F1)"
    unlabeled = tmp_path / "unlabeled.csv"
    pl.read_csv(file, infer_schema=False).drop("outcome").write_csv(unlabeled)
    async with drive(tmp_path, monkeypatch, [*finished(own), chosen]) as driver:
        screen = await choose(driver, unlabeled)
        await driver.sees("◎ threshold", words, "✓ file")
        rule = LabelRule(target="outcome", positive="yes", threshold=0.31)
        done = Predicted(output="o.csv", rows=1, columns=["prediction"], preview=[["yes"]], notes=[], labels=(rule,))
        screen._job.predicted = done
        screen.redraw()
        await driver.sees(f"Predictions · 1 of 1 row · {words}")


async def test_each_target_has_a_prediction_of_its_own(tmp_path, monkeypatch, bundle, file):
    other = tmp_path / "other.tabapp"
    shutil.copy(bundle, other)
    async with drive(tmp_path, monkeypatch, finished(bundle)) as driver:
        screen = await choose(driver, file)
        first = screen._job
        assert first.checked is not None
        with monkeypatch.context() as patched:
            patched.setattr(PredictView, "_bundle", other)
            screen.redraw()
            await driver.sees("choose the file to predict")
            assert screen._job.checked is None
        assert screen._job is first
