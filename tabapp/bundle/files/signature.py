"""Ed25519 signatures of bundles (RFC 8032), by the optional package cryptography.

The signature is over the bytes of `manifest.json`, which lists the size and the SHA-256 of every other member.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabapp.errors import BundleError, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

MAX_KEY_BYTES = 2**16
_MAKE_KEY = "Make one with `openssl genpkey -algorithm ed25519 -out KEY.pem`."
_PUBLIC_KEY = "Write the public key with `openssl pkey -in KEY.pem -pubout -out PUBKEY.pem`."


def check(path: Path, content: bytes, signature: bytes | None, trust: Path) -> None:
    """Verify the signature of a manifest.

    Args:
        path: the bundle, for error messages.
        content: the bytes of the manifest.
        trust: file of the public key.

    Raises:
        BundleError: there is no signature, or it is not one by this key.
        UsageError: the file is not a public Ed25519 key, or cryptography is not installed.
    """
    key = read_public_key(trust)
    from cryptography.exceptions import InvalidSignature

    if signature is None:
        raise BundleError(
            f"{path} has no signature, but must be signed by {trust}. Get a signed bundle from its author."
        )
    try:
        key.verify(signature, content)
    except InvalidSignature:
        raise BundleError(
            f"{path} is not signed by {trust}: its signature does not match. Get the bundle or the key again from its author."
        ) from None


def read_private_key(path: Path, passphrase: Callable[[], str] | None = None) -> Ed25519PrivateKey:
    """Read a private key in PEM, as openssl (PKCS #8) and ssh-keygen write it.

    Args:
        passphrase: asks for the passphrase of an encrypted key. None refuses encrypted keys.

    Raises:
        UsageError: the file is not such a key, or a package is not installed.
    """
    content = _read(path)
    load = _loader_of_private_keys(content)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = _load(path, load, content, None)
    except TypeError:
        # The libraries raise it for a key that needs a passphrase.
        if passphrase is None:
            raise UsageError(f"The key {path} is encrypted. Use a key without a passphrase here.") from None
        try:
            key = _load(path, load, content, passphrase().encode())
        except ValueError:
            raise UsageError(f"The key {path} cannot be decrypted with this passphrase.") from None
    except ValueError:
        raise UsageError(f"{path} is not a private key in PEM. {_MAKE_KEY}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"The key {path} is not an Ed25519 key. {_MAKE_KEY}")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key: PEM as openssl writes it, or a line as ssh-keygen writes it.

    Raises:
        UsageError: the file is not such a key, or cryptography is not installed.
    """
    content = _read(path)
    _require()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_public_key

    if b"PRIVATE KEY-----" in content:
        raise UsageError(f"{path} is a private key, but a public one is needed. {_PUBLIC_KEY}")
    load = load_pem_public_key if content.lstrip().startswith(b"-----BEGIN") else load_ssh_public_key
    try:
        key = _load(path, load, content.strip())
    except ValueError:
        raise UsageError(f"{path} is not a public key, in PEM or as ssh-keygen writes it. {_PUBLIC_KEY}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"The key {path} is not an Ed25519 key. {_MAKE_KEY}")
    return key


def _loader_of_private_keys(content: bytes) -> Callable[..., Any]:
    _require()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    return load_ssh_private_key if b"BEGIN OPENSSH PRIVATE KEY" in content else load_pem_private_key


def _load(path: Path, load: Callable[..., Any], *arguments: object) -> object:
    """Call a loader of cryptography.

    Raises:
        ValueError, TypeError: as the loader does.
        UsageError: the key is of a kind that is not supported here.
    """
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load(*arguments)
    except UnsupportedAlgorithm as error:
        reason = (str(error).splitlines() or ["unknown"])[0][:160]
        raise UsageError(f"The key {path} is of a kind that is not supported ({reason}). {_MAKE_KEY}") from None


def _require() -> None:
    try:
        import cryptography  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise UsageError(
            "Signatures need the package cryptography. Install it with `pip install 'tabapp[sign]'`."
        ) from None


def _read(path: Path) -> bytes:
    """The content of a key file, which may be a pipe."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_KEY_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise UsageError(f"The key {path} cannot be read ({reason}). Check its path.") from None
    if len(content) > MAX_KEY_BYTES:
        raise UsageError(f"{path} is not a key: it has more than {MAX_KEY_BYTES:,} bytes.")
    return content
