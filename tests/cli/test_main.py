"""The command line: invalid input gives one sentence and its exit code, and a real run follows the documented interface."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import polars as pl
import pytest

from tabapp.cli import main
from tabapp.cli.commands import run as running
from tabapp.cli.main import run_command_line
from tabapp.engine.plan.make_plan import make_plan
from tabapp.engine.plan.prepare import infer, read_data
from tabapp.errors import ExitCode, TabappError
from tabapp.run.options.config import RunConfig
from tests.cli.tables import write_tables
from tests.run.recording import write_run
from tests.waiting import HANG_SECONDS

USAGE, DATA = 2, 3
VIEW_ONLY = {"auto", "runs_dir", "plain", "as_json", "quiet", "verbose", "web", "port"}


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A working directory with tables and an empty runs directory."""
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path


def one_sentence(text: str) -> str:
    """The only line of the output; asserts that it is a sentence."""
    lines = text.splitlines()
    assert len(lines) == 1, text
    assert lines[0].startswith("tabapp: ")
    assert lines[0].endswith((".", "?"))
    assert not lines[0].endswith(("..", "?."))
    assert "Traceback" not in lines[0]
    return lines[0]


# -- errors before an engine starts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "exit_code", "message"),
    [
        ("--auto shp.csv", DATA, "There is no file shp.csv; did you mean 'shop.csv'?"),
        ("--auto zzz.csv", DATA, "There is no file zzz.csv; check the path."),
        ("--auto no/such/place.csv", DATA, "There is no file no/such/place.csv"),
        ("--auto folder.csv", DATA, "folder.csv is a directory"),
        ("--auto .", DATA, ". is a directory"),
        ("--auto empty.csv", DATA, "empty.csv is empty"),
        ("--auto shop.csv --test tset.csv", DATA, "There is no file tset.csv"),
        ("--auto", USAGE, "Missing argument 'DATA'"),
        ("--auto shop.csv more.csv", USAGE, "A run takes one table, but more follows: more.csv."),
        ("weights fetch a b", USAGE, "`tabapp weights fetch` does not take b; `tabapp weights fetch --help`"),
        ("inspect a.tabapp b.tabapp", USAGE, "`tabapp inspect` does not take b.tabapp; `tabapp inspect --help` lists"),
        ("--auto shop.csv --bugdet 3s", USAGE, "There is no option --bugdet; did you mean '--budget'?"),
        ("--auto shop.csv --zzzzz", USAGE, "`tabapp --help` lists the options"),
        ("--auto shop.csv --target", USAGE, "'--target' requires an argument"),
        ("--auto shop.csv --task binray", USAGE, "--task 'binray' is not known; did you mean 'binary'?"),
        ("--auto shop.csv --task zzz", USAGE, "use one of auto, binary, multiclass, regression"),
        ("--auto shop.csv --quality bset", USAGE, "did you mean 'best'?"),
        ("--auto shop.csv --validation loo", USAGE, "use one of auto, holdout, cv"),
        ("--auto shop.csv --budget ten", USAGE, "The budget 'ten' is not a duration; write it like 90s"),
        ("--auto shop.csv --budget 0s", USAGE, "not a duration"),
        ("--auto shop.csv --budget -5s", USAGE, "not a duration"),
        ("--auto shop.csv --trials 0", USAGE, "--trials 0 is not valid. Use a whole number, 1 or more"),
        ("--auto shop.csv --trials many", USAGE, "--trials 'many' is not valid"),
        ("--auto shop.csv --hide-cells 1", USAGE, "--hide-cells 1.0 is not valid. Use a number from 0 to 0.9"),
        ("--auto shop.csv --hide-cells few", USAGE, "--hide-cells 'few' is not valid"),
        ("--auto shop.csv --folds 1", USAGE, "--folds 1 is not valid. Use a whole number, 2 to 50"),
        ("--auto shop.csv --seed -1", USAGE, "--seed -1 is not valid"),
        ("--auto shop.csv --seed 1e3", USAGE, "--seed '1e3' is not valid"),
        ("--auto shop.csv --workers 0", USAGE, "--workers 0 is not valid. Use a whole number, 1 or more, or auto"),
        ("--auto shop.csv --workers all", USAGE, "--workers 'all' is not valid"),
        ("--auto shop.csv --memory-limit much", USAGE, "not a size; write it like 8GiB"),
        ("--auto shop.csv --device gpu", USAGE, "Unknown device 'gpu'. Use auto, cpu, cuda or cuda:N"),
        ("--auto shop.csv --device cuda:x", USAGE, "Unknown device 'cuda:x'"),
        ("--auto shop.csv --kind age", USAGE, "--kind 'age' does not have the form COLUMN=KIND"),
        ("--auto shop.csv --monotonic age", USAGE, "--monotonic 'age' does not have the form COLUMN=+ or COLUMN=-"),
        ("--auto shop.csv --monotonic age=up", USAGE, "--monotonic 'age=up' is not valid. Use age=+ if predictions"),
        ("--auto shop.csv --out nowhere/m.tabapp", USAGE, "there is no folder"),
        ("--auto shop.csv --out folder.csv", USAGE, "is a directory. Choose a file inside it"),
        ("prdict model.tabapp shop.csv", USAGE, "no command and no file 'prdict'; did you mean 'predict'?"),
        ("train shop.csv", USAGE, "There is no command 'train'; `tabapp --help` lists the commands"),
        ("predict", USAGE, "Missing argument 'BUNDLE'"),
        ("runs --jsno", USAGE, "There is no option --jsno; did you mean '--json'?"),
        ("attach last", USAGE, "There are no runs in"),
        ("resume yesterday", USAGE, "There is no run 'yesterday'"),
        ("export last -o m.tabapp", USAGE, "There are no runs in"),
        ("completion tcsh", USAGE, "'tcsh' is not one of"),
        ("profile nope.csv", DATA, "There is no file nope.csv"),
    ],
)  # fmt: skip
def test_invalid_input_gives_one_sentence_and_no_run(tables, capsys, monkeypatch, line, exit_code, message):
    monkeypatch.setattr(running, "create_run", lambda *_: pytest.fail("a run was created"))
    assert run_command_line(shlex.split(line)) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in one_sentence(captured.err)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_unreadable_file_is_reported(tables, capsys):
    (tables / "shop.csv").chmod(0)
    assert run_command_line(["--auto", "shop.csv"]) == DATA
    assert "may not be read" in one_sentence(capsys.readouterr().err)


def test_internal_error_gives_one_sentence_and_a_report_file(tables, capsys, monkeypatch):
    monkeypatch.setattr(running, "create_run", lambda *_: {}["secret cell"])
    monkeypatch.setattr("tempfile.tempdir", str(tables))
    assert run_command_line(["--auto", "shop.csv"]) == 1
    message = one_sentence(capsys.readouterr().err)
    reports = list(tables.glob("tabapp-fault-*.txt"))
    assert len(reports) == 1
    assert str(reports[0]) in message
    assert "Traceback" in reports[0].read_text()


def test_full_disk_gives_one_sentence(tables, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "run.json")

    monkeypatch.setattr(running, "create_run", full)
    assert run_command_line(["--auto", "shop.csv"]) == 1
    assert one_sentence(capsys.readouterr().err) == "tabapp: run.json: No space left on device."


# -- errors of reading, inference and planning --------------------------------------------------------------------------------


def planned(line: str) -> tuple[RunConfig, object]:
    """The configuration and plan of a command line, as the engine makes them."""
    context = running.run.make_context("run", shlex.split(line))
    config = RunConfig(**{name: value for name, value in context.params.items() if name not in VIEW_ONLY})
    return config, make_plan(config, infer(read_data(config), config))


@pytest.mark.parametrize(
    ("line", "exit_code", "message"),
    [
        ("header.csv", DATA, "header"),
        ("blank.csv", DATA, "white space"),
        ("picture.csv", DATA, "PNG"),
        ("single.csv", DATA, "single column"),
        ("few.csv", DATA, "only 12 rows"),
        ("few_labels.csv --target bought", DATA, "only 15 rows have a target (45 more have no target)"),
        ("constant.csv --target bought", DATA, "nothing to learn"),
        ("unlabeled.csv --target bought", DATA, "missing in every row"),
        ("shop.csv --target boght", DATA, "did you mean 'bought'?"),
        ("shop.csv --target zzz", DATA, "no column 'zzz'"),
        ("shop.csv --task regression --target city", DATA, "is text"),
        ("shop.csv --task binary --target city", DATA, "3 distinct values"),
        ("shop.csv --weight city", DATA, "not numeric"),
        ("shop.csv --time city", DATA, "must hold dates or numbers"),
        ("shop.csv --ignore age,city --target bought", DATA, "the table has no feature"),
        ("shop.csv --metric auc", USAGE, "did you mean 'roc_auc'?"),
        ("shop.csv --metric rmse --target bought", USAGE, "is not defined for a binary task"),
        ("shop.csv --models xgbost", USAGE, "did you mean 'xgboost'?"),
        ("shop.csv --exclude zzz", USAGE, "the models are"),
        ("shop.csv --models mlp --exclude mlp", USAGE, "None of the selected models can run"),
        ("shop.csv --device cuda:99", USAGE, "cuda:99"),
        ("shop.csv --kind age=number", USAGE, "did you mean 'numeric'?"),
        ("shop.csv --kind agee=numeric", USAGE, "did you mean 'age'?"),
        ("shop.csv --ignore ctiy", USAGE, "did you mean 'city'?"),
        ("shop.csv --ignore bought --target bought", USAGE, "cannot be ignored"),
        ("shop.csv --group cty", USAGE, "did you mean 'city'?"),
        ("shop.csv --positive maybe --target bought", USAGE, "'no' and 'yes'"),
        ("shop.csv --validation cv --time age", USAGE, "Remove one of them"),
        ("shop.csv --encoding klingon", USAGE, "klingon"),
        ("shop.csv --decimal xx", USAGE, "--decimal"),
        ("shop.csv --delimiter ab", USAGE, "--delimiter"),
    ],
)  # fmt: skip
def test_invalid_plan_is_rejected_with_its_exit_code(tables, line, exit_code, message):
    with pytest.raises(TabappError) as caught:
        planned(line)
    assert caught.value.exit_code == exit_code
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_plan_follows_the_options(tables):
    config, plan = planned("shop.csv --target bought --positive no --kind age=numeric --folds 3 --models mlp,xgboost")
    assert config.positive == "no"
    assert plan.folds == 3
    assert [model.name for model in plan.competing] == ["mlp", "xgboost"]


# -- help and listing ---------------------------------------------------------------------------------------------------------


def test_help_lists_every_command_option_and_exit_code(capsys):
    assert run_command_line(["--help"]) == 0
    text = capsys.readouterr().out
    for name, (_, line) in main.COMMANDS.items():
        assert name == main.DEFAULT or f"  {name}" in text
        assert name == main.DEFAULT or line in " ".join(text.split())
    for parameter in running.run.params:
        if isinstance(parameter, click.Option):
            assert parameter.opts[0] in text
            assert parameter.help
    assert all(f"  {code.value:<4}{code.meaning}" in text for code in ExitCode)


@pytest.mark.parametrize("name", [name for name in main.COMMANDS if name != main.DEFAULT])
def test_every_command_has_help(name, capsys):
    assert run_command_line([name, "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: tabapp")
    assert err == ""


def test_help_is_shown_without_arguments(capsys):
    assert run_command_line([]) == 0
    assert "Usage: tabapp [DATA]" in capsys.readouterr().out


def test_finished_run_is_listed_and_shown_without_an_engine(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TABAPP_RUNS_DIR", str(tmp_path))
    folder = write_run(tmp_path)
    assert run_command_line(["runs", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["run"] == folder.run
    assert (listed["status"], listed["target"], listed["metric"], listed["best"]) == ("ok", "bought", "roc_auc", 0.91)
    assert set(listed) == {
        "run", "name", "status", "data", "target", "metric", "best", "folds", "started", "seconds", "path",
        "tags", "note", "pinned",
    }  # fmt: skip
    assert run_command_line(["attach", "last", "--auto", "-q"]) == 0
    out, err = capsys.readouterr()
    assert "LightGBM" in out
    assert "age" in out
    assert err == ""
    assert run_command_line(["attach", "last", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == folder.events.read_text().splitlines()
    assert run_command_line(["resume", "last"]) == USAGE
    assert "is complete; give it more with --budget or --trials" in one_sentence(capsys.readouterr().err)
    assert run_command_line(["export", "last", "-o", str(tmp_path / "m.tabapp")]) == USAGE
    assert "has no bundle" in one_sentence(capsys.readouterr().err)


# -- the real command, with its engine ------------------------------------------------------------------------------------------


def tabapp(*arguments: str, folder: Path, timeout: float = HANG_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run the command in a subprocess; runs are stored next to the data."""
    return subprocess.run(
        [sys.executable, "-m", "tabapp", *arguments],
        cwd=folder,
        env={**os.environ, "TABAPP_RUNS_DIR": str(folder / "runs")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_engine_reports_an_unknown_target(tmp_path):
    write_tables(tmp_path)
    done = tabapp("--auto", "shop.csv", "--target", "boght", "--budget", "10s", "-q", folder=tmp_path)
    assert done.returncode == DATA
    assert done.stdout == ""
    assert "did you mean 'bought'?" in one_sentence(done.stderr)


def test_failed_run_ends_with_run_finished(tmp_path):
    write_tables(tmp_path)
    done = tabapp("--auto", "constant.csv", "--target", "bought", "--budget", "10s", "--json", folder=tmp_path)
    assert done.returncode == DATA
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["ev"], last["status"], last["bundle"], last["exit_code"]) == ("run.finished", "failed", None, DATA)
    assert "nothing to learn" in last["message"]
    assert "nothing to learn" in one_sentence(done.stderr)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """A real run of one model on a small table: its folder and the completed process."""
    folder = tmp_path_factory.mktemp("run")
    write_tables(folder)
    done = tabapp(
        "--auto", "shop.csv", "--target", "bought", "--models", "xgboost", "--trials", "1", "--folds", "2",
        "--json", "--out", "shop.tabapp", folder=folder,
    )  # fmt: skip
    return folder, done


@pytest.mark.slow
def test_run_writes_its_events_and_its_bundle(small_run):
    folder, done = small_run
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert all({"v", "seq", "t", "ev"} <= set(event) for event in events)
    last = events[-1]
    assert (last["ev"], last["status"], last["task"], last["metric"]) == ("run.finished", "ok", "binary", "roc_auc")
    assert last["best"]["low"] <= last["best"]["score"] <= last["best"]["high"]
    assert {row["model"] for row in last["leaderboard"]} == {"xgboost", "ensemble"}
    assert {row["feature"] for row in last["importances"]} == {"age", "city"}
    assert (folder / "shop.tabapp").is_file()
    assert len([event for event in events if event["ev"] == "fit.finished"]) <= 2


def test_printed_events_match_the_event_file(small_run):
    folder, done = small_run
    (run,) = (folder / "runs").iterdir()
    assert done.stdout == (run / "events.jsonl").read_text()


def test_bundle_of_a_run_predicts_every_row(small_run):
    folder, _ = small_run
    done = tabapp("predict", "shop.tabapp", "shop.csv", "-o", "predictions.csv", folder=folder)
    assert done.returncode == 0, done.stderr
    predictions = pl.read_csv(folder / "predictions.csv")
    truth = pl.read_csv(folder / "shop.csv")["bought"]
    assert predictions.height == len(truth)
    assert predictions.columns == ["prediction", "probability_no", "probability_yes"]
    assert ((predictions["probability_no"] + predictions["probability_yes"] - 1).abs() < 1e-6).all()
    assert (predictions["prediction"] == truth).mean() > 0.6


def test_closed_pipe_ends_the_command_silently(small_run):
    folder, _ = small_run
    script = f"{shlex.quote(sys.executable)} -m tabapp runs --json | sleep 0; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "TABAPP_RUNS_DIR": str(folder / "runs")},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (ExitCode.BROKEN_PIPE, "")
