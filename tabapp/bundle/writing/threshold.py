"""Sets the threshold of a bundle, which labels rows as the positive class."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl

from tabapp.bundle.files.archive import Entry, new_file, open_archive, write_archive
from tabapp.bundle.files.card import model_card
from tabapp.bundle.files.contents import decode_contents
from tabapp.bundle.files.records import CARD, ENSEMBLE, FORMAT_VERSION, SAMPLE_OUTPUT
from tabapp.bundle.files.sample import read_sample, write_sample
from tabapp.bundle.files.unpack import temporary_folder
from tabapp.errors import UsageError


def set_threshold(path: Path, threshold: float | None) -> None:
    """Replace the threshold of a bundle; its models stay as they are, and a signature is dropped.

    Args:
        threshold: least probability of the positive class that is labeled positive; None for the more probable class.

    Raises:
        BundleError: the bundle is not valid.
        UsageError: it has more or fewer than two classes.
        OSError: it cannot be written; the file is unchanged.
    """
    with temporary_folder() as folder, open_archive(path, is_own=True) as archive:
        contents = decode_contents(archive)
        if contents.schema.task != "binary":
            raise UsageError(f"{path} predicts {contents.schema.task}. Only binary classifiers have a threshold.")
        archive.extract(folder)
        ensemble = msgspec.structs.replace(contents.ensemble, threshold=threshold)
        output = read_sample(archive.read(SAMPLE_OUTPUT))
        probability = output[f"probability_{contents.schema.classes[1]}"].cast(pl.Float64)
        positive = probability >= (0.5 if threshold is None else threshold)
        labels = [contents.schema.classes[int(each)] for each in positive]
        output = output.with_columns(pl.Series("prediction", labels, dtype=pl.String))
        manifest = msgspec.structs.replace(contents.manifest, format_version=FORMAT_VERSION)
        replaced = {
            ENSEMBLE: msgspec.json.format(msgspec.json.encode(ensemble), indent=1) + b"\n",
            SAMPLE_OUTPUT: write_sample(output),
            CARD: model_card(manifest, contents.schema, ensemble).encode(),
        }
        entries = [
            Entry(member.path, member.kind, replaced.get(member.path, folder / member.path))
            for member in contents.manifest.members
        ]
        with new_file(path) as temporary:
            write_archive(temporary, entries, manifest)
            with open_archive(temporary, is_own=True) as written:
                decode_contents(written)
