"""Runs with and without the pre-trained models, for a machine on which their weights are installed.

python -m papers.foundation [--tables a,b] [--draws 0,1] [--budget 120] [--data FOLDER] [--keep FOLDER] [--out FILE.json]

Tables, draws, scores and ratios are those of `benchmarks.product.rivals`; the other system is tabapp without the models. Results
are added to an existing --out, which a repeated command continues.
"""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.machine import RESULTS
from tabapp.models import registry
from tabapp.weights import store


def pretrained_models() -> list[str]:
    """Names of the models that use pre-trained weights."""
    found = [(name, registry.find(name).plugin) for name in registry.names()]
    return [name for name, plugin in found if plugin is not None and plugin.weights]


def main() -> int:
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    rivals = import_module("benchmarks.product.rivals")
    names = pretrained_models()
    usable = [name for name in names if registry.find(name).reason is None]
    if not usable:
        print("No weights are installed: `tabapp weights` lists those that are known.", file=sys.stderr)
        return 2
    print(f"With {', '.join(usable)}: {', '.join(sorted(store.installed()))}", file=sys.stderr)
    without = "tabapp:" + "+".join(f"exclude={name}" for name in names)
    given = sys.argv[1:]
    own = [] if "--out" in given else ["--out", str(RESULTS / "foundation.json")]
    sys.argv = [sys.argv[0], "--systems", f"tabapp,{without}", *own, *given]
    return rivals.main()


if __name__ == "__main__":
    sys.exit(main())
