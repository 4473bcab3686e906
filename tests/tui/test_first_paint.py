"""What the first screen imports: whatever is slow to import and only shown later is left out."""

from __future__ import annotations

import subprocess
import sys

from tests.waiting import HANG_SECONDS


def test_the_first_screen_imports_no_parser_of_markdown_and_no_numbers():
    slow = ("markdown_it", "pygments", "numpy", "polars", "torch")
    program = f"import sys, tabapp.tui.app, tabapp.tui.browse; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True, timeout=HANG_SECONDS
    )
    assert done.stdout.strip() == "[]"
