"""The format of a bundle as typed records. A `.tabapp` file is a zip of data; no part of it can execute.

manifest.json             facts about the bundle; size and checksum of every other member
manifest.sig              optional: an Ed25519 signature of `manifest.json`, the only member that it does not list
schema.json               the columns, as `tabapp.data.schema.Schema`
ensemble.json             candidates, weights, folds
features/<nnn>/…          fitted feature preparation, one folder for each recipe and fold
models/<model>-<trial>/<fold>/…   files of the plugin
training_rows.json        optional, for models that predict from training rows: the number of each row in the training file
sample.csv                a few training rows, and
sample_output.csv         the predictions of this bundle for them, which test it when it is loaded
MODEL_CARD.md             a summary to read

The bundle of a run with several targets (version 7) contains a bundle of each, and otherwise only its manifest and its card:

manifest.json             facts about the bundle; its targets; size and checksum of every other member
targets/<n>-<name>.tabapp a bundle of one target, as above
MODEL_CARD.md             a summary to read

A reader accepts every format version up to its own. A new field has a default and increases the version; unknown fields are
rejected.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from tabapp.ensemble.calibration import Calibration, ClassScaling
from tabapp.task import Task
from tabapp.weights.pretrained import UsedWeights

FORMAT_VERSION = 16
"""Version 2 added `Ensemble.half_widths`, version 3 `training_rows.json`, version 4 arrays in half precision, version 5
`Ensemble.threshold`, version 6 trees in breadth-first order, version 8 `Ensemble.interval_scale` and `Ensemble.temperature`,
version 10 limits of regressions, version 12 the loss of boosters, version 14 `Ensemble.scaling`,
version 16 shifts of numbers and regressions in double precision. Bundles of one target are written in this version."""
DOUBLE_VERSION = 16
"""The first version whose regressions predict in double precision."""
TARGETS_VERSION = 17
"""The version of bundles of several targets, and the latest that is read. Version 7 was the first; versions 9, 11, 13, 15 and 17
have targets of the version before."""

MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
WEIGHTS = "weights"
"""Folder of the pre-trained weights that a bundle contains, named by their SHA-256."""
SCHEMA = "schema.json"
ENSEMBLE = "ensemble.json"
SAMPLE = "sample.csv"
SAMPLE_OUTPUT = "sample_output.csv"
TRAINING_ROWS = "training_rows.json"
CARD = "MODEL_CARD.md"
FEATURES = "features"
MODELS = "models"
TARGETS = "targets"

COVERAGES = (*(percent / 100 for percent in range(1, 100)), 0.995, 0.999)
"""Shares of new rows that prediction intervals cover."""

Kind = Literal["schema", "ensemble", "features", "model", "rows", "sample", "card", "weights", "bundle"]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the records: frozen, stored as JSON, unknown fields are rejected by name."""


class Member(Record, frozen=True):
    """One file of the bundle: size in bytes before compression, SHA-256 in hexadecimal."""

    path: str
    kind: Kind
    bytes: int
    sha256: str


class MetricValue(Record, frozen=True):
    """A score with its 95 % bootstrap interval, in the metric's units; None if undefined."""

    name: str
    score: float | None
    low: float | None = None
    high: float | None = None


class PretrainedMember(Record, frozen=True):
    """A model of the ensemble, and the pre-trained weights that its fold models refer to."""

    model: str
    weights: UsedWeights


class Manifest(Record, frozen=True):
    """Facts about a bundle.

    Attributes:
        created_by: program and version; `created_at` is ISO 8601 in UTC.
        run: id of the run that made it, with the `name` that the user gave.
        metrics: the run's own metric first; scores of the ensemble on rows that it was not fitted on.
        validation: how those rows were chosen, in words.
        data: fingerprint of the training table.
        leaderboard: the run's leaderboard rows.
        libraries: versions of the packages that the models were saved by.
        training_rows_in: members of the ensemble that answer from training rows, which the bundle therefore contains.
        pretrained: members of the ensemble that refer to pre-trained weights. A bundle contains those that come with tabapp.
    """

    format_version: int
    created_by: str
    created_at: str
    run: str
    name: str
    task: Task
    target: str
    classes: tuple[str, ...]
    metric: str
    metrics: tuple[MetricValue, ...]
    validation: str
    seed: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    data: dict[str, Any]
    leaderboard: tuple[dict[str, Any], ...]
    libraries: dict[str, str]
    python: str
    platform: str
    members: tuple[Member, ...]
    training_rows_in: tuple[str, ...] = ()
    pretrained: tuple[PretrainedMember, ...] = ()


class TargetBundle(Record, frozen=True):
    """A target of a bundle of several: its column, and the path of its own bundle in the archive."""

    target: str
    path: str


class TargetsManifest(Record, frozen=True):
    """Facts about a bundle of several targets; the manifests of their bundles have more. Fields are those of `Manifest`."""

    format_version: int
    created_by: str
    created_at: str
    run: str
    name: str
    targets: tuple[TargetBundle, ...]
    members: tuple[Member, ...]


class VersionOnly(msgspec.Struct, frozen=True):
    """The part of a manifest that is common to all format versions."""

    format_version: int
    created_by: str = "an unknown program"
    targets: Any = None
    """Not None in a bundle of several targets."""


class FoldModel(Record, frozen=True):
    """The model of a fold: its folder, and the folder of its features."""

    fold: int
    model: str
    features: str


class Candidate(Record, frozen=True):
    """A trial in the ensemble: plugin name, weight, hyperparameters, and its fold models, whose predictions are averaged."""

    model: str
    trial: int
    weight: float
    params: dict[str, Any]
    folds: tuple[FoldModel, ...]


class IntervalScale(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the width of intervals depends on the prediction.

    Attributes:
        predictions: values in target units, in increasing order.
        factors: of the half-widths at these values; linear between them, constant outside.
    """

    predictions: tuple[float, ...]
    factors: tuple[float, ...]


class Ensemble(Record, frozen=True):
    """Candidates with positive weights that sum to 1.

    `residual_quantile` is the mean half-width of the 90 % prediction interval in target units; None for classification.
    `half_widths` are those of the intervals with each of `COVERAGES`; empty for classification and in bundles of version 1.
    `interval_scale` multiplies these half-widths; None for intervals of the same width everywhere.
    `temperature` divides the logarithms of the blended probabilities, which are then normalized; None leaves them as they are.
    `scaling` is applied to them instead of a temperature; None for none.
    `threshold` is the least probability of the positive class that is labeled positive; None for the more probable class.
    """

    candidates: tuple[Candidate, ...]
    residual_quantile: float | None = None
    half_widths: tuple[float, ...] = ()
    interval_scale: IntervalScale | None = None
    temperature: float | None = None
    scaling: ClassScaling | None = None
    threshold: float | None = None

    @property
    def calibration(self) -> Calibration | None:
        """The scaling or the temperature; None for neither."""
        return self.temperature if self.scaling is None else self.scaling


class TrainingRows(Record, frozen=True):
    """Where the rows come from that models store, so that the neighbors of a prediction can be named.

    Attributes:
        numbers: by folder of a fold model, the number in the training file, from 0, of each row passed to its fit.
        targets: by number of a row, its class code, or its value in target units.
    """

    numbers: dict[str, tuple[int, ...]]
    targets: dict[int, float]
