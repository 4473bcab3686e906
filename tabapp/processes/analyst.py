"""A process that analyzes finished runs for a view.

`python -m tabapp.processes.analyst compare RUN_DIR RUN_DIR`, or `diagnose RUN_DIR …`.

It prints JSON objects on stdout, one a line: the results, or `{"error": …, "exit_code": …}`. The results of `diagnose` are events,
which it appends to the run.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from tabapp.errors import ExitCode, TabappError
from tabapp.run.protocol.analyses import TRAINING_SECONDS, AnalysisFailed
from tabapp.run.record.folder import EventLog, RunFolder


def _compare(options: argparse.Namespace) -> msgspec.Struct:
    from tabapp.engine.analyses.compare_runs import compare_runs

    return compare_runs(RunFolder(options.a), RunFolder(options.b))


def _diagnose(options: argparse.Namespace) -> msgspec.Struct:
    from tabapp.engine.analyses import diagnosing
    from tabapp.engine.analyses.finished_run import FinishedRun

    folder = RunFolder(options.run)
    with folder.lock():
        run = FinishedRun(folder)
        if options.threshold is not None:
            event = diagnosing.choose_bundle_threshold(run, options.threshold)
        elif options.fairness is not None:
            event = diagnosing.measure_fairness(run, options.fairness)
        elif options.learning_curve:
            from tabapp.engine.analyses.learning_curves import measure_row_curve

            event = measure_row_curve(run, options.model, options.seconds)
        elif options.time_curve:
            from tabapp.engine.analyses.learning_curves import measure_time_curve

            event = measure_time_curve(run, options.model, options.seconds)
        elif options.faithfulness:
            from tabapp.engine.analyses.faithfulness import measure_faithfulness

            event = measure_faithfulness(run, options.model, options.seconds)
        else:
            event = diagnosing.measure_robustness(run)
        log = EventLog(folder.events)
        try:
            return log.append(run.described(event))
        finally:
            log.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tabapp.processes.analyst", description="Analyzes finished runs.")
    kinds = parser.add_subparsers(required=True)
    compare = kinds.add_parser("compare", help="compare two runs")
    compare.add_argument("a", type=Path)
    compare.add_argument("b", type=Path)
    compare.set_defaults(analyze=_compare)
    diagnose = kinds.add_parser("diagnose", help="analyze a run; the result becomes an event of it")
    diagnose.add_argument("run", type=Path)
    chosen = diagnose.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--threshold", metavar="METRIC", help="choose the threshold of the bundle; none for 0.5")
    chosen.add_argument("--robustness", action="store_true", help="score with missing and noisy cells")
    chosen.add_argument("--learning-curve", action="store_true", help="score with fewer training rows")
    chosen.add_argument("--time-curve", action="store_true", help="score later rows with recent and with old rows")
    chosen.add_argument("--faithfulness", action="store_true", help="importances by several methods")
    chosen.add_argument("--fairness", metavar="COLUMN", help="rates by the groups of a column")
    diagnose.add_argument("--model", help="the model of a learning curve or of the importances")
    diagnose.add_argument("--seconds", type=float, default=TRAINING_SECONDS, help="time limit of training models again")
    diagnose.set_defaults(analyze=_diagnose)
    return parser


def result_of(arguments: list[str] | None = None) -> msgspec.Struct:
    """The result of an analysis, or why there is none."""
    options = _parser().parse_args(arguments)
    analyze: Callable[[argparse.Namespace], msgspec.Struct] = options.analyze
    try:
        return analyze(options)
    except TabappError as error:
        return AnalysisFailed(error=str(error), exit_code=error.exit_code)
    except OSError as error:
        return AnalysisFailed(error=f"{error.filename or 'The run'}: {error.strerror or error}.")


def main() -> int:
    """Analyze and print the result; returns the exit code."""
    # Ctrl+C in a terminal reaches the whole process group; the view alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    result = result_of()
    sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    return result.exit_code if isinstance(result, AnalysisFailed) else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
