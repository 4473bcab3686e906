"""Profile every file of a folder within 8 GiB of memory; prints one JSON line per file.

A process of its own, because it may abort.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
import time
from pathlib import Path

from tabapp.cli.main import run_command_line

MEMORY = 8 << 30


def main(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for path in sorted(folder.iterdir()):
        written, said = io.StringIO(), io.StringIO()
        began = time.process_time()
        with contextlib.redirect_stdout(written), contextlib.redirect_stderr(said):
            code = run_command_line(["profile", "--json", str(path)])
        result = {
            "name": path.name,
            "code": code,
            "stderr": said.getvalue(),
            "seconds": time.process_time() - began,
            "rows": json.loads(written.getvalue())["rows"] if code == 0 else None,
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
