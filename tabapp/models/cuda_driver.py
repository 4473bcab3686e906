"""Asks the driver of CUDA for its GPUs: `python -m tabapp.models.cuda_driver`.

It is a process of its own, since a process that has initialized CUDA must not be forked.
"""

from __future__ import annotations

import ctypes

LIBRARY = "libcuda.so.1"


def main() -> None:
    """Print the number of GPUs that CUDA can use, and its version as the driver numbers it: 13000 for 13.0.

    Raises:
        OSError: there is no driver.
        RuntimeError: CUDA does not start.
    """
    cuda = ctypes.CDLL(LIBRARY)
    number, version = ctypes.c_int(), ctypes.c_int()
    results = (
        cuda.cuInit(0),
        cuda.cuDeviceGetCount(ctypes.byref(number)),
        cuda.cuDriverGetVersion(ctypes.byref(version)),
    )
    if any(results):
        raise RuntimeError(f"CUDA does not start: {results}")
    print(number.value, version.value)


if __name__ == "__main__":
    main()
