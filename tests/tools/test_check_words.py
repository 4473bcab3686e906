"""The check for banned phrases finds them in prose and in names, and leaves ordinary English alone."""

import pytest

from tools.check_words import findings_in, main, tracked_files


@pytest.mark.parametrize(
    "text",
    [
        "The user is told about it.",
        "def _told_once(): ...",
        "The run goes\n    # on after a restart.",
        "It sits this one out.",
        "held the file to predict against the schema",
        "A coin gives 0.5.",
        "It cannot be followed.",
        "test_a_run_whose_turn_did_not_come",
    ],
)
def test_banned_phrases_are_found(text):
    assert list(findings_in("tabapp/example.py", text))


@pytest.mark.parametrize(
    "text",
    [
        "It tells two classes apart.",
        "The points go on the left axis.",
        "Hold the lock. Test against the schema.",
        "The sampler stands in for Optuna.",
        "untold gotoldest",
        "A coincidence.",
    ],
)
def test_ordinary_english_passes(text):
    assert not list(findings_in("tabapp/example.py", text))


def test_a_finding_names_its_line():
    (finding,) = findings_in("docs/example.md", "first\nsecond is told\n")
    assert (finding.line, finding.text) == (2, "told")


def test_the_check_covers_code_plugins_tests_and_documents():
    files = tracked_files([])
    folders = {file.partition("/")[0] for file in files}
    assert {"README.md", "Makefile", "pyproject.toml", "docs", "tabapp", "tests", "plugins", "benchmarks"} <= folders
    assert not any("__snapshots__" in file or file.endswith(".jsonl") for file in files)


def test_a_report_does_not_fail(capsys):
    assert main(["--report", "tabapp/errors.py"]) == 0
