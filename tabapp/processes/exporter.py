"""The process that rebuilds the bundle of a run: `python -m tabapp.processes.exporter RUN_DIR OUT OPTIONS`.

It writes nothing into the run, prints the messages of `tabapp.run.protocol.exporting` on stdout, and ends when its stdin closes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tabapp.errors import ExitCode, TabappError
from tabapp.run.protocol import exporting as messages
from tabapp.run.record.folder import RunFolder


def main(arguments: Sequence[str]) -> int:
    """Rebuild a bundle; returns the exit code."""
    folder, out = RunFolder(Path(arguments[0])), Path(arguments[1])
    options = msgspec.json.decode(arguments[2], type=messages.ExportOptions)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Libraries that print must not write between the messages.
    out_stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def emit(message: messages.AnyExportMessage) -> None:
        out_stream.write(messages.EXPORT.encode(message))
        out_stream.flush()

    def end_with_the_program() -> None:
        sys.stdin.buffer.read()
        os._exit(ExitCode.INTERRUPTED)

    threading.Thread(target=end_with_the_program, daemon=True).start()
    try:
        if options.preview:
            from tabapp.engine.finish.preview import write_preview

            emit(write_preview(folder, out, lambda text: emit(messages.StageStarted(stage=text))))
            emit(messages.Written(path=str(out)))
        else:
            from tabapp.engine.finish.export import export_run

            export_run(folder, out, options, emit)
    except TabappError as error:
        emit(messages.Failed(message=str(error), exit_code=error.exit_code))
        return error.exit_code
    except MemoryError:
        emit(messages.Failed(message="Out of memory. Use a machine with more memory.", exit_code=ExitCode.NO_MODEL))
        return ExitCode.NO_MODEL
    except Exception as error:
        traceback.print_exc()
        reason = (str(error).splitlines() or [""])[0]
        sentence = f"The export failed with {type(error).__name__}: {reason}."
        emit(messages.Failed(message=sentence, exit_code=ExitCode.NO_MODEL))
        return ExitCode.NO_MODEL
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
