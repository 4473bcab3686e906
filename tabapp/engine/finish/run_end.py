"""The end of a run: the final ensemble, the importances, the bundle, the test score, and the last event."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import files, metrics
from tabapp.bundle.files.records import MetricValue
from tabapp.bundle.prediction.evaluate import metric_value
from tabapp.bundle.prediction.intervals import fit_intervals
from tabapp.bundle.prediction.load import load_bundle
from tabapp.bundle.writing.write import BundleContents, write_bundle
from tabapp.data.reading.read import ReadOptions, read_table
from tabapp.data.typed import encode_target, rows_with_target
from tabapp.engine.analyses.attention_importances import AttentionOfRun, attentive
from tabapp.engine.analyses.averages import averaging_of_ensemble
from tabapp.engine.analyses.dependences import find_attention, find_dependence, find_interactions
from tabapp.engine.analyses.finished_run import save_prediction
from tabapp.engine.analyses.importances import compute_importances, importances_json
from tabapp.engine.analyses.slices_and_effects import find_effects, find_slices
from tabapp.engine.finish.bundle_copy import copy_bundle
from tabapp.engine.finish.refit import sources_of
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.loop.clock import Clock, export_seconds
from tabapp.engine.loop.explained_model import single_models
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.engine.loop.selection import Selected
from tabapp.engine.machine.contention import Contention
from tabapp.engine.plan.make_plan import Plan
from tabapp.engine.plan.write_rows import read_sample
from tabapp.errors import BundleError, DataError, ExitCode, TabappError, option
from tabapp.findings import ModelAttention
from tabapp.models import registry
from tabapp.run.options.config import RunConfig
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.score_text import validation_of
from tabapp.run.record.undefined import defined
from tabapp.temporary import TemporaryFolder

if TYPE_CHECKING:
    from tabapp.engine.loop.conductor import Conductor

EXPORT_SECONDS = 2.0
"""Time reserved for writing and verifying the bundle, in a run with a budget on an idle machine."""
EXPORT_SHARE = 0.5
FEW_RESAMPLES = 50
"""Bootstrap resamples for metrics beside that of the run, whose intervals are left out if little time is left."""
LEAST_IMPORTANCE_SECONDS = 0.5
IMPORTANCES_SHARE = 0.7
"""Share of the time for explaining that importances may take; feature effects get the rest."""
IMPORTANCES = "importances.json"
MOST_MAPPED = 3
"""Networks whose attention maps are shown: the one whose attention is among the importances, and the best others."""
COMPARING_SHARE, EVALUATIONS_SHARE, AVERAGING_SHARE = 0.1, 0.1, 0.5
"""Shares of the time left after fitting for comparing the ensemble with single models, for evaluations that are not up to date, and
for comparing the fold models: on letter, the
temperature of their mean lowers the log loss by 2 and 9 % (`benchmarks/results/calibrating.json`)."""


class Finish:
    """Turns the results of a conductor into a bundle and the last event.

    Args:
        emit: appends an event to the run.
    """

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        plan: Plan,
        data: RunData,
        conductor: Conductor,
        clock: Clock,
        emit: Callable[[ev.Event], None],
    ) -> None:
        self._folder, self._config, self._plan, self._data = folder, config, plan, data
        self._conductor, self._clock, self._emit = conductor, clock, emit
        self._models = FoldModels.of_run(folder, data, plan)
        self._attention = AttentionOfRun(self._models, ())

    def run(self, *, interrupted: bool, elapsed: Callable[[], float]) -> ev.RunFinished:
        """Finish the run; returns the last event, which is not yet appended.

        Args:
            elapsed: seconds that the run has taken so far, including earlier sessions.
        """
        self._emit(ev.StageChanged(stage="ensembling", deadline=self._clock.wall_deadline()))
        contention = Contention()
        with ThreadPoolExecutor(1) as pool:
            # What fails there fails again in the rows.
            pool.submit(self._conductor.board.score_rows)
            selected = self._conductor.board.select_now()
        if selected is not None:
            self._clock.reserve_export(export_seconds(self._folder.fits, selected.members))
            selected = self._conductor.board.selected = self._averaged(selected)
            files.write_bytes(self._folder.path / "ensemble.json", msgspec.json.encode(selected.event()))
            scored = self._data.scored.at(selected.covered)
            save_prediction(self._folder, scored, selected.prediction, selected.identity)
            self._emit(selected.event())
        rows = self._conductor.board.rows({}, over=True)
        self._emit(ev.LeaderboardChanged(rows=rows))
        if selected is None:
            return self._without_model(rows, interrupted, elapsed)
        # Fits have ended, so that only other programs slow the engine down.
        self._clock.slowdown = max(self._clock.slowdown, contention.slowdown())
        self._emit(ev.StageChanged(stage="explaining", deadline=self._clock.wall_deadline()))
        self._compare()
        self._evaluate()
        importances = self._explain(selected)
        self._emit(ev.StageChanged(stage="exporting", deadline=self._clock.wall_deadline()))
        self._write_bundle(selected, rows)
        bundle, unwritten = copy_bundle(self._folder, self._config, self._emit)
        test_score = self._test_score(bundle)
        attention = self._remaining_attention(importances, interrupted=interrupted)
        by_score = [row for row in rows if row.score is not None]
        best = by_score[0] if by_score else next(row for row in rows if row.model == ev.ENSEMBLE)
        message = "Interrupted. The bundle has the best models so far. " if interrupted else ""
        return ev.RunFinished(
            **self._common(elapsed),
            status="interrupted" if interrupted else "ok",
            bundle=str(bundle),
            best=ev.Best(model=best.model, score=best.score, low=best.low, high=best.high),
            folds=best.folds,
            planned_folds=self._plan.folds,
            test_score=test_score,
            leaderboard=rows,
            importances=importances.rows if importances else (),
            agreement={"attention_vs_permutation": importances.agreement if importances else None},
            importance_columns=importances.n_columns if importances else None,
            attention=attention,
            exit_code=ExitCode.INTERRUPTED if interrupted else ExitCode.NO_MODEL if unwritten else ExitCode.OK,
            message=f"{message}{unwritten}".strip(),
        )

    def _averaged(self, selected: Selected) -> Selected:
        """The ensemble with the score of the mean of its fold models, if there is time to compare them."""
        end = None if self._clock.end is None else time.monotonic() + AVERAGING_SHARE * self._clock.left_before_export()
        scored = self._data.scored.at(selected.covered)
        try:
            averaging = averaging_of_ensemble(self._models, selected.members, scored, end)
        except Exception as error:
            self._log_failure("score of the mean of the fold models", error)
            return selected
        if averaging is None:
            message = "No time to compare the fold models: the score of the ensemble is that of single ones."
            self._emit(ev.Log(level="info", message=message))
            return selected
        return selected.averaged(averaging, self._plan.metric)

    def _common(self, elapsed: Callable[[], float]) -> dict[str, Any]:
        return {
            "run": self._folder.run,
            "task": self._plan.task,
            "target": self._plan.target,
            "metric": self._plan.metric,
            "greater_is_better": metrics.get(self._plan.metric).greater_is_better,
            "seconds": round(elapsed(), 3),
        }

    def _without_model(
        self, rows: tuple[ev.LeaderboardRow, ...], interrupted: bool, elapsed: Callable[[], float]
    ) -> ev.RunFinished:
        failed = [row for row in rows if row.status == "failed"]
        code = ExitCode.INTERRUPTED if interrupted else ExitCode.NO_MODEL if failed else ExitCode.BUDGET
        message = {
            ExitCode.INTERRUPTED: "Interrupted before the first model had a score. There is no bundle.",
            ExitCode.BUDGET: f"The budget ended before the first model had a score. Set a longer {option('budget')}.",
            ExitCode.NO_MODEL: "No model could be trained: "
            + "; ".join(f"{row.title}: {row.reason}" for row in failed)
            + f". See the details in {self._folder.events}.",
        }[code]
        return ev.RunFinished(
            **self._common(elapsed),
            status="interrupted" if interrupted else "failed",
            bundle=None,
            best=None,
            test_score=None,
            leaderboard=rows,
            importances=(),
            agreement={"attention_vs_permutation": None},
            exit_code=code,
            message=message,
        )

    def _compare(self) -> None:
        """The ensemble compared with single models and with the best constant; a failure is logged, and the run continues."""
        end = None if self._clock.end is None else time.monotonic() + COMPARING_SHARE * self._clock.left_before_export()
        try:
            compared = self._conductor.board.compare_now(end)
        except Exception as error:
            self._log_failure("comparison of the ensemble with single models", error)
        else:
            if compared is not None:
                self._emit(compared)

    def _evaluate(self) -> None:
        """Evaluations of the ensemble and of the best trials; a failure is logged, and the run continues."""
        end = time.monotonic() + EVALUATIONS_SHARE * self._clock.left_before_export()

        def failed(model: str, error: Exception) -> None:
            title = "the ensemble" if model == ev.ENSEMBLE else registry.get(model).title
            self._log_failure(f"evaluation of {title}", error)

        for evaluation in self._conductor.evaluations.catch_up(end, failed):
            self._emit(evaluation)

    def _explain(self, selected: Selected) -> ev.ImportancesReady | None:
        """Importances, attention, weak slices and effects within the time left; a failure in one of them is logged, and the run
        continues."""
        now, end = time.monotonic(), None
        if self._clock.end is not None:
            left = self._clock.left()
            export = max(EXPORT_SECONDS * self._clock.slowdown, self._clock.export, EXPORT_SHARE * left)
            end = now + max(LEAST_IMPORTANCE_SECONDS, left - export)
        models, competition = self._models, self._conductor.competition
        deadline = None if end is None else now + IMPORTANCES_SHARE * (end - now)
        importances = self._importances(selected, deadline, end)
        try:
            slices = find_slices(self._data, self._plan, self._conductor.scorer, selected)
            if slices is not None:
                self._emit(slices)
        except Exception as error:
            self._log_failure("weak slices", error)
        try:
            effects = None
            if importances is not None and (end is None or time.monotonic() < end):
                effects = find_effects(models, competition, importances, end)
            if effects is not None:
                self._emit(effects)
        except Exception as error:
            self._log_failure("effects", error)
        if importances is not None:
            self._explain_more(importances, end)
        return importances

    def _importances(self, selected: Selected, deadline: float | None, end: float | None) -> ev.ImportancesReady | None:
        """Permutation importances until the deadline, and the attention of each model for half of the time after it; the model
        whose attention is beside permutation comes first, whatever the time."""
        importances = None
        self._attention = AttentionOfRun(self._models, attentive(self._conductor.competition, selected.members))
        try:
            competition = self._conductor.competition
            importances = compute_importances(self._models, competition, deadline, self._attention.first)
            if importances is not None:
                files.write_bytes(self._folder.path / IMPORTANCES, importances_json(importances))
                self._emit(importances)
                self._say_whose(importances)
        except Exception as error:
            self._log_failure("importances", error)
        last = math.inf if deadline is None or end is None else (deadline + end) / 2
        self._emit_attention(importances, lambda: last - time.monotonic())
        return importances

    def _say_whose(self, importances: ev.ImportancesReady) -> None:
        """Tell that importances are not of the best single model, if this is so."""
        best = single_models(self._conductor.competition)[0]
        if best.key != (importances.model, importances.trial):
            slow, shown = registry.get(best.model).title, registry.get(importances.model).title
            message = f"Importances are of {shown}: the time is too short for {slow}, the best single model."
            self._emit(ev.Log(level="info", message=message))

    def _emit_attention(self, importances: ev.ImportancesReady | None, seconds_left: Callable[[], float]) -> None:
        for event in self._attention.events(importances.rows if importances is not None else (), seconds_left):
            self._emit(event)

    def _remaining_attention(
        self, importances: ev.ImportancesReady | None, *, interrupted: bool
    ) -> tuple[ModelAttention, ...]:
        """The attention of the other models in the time that the bundle has left, and that of all models."""
        if not interrupted:
            self._emit_attention(importances, lambda: self._clock.left() - LEAST_IMPORTANCE_SECONDS)
        for event in self._attention.without_time():
            self._emit(event)
        found = self._attention.found
        if importances is not None and found:
            files.write_bytes(self._folder.path / IMPORTANCES, importances_json(importances, found))
        return tuple(found)

    def _explain_more(self, importances: ev.ImportancesReady, end: float | None) -> None:
        """Correlated groups, interactions and attention maps, each if time is left."""
        models, competition = self._models, self._conductor.competition
        explained = competition.best_of(importances.model)
        if explained is None:
            return
        parts: dict[str, Callable[[], ev.Event | None]] = {
            "correlated columns": lambda: find_dependence(models, explained, importances, end),
            "interactions": lambda: find_interactions(models, explained, importances, end),
        }
        for what, find in parts.items():
            self._explain_part(what, find, end)
        with_maps = [name for name in competition.models if registry.get(name).has_attention_maps]
        networks = [c for c in map(competition.best_of, with_maps) if c is not None]
        networks.sort(key=lambda c: (c.model != importances.attention_model, -len(c.results), competition.loss_of(c)))
        n_mapped = 0
        for candidate in networks:
            if n_mapped < MOST_MAPPED:
                find = partial(find_attention, models, candidate)
                n_mapped += self._explain_part("attention maps", find, end)

    def _explain_part(self, what: str, find: Callable[[], ev.Event | None], end: float | None) -> bool:
        """Emit what is found, if time is left; a failure is logged."""
        if end is not None and time.monotonic() > end:
            return False
        try:
            event = find()
        except Exception as error:
            self._log_failure(what, error)
            return False
        if event is not None:
            self._emit(event)
        return event is not None

    def _log_failure(self, what: str, error: Exception) -> None:
        reason = str(error) if isinstance(error, TabappError) else f"{type(error).__name__}: {error}"
        self._emit(ev.Log(level="warning", message=f"No {what}: {reason}."))

    def _write_bundle(self, selected: Selected, rows: tuple[ev.LeaderboardRow, ...]) -> None:
        data, plan = self._data, self._plan
        scorer = self._conductor.scorer
        truth = scorer.target[selected.covered]
        weight = None if scorer.weight is None else scorer.weight[selected.covered]
        ensemble = next(row for row in rows if row.model == ev.ENSEMBLE)
        with TemporaryFolder("sources") as place:
            contents = BundleContents(
                run=self._folder.run,
                name=self._config.name or "",
                schema=data.schema,
                metric=plan.metric,
                metrics=self._all_metrics(truth, selected, weight),
                validation=validation_of(ensemble, plan.folds, plan.validation),
                leaderboard=[msgspec.to_builtins(row) for row in rows],
                seed=plan.seed,
                data=files.read_json(self._folder.data / "fingerprint.json"),
                created_at=datetime.now(UTC).isoformat(timespec="seconds"),
                candidates=sources_of(self._models, selected.members, Path(place)),
                sample=read_sample(self._folder),
                targets=data.target_by_number,
                calibration=selected.calibration_of_mean,
                intervals=fit_intervals(truth, selected.prediction, weight) if plan.task == "regression" else None,
            )
            try:
                write_bundle(self._folder.bundle, contents)
            except BundleError as error:
                raise BundleError(
                    f"{error.args[0]} The trained models are kept in the run. After the cause is fixed, `tabapp resume` writes the "
                    "bundle."
                ) from None

    def _all_metrics(
        self,
        truth: npt.NDArray[Any],
        selected: Selected,
        weight: npt.NDArray[np.float32] | None,
    ) -> list[MetricValue]:
        """Every metric of the task, as expected of the mean of the fold models, the run's metric first."""
        own = self._plan.metric
        others = [name for name in metrics.names_for(self._plan.task, first=own) if name != own]
        score, low, high = map(defined, (selected.score.value, selected.score.low, selected.score.high))
        values = [MetricValue(name=own, score=score, low=low, high=high)]
        least = EXPORT_SECONDS * self._clock.slowdown
        for name in others:
            n_resamples = FEW_RESAMPLES if self._clock.left() > least else 0
            try:
                value = metric_value(
                    name,
                    truth,
                    selected.prediction,
                    weight,
                    seed=self._plan.seed,
                    averaging=selected.averaging,
                    n_resamples=n_resamples,
                )
            except Exception as error:
                # A third-party metric that nobody chose must not cost the run its bundle.
                message = f"The bundle has no score by the metric {name!r}: {type(error).__name__}: {error}."
                self._emit(ev.Log(level="warning", message=message))
            else:
                values.append(value)
        return values

    def _test_score(self, bundle: Path) -> float | None:
        """The score of the bundle on the rows of `--test`, or None."""
        if self._config.test is None:
            return None
        try:
            options = ReadOptions.of(self._config)
            reading = read_table(Path(self._config.test), options, columns=self._data.schema.columns)
            predictor = load_bundle(bundle).predictor
            typed, notes = predictor.typed_rows(reading.frame, decimal=reading.decimal)
            typed = typed.filter(rows_with_target(typed, self._data.schema))
            truth = encode_target(typed, self._data.schema)
            prediction = predictor.predict_rows(typed).values
        except (DataError, BundleError) as error:
            self._emit(ev.Log(level="warning", message=f"No test score: {error}"))
            return None
        for note in notes:
            self._emit(ev.Log(level="warning", message=f"Test rows: {note.rstrip('.')}."))
        score = metrics.score(self._plan.metric, truth, prediction)
        return None if np.isnan(score) else score
