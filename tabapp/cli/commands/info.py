"""The command `info`."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from tabapp import __version__
from tabapp.headless.narration import echo, echo_json


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def info(as_json: bool) -> int:
    """Show versions, paths, and the protections that the processes of bundles have here, for a bug report."""
    import platform

    from tabapp.protections import offered
    from tabapp.run.record.folder import default_runs_dir
    from tabapp.run.texts.environment import versions

    packages = versions()
    facts: dict[str, Any] = {
        "tabapp": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "executable": sys.executable,
        "runs_dir": str(default_runs_dir()),
        "protections": list(offered()),
        "packages": packages,
    }
    if as_json:
        echo_json(json.dumps(facts, indent=1))
        return 0
    for key, value in facts.items():
        if isinstance(value, dict):
            for name, number in packages.items():
                echo(f"{name:<14}{number or 'not installed'}")
        else:
            echo(f"{key:<14}{', '.join(value) or 'none' if isinstance(value, list) else value}")
    return 0
