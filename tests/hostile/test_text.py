"""Text from files reaches no view raw: not the terminal, not as markup, and not a spreadsheet as a formula."""

from __future__ import annotations

import ast
import csv
import io
import json
import sys
import unicodedata
from pathlib import Path

import msgspec
import polars as pl
import pytest
from rich.cells import cell_len

import tabapp
from tabapp import printable
from tabapp.bundle.files.card import model_card
from tabapp.bundle.files.contents import open_bundle
from tabapp.bundle.writing.write import write_bundle
from tabapp.cli.completion import header
from tabapp.cli.main import run_command_line
from tabapp.data.formulas import without_formulas
from tabapp.data.infer import infer_schema
from tabapp.errors import BundleError, DataError, UsageError
from tabapp.headless.summary import print_summary
from tests.bundle import making
from tests.hostile import recordings, texts
from tests.hostile.texts import BRACKETS, pseudo_terminal, raw_characters, shown

COLUMNS = {"size": texts.TITLE + " [red]", "age": "price [$]", "color": "mass [kg]", "joined": f"[/b]{texts.C1}"}
TARGET = f"outcome{texts.CURSOR}"
LABELS = {"no": f"no [link=x]{texts.BIDI}", "yes": f"[/b]{texts.CLIPBOARD}"}

# -- the conversion -------------------------------------------------------------------------------------------------


def test_every_control_and_format_character_of_unicode_is_replaced():
    visible = {0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and code not in visible:
            (replaced,) = printable.one_line(chr(code))
            assert cell_len(replaced) == 1, hex(code)
            assert printable.is_printable(replaced), hex(code)


@pytest.mark.parametrize("text", ["žluťoučký 漢字 العربية", "❤️ 👍🏽 ½ → ␛", "e\u0301", "no\u00a0break", *BRACKETS])
def test_everyday_text_is_unchanged(text):
    assert printable.one_line(text) == printable.multi_line(text) == printable.without_controls(text) == text
    assert printable.escape_json(json.dumps(text, ensure_ascii=False)) == json.dumps(text, ensure_ascii=False)


@pytest.mark.parametrize("text", [*texts.ATTACKS, "\ud800 \U000e0041", "two\nlines\tand \x85\u2028\r"])
def test_a_replaced_text_has_as_many_characters_and_json_is_lossless(text):
    line, lines = printable.one_line(text), printable.multi_line(text)
    assert len(line) == len(lines) == len(text)
    assert not raw_characters(line)
    assert "\n" not in line
    assert not raw_characters(lines.replace("\t", ""))
    escaped = printable.escape_json(json.dumps({"text": text}, ensure_ascii=False))
    assert not raw_characters(escaped)
    assert json.loads(escaped) == {"text": text}


def test_a_pasted_copy_has_no_control_character_but_keeps_joiners():
    assert printable.without_controls("a\x1b[201~rm\r\tb\nc \u200d") == "a␛[201~rm␍\tb\nc \u200d"


@pytest.mark.parametrize("kind", [UsageError, DataError, BundleError])
def test_an_uncaught_error_of_the_python_api_prints_nothing_raw(kind):
    assert str(kind(f"Column {texts.TITLE} is missing.")) == f"Column {shown(texts.TITLE)} is missing."


def test_views_print_through_one_module():
    """Whatever prints text has to make it printable; these modules are the only ones that may print."""
    allowed = {"cli/completion.py", "cli/main.py", "headless/narration.py", "web/server.py"}
    root = Path(tabapp.__file__).parent
    for path in [path for room in ("cli", "headless", "api", "web") for path in (root / room).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.echo", "click.secho", "print"):
                assert path.relative_to(root).as_posix() in allowed, f"{path}:{node.lineno}"


def test_screens_make_text_with_one_class():
    root = Path(tabapp.__file__).parent / "tui"
    users = [path.name for path in root.rglob("*.py") if "from textual.content import" in path.read_text("utf-8")]
    assert users == ["content.py"]
    assert not [path for path in root.rglob("*.py") if "from_markup" in path.read_text("utf-8")]


# -- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A hostile table, one that lacks a column, a bundle trained on such tables, and a folder with a finished run."""
    folder = tmp_path_factory.mktemp("hostile")

    def text_table(task, n_rows=160, seed=0):
        return (
            plain_table(task, n_rows, seed)
            .rename({**COLUMNS, "outcome": TARGET})
            .with_columns(
                pl.col(TARGET).replace(LABELS),
                pl.col("mass [kg]").replace({"red": "[red]", "green": texts.CURSOR}),
            )
        )

    plain_table = making.text_table
    with pytest.MonkeyPatch.context() as patch:
        making.register_linear(patch)
        patch.setattr(making, "text_table", text_table)
        patch.setattr(making, "infer_schema", lambda frame, target: infer_schema(frame, target=TARGET))
        found = {
            "table": texts.file_name(folder, ".csv"),
            "short": texts.file_name(folder, "-short.csv"),
            "bundle": texts.file_name(folder, ".tabapp"),
            "damaged": texts.file_name(folder, "-damaged.tabapp"),
            "absent": texts.file_name(folder, "-absent.csv"),
            "runs": folder / "runs",
        }
        table = text_table("binary", 40, seed=7)
        table.write_csv(found["table"])
        table.drop(COLUMNS["size"], COLUMNS["joined"]).write_csv(found["short"])
        contents = making.make_contents(folder, "binary")
        hostile = {
            "run": f"run{texts.TITLE}",
            "name": f"name{texts.CURSOR}[/b]",
            "validation": f"2-fold {texts.C1} [red]",
            "created_at": f"today{texts.CLIPBOARD}",
            "data": {f"file{texts.BIDI}": f"made{texts.TITLE}.csv [/b]"},
        }
        write_bundle(found["bundle"], msgspec_replace(contents, hostile))
        found["damaged"].write_bytes(found["bundle"].read_bytes()[:-40])
        recordings.make_hostile_run(found["runs"])
    return found


def msgspec_replace(contents, changes):
    from dataclasses import replace

    return replace(contents, **changes)


COMMANDS = {
    "profile": (["profile", "{table}"], 0),
    "profile of a target": (["profile", "{table}", "--target", TARGET], 0),
    "profile of an unknown target": (["profile", "{table}", "--target", texts.TITLE], 3),
    "profile of an absent file": (["profile", "{absent}"], 3),
    "inspect": (["inspect", "{bundle}"], 0),
    "inspect of a damaged bundle": (["inspect", "{damaged}"], 5),
    "evaluate": (["evaluate", "{bundle}", "{table}"], 0),
    "evaluate without a column": (["evaluate", "{bundle}", "{short}"], 3),
    "explain": (["explain", "{bundle}", "{table}"], 0),
    "explain without a column": (["explain", "{bundle}", "{short}"], 3),
    "explain an unknown class": (["explain", "{bundle}", "{table}", "--class", texts.CURSOR], 2),
    "predict --check": (["predict", "{bundle}", "{short}", "--check"], 3),
    "predict without a column": (["predict", "{bundle}", "{short}"], 3),
    "predict to a file": (["predict", "{bundle}", "{table}", "-o", "{runs}/out.csv"], 0),
    "predict to a wrong file": (["predict", "{bundle}", "{table}", "-o", f"x{texts.CURSOR}"], 2),
    "runs": (["runs", "--runs-dir", "{runs}"], 0),
    "attach": (["attach", "last", "--auto", "--runs-dir", "{runs}"], 0),
    "attach --plain": (["attach", "last", "--plain", "-v", "--runs-dir", "{runs}"], 0),
    "attach to an unknown run": (["attach", texts.TITLE, "--runs-dir", "{runs}"], 2),
    "export of an unknown run": (["export", texts.C1, "-o", "x.tabapp", "--runs-dir", "{runs}"], 2),
    "impute of an absent file": (["impute", "{absent}", "-o", "{runs}/out.csv"], 3),
    "an unknown option": (["profile", "{table}", f"--{texts.CURSOR}"], 2),
    "an unknown choice": (["{table}", "--auto", "--task", texts.TITLE], 2),
    "an unknown column": (["{table}", "--auto", "--kind", f"{texts.CURSOR}=[/b]", "--budget", texts.BIDI], 2),
    "an unknown command": (["predict", "{bundle}"], 2),
}
JSON = {
    "profile": ["profile", "{table}", "--json"],
    "inspect": ["inspect", "{bundle}", "--json"],
    "evaluate": ["evaluate", "{bundle}", "{table}", "--json"],
    "explain": ["explain", "{bundle}", "{table}", "--json"],
    "predict --check": ["predict", "{bundle}", "{table}", "--check", "--json"],
    "predict": ["predict", "{bundle}", "{table}", "-o", "{runs}/out.csv", "--json"],
    "runs": ["runs", "--json", "--runs-dir", "{runs}"],
    "attach": ["attach", "last", "--json", "--runs-dir", "{runs}"],
}


@pytest.fixture
def run(monkeypatch, files, shared_process):
    making.register_linear(monkeypatch)
    return lambda words: run_command_line([word.format(**files) for word in words])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_nothing_raw(name, run, capfd, monkeypatch):
    words, expected = COMMANDS[name]
    assert run(words) == expected
    captured = capfd.readouterr()
    assert not raw_characters(captured.out)
    assert not raw_characters(captured.err)
    assert "bug" not in captured.err
    with pseudo_terminal(monkeypatch) as terminal:
        code = run(words)
    assert code == expected, terminal.text
    assert not raw_characters(terminal.text)
    assert "bug" not in terminal.text
    assert terminal.text


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["profile", "{table}"], [*COLUMNS.values(), TARGET]),
        (["inspect", "{bundle}"], [*COLUMNS.values(), TARGET]),
        (
            ["attach", "last", "--auto", "--runs-dir", "{runs}"],
            ["price [$]", "mass [kg]", "[/b]", "[red]", texts.TITLE],
        ),
    ],
)
def test_names_with_brackets_are_shown_as_written(words, names, run, capfd, monkeypatch):
    assert run(words) == 0
    piped = capfd.readouterr().out
    with pseudo_terminal(monkeypatch) as terminal:
        assert run(words) == 0
    for name in names:
        assert shown(name)[:32] in piped
        assert shown(name)[:32] in terminal.text


@pytest.mark.parametrize("name", JSON)
def test_json_is_escaped_and_lossless(name, run, capfd):
    assert run(JSON[name]) in (0, 3)
    out = capfd.readouterr().out
    assert not raw_characters(out)
    documents = (
        [json.loads(line) for line in out.splitlines()] if out[:2] != "[\n" and out[:2] != "{\n" else [json.loads(out)]
    )
    text = json.dumps(documents, ensure_ascii=False)
    attack = {"evaluate": texts.CURSOR, "predict --check": texts.CURSOR, "predict": texts.BIDI}.get(name, texts.TITLE)
    assert json.dumps(attack, ensure_ascii=False)[1:-1] in text


def test_piped_predictions_are_lossless_and_those_on_a_terminal_printable(run, files, capfd, monkeypatch):
    words = ["predict", "{bundle}", "{table}", "--keep"]
    assert run(words) == 0
    rows = list(csv.reader(io.StringIO(capfd.readouterr().out)))
    assert rows[0][:5] == [*COLUMNS.values(), TARGET]
    assert {row[2] for row in rows[1:]} >= {"[red]", texts.CURSOR}
    with pseudo_terminal(monkeypatch) as terminal:
        assert run(words) == 0
    assert not raw_characters(terminal.text)
    assert shown(texts.CURSOR) in terminal.text
    assert shown(COLUMNS["size"]) in terminal.text


def test_the_summary_after_a_screen_prints_nothing_raw(files, capfd):
    run = recordings.RunFolder(next(path for path in files["runs"].iterdir() if path.is_dir()))
    print_summary(run)
    captured = capfd.readouterr()
    assert captured.out
    assert not raw_characters(captured.out + captured.err)


def test_the_model_card_has_no_raw_character_and_no_link(files):
    contents = open_bundle(files["bundle"])
    schema = msgspec.structs.replace(contents.schema, classes=("[a](https://example.org)", f"b{texts.TITLE}\n# c"))
    card = model_card(contents.manifest, schema, contents.ensemble)
    assert not raw_characters(card)
    assert "](" not in card
    assert "\n# c" not in card
    assert "price [$]" in card
    assert "mass [kg]" in card


def test_completion_offers_no_name_that_a_shell_would_print_raw(tmp_path, monkeypatch, capfd):
    table = tmp_path / "table.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerow([texts.BIDI, texts.ZERO_WIDTH, "del\x7fete", *BRACKETS])
    texts.file_name(tmp_path, ".csv").touch()
    assert set(header(table)) > set(BRACKETS)
    for words in (f"tabapp profile {table} --target ", f"tabapp profile {tmp_path}/"):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        monkeypatch.setenv("_TABAPP_COMPLETE", "bash_complete")
        run_command_line([])
        out = capfd.readouterr().out
        assert not raw_characters(out)
        assert "price" in out or str(table) in out


# -- spreadsheets -------------------------------------------------------------------------------------------------------

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "-", "=", "-1;=2"]
NUMBERS = ["-5.2", "+3", "-1e-9", "-1,234.5", "12", "-5 %", "-.5"]


def test_safe_csv_neutralizes_formulas_and_keeps_numbers():
    names = ["=HYPERLINK(1)", "'=HYPERLINK(1)", "plain", "amount"]
    frame = pl.DataFrame(
        {
            names[0]: [*FORMULAS, *NUMBERS],
            names[1]: pl.Series([*FORMULAS, *NUMBERS], dtype=pl.Categorical),
            names[2]: pl.Series([None, "a=b", *["x"] * 16]),
            names[3]: [-float(n) for n in range(18)],
        }
    )
    safe = without_formulas(frame)
    assert safe.columns == ["''=HYPERLINK(1)", "'=HYPERLINK(1)", "plain", "amount"]
    for column in safe.columns[:2]:
        assert safe[column].to_list() == [*(f"'{text}" for text in FORMULAS), *NUMBERS]
    assert safe["plain"].to_list() == frame["plain"].to_list()
    assert safe["amount"].to_list() == frame["amount"].to_list()


def test_predict_writes_safe_csv_only_when_asked(run, files, tmp_path, capfd):
    table = pl.read_csv(files["table"].read_bytes(), infer_schema=False)
    table = table.with_columns(pl.lit("=1+1").alias("=note"), pl.lit("a;=2").alias("semicolon"))
    table.write_csv(tmp_path / "in.csv")
    words = ["predict", "{bundle}", str(tmp_path / "in.csv"), "--keep", "-o"]
    assert run([*words, str(tmp_path / "plain.csv")]) == 0
    assert run([*words, str(tmp_path / "safe.csv"), "--safe-csv"]) == 0
    plain, safe = (pl.read_csv(tmp_path / f"{name}.csv", infer_schema=False) for name in ("plain", "safe"))
    assert plain["=note"].unique().to_list() == ["=1+1"]
    assert safe["'=note"].unique().to_list() == ["'=1+1"]
    assert safe[COLUMNS["size"]].to_list() == plain[COLUMNS["size"]].to_list(), "negative numbers stay numbers"
    assert '"a;=2"' in (tmp_path / "safe.csv").read_text(), "another separator does not split a quoted text"
    assert run([*words, str(tmp_path / "safe.parquet"), "--safe-csv"]) == 2
    assert "applies to CSV only" in capfd.readouterr().err
