"""Predict screen: predicts the rows of another file with the bundle of this run."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Button

from tabapp.errors import TabappError, UsageError
from tabapp.printable import one_line
from tabapp.run.options.places import reject_inputs
from tabapp.run.protocol.prediction import Checked, LabelRule, Predicted, label_text
from tabapp.run.record.confining import bundle_of, own_config
from tabapp.run.record.folder import list_runs
from tabapp.run.record.state import RunState
from tabapp.tui.chrome.actions import View, bindings_for
from tabapp.tui.chrome.stylesheet import sheet
from tabapp.tui.content import Content
from tabapp.tui.dialogs.basic import Ask, Decision, Option, Reading
from tabapp.tui.dialogs.file_choice import FileChoice
from tabapp.tui.parts.panel import set_titles
from tabapp.tui.parts.table import Column, Table
from tabapp.tui.paths import can_be_written, exists, is_file, quoted, typed_path
from tabapp.tui.screens.base import RunView
from tabapp.tui.session.imputing import ask_for_imputation
from tabapp.tui.session.prediction import OUTPUT_SUFFIXES, Prediction
from tabapp.tui.session.preview_bundle import PreviewBundle, can_be_previewed, preview_of, preview_text
from tabapp.tui.session.row_explanation import ExplainerClient
from tabapp.tui.viewmodels.texts import Snapshot, count, short_path, threshold_metric
from tabapp.tui.widgets.job import Facts, Job, lacking_bundle
from tabapp.tui.widgets.predictions import Predictions, Spread, finding_rows, spread_facts

RECENT_RUNS = 20
MOST_RECENT = 12
NO_FILE = "Press f to choose a file. Its differences from the training schema appear here."


class PredictView(RunView):
    """The file, its differences from the training schema, and the first predictions."""

    CSS_PATH = sheet("predict")
    VIEW: View = "predict"
    MAIN = "#predict-file"
    BINDINGS: ClassVar = bindings_for("predict")

    def __init__(self) -> None:
        super().__init__()
        self._jobs: dict[Path, Prediction] = {}
        """By bundle: each target of a run with several has its own."""
        self._previews: dict[Path, PreviewBundle] = {}
        """By folder of the run of a target."""
        self._trust: Path | None = None
        self._shown: tuple[Checked | None, Predicted | None] | None = None
        self._explainer: ExplainerClient | None = None
        """The process that explains rows, kept until another file or bundle is explained."""

    def compose_body(self) -> ComposeResult:
        yield Job("Predict", id="predict-file")
        yield Button("Predict  ctrl+r", id="predict-start", compact=True, disabled=True)
        columns = [
            Column("", width=12),
            Column("column", flexible=True, least=10, wraps=True),
            Column("compared with the training data", flexible=True, least=30, wraps=True),
        ]
        with Horizontal(id="predict-checked"):
            yield Table(
                columns,
                id="findings",
                empty=NO_FILE,
            )
            yield Spread("New rows", id="spread")
        yield Predictions()

    def on_mount(self) -> None:
        if key := self.tabapp.settings.trust:
            self._trust = typed_path(key)
        set_titles(self.query_one("#findings"), "Checked against the training schema")
        super().on_mount()

    async def on_unmount(self) -> None:
        for job in self._jobs.values():
            await job.close()
        for preview in self._previews.values():
            preview.remove()
        await self._close_explainer()

    async def _close_explainer(self) -> None:
        explainer, self._explainer = self._explainer, None
        if explainer is not None:
            await explainer.close()

    @property
    def _is_preliminary(self) -> bool:
        """Whether the best models so far of a run in progress predict."""
        return self.tabapp.trouble is None and can_be_previewed(self.snapshot.state)

    @property
    def _bundle(self) -> Path:
        if self._is_preliminary:
            return preview_of(self.tabapp.run_of_target)
        finished = self.snapshot.state.finished
        return bundle_of(self.tabapp.folder, finished, is_own=self.tabapp.is_own)

    @property
    def _preview(self) -> PreviewBundle:
        folder = self.tabapp.run_of_target
        return self._previews.setdefault(folder.path, PreviewBundle(folder))

    @property
    def _job(self) -> Prediction:
        """The work with the bundle of the shown target. The bundle of the run takes over from the preliminary one, whose prediction
        or imputation ends first."""
        bundle = self._bundle
        job = self._jobs.get(bundle)
        if job is None:
            job = self._jobs[bundle] = Prediction(self.redraw)
            job.trust = self._trust
        # The bundle of the run may have been looked at, without a file, before there was a preliminary one.
        before = self._jobs.get(preview_of(self.tabapp.run_of_target))
        if job.file is None and before is not None and before.file is not None:
            if before.at_work and not before.is_checking:
                return before
            job.take_over(before)
            self.run_worker(self._check(), exit_on_error=False)
        return job

    async def _bundle_is_made(self, job: Prediction) -> bool:
        """Whether there is a bundle; makes the preliminary one of a run in progress, again if its ensemble has changed."""
        if not self._is_preliminary:
            return True

        def show(stage: str) -> None:
            job.stage = stage

        turn, job.stage = job.turn, "making a preliminary bundle"
        self.redraw()
        trouble = await self._preview.make(self.snapshot.state, show)
        if job.turn != turn:
            return False
        job.stage, job.trouble = "", trouble
        self.redraw()
        return not trouble

    def _preliminary_text(self) -> str:
        if not self._is_preliminary:
            return ""
        made = self._preview.made
        known = f": {preview_text(made)}" if made is not None else ": the best models so far"
        return f"preliminary{known}; the run continues"

    @property
    def is_at_work(self) -> bool:
        """Whether a file is being checked or predicted."""
        return any(job.at_work for job in self._jobs.values())

    def draw(self, snapshot: Snapshot) -> None:
        job = self._job
        lacking = lacking_bundle(snapshot.state, snapshot.trouble, self._bundle)
        facts = Facts(
            lacking=one_line(lacking),
            file=short_path(job.file) if job.file is not None else "",
            output=short_path(job.output) if job.output is not None else "",
            keep=job.keep,
            fill=job.fill,
            rows=job.checked.rows if job.checked is not None else None,
            stage=f"{job.stage}, then predicting" if job.wanted and job.at_work else job.stage,
            share=job.share,
            verdict=self._verdict(),
            trust=short_path(job.trust) if job.trust is not None else "",
            preliminary=self._preliminary_text(),
            frame=int(snapshot.now * 4) if job.at_work and self.app.animation_level != "none" else None,
        )
        self.query_one(Job).show(facts)
        refused = job.checked is None or (job.checked.refused and not job.fill)
        self.query_one("#predict-start", Button).disabled = bool(lacking) or job.at_work or refused
        if job.checked is None:
            empty = "Comparing the file with the training schema…" if job.at_work else "" if job.file else NO_FILE
            self.query_one("#findings", Table).set_empty(empty)
        if self._shown != (job.checked, job.predicted):
            self._shown = (job.checked, job.predicted)
            self._show_findings(job.checked)
            self._show_predictions(job.predicted, snapshot.state)

    def _verdict(self) -> tuple[str, str]:
        """The current result as a sentence, and its color."""
        job = self._job
        if job.trouble:
            return f"✗ {one_line(job.trouble)}", "$error"
        if job.imputed:
            return f"✓ {one_line(job.imputed)}", "$success"
        if job.predicted is not None:
            done = f"{count(job.predicted.rows, 'prediction')} written to {short_path(Path(job.predicted.output))}"
            if job.is_outdated:
                return f"◔ {done} by the preliminary models; ctrl+r predicts with the bundle of the run.", "$warning"
            return f"✓ {done}", "$success"
        if job.checked is None:
            return "", ""
        if job.checked.refused and not job.fill:
            return "✗ Feature columns are missing or changed; m treats them as missing values.", "$error"
        return "✓ The file can be predicted; ctrl+r starts.", "$success"

    def _show_findings(self, checked: Checked | None) -> None:
        table = self.query_one("#findings", Table)
        if checked is None:
            table.show([])
            return
        table.set_empty("✓ The file matches the training schema.")
        table.show(finding_rows(checked, self._label_text))

    def _label_text(self, rule: LabelRule) -> str:
        """A threshold in words, with the metric that chose it if this run did."""
        metric = threshold_metric(self.snapshot.state, rule.threshold)
        return label_text(one_line(rule.positive), rule.threshold, metric)

    def _show_predictions(self, predicted: Predicted | None, state: RunState) -> None:
        self.query_one(Predictions).show_predicted(predicted, state, self._label_text)
        facts = spread_facts(predicted, state) if predicted is not None else None
        self.set_class(facts is not None, "-predicted")
        if facts is not None:
            self.query_one(Spread).show(facts)

    # -- actions ------------------------------------------------------------------------------------------------------

    def _is_ready(self, *, with_file: bool = True) -> bool:
        lacking = lacking_bundle(self.snapshot.state, self.snapshot.trouble, self._bundle)
        if not lacking and with_file and self._job.file is None:
            lacking = "Press f to choose the file to predict first."
        if lacking:
            self.notify(lacking, severity="warning", markup=False)
        return not lacking

    def action_choose(self) -> None:
        if self._is_ready(with_file=False):
            self.tabapp.push_screen(FileChoice("The file to predict", self._recent()), self._chosen)

    def _recent(self) -> list[tuple[Path, str]]:
        """Files predicted here first, then the tables of the latest runs."""
        here = dict.fromkeys(self._job.recent, "predicted")
        own = Path(self.tabapp.config.data)
        for folder in list_runs(self.tabapp.runs_dir)[:RECENT_RUNS]:
            try:
                path = Path(own_config(folder).data)
            except (TabappError, OSError):
                continue
            here.setdefault(path, "trained on in this run" if path == own else "trained on")
        return [(path, note) for path, note in here.items() if is_file(path)][:MOST_RECENT]

    def _chosen(self, file: str | None) -> None:
        if file is not None:
            self._job.choose(Path(file))
            self._job.wanted = False
            self.run_worker(self._check(), exit_on_error=False)

    async def _check(self) -> None:
        job, bundle = self._job, self._bundle
        if not await self._bundle_is_made(job):
            return
        await job.check(bundle)
        if job.wanted and not job.at_work:
            job.wanted = False
            if job.checked is not None and job is self._job:
                self.action_start()

    @on(Button.Pressed, "#predict-start")
    def action_start(self) -> None:
        job = self._job
        if not self._is_ready():
            return
        if job.at_work and not job.is_checking:
            self.notify("A prediction is running; x stops it.", severity="warning")
        elif job.is_checking or job.checked is None:
            job.wanted = True
            if not job.at_work:
                self.run_worker(self._check(), exit_on_error=False)
            self.redraw()
        elif job.checked.refused and not job.fill:
            self.notify("Feature columns are missing or changed; m treats them as missing values.", severity="warning")
        elif job.output is not None and exists(job.output):
            dialog = Decision(
                f"Replace {job.output.name}?",
                f"{short_path(job.output)} already exists.",
                [Option("replace", "Replace it", key="y", dangerous=True)],
            )
            self.tabapp.push_screen(dialog, lambda answer: self._begin() if answer else None)
        else:
            self._begin()

    def _begin(self) -> None:
        self.run_worker(self._predict(), exit_on_error=False)

    async def _predict(self) -> None:
        job, bundle = self._job, self._bundle
        # If the run ends meanwhile, its bundle predicts.
        job.wanted = True
        is_made = await self._bundle_is_made(job)
        job.wanted = False
        if not is_made:
            return
        await job.predict(bundle)
        predicted = job.predicted
        if predicted is not None:
            self.notify(predicted.output, title=f"{count(predicted.rows, 'prediction')} written", markup=False)
            if job is self._job and self.is_current:
                self.call_after_refresh(self.query_one(Predictions).focus)

    def action_output(self) -> None:
        if self._is_ready():
            message = "A .csv, .parquet, .arrow or .jsonl file in a folder that exists:"
            dialog = Ask("Write the predictions to", message, str(self._job.output), self._check_output)
            self.tabapp.push_screen(dialog, self._output_chosen)

    def _check_output(self, text: str) -> str:
        path = typed_path(text)
        if path.suffix.lower() not in OUTPUT_SUFFIXES or not can_be_written(path):
            raise UsageError(f"{quoted(text)} is not a .csv, .parquet, .arrow or .jsonl file in an existing folder.")
        reject_inputs(path, (self._job.file, self._bundle, self._job.trust))
        return str(path)

    def _output_chosen(self, path: str | None) -> None:
        if path is not None:
            self._job.output = Path(path)
            self._job.predicted = None
            self.redraw()

    def action_keep(self) -> None:
        if self._is_ready(with_file=False):
            self._job.keep = not self._job.keep
            self.redraw()

    def action_fill(self) -> None:
        if self._is_ready(with_file=False):
            self._job.fill = not self._job.fill
            self.redraw()

    def action_trust(self) -> None:
        if self._is_ready(with_file=False):
            message = "The file of an Ed25519 public key, or nothing to check no signature:"
            known = str(self._job.trust) if self._job.trust is not None else ""
            dialog = Ask("The key that must have signed the bundle", message, known, _check_key)
            self.tabapp.push_screen(dialog, self._key_chosen)

    def _key_chosen(self, path: str | None) -> None:
        job = self._job
        trust = Path(path) if path else None
        if path is None or trust == job.trust:
            return
        self._trust = trust
        for each in self._jobs.values():
            each.stop()
            each.trust, each.checked, each.predicted, each.trouble, each.wanted = trust, None, None, "", False
        if job.file is not None:
            self.run_worker(self._check(), exit_on_error=False)
        self.redraw()

    def action_stop(self) -> None:
        if self._job.at_work:
            self._job.stop()
            self._job.wanted = False
            self._job.trouble = "Stopped; nothing was written."
            self.redraw()
        else:
            self.warn("Nothing is running, so there is nothing to stop.")

    def action_impute(self) -> None:
        job = self._job
        if job.file is None:
            self.warn("Press f to choose the file to impute first.")
        elif job.at_work:
            self.warn("The file is in use; x stops it.")
        else:
            ask_for_imputation(self.tabapp, job, self._bundle, self._impute)

    def _impute(self, words: list[str]) -> None:
        self.run_worker(self._job.impute(words), exit_on_error=False)

    def action_copy_command(self) -> None:
        if self._is_ready():
            self.tabapp.copy(self._job.command(self._bundle))

    @on(Table.Selected, "#predictions")
    def action_explain_row(self) -> None:
        """Explain the row under the cursor of the predictions; without predictions, the first row."""
        job = self._job
        if not self._is_ready() or job.file is None:
            return
        if job.checked is None or (job.checked.refused and not job.fill):
            self.warn("Only a file that can be predicted can be explained.")
            return
        if not job.checked.rows:
            self.warn("The file has no rows.")
            return
        key = self.query_one(Predictions).key
        self.run_worker(self._open_row(job.file, int(key) - 1 if key else 0, job.checked), exit_on_error=False)

    async def _open_row(self, file: Path, row: int, checked: Checked) -> None:
        from tabapp.tui.screens.row import RowView

        client = self._explainer
        wanted = self._bundle, file, self._job.fill, self._job.trust
        if client is None or (client.bundle, client.data, client.fill, client.trust) != wanted:
            await self._close_explainer()
            bundle, data, fill, trust = wanted
            training = Path(self.snapshot.state.data)
            client = self._explainer = ExplainerClient(
                bundle, data, fill=fill, trust=trust, training=training if is_file(training) else None
            )
        self.tabapp.push_screen(RowView(client, row, checked.rows, checked.target))

    @on(Table.Selected, "#findings")
    def _finding_chosen(self, event: Table.Selected) -> None:
        """Show a finding in full."""
        checked = self._job.checked
        found = next((f for f in checked.findings if f"{f.finding} {f.column}" == event.key), None) if checked else None
        text = f"{found.column} {found.message}" if found is not None else event.key
        self.tabapp.push_screen(Reading("Checked against the training schema", Content(one_line(text))))


def _check_key(text: str) -> str:
    """The path of a key as typed; empty for none.

    Raises:
        UsageError: there is no such file.
    """
    if not text.strip():
        return ""
    path = typed_path(text)
    if not is_file(path):
        raise UsageError(f"There is no file {quoted(text)}. Give the file of a public key.")
    return str(path)
