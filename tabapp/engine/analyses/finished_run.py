"""A run with an ensemble, read from its folder without changing it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tabapp import files
from tabapp.bundle.files.contents import Contents, open_bundle
from tabapp.engine.fit.candidates import Candidate, Scorer, read_further_seeds, read_results
from tabapp.engine.fit.features import RunFeatures
from tabapp.engine.fit.numbering import UsableRows
from tabapp.engine.fit.run_data import RunData
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.engine.loop.recovery import BROKEN
from tabapp.engine.plan.make_plan import Plan
from tabapp.errors import TabappError, UsageError
from tabapp.run.record import events as ev
from tabapp.run.record.event_lines import decode
from tabapp.run.record.folder import RunFolder
from tabapp.run.record.state import RunState

ENSEMBLE_PREDICTION = "ensemble.npz"
"""Cross-fitted out-of-fold predictions of the ensemble: `prediction` for the rows in `rows`, and its `identity`."""
_FIT = re.compile(r"(?P<model>.+)-(?P<trial>\d{4,})-f\d+")

Array = npt.NDArray[Any]


def save_prediction(folder: RunFolder, rows: UsableRows, prediction: Array, identity: str = "") -> None:
    """Save the cross-fitted out-of-fold predictions of the ensemble.

    Args:
        rows: the scored rows.
        prediction: (scored, classes) or (scored,).
        identity: that of the ensemble.
    """
    content = io.BytesIO()
    np.savez(content, rows=rows.places, prediction=prediction, identity=np.array(identity))
    files.write_bytes(folder.path / ENSEMBLE_PREDICTION, content.getvalue())


class FinishedRun:
    """What a run left in its folder. Parts that only some commands need are read when they are used.

    Attributes:
        plan: with the device of this machine, if it lacks that of the run.
        members: the ensemble with the weight of each candidate.
        report: receives the share of an analysis that is done, from 0 to 1.

    Args:
        scratch: gets the features and the pre-trained parts that the run lacks; None means the run.

    Raises:
        UsageError: the run has no ensemble yet, or a part of it is missing or damaged; also by the parts that are read later.
    """

    def __init__(self, folder: RunFolder, scratch: Path | None = None) -> None:
        self.folder = folder
        self.report: Callable[[float], None] = lambda share: None
        with damage_as_error(folder):
            chosen = self._ensemble()
            if chosen is None or not folder.plan.is_file():
                raise UsageError(
                    f"The run {folder.run} has no result yet. Use `tabapp resume {folder.argument}` to finish it."
                )
            self.plan = msgspec.json.decode(files.read_regular(folder.plan), type=Plan).on_this_machine()
            self.data = RunData(folder)
            place, ready = (folder, None) if scratch is None else (RunFolder(scratch), folder)
            self.features = RunFeatures(self.data, self.plan.seed, place, ready)
            self.models = FoldModels(folder, self.data, self.plan, self.features)
            self._identity = chosen.identity
            self._seeds = {(each.model, each.trial): each.seeds for each in chosen.members}
            self.members = tuple((self._member(each.model, each.trial), each.weight) for each in chosen.members)

    @cached_property
    def state(self) -> RunState:
        """The state that views show."""
        return self.folder.state()

    @cached_property
    def scorer(self) -> Scorer:
        """Out-of-fold predictions and scores of candidates."""
        return Scorer(self.folder, self.data, self.plan.metric, self.plan.seed)

    @cached_property
    def contents(self) -> Contents:
        """The records of the bundle.

        Raises:
            UsageError: the run has no bundle.
            BundleError: the bundle is not valid.
        """
        if not self.folder.bundle.is_file():
            raise UsageError(
                f"The run {self.folder.run} has no bundle yet. Use `tabapp resume {self.folder.argument}` to finish it."
            )
        return open_bundle(self.folder.bundle)

    @cached_property
    def candidates(self) -> dict[tuple[str, int], Candidate]:
        """Candidates with all of their folds and models, and the members of the ensemble, by model and trial."""
        found = {candidate.key: candidate for candidate, _ in self.members}
        with damage_as_error(self.folder):
            for path in sorted(self.folder.fits.iterdir()):
                match = _FIT.fullmatch(path.name)
                key = (match["model"], int(match["trial"])) if match else None
                if key is None or key in found or not (path / "metrics.json").is_file():
                    continue
                candidate = self._member(*key)
                if candidate.is_complete and candidate.has_models:
                    found[key] = candidate
        return dict(sorted(found.items()))

    @cached_property
    def scored(self) -> tuple[UsableRows, Array]:
        """The rows that the ensemble has out-of-fold predictions for, and these predictions: (scored, classes) or (scored,)."""
        saved = self.folder.path / ENSEMBLE_PREDICTION
        with damage_as_error(self.folder):
            if saved.is_file():
                arrays = np.load(io.BytesIO(files.read_regular(saved)), allow_pickle=False)
                if "identity" not in arrays or str(arrays["identity"]) in ("", self._identity):
                    return UsableRows(arrays["rows"], len(self.data.target)), arrays["prediction"]
            # Runs of earlier versions, or killed between two files: the weights were chosen on the same rows.
            folds = sorted(set.intersection(*(set(member.results) for member, _ in self.members)))
            rows = UsableRows.joined([self.data.held_out(fold) for fold in folds])
            parts = [
                weight * np.concatenate([member.out_of_fold(self.folder, fold) for fold in folds]).astype(np.float64)
                for member, weight in self.members
            ]
            return rows, np.sum(parts, axis=0) / sum(weight for _, weight in self.members)

    @property
    def rows(self) -> UsableRows:
        """The scored rows."""
        return self.scored[0]

    @property
    def prediction(self) -> Array:
        """(scored, classes) or (scored,) out-of-fold predictions of the ensemble."""
        return self.scored[1]

    @property
    def truth(self) -> Array:
        """(scored,) class codes, or values in target units."""
        return self.rows.of(self.data.target)

    @property
    def weight(self) -> Array | None:
        """(scored,) row weights, or None."""
        return self.rows.of(self.data.weight)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """(usable rows,) numbers of the rows in the training file."""
        with damage_as_error(self.folder):
            return self.data.numbers

    def described(self, found: ev.Described) -> ev.Described:
        """An analysis with the identity of what it describes: the ensemble, or the best trial of a model."""
        if found.model == ev.ENSEMBLE:
            return msgspec.structs.replace(found, identity=self._identity)
        row = next((row for row in self.state.leaderboard if row.model == found.model), None)
        return found if row is None else msgspec.structs.replace(found, trial=row.trial, identity=row.identity)

    @property
    def left_out(self) -> set[str]:
        """Models that the user excluded from the ensemble."""
        return {row.model for row in self.state.leaderboard if row.left_out}

    @property
    def best_model(self) -> str:
        """The model with the best score.

        Raises:
            UsageError: no model has a score.
        """
        found = next(
            (row.model for row in self.state.leaderboard if row.score is not None and row.model != "ensemble"), None
        )
        if found is None:
            raise UsageError(f"The run {self.folder.run} has no model with a score.")
        return found

    def best_of(self, model: str) -> Candidate:
        """The best trial of a model on the leaderboard, with its fits.

        Raises:
            UsageError: the model has no score.
        """
        row = next((row for row in self.state.leaderboard if row.model == model and row.score is not None), None)
        if row is None:
            raise UsageError(f"The run {self.folder.run} has no score of the model {model!r}.")
        with damage_as_error(self.folder):
            return self._member(model, row.trial or 0)

    def _ensemble(self) -> ev.EnsembleChanged | None:
        """The final ensemble, or the best one so far of a run that has not finished."""
        saved = self.folder.path / "ensemble.json"
        if not saved.is_file():
            return self.state.ensemble
        chosen = decode(files.read_regular(saved))
        if not isinstance(chosen, ev.EnsembleChanged):
            raise ValueError(f"{saved.name} is not an ensemble")
        return chosen

    def _member(self, model: str, trial: int) -> Candidate:
        if not files.is_plain_name(model):
            raise ValueError(f"{model[:80]!r} is not the name of a model")
        candidate = Candidate(model, trial, {}, self.data.n_folds)
        read_results(self.folder, candidate)
        if not candidate.results:
            raise ValueError(f"the model {model} #{trial} has no fit")
        read_further_seeds(self.folder, candidate, self._seeds.get((model, trial), 1))
        candidate.params = files.read_json(candidate.place(self.folder, min(candidate.results)) / "params.json")
        return candidate


@contextmanager
def damage_as_error(folder: RunFolder) -> Generator[None]:
    """Raises: UsageError: a part of the run cannot be read; names it, and the command that makes it again."""
    try:
        yield
    except TabappError:
        raise
    except BROKEN as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:120].rstrip(".")
        raise UsageError(
            f"The run {folder.run} is not complete: {reason}. Use `tabapp resume {folder.argument}`, which makes damaged parts "
            "again."
        ) from None
