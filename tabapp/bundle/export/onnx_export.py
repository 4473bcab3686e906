"""Writes the models of a bundle as ONNX files, and compares their predictions with those of the bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tabapp import files
from tabapp.bundle.export.onnx_dates import MISSING
from tabapp.bundle.export.onnx_features import Features
from tabapp.bundle.export.onnx_graph import OPSET, Graph, NotConvertible, network_prediction, prediction
from tabapp.bundle.files.contents import Contents
from tabapp.bundle.files.records import Candidate
from tabapp.bundle.prediction.load import LoadedBundle, load_bundle
from tabapp.bundle.prediction.local import LocalPredictor
from tabapp.data.schema import Schema
from tabapp.ensemble.calibration import Calibration, ClassScaling
from tabapp.ensemble.scaling import calibrated
from tabapp.errors import UsageError
from tabapp.models.contract import FittedModel

PARITY = 1e-4
"""Largest difference of a probability, or of a number as a share of the spread of the predictions."""
ENSEMBLE = "ensemble.onnx"


@dataclass(frozen=True)
class OnnxResult:
    """Files that were written, and why others were not.

    Attributes:
        difference: largest difference from the predictions of the bundle by file; None if ONNX Runtime is not installed.
        left_out: members of the ensemble without a file, with the reason.
    """

    difference: dict[Path, float | None]
    left_out: dict[str, str]


def write_onnx(bundle: Path, target: Path) -> OnnxResult:
    """Write the ensemble of a bundle to an ONNX file, or each member and the ensemble to files in a new folder.

    The models are loaded in this process, so the bundle must be trusted.

    Args:
        target: a file whose name ends in .onnx, or a folder.

    Raises:
        UsageError: the package `onnx` is missing, no model has a counterpart in ONNX, or a file cannot be written.
        BundleError: the bundle is not valid.
    """
    try:
        import onnx  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise UsageError("--onnx needs the package onnx. Install it with `pip install 'tabapp[onnx]'`.") from None
    loaded = load_bundle(bundle)
    models, left_out = _models(loaded)
    if target.suffix.lower() == ".onnx":
        if ENSEMBLE not in models:
            raise UsageError(
                f"The ensemble cannot be written as ONNX: {'; '.join(f'{name}: {why}' for name, why in left_out.items())}. "
                "Give --onnx a folder to write the other members."
            )
        return OnnxResult({target: _written(models[ENSEMBLE], target, loaded, loaded.contents.ensemble.candidates)}, {})
    if not models:
        raise UsageError(
            f"No model of {bundle} can be written as ONNX: {'; '.join(f'{name}: {why}' for name, why in left_out.items())}."
        )
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}). Choose another folder.") from None
    difference: dict[Path, float | None] = {}
    members = {f"{_name(candidate)}.onnx": [candidate] for candidate in loaded.contents.ensemble.candidates}
    for name, model in models.items():
        candidates = members.get(name, loaded.contents.ensemble.candidates)
        difference[target / name] = _written(model, target / name, loaded, candidates)
    return OnnxResult(difference, left_out)


def _name(candidate: Candidate) -> str:
    return f"{candidate.model}-{candidate.trial}"


def _models(loaded: LoadedBundle) -> tuple[dict[str, Any], dict[str, str]]:
    """ONNX models by file name, and the reasons of members without one."""
    contents = loaded.contents
    candidates = contents.ensemble.candidates
    found: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for candidate in candidates:
        try:
            model = _model(loaded, [candidate])
            _check(model, loaded, candidate)
        except NotConvertible as error:
            left_out[_name(candidate)] = str(error)
        else:
            found[f"{_name(candidate)}.onnx"] = model
    if not left_out:
        found[ENSEMBLE] = _model(loaded, candidates)
    return found, left_out


def _calibration(loaded: LoadedBundle, candidates: Sequence[Candidate]) -> Calibration | None:
    """The calibration of the ensemble; a member of several has none."""
    ensemble = loaded.contents.ensemble
    return ensemble.calibration if len(candidates) == len(ensemble.candidates) else None


def _model(loaded: LoadedBundle, candidates: Sequence[Candidate]) -> Any:
    """The weighted mean of some members as an ONNX model.

    Raises:
        NotConvertible: a member has no counterpart.
    """
    contents, predictor = loaded.contents, loaded.predictor
    assert isinstance(predictor, LocalPredictor)
    schema = contents.schema
    graph = Graph(_input_names(schema))
    made: dict[str, Features] = {}
    total = sum(candidate.weight for candidate in candidates)
    parts: list[str] = []
    dtype = np.float32 if schema.classes else np.float64
    for candidate in candidates:
        for fold in candidate.folds:
            model, preparer = predictor.models[fold.model], predictor.preparers[fold.features]
            formula = model.formula(preparer.spec)
            network = None if formula is not None else _network(model)
            if fold.features not in made:
                made[fold.features] = Features(graph, preparer, schema)
            features = made[fold.features]
            if network is not None:
                found = network_prediction(graph, features, network)
                found = found if schema.classes else graph.cast(found, "double")
            else:
                assert formula is not None
                found = prediction(graph, features, formula)
            share = candidate.weight / total / len(candidate.folds)
            parts.append(graph.add("Mul", found, graph.constant(share, dtype)))
    blend = parts[0] if len(parts) == 1 else graph.add("Sum", *parts)
    notes = {"target": schema.target, "task": schema.task, "run": contents.manifest.run}
    if not schema.classes:
        return graph.model([(blend, "prediction", "double", ["rows", 1])], notes)
    calibration = _calibration(loaded, candidates)
    if calibration is not None:
        if isinstance(calibration, ClassScaling):
            powers = graph.add("Pow", blend, graph.constant(calibration.powers))
            powers = graph.add("Mul", powers, graph.constant(calibration.factors))
        else:
            highest = graph.add("ReduceMax", blend, axes=[1])
            powers = graph.add("Pow", graph.add("Div", blend, highest), graph.constant(1 / calibration))
        blend = graph.add("Div", powers, graph.add("ReduceSum", powers, graph.constant([1], np.int64)))
    threshold = contents.ensemble.threshold
    if threshold is None:
        codes = graph.add("ArgMax", blend, axis=1, keepdims=0)
    else:
        positive = graph.add("Gather", blend, graph.constant(1, np.int64), axis=1)
        codes = graph.add("Cast", graph.add("GreaterOrEqual", positive, graph.constant(threshold)), to=7)
    label = graph.add("Gather", graph.texts(schema.classes), codes, axis=0)
    return graph.model(
        [(label, "label", "string", ["rows"]), (blend, "probabilities", "float", ["rows", len(schema.classes)])], notes
    )


def _check(model: Any, loaded: LoadedBundle, candidate: Candidate) -> None:
    """Raises: NotConvertible: ONNX Runtime cannot run the model of a member, or predicts differently."""
    try:
        difference = largest_difference(model.SerializeToString(), loaded, [candidate], loaded.reference_rows())
    except Exception as error:
        # The errors of ONNX Runtime have no common class.
        reason = (str(error).splitlines() or [""])[0][:160].rstrip(".")
        raise NotConvertible(f"ONNX Runtime cannot run it ({reason})") from None
    if difference is not None and not difference <= PARITY:
        raise NotConvertible(f"ONNX Runtime predicts differently (by up to {difference:.2g})")


def _network(model: FittedModel) -> bytes:
    """A network in ONNX.

    Raises:
        NotConvertible: the model is no network, or PyTorch cannot export it.
    """
    try:
        content = model.onnx(OPSET)
    except Exception as error:
        # Exporters of PyTorch raise anything for an operator without a counterpart.
        reason = (str(error).splitlines() or [""])[0][:120].rstrip(".")
        raise NotConvertible(f"PyTorch cannot export it ({type(error).__name__}: {reason})") from None
    if content is None:
        raise NotConvertible("it is neither trees, a linear function nor a network")
    return content


def _written(model: Any, target: Path, loaded: LoadedBundle, candidates: Sequence[Candidate]) -> float | None:
    """Write a model; returns the largest difference from the predictions of the members for the sample.

    Raises:
        UsageError: the file cannot be written, or the predictions differ by more than `PARITY`.
    """
    content: bytes = model.SerializeToString()
    difference = largest_difference(content, loaded, candidates, loaded.reference_rows())
    if difference is not None and not difference <= PARITY:
        raise UsageError(
            f"ONNX Runtime predicts differently from the bundle (by up to {difference:.2g}), so {target} is not written. "
            "Update onnxruntime."
        )
    try:
        files.write_bytes(target, content)
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}). Choose another path.") from None
    return difference


def largest_difference(
    content: bytes, loaded: LoadedBundle, candidates: Sequence[Candidate], typed: pl.DataFrame
) -> float | None:
    """The largest difference of an ONNX model from some members of the ensemble: of a probability, or of a number as a share of
    the spread of the predictions; None if ONNX Runtime is not installed.

    Args:
        typed: typed rows to predict.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    predictor = loaded.predictor
    assert isinstance(predictor, LocalPredictor)
    total = sum(candidate.weight for candidate in candidates)
    expected: Any = 0.0
    for candidate in candidates:
        for fold in candidate.folds:
            values = predictor.models[fold.model].predict(predictor.preparers[fold.features].transform(typed))
            expected = expected + candidate.weight / total / len(candidate.folds) * values.astype(np.float64)
    if loaded.contents.schema.classes:
        expected = calibrated(expected, _calibration(loaded, candidates))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    needed = {each.name for each in session.get_inputs()}
    found = session.run(
        None, {name: value for name, value in onnx_inputs(typed, loaded.contents).items() if name in needed}
    )
    spread = 1.0 if predictor.schema.classes else float(np.ptp(expected)) or 1.0
    return float(np.abs(np.asarray(found[-1], dtype=np.float64).reshape(np.shape(expected)) - expected).max() / spread)


def _input_names(schema: Schema) -> dict[str, str]:
    """The name of the input of each column: that of the column, with `_input` at its end if an output has the same name."""
    outputs = ("label", "probabilities") if schema.classes else ("prediction",)
    columns = [column.name for column in schema.features]
    names: dict[str, str] = {}
    for column in columns:
        name = column
        while name in outputs or (name != column and name in columns):
            name += "_input"
        names[column] = name
    return names


def onnx_inputs(typed: pl.DataFrame, contents: Contents) -> dict[str, npt.NDArray[Any]]:
    """Typed rows as inputs: (rows, 1) double numbers, texts with "" for missing cells, and dates as microseconds since 1970."""
    made: dict[str, npt.NDArray[Any]] = {}
    names = _input_names(contents.schema)
    for column in contents.schema.features:
        name, values = names[column.name], typed[column.name]
        if column.kind == "numeric":
            made[name] = values.to_numpy().astype(np.float64)[:, None]
        elif column.kind == "datetime":
            moments = values.cast(pl.Datetime("us")).dt.epoch("us").fill_null(MISSING)
            made[name] = moments.to_numpy().astype(np.int64)[:, None]
        elif column.kind in ("categorical", "boolean"):
            made[name] = np.array(values.fill_null("").to_list(), dtype=object)[:, None]
    return made
