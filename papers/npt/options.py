"""Command lines of the experiments of Kossen et al. 2021 that fit on splits of several tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fits import data_folder
from benchmarks.machine import RESULTS


def npt_parser(description: str | None, name: str, *, seconds: float) -> argparse.ArgumentParser:
    """The options that these experiments share.

    Args:
        name: of the script.
        seconds: default limit of one fit.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the tables and published splits")
    parser.add_argument("--tables", default="")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=2_000, help="maximum training and early-stopping rows")
    parser.add_argument("--test-rows", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=seconds, help="limit of one fit")
    parser.add_argument("--steps", type=int, help="training steps of NPT, and epochs of other networks")
    parser.add_argument("--size", choices=["mini", "small", "base"], default="mini")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--keep", type=Path, default=Path("build/benchmarks") / name)
    parser.add_argument("--out", type=Path, default=RESULTS / f"{name}.json")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, with those of the full experiment where it is asked for."""
    options = parser.parse_args()
    if options.full:
        options.splits, options.seconds = 10, 7200.0
    return options


def tables_of(options: argparse.Namespace, quick: Sequence[str], full: Sequence[str]) -> list[str]:
    """The names of the tables."""
    return options.tables.split(",") if options.tables else list(full if options.full else quick)


def scale_of(options: argparse.Namespace) -> str:
    """The part of the name of a kept fit that says how long it was trained, and on how many rows."""
    return "full" if options.full else f"{options.size}-{options.rows}-{options.seconds:g}-{options.steps or 0}"
