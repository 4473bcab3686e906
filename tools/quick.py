"""Run the fast tests of what changed since a commit: python tools/quick.py [--since COMMIT] [--seconds N].

A changed test runs. A changed module runs the tests that import it, or only those in the folder of its room if there are more than
`MOST_FILES`. Slow and GPU tests are left out. The run ends after N seconds and says so; `make test` runs everything.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_FILES = 8


def changed(since: str) -> list[str]:
    """Paths that differ from the commit, and new ones; relative to the root."""
    known = subprocess.run(["git", "diff", "--name-only", since], cwd=ROOT, capture_output=True, text=True, check=True)
    new = ["git", "ls-files", "--others", "--exclude-standard"]
    others = subprocess.run(new, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({*known.stdout.splitlines(), *others.stdout.splitlines()})


def tests_of(paths: list[str], texts: dict[str, str]) -> list[str]:
    """The test files to run for changed paths; `texts` are all test files."""
    chosen: set[str] = set()
    for path in paths:
        if path in texts:
            chosen.add(path)
        elif path.endswith(".py") and path.startswith(("tabapp/", "plugins/", "tests/")):
            module = re.sub(r"^plugins\b", "tabapp_plugins", path.removesuffix(".py").replace("/", "."))
            module = module.removesuffix(".__init__")
            package, _, name = module.rpartition(".")
            imports = re.compile(rf"\b{re.escape(module)}\b|from {re.escape(package)} import [^\n]*\b{name}\b")
            found = {test for test, text in texts.items() if imports.search(text)}
            room = "tests/" + "/".join(module.split(".")[1:-1])
            near = {test for test in found if test.startswith(room + "/")}
            chosen |= found if len(found) <= MOST_FILES else near
    return sorted(chosen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", default="HEAD", help="the commit to compare with")
    parser.add_argument("--seconds", type=int, default=45, help="time for tests")
    options = parser.parse_args()
    tests = (ROOT / "tests").rglob("test_*.py")
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in tests}
    files = tests_of(changed(options.since), texts)
    if not files:
        print("No test imports what changed.")
        return 0
    print(f"{len(files)} test files: {' '.join(files)}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-m", "not slow and not gpu"]
    code = subprocess.run([*command, f"--session-timeout={options.seconds}", *files], cwd=ROOT, check=False).returncode
    return 0 if code == 5 else code  # 5: all tests of these files are slow.


if __name__ == "__main__":
    sys.exit(main())
