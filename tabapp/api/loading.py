"""Load a bundle for predictions in Python."""

from __future__ import annotations

import os
from pathlib import Path

from tabapp.api.forks import check_process
from tabapp.api.predictor import Predictor, Source
from tabapp.api.targets_predictor import TargetsPredictor
from tabapp.errors import BundleError


def load(
    bundle: str | os.PathLike[str], *, trust: str | os.PathLike[str] | None = None, device: str = "cpu"
) -> Predictor | TargetsPredictor:
    """Load a bundle: every checksum is verified, and the bundle predicts its stored sample again.

    A bundle of several targets gives a `TargetsPredictor`.

    Args:
        trust: file of an Ed25519 public key. A bundle that this key has not signed is rejected.
        device: device of the deep models: "cpu", "cuda" or "cuda:N".

    Raises:
        BundleError: there is no such file, or it cannot be trusted or understood.
        UsageError: the key cannot be used, or the device does not exist.
    """
    from tabapp.bundle.confined.box import load_boxed
    from tabapp.bundle.files.targets import target_files

    check_process()
    path = Path(bundle)
    if not path.is_file():
        raise BundleError(f"There is no bundle {path}; check the path.")
    source = Source(path.absolute(), None if trust is None else Path(trust).absolute(), device, load)
    with target_files(path, trust=source.trust) as files:
        if files[0].target is None:
            return Predictor(load_boxed(path, trust=source.trust, device=device), path, source)
        each = {
            file.target: Predictor(load_boxed(file.path, device=device), path, source, file.target)
            for file in files
            if file.target
        }
        return TargetsPredictor(path, each, source)
