"""The command `tabapp`."""

from __future__ import annotations

import os
import stat
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    _use_utf8()
    # A umask that takes rights from the owner would make every temporary folder unusable.
    os.umask(os.umask(0o077) & ~stat.S_IRWXU)
    from tabapp.cli.main import run_command_line
    from tabapp.errors import ExitCode
    from tabapp.streams import prepare_streams, release_streams

    prepare_streams()
    try:
        code = run_command_line(sys.argv[1:])
    except BrokenPipeError:
        # The reader of stderr has gone, which no message can report.
        code = ExitCode.BROKEN_PIPE
    finally:
        release_streams()
    sys.exit(code)


def _use_utf8() -> None:
    """Start again in Python's UTF-8 mode where names of files and words on the command line are taken for ASCII. Child processes
    inherit the mode; without it, no name with another letter could be recorded or passed to a library."""
    if sys.getfilesystemencoding() == "ascii" and sys.executable and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


if __name__ == "__main__":
    main()
