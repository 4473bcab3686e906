"""Select ensembles of recorded fits with the policy of today, and with changed numbers.

python -m benchmarks.lab.selection [CHANGES…] [--lab FOLDER] [--out FILE.json]

CHANGES are changes made together, as in `benchmarks.lab.variants`; without any, each number of the selection and the calibration is
halved and doubled. The fits are those of `benchmarks.lab.collect`; all candidates that have all folds may be selected. Each ratio
is the error of the test rows with the changes over the error with today's policy, so that more than 1 means that today's is better:
the geometric mean over the tables, each of which counts with the mean of its draws, with its standard error over the tables. "log
loss" is the same ratio of the log loss of the probabilities, for tables with classes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.lab.collect import LAB
from benchmarks.lab.library import Library, LibraryScorer, open_libraries
from benchmarks.lab.variants import NONE, Outcome, changed, halved_and_doubled, mean_ratio, shown
from benchmarks.machine import RESULTS, machine, report
from tabapp import metrics
from tabapp.engine.fit.candidates import Candidate, Scorer
from tabapp.engine.loop.selection import select_ensemble
from tabapp.ensemble.blending import blend
from tabapp.ensemble.scaling import calibrated
from tabapp.policy import Policy

NUMBERS = ("ensemble_candidates", "selection_rounds", "least_weight", "trusted_rows")


def outcome(library: Library, policy: Policy) -> Outcome:
    """The errors of the test rows with the ensemble that a policy selects from all candidates: "error" in the run's
    metric, and "log loss" of classes."""
    candidates: list[Candidate] = []
    for key in library.fits:
        results = {fold: library.result(key, fold) for fold in range(library.n_folds)}
        candidates.append(Candidate(*key, {}, library.n_folds, results=results))
    selected = select_ensemble(candidates, cast(Scorer, LibraryScorer(library)), library.metric, 0, policy=policy)
    assert selected is not None, f"{library.place} has no complete candidate"
    weights = np.asarray([weight for _, weight in selected.members])
    tests = [library.predictions(candidate.key)[1] for candidate, _ in selected.members]
    prediction = calibrated(blend(tests, weights), selected.calibration)
    found = {"error": library.test_error(prediction)}
    if prediction.ndim == 2:
        found["log loss"] = metrics.score(metrics.LOG_LOSS, library.test_target, prediction)
    return found


def rows_of(results: Mapping[str, Mapping[str, Outcome]]) -> list[list[str]]:
    """The table: a line for each change."""

    def cell(changes: str, of: str) -> str:
        return shown(*mean_ratio(results[NONE], results[changes], of))

    return [
        [changes, str(len(results[changes])), cell(changes, "error"), cell(changes, "log loss")]
        for changes in results
        if changes != NONE
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", nargs="*", metavar="CHANGES")
    parser.add_argument("--lab", type=Path, default=LAB)
    parser.add_argument("--out", type=Path, default=RESULTS / "selection.json")
    options = parser.parse_args(arguments)
    libraries = [library for library in open_libraries(options.lab) if library.models]
    if not libraries:
        print(f"{options.lab} has no recorded fits; make them with benchmarks.lab.collect.", file=sys.stderr)
        return 0
    results: dict[str, dict[str, Outcome]] = {
        name: {} for name in (NONE, *(options.changes or halved_and_doubled(NUMBERS)))
    }
    for library in libraries:
        for name in results:
            results[name][library.place.name] = outcome(library, changed(name))
        print(library.place.name, f"{len(library.fits)} candidates", file=sys.stderr, flush=True)
    header = ["change", "draws", "error", "log loss"]
    report(machine(), header, rows_of(results), results, options.out, right=(1, 2, 3))
    return 0


if __name__ == "__main__":
    sys.exit(main())
