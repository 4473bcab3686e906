"""Models that leak memory, sleep forever, crash, predict NaN and print: each affects its own row only."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.plugins.test_third_party import of_folder
from tests.tables import write_wine
from tests.torture.disturbing import HANG_SECONDS, command

MISBEHAVIOR = {
    "leaks": "kept = []\n        while True: kept.append(np.ones(2**22))",
    "sleeps": "import time\n        while True: time.sleep(1)",
    "crashes": "os.kill(os.getpid(), signal.SIGSEGV)",
    "prints": "import sys; print('{' * 10**6); sys.stdout.flush(); os.write(1, b'x' * 10**6); os.write(2, b'y' * 10**6)",
    "undefined": "context.report = lambda *_: None; return PriorsModel([float('nan')] * context.n_classes)",
}

pytestmark = pytest.mark.slow


def test_models_that_misbehave_affect_their_own_rows_only(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    for name, breaking in MISBEHAVIOR.items():
        (folder / f"{name}.py").write_text(of_folder(name, breaking))
    data = write_wine(tmp_path / "wine.csv")
    words = ["--auto", str(data), "--models", ",".join((*MISBEHAVIOR, "linear")), "--trials", "1", "--folds", "2"]
    words += [
        "--budget",
        "60s",
        "--workers",
        "3",
        "--memory-limit",
        "2GiB",
        "--json",
        "--runs-dir",
        str(tmp_path / "runs"),
    ]
    done = subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        env=os.environ | {"TABAPP_PLUGINS_DIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    rows = {row["model"]: row for row in events[-1]["leaderboard"]}
    assert rows["linear"]["status"] == "ok"
    assert rows["prints"]["score"] is not None
    assert "out of memory" in rows["leaks"]["reason"]
    assert "SIGSEGV" in rows["crashes"]["reason"]
    assert "NaN" in rows["undefined"]["reason"]
    assert rows["sleeps"]["score"] is None
