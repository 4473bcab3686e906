"""The Python processes that tabapp starts: their command lines, environments and ids."""

from __future__ import annotations

import os
import sys

_PASSED = frozenset({"HOME", "LANG", "LANGUAGE", "PATH", "POLARS_MAX_THREADS", "TZ", "TZDIR"})
_PASSED_PREFIXES = (
    "LC_", "LD_", "DYLD_", "PYTHON", "COVERAGE_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "VECLIB_",
    "RAYON_", "ATEN_", "DNNL_", "TORCH_", "PYTORCH_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "GLIBC_", "MALLOC_", "MIMALLOC_",
)  # fmt: skip


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs an installed module in a new Python process.

    `-P` keeps the working directory off `sys.path`: a file `random.py` next to the user's table is data and is never imported.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def plain_environment() -> dict[str, str]:
    """The variables that the interpreter and the libraries read, for a confined process. Others may contain keys and passwords."""
    return {name: value for name, value in os.environ.items() if name in _PASSED or name.startswith(_PASSED_PREFIXES)}


def descendants(pid: int) -> list[int] | None:
    """Ids of the children of a process, and of their children; None where the system does not list children.

    Other ways read the entries of all processes of the machine, of which there may be thousands.
    """
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        try:
            children = [child for task in os.listdir(f"/proc/{parent}/task") for child in _children(parent, task)]
        except OSError:
            if parent == pid:
                return None
            continue  # It has ended.
        found += children
        waiting += children
    return found


def _children(pid: int, task: str) -> list[int]:
    with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
        return [int(word) for word in file.read().split()]
