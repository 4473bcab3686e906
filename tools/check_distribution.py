"""Install a built wheel and sdist into fresh environments and test each: python tools/check_distribution.py DIST [TOOL …].

TOOL is one of pip, sdist, pipx and uv; all by default. Each installs tabapp with all its dependencies and the pinned versions of
constraints.txt, in a temporary folder. The test runs `tabapp --version`, `tabapp models` and a small run without a time limit,
predicts with its bundle, and verifies that no file of this checkout is used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
ROWS = 120


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """Run a command and return its stdout.

    Raises:
        SystemExit: the command failed; its output is shown.
    """
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env={**kept, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(map(str, command))} failed with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout


def install_with_pip(file: Path, folder: Path) -> Path:
    """Install into a new virtual environment; returns its tabapp command."""
    run(sys.executable, "-m", "venv", folder / "venv", folder=folder)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "-c", CONSTRAINTS, file, folder=folder)
    return python.parent / "tabapp"


def install_with_pipx(file: Path, folder: Path) -> Path:
    """Install with pipx into a folder of its own; returns the tabapp command."""
    places = {
        "PIPX_HOME": str(folder / "home"),
        "PIPX_BIN_DIR": str(folder / "bin"),
        "PIPX_MAN_DIR": str(folder / "man"),
    }
    pip_args = f"--pip-args=-c {CONSTRAINTS}"
    run(sys.executable, "-m", "pipx", "install", "--python", sys.executable, pip_args, file, folder=folder, **places)
    return folder / "bin" / "tabapp"


def install_with_uv(file: Path, folder: Path) -> Path:
    """Install with `uv tool`; returns the tabapp command. Which build of torch is installed depends on the settings of uv."""
    places = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    command = ["uv", "tool", "install", "--quiet", "--python", sys.executable, "-c", CONSTRAINTS, file]
    run(sys.executable, "-m", *command, folder=folder, **places)
    return folder / "bin" / "tabapp"


def write_table(path: Path) -> None:
    """A table of two classes that one column separates."""
    lines = [f"{i % 17},{(7 * i) % 23},{'yes' if i % 17 > 8 else 'no'}" for i in range(ROWS)]
    path.write_text("\n".join(["first,second,answer", *lines]) + "\n")


def check(tabapp: Path, folder: Path) -> None:
    """Test an installed command.

    Raises:
        SystemExit: a command failed, or gave something else than expected.
    """
    version = run(tabapp, "--version", folder=folder).split()[-1]
    models = json.loads(run(tabapp, "models", "--json", folder=folder))
    unusable = {model["name"]: model["reason"] for model in models if not model["available"]}
    if unusable or not models:
        raise SystemExit(f"models that cannot be used: {unusable or 'none was found'}")
    info = run(tabapp, "info", folder=folder)
    if str(ROOT) in info:
        raise SystemExit(f"the installed command uses this checkout:\n{info}")
    data = folder / "table.csv"
    write_table(data)
    search = ["--target", "answer", "--models", "linear,lightgbm,mlp", "--trials", "1"]
    places = ["--runs-dir", folder / "runs", "--out", folder / "a.tabapp"]
    lines = run(tabapp, "--auto", data, *search, *places, "--json", folder=folder).splitlines()
    result = json.loads(lines[-1])
    run(tabapp, "predict", folder / "a.tabapp", data, "-o", folder / "predictions.csv", folder=folder)
    n_predictions = len((folder / "predictions.csv").read_text().splitlines()) - 1
    if result["status"] != "ok" or n_predictions != ROWS:
        raise SystemExit(f"the run ended as {result['status']} and {n_predictions} of {ROWS} rows were predicted")
    print(f"  tabapp {version}: {len(models)} models, best {result['best']['model']}, {n_predictions} rows predicted")


def main() -> None:
    tools: dict[str, tuple[str, Callable[[Path, Path], Path]]] = {
        "pip": ("*.whl", install_with_pip),
        "sdist": ("*.tar.gz", install_with_pip),
        "pipx": ("*.whl", install_with_pipx),
        "uv": ("*.whl", install_with_uv),
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path, help="folder with one wheel and one sdist")
    parser.add_argument("tools", nargs="*", choices=[*tools, []], metavar="TOOL", help=f"any of {', '.join(tools)}")
    arguments = parser.parse_args()
    for name in arguments.tools or tools:
        pattern, install = tools[name]
        (file,) = arguments.dist.resolve().glob(pattern)
        with tempfile.TemporaryDirectory(prefix="tabapp-dist-") as place:
            started = time.monotonic()
            tabapp = install(file, Path(place))
            print(f"{name}: installed {file.name} in {time.monotonic() - started:.0f} s", flush=True)
            check(tabapp, Path(place))


if __name__ == "__main__":
    main()
