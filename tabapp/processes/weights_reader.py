"""The process that reads a file of pre-trained weights, which may be malicious, and writes its arrays as safetensors."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabapp.bundle.confined import sandbox
from tabapp.bundle.confined.call_filter import restrict_calls

if TYPE_CHECKING:
    from tabapp.models.contract import Plugin

MOST_MEMORY = 8 * 2**30
"""Private memory beyond the libraries. The largest known weights have 0.9 GB, which are in memory up to three times."""
MOST_SECONDS = 600
MOST_TENSORS = 100_000


def main(arguments: list[str]) -> None:
    """Convert a file, and print a JSON object with `error`, which is "" or one sentence.

    Args:
        arguments: name of the plugin, name of the weights, the file, its configuration file or "", and the folder to write to.
    """
    plugin_name, name, source, config, folder = arguments
    # Imports first: afterwards, only the file can be read.
    import safetensors.torch  # noqa: F401 # pyright: ignore[reportUnusedImport]
    import torch  # noqa: F401 # pyright: ignore[reportUnusedImport]

    from tabapp.models import registry

    plugin = registry.find(plugin_name).plugin
    assert plugin is not None
    for package in plugin.requires:
        importlib.import_module(package)
    sources = [Path(source), *([Path(config)] if config else [])]
    sandbox.limit_resources(memory=MOST_MEMORY, cpu_seconds=MOST_SECONDS, file_bytes=MOST_MEMORY)
    # Opened here, because afterwards no file can be opened for writing.
    made = (Path(folder) / "weights.safetensors").open("xb")
    sandbox.restrict_files([*sandbox.paths_of_libraries(), *sources])
    restrict_calls()
    content, problem = converted(plugin, name, Path(source), Path(config) if config else None)
    with made:
        made.write(content)
    print(json.dumps({"error": problem}))


def converted(plugin: Plugin, name: str, source: Path, config: Path | None) -> tuple[bytes, str]:
    """The content of a safetensors file with the weights of a file, and what is wrong with the file; one of them is empty.

    Args:
        name: name of the weights.
        config: the configuration of the network, which is stored with the weights.
    """
    import safetensors.torch
    import torch

    try:
        tensors = _tensors(source)
        known: Any = json.loads(config.read_bytes()) if config else None
        weights = plugin.converted(name, tensors, known)
        single = {key: tensor.float().contiguous().clone() for key, tensor in sorted(weights.items())}
        if not all(bool(torch.isfinite(tensor).all()) for tensor in single.values()):
            return b"", "it has values that are not finite"
        metadata = None if known is None else {"config": json.dumps(known, sort_keys=True)}
        return safetensors.torch.save(single, metadata=metadata), ""
    except MemoryError:
        return b"", "it needs more memory than it may use"
    except ValueError as error:
        return b"", (str(error).splitlines() or ["it is damaged"])[0][:200]
    except Exception as error:
        return b"", f"it is damaged or not a file of weights ({type(error).__name__})"


def _tensors(path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file or a file of torch.

    Raises:
        ValueError: the file has something else than tensors.
        Exception: it is damaged.
    """
    import torch
    from safetensors.torch import load_file

    if path.suffix == ".safetensors":
        tensors: Any = load_file(path)
    else:
        # Without code: objects other than tensors and plain containers are refused.
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(tensors, dict) and isinstance(tensors.get("state_dict"), dict):
            tensors = tensors["state_dict"]
    is_table = isinstance(tensors, dict) and 0 < len(tensors) <= MOST_TENSORS
    if not is_table or not all(
        isinstance(key, str) and isinstance(value, torch.Tensor) and value.is_floating_point() and not value.is_sparse
        for key, value in tensors.items()
    ):
        raise ValueError("it does not have a table of weights by name")
    return dict(tensors)


if __name__ == "__main__":
    main(sys.argv[1:])
