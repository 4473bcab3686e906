"""Runs in simulated time: synthetic models whose predictions, scores and seconds are known, and a loop that ends their fits."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.fit.jobs import FitResult
from tabapp.engine.schedule.competition import Competition, ModelRecord
from tabapp.engine.schedule.moment import Setup
from tabapp.engine.schedule.scheduler import Scheduler
from tabapp.engine.schedule.work import Fold, Work
from tabapp.ensemble.blending import blend
from tabapp.ensemble.greedy import select
from tabapp.features.arrays import FeatureRecipe

FOLDS, WORKERS, ROWS = 5, 2, 1000
SHARED = 0.5
"""Standard deviation of the error that all models have in common."""

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp] | slice


@dataclass(frozen=True)
class Synthetic:
    """A model: its family, seconds of a fold, root mean squared error, and its prior time as a share of the true one."""

    family: str
    seconds: float
    error: float
    prior: float = 1.0
    is_core: bool = False


MODELS = {
    "linear": Synthetic("classic", 0.5, 0.85),
    "k_neighbors": Synthetic("classic", 0.5, 0.80),
    "lightgbm": Synthetic("gbdt", 1.0, 0.63, is_core=True),
    "xgboost": Synthetic("gbdt", 1.0, 0.62, is_core=True),
    "catboost": Synthetic("gbdt", 2.0, 0.60, is_core=True),
    "hist_gradient_boosting": Synthetic("gbdt", 1.5, 0.66),
    "random_forest": Synthetic("classic", 2.0, 0.68),
    "extra_trees": Synthetic("classic", 2.0, 0.67),
    "mlp": Synthetic("deep", 4.0, 0.72, 0.4, is_core=True),
    "resnet": Synthetic("deep", 5.0, 0.75, 0.4, is_core=True),
    "ft_transformer": Synthetic("deep", 12.0, 0.66, 0.4, is_core=True),
    "tabm": Synthetic("deep", 6.0, 0.59, 0.3),
    "realmlp": Synthetic("deep", 5.0, 0.60, 0.3),
    "tabr": Synthetic("deep", 9.0, 0.70, 0.5),
    "snn": Synthetic("deep", 4.0, 0.85, 0.4),
    "autoint": Synthetic("deep", 9.0, 0.78, 0.5),
    "dcn_v2": Synthetic("deep", 5.0, 0.76, 0.4),
    "node": Synthetic("deep", 14.0, 0.74, 0.5),
}


class Library:
    """Targets and predictions of all trials: out of fold for the first half of the rows, and of new rows for the second."""

    def __init__(self, models: Mapping[str, Synthetic], seed: int) -> None:
        self.models, self._seed = models, seed
        self.target = np.zeros(2 * ROWS)
        self.fold = np.arange(ROWS) % FOLDS
        self._shared = self._noise("shared", 0)
        self._known: dict[tuple[str, int], Array] = {}

    def _noise(self, name: str, trial: int) -> Array:
        seed = zlib.crc32(f"{self._seed}/{name}/{trial}".encode())
        return np.random.default_rng(seed).standard_normal(2 * ROWS)

    def prediction(self, name: str, trial: int) -> Array:
        """Half of the error that a model does not share with all others is common to its family, and half of the rest to its
        trials. A new trial is 2 % worse than the defaults on average, and sometimes better."""
        key = name, trial
        if key not in self._known:
            model = self.models[name]
            better = 1.0 if trial == 0 else 1.02 + 0.03 * self._noise(f"tuned {name}", trial)[0]
            rest = np.sqrt(max((model.error * better) ** 2 - SHARED**2, 0.01))
            parts = (self._noise(model.family, 0), self._noise(name, 0), self._noise(name, trial + 1))
            own = np.sqrt([0.5, 0.25, 0.25]) @ np.array(parts)
            self._known[key] = SHARED * self._shared + rest * own
        return self._known[key]

    def loss(self, prediction: Array, rows: Rows) -> float:
        return float(np.sqrt(np.mean((prediction[rows] - self.target[rows]) ** 2)))


@dataclass
class Simulation:
    """The state of a simulated run."""

    library: Library
    workers: int = WORKERS
    competition: Competition = field(init=False)
    members: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    ensemble: Array | None = None
    spent: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    errors: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    reasons: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.competition = Competition("rmse", FOLDS, trials=None, new_trial=self.new_trial, loss=self.loss)

    def rows_of(self, candidate: Candidate) -> Rows:
        return np.flatnonzero(np.isin(self.library.fold, list(candidate.results)))

    def loss(self, candidate: Candidate) -> float:
        return self.library.loss(self.library.prediction(*candidate.key), self.rows_of(candidate))

    def clearly_behind(self, candidate: Candidate, other: Candidate) -> bool:
        return self.loss(candidate) > 1.15 * self.loss(other)

    def new_trial(self, name: str) -> Candidate:
        return Candidate(name, len(self.competition.of_model(name)), {}, FOLDS)

    def gain(self, candidate: Candidate, beside: tuple[Candidate, ...] = ()) -> float:
        assert all(each.results for each in (candidate, *beside)), "a candidate without a fold predicts nothing"
        rows, own = self.rows_of(candidate), self.library.prediction(*candidate.key)
        others = [c for c in self.competition.candidates.values() if c.results and c is not candidate]
        rivals = [self.library.prediction(*c.key) for c in others]
        if self.ensemble is not None:
            rivals = [self.ensemble]
            for other in beside:
                blends = [rivals[0], *self._blends(rivals[0], self.library.prediction(*other.key))]
                rivals = [min(blends, key=lambda blend: self.library.loss(blend, rows))]
        gains: list[float] = []
        for rival in rivals:
            least = min(self.library.loss(blend, rows) for blend in self._blends(rival, own))
            gains.append(1 - least / self.library.loss(rival, rows))
        return min(gains, default=float("inf"))

    def _blends(self, values: Array, added: Array) -> list[Array]:
        return [share * added + (1 - share) * values for share in (0.1, 0.25, 0.5)]

    def weights(self) -> Mapping[tuple[str, int], float]:
        return self.members

    def select(self, now: float) -> None:
        """Select the ensemble of the complete candidates, and record its error on new rows."""
        complete = [candidate for candidate in self.competition.candidates.values() if candidate.is_complete]
        predictions = [self.library.prediction(*candidate.key) for candidate in complete]
        shown = slice(0, ROWS)
        weights = select([p[shown] for p in predictions], self.library.target[shown], "rmse", n_rounds=15)
        self.members = {c.key: float(w) for c, w in zip(complete, weights, strict=True) if w > 0}
        self.ensemble = blend(predictions, weights)
        self.errors.append((now, self.library.loss(self.ensemble, slice(ROWS, 2 * ROWS))))

    def add_models(self) -> None:
        for name, model in self.library.models.items():
            is_network = model.family == "deep"
            parts = model.prior * model.seconds, model.is_core, 1.0, model.family, is_network, is_network
            self.competition.add_model(ModelRecord(name, *parts))

    def setup(self, workers: Callable[[str], int] | None = None, *, is_timed: bool = True) -> Setup:
        """What a scheduler needs to know."""
        return Setup(
            competition=self.competition,
            workers=workers or (lambda device: self.workers),
            tune=True,
            race=True,
            gain=self.gain,
            weights=self.weights,
            clearly_behind=self.clearly_behind,
            is_timed=is_timed,
        )

    def share_with_weight(self) -> float:
        """Share of the workers' time in candidates that are in the final ensemble."""
        return sum(self.spent.get(key, 0.0) for key in self.members) / sum(self.spent.values())

    def share_nowhere(self, *, of_defaults: bool = False) -> float:
        """Share of the workers' time in candidates without all of their folds.

        Args:
            of_defaults: only in the defaults of models, not in new trials.
        """
        complete = {c.key for c in self.competition.candidates.values() if c.is_complete}
        counted = [key for key in self.spent if key not in complete and not (of_defaults and key[1])]
        return sum(self.spent[key] for key in counted) / sum(self.spent.values())

    def mean_error(self, seconds: float) -> float:
        """The mean over time of the error on new rows, from a tenth of the time on; 1 before there is an ensemble."""
        times = np.linspace(0.1 * seconds, seconds, 50)
        return float(np.mean([next((e for t, e in reversed(self.errors) if t <= now), 1.0) for now in times]))


def simulate(
    library: Library, make: Callable[[Simulation], Scheduler], seconds: float, workers: int = WORKERS
) -> Simulation:
    """Run fits in simulated time until the time is over; fits that have not ended then are lost."""
    simulation = Simulation(library, workers)
    scheduler, competition = make(simulation), simulation.competition
    now, running = 0.0, list[tuple[float, Fold, Work]]()
    while True:
        while len(running) < workers:
            work = scheduler.next_work({fold for _, fold, _ in running}, seconds - now, 0.15 * seconds)
            if work is None:
                break
            simulation.reasons.append(work.reason)
            end = now + library.models[work.candidate.model].seconds
            heapq.heappush(running, (end, (*work.candidate.key, work.fold), work))
        if not running:
            return simulation
        end, (name, trial, fold), work = heapq.heappop(running)
        took = min(end, seconds) - (end - library.models[name].seconds)
        simulation.spent[name, trial] = simulation.spent.get((name, trial), 0.0) + took
        now = end
        if end > seconds:
            continue
        candidate = work.candidate
        candidate.results[fold] = FitResult(
            fit=candidate.fit_name(fold),
            model=name,
            trial=trial,
            fold=fold,
            score=library.loss(library.prediction(name, trial), np.flatnonzero(library.fold == fold)),
            seconds=took,
            predict_seconds=0.0,
            n_rows=ROWS // FOLDS,
            recipe=FeatureRecipe(),
            summary={},
        )
        competition.models[name].spent += took
        if candidate.is_complete:
            candidate.status = "complete"
            simulation.select(now)
        elif candidate.status == "active" and scheduler.is_behind(candidate):
            candidate.status = "pruned"
