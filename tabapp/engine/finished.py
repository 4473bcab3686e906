"""A finished run, read from its folder without changing it: its plan, rows, complete candidates and ensemble."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec
import numpy as np

from tabapp import files
from tabapp.bundle.contents import Contents, open_bundle
from tabapp.bundle.write import CandidateSource
from tabapp.engine.candidates import Candidate, Scorer, read_results
from tabapp.engine.plan import Plan
from tabapp.engine.recovery import BROKEN
from tabapp.engine.run_data import RunData
from tabapp.engine.sources import row_numbers, source_of
from tabapp.errors import BundleError, UsageError
from tabapp.run import events as ev
from tabapp.run.folder import RunFolder

_FIT = re.compile(r"(?P<model>.+)-(?P<trial>\d{4,})-f\d+")


@dataclass(frozen=True)
class FinishedRun:
    """What a run left in its folder.

    Attributes:
        candidates: those with all of their folds, and the members of the ensemble, by model and trial.
        members: the ensemble with the weight of each candidate.
        contents: the records of its bundle.
    """

    folder: RunFolder
    plan: Plan
    data: RunData
    scorer: Scorer
    candidates: dict[tuple[str, int], Candidate]
    members: tuple[tuple[Candidate, float], ...]
    contents: Contents

    @classmethod
    def read(cls, folder: RunFolder) -> FinishedRun:
        """Read a run.

        Raises:
            UsageError: it has no bundle yet, or a part of it is missing or damaged.
        """
        if not folder.bundle.is_file():
            raise UsageError(
                f"The run {folder.run} has no bundle yet. Use `tabapp resume {folder.argument}` to finish it."
            )
        try:
            contents = open_bundle(folder.bundle)
            plan = msgspec.json.decode(files.read_regular(folder.plan), type=Plan)
            data = RunData(folder)
            found = _candidates(folder, data.n_folds)
            chosen = ev.decode(files.read_regular(folder.path / "ensemble.json"))
            assert isinstance(chosen, ev.EnsembleChanged)
            members = tuple((found[member.model, member.trial], member.weight) for member in chosen.members)
        except BundleError:
            raise
        except (*BROKEN, AssertionError) as error:
            raise UsageError(
                f"The run {folder.run} is not complete: {type(error).__name__}: {str(error)[:100].rstrip('.')}. Use `tabapp resume "
                f"{folder.argument}`, which makes damaged parts again."
            ) from None
        in_ensemble = {candidate.key for candidate, _ in members}
        usable = {key: c for key, c in found.items() if c.is_complete or key in in_ensemble}
        return cls(folder, plan, data, Scorer(folder, data, plan.metric, plan.seed), usable, members, contents)

    @property
    def left_out(self) -> set[str]:
        """Models that the user excluded from the ensemble."""
        return {row.model for row in self.folder.state().leaderboard if row.left_out}

    def numbers(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """(rows,) the number of each usable row in the training file."""
        return row_numbers(self.folder, len(self.data.target))

    def source_of(self, candidate: Candidate, weight: float) -> CandidateSource:
        """The models of the folds of a candidate."""
        return source_of(self.folder, candidate, weight, self.numbers())


def _candidates(folder: RunFolder, n_folds: int) -> dict[tuple[str, int], Candidate]:
    """Every candidate with a complete fit."""
    found: dict[tuple[str, int], Candidate] = {}
    for path in sorted(folder.fits.iterdir()):
        match = _FIT.fullmatch(path.name)
        key = (match["model"], int(match["trial"])) if match else None
        if key is None or key in found or not (path / "metrics.json").is_file():
            continue
        candidate = Candidate(*key, params=files.read_json(path / "params.json"), n_folds=n_folds)
        read_results(folder, candidate)
        found[key] = candidate
    return found
