"""`tabapp models --check NAME`: check a plugin with its contract."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from tabapp.headless.narration import echo, echo_json

MARKS = {"ok": "✓", "skipped": "–", "broken": "✗"}


def check_model(name: str, *, as_json: bool) -> int:
    """Run the public checks on a model, a line each on stdout; 0 when it keeps every promise, else 1.

    Raises:
        UsageError: there is no such model, or it cannot be used here.
    """
    from tabapp.models import registry
    from tabapp.models.checks.subject import Subject
    from tabapp.models.checks.suite import CHECKS, run_checks

    registry.check_names([name])
    plugin = registry.get(name)
    echo(f"{plugin.title}: {len(CHECKS)} checks; a minute or a few.", err=True)
    results = []
    for result in run_checks(Subject(plugin)):
        results.append(result)
        if not as_json:
            sentence = f": {result.sentence}" if result.sentence else ""
            echo(f"{MARKS[result.status]} {result.check} ({result.seconds:.1f} s){sentence}")
            sys.stdout.flush()
    broken = sum(result.status == "broken" for result in results)
    skipped = sum(result.status == "skipped" for result in results)
    if as_json:
        echo_json(json.dumps({"model": name, "checks": [asdict(r) for r in results]}, ensure_ascii=False, indent=1))
    kept = len(results) - broken - skipped
    ending = f"{broken} broken" if broken else "none broken"
    echo(f"{plugin.title} keeps {kept} promises; {ending}, {skipped} do not apply.", err=True)
    return 1 if broken else 0
