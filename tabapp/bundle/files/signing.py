"""Signs bundles. Verified by `tabapp.bundle.files.signature`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tabapp import files
from tabapp.bundle.files import signature
from tabapp.bundle.files.archive import append_signature, new_file, open_archive
from tabapp.bundle.files.contents import decode_contents
from tabapp.errors import BundleError, UsageError


def write_signed(source: Path, target: Path, key: Path, passphrase: Callable[[], str] | None = None) -> None:
    """Copy a bundle to a file, signed.

    Args:
        key: file of an Ed25519 private key in PEM.
        passphrase: asks for the passphrase of an encrypted key.

    Raises:
        BundleError: the bundle is not valid; a damaged one is not signed.
        UsageError: the bundle is signed already, or the key cannot be used.
        OSError: the file cannot be written.
    """
    private = signature.read_private_key(key, passphrase)
    with open_archive(source) as archive:
        if archive.signature is not None:
            raise UsageError(f"{source} has a signature already. Copy the file to keep it.")
        archive.verify()
        decode_contents(archive)
        signed = archive.signed
    with new_file(target) as temporary:
        with files.open_to_read(source) as original, temporary.open("xb") as copy:
            shutil.copyfileobj(original, copy)
        append_signature(temporary, private.sign(signed))
        with open_archive(temporary) as archive:
            if archive.signed != signed:
                raise BundleError(f"{source} has changed while it was copied. Try again.")
