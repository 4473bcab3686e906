"""Runs as objects: what they found, and their bundles."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tabapp import files
from tabapp.errors import UsageError
from tabapp.run.analyses.attention_importances import AttentionImportancesReady
from tabapp.run.options.places import reject_inputs
from tabapp.run.protocol.exporting import ROWS_PER_LIMIT, AnyExportMessage, Compared, ExportOptions, run_export
from tabapp.run.record.belonging import is_current
from tabapp.run.record.events import WarningView
from tabapp.run.record.folder import RunFolder, default_runs_dir, find_run, list_runs
from tabapp.run.record.outputs import reject_replacing
from tabapp.run.record.score_text import score_with_folds
from tabapp.run.record.state import RunState
from tabapp.task import Task
from tabapp.temporary import TemporaryFolder

if TYPE_CHECKING:
    import polars as pl

    from tabapp.api.predictor import Predictor
    from tabapp.api.targets_predictor import TargetsPredictor

Status = Literal["ok", "interrupted", "failed", "running", "stopped"]

_LEADERBOARD = (
    "rank", "model", "title", "family", "score", "low", "high", "folds", "trials", "fit_seconds", "predict_ms_per_1k",
    "in_ensemble", "status", "reason",
)  # fmt: skip
_IMPORTANCES = ("feature", "permutation", "low", "high", "attention", "unstable")
_ATTENTION = ("model", "trial", "kind", "feature", "attention", "low", "high", "agreement")
_INTEGERS = ("rank", "folds", "trials", "trial")
_FLAGS = ("unstable",)
_TEXTS = ("model", "title", "family", "status", "reason", "feature", "kind")


class Run:
    """One run, read from its folder. A run that is still at work is read anew by every call."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    @property
    def id(self) -> str:
        """The id, as `tabapp runs` lists it."""
        return self._folder.run

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self._folder.path

    @property
    def status(self) -> Status:
        """ "ok" or "failed", "interrupted" by the user, "running", or "stopped" without a result."""
        if self._folder.is_running():
            return "running"
        finished = self._state().finished
        return finished.status if finished is not None else "stopped"

    @property
    def target(self) -> str | None:
        """The column that is predicted, the first of several; None before the run has read its data."""
        plan = self._state().plan
        return plan.target if plan is not None else None

    @property
    def targets(self) -> dict[str, Run]:
        """The run of each target that has started, by its column; empty in a run with a single target."""
        views = self._state().targets
        return {view.target: Run(RunFolder(self.path / view.folder)) for view in views if view.folder}

    @property
    def task(self) -> Task | None:
        """What kind of prediction it is; None before the run has read its data."""
        plan = self._state().plan
        return plan.task if plan is not None else None

    @property
    def metric(self) -> str | None:
        """The metric of the scores; None before the run has read its data."""
        plan = self._state().plan
        return plan.metric if plan is not None else None

    @property
    def score(self) -> float | None:
        """The best score of the leaderboard, in units of the metric; None before the first model has one."""
        best = self._state().best
        return best.score if best is not None else None

    @property
    def test_score(self) -> float | None:
        """The score of the bundle on the rows of `test`; None without them."""
        finished = self._state().finished
        return finished.test_score if finished is not None else None

    @property
    def warnings(self) -> list[WarningView]:
        """What looks wrong with the table and what was left out, most important first: each has a `check`, a `column`, a
        `message` and the `action` taken, with the option that changes it. Empty before the run has read its data."""
        states = [view.state for view in self._state().targets if view.state is not None] or [self._state()]
        return list(
            dict.fromkeys(each for state in states if state.schema is not None for each in state.schema.warnings)
        )

    def leaderboard(self) -> pl.DataFrame:
        """Every model with its out-of-fold score and 95 % interval, the best first; the ensemble is a row of its own."""
        return _frame(self._state().leaderboard, _LEADERBOARD)

    def importances(self) -> pl.DataFrame:
        """How much each column matters, the most important first: permutation importance in units of the metric with its
        interval, and the share of attention where a model has any. An unstable value is not due to the column alone, since
        predictions of rows changed in which nothing was shuffled. Empty while only those of an earlier trial are known."""
        state = self._state()
        found = state.importances
        known = found is not None and is_current(found, state.leaderboard)
        return _frame(found.rows if found is not None and known else (), _IMPORTANCES)

    def attention(self, model: str | None = None) -> pl.DataFrame:
        """How much attention each model with attention gives each column: its share per feature of the column with a 95 % interval
        over folds, and the rank correlation (`agreement`) with the permutation importances. Members of the ensemble come first, and
        the most attended columns. `kind` is "selection" for NODE and TabNet. Columns that the attention does not see are left out.

        Args:
            model: only the rows of this model.

        Raises:
            UsageError: there is no attention of this model.
        """
        import polars as pl

        state = self._state()
        events = [each for each in state.results(AttentionImportancesReady) if is_current(each, state.leaderboard)]
        found = [each.found for each in events if each.found is not None]
        if model is not None and model not in [each.model for each in found]:
            known = ", ".join(each.model for each in found) or "none yet"
            raise UsageError(
                f"The run {self.id} has no attention of {model!r}; there is that of: {known}. `tabapp diagnose "
                f"{self._folder.argument} --attention {model}` computes it if the model has a score and attention."
            )
        rows = [
            (each.model, each.trial, each.kind, row.feature, row.share, row.low, row.high, each.agreement)
            for each in found
            if model in (None, each.model)
            for row in sorted(each.rows, key=lambda row: -row.share)
        ]
        columns = zip(_ATTENTION, zip(*rows, strict=True) if rows else [()] * len(_ATTENTION), strict=True)
        return pl.DataFrame({name: pl.Series(values, dtype=_type_of(name)) for name, values in columns})

    def summaries(self) -> dict[str, dict[str, Any]]:
        """What the fitted models of each model's best trial report about themselves, over folds: numbers of trees or epochs, the
        columns that they use most, the loss of pre-training, and more."""
        return {row.model: dict(row.summary) for row in self._state().leaderboard if row.summary}

    def predictor(self) -> Predictor | TargetsPredictor:
        """Load the bundle of the run.

        Raises:
            UsageError: the run has no bundle.
        """
        from tabapp.api.loading import load

        return load(self._bundle())

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        refit: bool = False,
        limit_ms: float | None = None,
        limit_rows: int = ROWS_PER_LIMIT,
        distill: str | None = None,
        half: bool = False,
        sign: str | os.PathLike[str] | None = None,
    ) -> Path:
        """Write the bundle to a file, as it is, smaller or faster, and return its path.

        Args:
            refit: train each model of the ensemble once more on all rows, and leave out the models of the folds.
            limit_ms: select the best ensemble that predicts `limit_rows` rows within this many milliseconds of processor time.
            limit_rows: rows that `limit_ms` is for.
            distill: train one model of this name on all rows to imitate the ensemble.
            half: store weights in half precision where predictions change by at most 1e-4.
            sign: file of an Ed25519 private key in PEM, without a passphrase, that signs the bundle.

        Raises:
            UsageError: the run has no bundle, an option does not fit it, the key cannot be used, or the file cannot be written.
            BundleError: the bundle is damaged.
        """
        bundle, out = self._bundle(), Path(path)
        reject_replacing(self._folder, out)
        reject_inputs(out, (None if sign is None else Path(sign),))
        options = ExportOptions(refit=refit, limit_ms=limit_ms, limit_rows=limit_rows, distill=distill, half=half)
        with TemporaryFolder("export") as folder:
            if not options.is_plain:
                bundle = Path(folder) / "model.tabapp"
                run_export(self._folder, bundle, options, _warn_of_threshold)
            try:
                if sign is not None:
                    from tabapp.bundle.files.signing import write_signed

                    write_signed(bundle, out, Path(sign))
                else:
                    files.write_bytes(out, files.read_regular(bundle))
            except OSError as error:
                raise UsageError(f"{out} cannot be written ({error.strerror}). Choose another path.") from None
        return out

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write a report of the run to one file and return its path. The name ends with `.html`, `.md` or `.json`.

        Raises:
            UsageError: the name ends with something else, the run has not read its table yet, or the file cannot be written.
        """
        from tabapp.report.write import write_report

        out = Path(path)
        reject_replacing(self._folder, out)
        write_report(self._folder, out)
        return out

    def _bundle(self) -> Path:
        if not self._folder.bundle.is_file():
            raise UsageError(f"The run {self.id} has no bundle. Use tabapp.resume to finish it.")
        return self._folder.bundle

    def _state(self) -> RunState:
        return self._folder.state()

    def __repr__(self) -> str:
        state = self._state()
        facts = [repr(self.id), self.status]
        if state.plan is not None:
            facts.append(f"{state.plan.target!r} ({state.plan.task})")
            if state.best is not None:
                facts.append(f"{state.best.model} {state.plan.metric}={score_with_folds(state.best, state.plan.folds)}")
        return f"<Run {', '.join(facts)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)


def _warn_of_threshold(message: AnyExportMessage) -> None:
    """Warn if a rebuilt bundle has a threshold, which may not be the one that was chosen."""
    if isinstance(message, Compared) and message.threshold_note:
        warnings.warn(message.threshold_note, UserWarning, stacklevel=4)


def _frame(rows: Sequence[msgspec.Struct], names: Sequence[str]) -> pl.DataFrame:
    """Records as a frame of some of their fields."""
    import polars as pl

    return pl.DataFrame({name: pl.Series([getattr(row, name) for row in rows], dtype=_type_of(name)) for name in names})


def _type_of(name: str) -> type[pl.DataType]:
    """The type of a column of a frame."""
    import polars as pl

    types = {
        **dict.fromkeys(_INTEGERS, pl.Int64),
        **dict.fromkeys(_TEXTS, pl.String),
        **dict.fromkeys(_FLAGS, pl.Boolean),
    }
    return types.get(name, pl.Float64)


def runs(runs_dir: str | os.PathLike[str] | None = None) -> list[Run]:
    """All runs, the newest first.

    Args:
        runs_dir: folder that keeps runs; None takes the same as the command line.
    """
    return [Run(folder) for folder in list_runs(_place(runs_dir))]


def find(run: Run | str | os.PathLike[str], runs_dir: str | os.PathLike[str] | None = None) -> RunFolder:
    """The folder of a run by the run itself, its id, a part of its id, its name, "last", or a path: a `Path`, or
    a string with a slash.

    Raises:
        UsageError: there is none, or there are several.
    """
    if isinstance(run, Run):
        return RunFolder(run.path)
    if not isinstance(run, str):
        return find_run(os.path.join(".", os.fspath(run)), _place(runs_dir))
    return find_run(run, _place(runs_dir))


def _place(runs_dir: str | os.PathLike[str] | None) -> Path:
    return Path(runs_dir) if runs_dir is not None else default_runs_dir()
