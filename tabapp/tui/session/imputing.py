"""Imputation of the missing cells of the file of the Predict screen: what is asked, and the command that does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tabapp.errors import UsageError
from tabapp.run.options.places import reject_inputs
from tabapp.tui.dialogs.basic import Ask, Choice, Option
from tabapp.tui.paths import can_be_written, exists, is_file, quoted, typed_path
from tabapp.tui.session.host import Host
from tabapp.tui.session.prediction import OUTPUT_SUFFIXES, Prediction, default_output


def ask_for_imputation(app: Host, job: Prediction, bundle: Path, start: Callable[[list[str]], None]) -> None:
    """Ask how to fill the missing cells of the file and where to write it; `start` receives the words of the command."""
    ways = [("train", "By a transformer trained on the file", "up to 2 minutes")]
    if is_file(bundle):
        ways.append(("bundle", "By the bundle of this run", "at once, if a member imputes"))
    options = [
        Option(f"{way}{more}", label + words, note)
        for way, label, note in ways
        for more, words in (("", ""), ("+", ", with its uncertainty"))
    ]

    def chosen(value: str | None) -> None:
        if value is None or job.file is None:
            return
        words = ["tabapp", "impute", str(job.file)]
        if value.startswith("bundle"):
            words += ["--model", str(bundle), *([] if job.trust is None else ["--trust", str(job.trust)])]
        words += ["--uncertainty"] if value.endswith("+") else []
        _ask_for_output(app, job, words, start)

    app.push_screen(Choice("Impute the missing cells", options), chosen)


def _ask_for_output(app: Host, job: Prediction, words: list[str], start: Callable[[list[str]], None]) -> None:
    assert job.file is not None
    file, asked = job.file, set[Path]()

    def check(text: str) -> str:
        path = typed_path(text)
        if path.suffix.lower() not in OUTPUT_SUFFIXES or not can_be_written(path):
            raise UsageError(f"{quoted(text)} is not a .csv, .parquet, .arrow or .jsonl file in an existing folder.")
        reject_inputs(path, (file,))
        if exists(path) and path not in asked:
            asked.add(path)
            raise UsageError(f"{path} exists; press enter once more to replace it.")
        return str(path)

    def answer(path: str | None) -> None:
        if path is not None:
            start([*words, "-o", path])

    message = (
        "Numbers, categories and booleans are filled; all other cells stay. A .csv, .parquet, .arrow or .jsonl file:"
    )
    app.push_screen(Ask("Write the imputed table to", message, str(default_output(file, "imputed")), check), answer)
