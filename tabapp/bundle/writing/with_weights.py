"""Adds the pre-trained weights to a bundle that refers to them, for machines on which they are not installed."""

from __future__ import annotations

from pathlib import Path

from tabapp.bundle.files.archive import Entry, new_file, open_archive, write_archive
from tabapp.bundle.files.contents import decode_contents
from tabapp.bundle.files.records import WEIGHTS
from tabapp.bundle.files.unpack import temporary_folder
from tabapp.errors import UsageError
from tabapp.weights import store


def write_with_weights(bundle: Path, target: Path) -> None:
    """Write a bundle with the installed weights that its models refer to; a signature is dropped.

    Raises:
        BundleError: the bundle is not valid.
        UsageError: it refers to no weights, or they are not installed.
        OSError: the target cannot be written.
    """
    with temporary_folder() as folder, open_archive(bundle, is_own=True) as archive:
        contents = decode_contents(archive)
        used = {each.weights.sha256: each.weights for each in contents.manifest.pretrained}
        if not used:
            raise UsageError(f"{bundle} has no pre-trained model. Leave out --with-weights.")
        archive.extract(folder)
        entries = [Entry(member.path, member.kind, folder / member.path) for member in contents.manifest.members]
        present = {entry.path for entry in entries}
        for sha256, weights in used.items():
            record = store.with_hash(sha256)
            path = f"{WEIGHTS}/{sha256}.safetensors"
            if path in present:
                continue
            if record is None:
                raise UsageError(
                    f"The weights {weights.name} of {bundle} are not installed, so they cannot be added to it."
                )
            entries.append(Entry(path, "weights", store.verified(record)))
        with new_file(target) as temporary:
            write_archive(temporary, entries, contents.manifest)
            with open_archive(temporary, is_own=True) as written:
                decode_contents(written)
