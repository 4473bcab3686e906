"""Files that build a container image with a server of one bundle."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tabapp import __version__, files
from tabapp.bundle.export.code_text import comment
from tabapp.bundle.files.contents import Contents
from tabapp.errors import UsageError
from tabapp.models import registry
from tabapp.models.distributions import distribution_of

BUNDLE = "model.tabapp"
_SERVER = (
    "click", "msgspec", "numpy", "platformdirs", "polars", "prometheus-client", "psutil", "safetensors", "scipy", "starlette",
    "uvicorn",
)  # fmt: skip
"""Distributions that `tabapp serve` imports, whatever the models are."""
_SYSTEM = {"lightgbm": "libgomp1"}
"""System packages that libraries need beyond those of the base image."""

_DOCKERFILE = """\
# Serves the bundle {bundle}: {target} ({task}).
#   docker build -t NAME .
#   docker run -e TABAPP_SERVE_TOKEN=SECRET -p 8000:8000 NAME
FROM python:{python}-slim
{system}WORKDIR /app
COPY requirements.txt ./
# If no package index has tabapp, put its wheel into this folder (python -m build --wheel).
COPY wheels ./wheels
RUN pip install --no-cache-dir --find-links wheels -r requirements.txt \\
 && pip install --no-cache-dir --find-links wheels --no-deps tabapp=={version}
COPY {bundle} ./
RUN useradd --no-create-home --uid 10001 tabapp
USER tabapp
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \\
 CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["tabapp", "serve", "{bundle}", "--host", "0.0.0.0", "--port", "8000"]
"""

_APT = "RUN apt-get update && apt-get install -y --no-install-recommends {packages} && rm -rf /var/lib/apt/lists/*\n"


def write_container(contents: Contents, folder: Path) -> None:
    """Write a Dockerfile, the pinned requirements of the bundle's models, and the bundle.

    Args:
        contents: the verified bundle.
        folder: a new or empty folder.

    Raises:
        UsageError: the folder is not empty or cannot be written, or a model is not one of tabapp.
    """
    packages = _packages(contents)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty. Choose a new folder with --docker.")
        files.write_bytes(folder / BUNDLE, files.read_regular(contents.path))
        files.write_bytes(folder / "requirements.txt", "".join(f"{line}\n" for line in _pins(packages)).encode())
        files.write_bytes(folder / "Dockerfile", _dockerfile(contents, packages).encode())
        (folder / "wheels").mkdir()
        files.write_bytes(folder / "wheels" / ".keep", b"")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written ({error.strerror}). Choose another folder.") from None


def _packages(contents: Contents) -> list[str]:
    """Distributions that the server and the models of a bundle need.

    Raises:
        UsageError: a model is not one of tabapp.
    """
    found = set(_SERVER)
    for candidate in contents.ensemble.candidates:
        plugin = registry.get_to_load(candidate.model)
        if not registry.is_built_in(plugin):
            raise UsageError(
                f"The model {candidate.model!r} is a third-party plugin, which the container would not have. Use `pip install` and "
                "`tabapp serve` instead."
            )
        needed = plugin.requires if plugin.predict_requires is None else plugin.predict_requires
        found |= {distribution_of(name.partition(".")[0]) for name in needed}
    return sorted(found, key=str.lower)


def _pins(packages: list[str]) -> list[str]:
    """The installed versions, without local labels such as +cpu, which no package index has."""
    pins: list[str] = []
    for package in packages:
        try:
            pins.append(f"{package}=={version(package).partition('+')[0]}")
        except PackageNotFoundError:
            raise UsageError(
                f"The package {package} is not installed, so its version is not known. Install it with `pip install {package}`."
            ) from None
    return [*pins, "backports.zstd; python_version < '3.14'"]


def _dockerfile(contents: Contents, packages: list[str]) -> str:
    system = sorted({_SYSTEM[package] for package in packages if package in _SYSTEM})
    manifest = contents.manifest
    return _DOCKERFILE.format(
        bundle=BUNDLE,
        target=comment(manifest.target),
        task=manifest.task,
        python=".".join(platform.python_version_tuple()[:2]),
        system=_APT.format(packages=" ".join(system)) if system else "",
        version=__version__,
    )
