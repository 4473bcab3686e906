"""Writes the bundle of several targets: a zip of ordinary bundles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import tabapp
from tabapp.bundle.files.archive import Entry, new_file, open_any, open_archive, write_archive
from tabapp.bundle.files.card import card_of_targets
from tabapp.bundle.files.records import CARD, TARGETS, TARGETS_VERSION, Manifest, TargetBundle, TargetsManifest


def write_targets(path: Path, bundles: Sequence[Path], *, run: str, name: str) -> TargetsManifest:
    """Write one bundle that contains the bundles of several targets, and open it again; returns its manifest.

    Args:
        bundles: bundles of one target each, which this machine has made.
        run: id of the whole run, with the `name` that the user gave.

    Raises:
        BundleError: a bundle is damaged.
        OSError: the disk is full or a file cannot be read; `path` is unchanged.
    """
    manifests: list[Manifest] = []
    for bundle in bundles:
        with open_archive(bundle, is_own=True) as archive:
            manifests.append(archive.manifest)
    targets = tuple(
        TargetBundle(target=manifest.target, path=f"{TARGETS}/{number}-{_file_name(manifest.target)}.tabapp")
        for number, manifest in enumerate(manifests, start=1)
    )
    entries = [Entry(each.path, "bundle", bundle) for each, bundle in zip(targets, bundles, strict=True)]
    manifest = TargetsManifest(
        format_version=TARGETS_VERSION,
        created_by=f"tabapp {tabapp.__version__}",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        run=run,
        name=name,
        targets=targets,
        members=(),
    )
    entries.append(Entry(CARD, "card", card_of_targets(manifest, manifests).encode()))
    with new_file(path) as temporary:
        manifest = write_archive(temporary, entries, manifest)
        with open_any(temporary, is_own=True) as archive:
            archive.verify()
    return manifest


def _file_name(target: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", target).strip("-")[:24].strip("-") or "target"
