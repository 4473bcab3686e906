"""Reports of recorded runs: complete, self-contained, the same numbers as the screens, and safe with hostile names."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser

import msgspec
import pytest

from tabapp.cli.main import run_command_line
from tabapp.errors import ExitCode
from tabapp.report.examples import Contribution, Example
from tabapp.report.html import to_html
from tabapp.report.make import make_report, summary_of
from tabapp.report.markdown import escaped, to_markdown
from tabapp.report.parts import Bar, Bars, Facts, HeatMap, Histogram, Report, Section, Table, Text
from tabapp.report.svg import draw_bars, draw_lines, number, ticks
from tabapp.run.record import events as ev
from tabapp.run.record.analysis import Grid, Lines, Series
from tabapp.run.record.reducing.reduce import reduce, replay
from tabapp.run.record.state import RunState, format_score
from tests.recordings import events_of
from tests.recordings.replay import make_run
from tests.run.recording import analyses
from tests.run.test_targets import stream

RECORDINGS = ("cancer", "prices", "tuned", "wine")
HOSTILE = "mass [kg]</td><script>alert(1)</script>\x1b]0;x\x07|`*_$x$"


class Page(HTMLParser):
    """Checks that elements nest, and collects texts, elements and addresses."""

    VOID = frozenset({"meta", "line", "rect", "polyline", "polygon", "path"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(params=RECORDINGS)
def state(request) -> RunState:
    return replay(events_of(request.param))


def parts_of(report: Report) -> dict[str, list[object]]:
    return {section.title: list(section.parts) for section in report.sections}


def test_a_report_has_every_section_of_its_run(state):
    sections = parts_of(make_report(state, environment={"tabapp": "1.2"}))
    expected = {
        "Result",
        "Data",
        "Plan",
        "Leaderboard",
        "Ensemble",
        "Quality of the predictions",
        "Importances",
        "Reproduce",
    }
    assert expected <= set(sections)
    assert ("Effects" in sections) == (state.effects is not None)
    assert ("Weak slices" in sections) == (state.slices is not None)
    assert sections["Environment"] == [Facts((("tabapp", "1.2"),))]
    assert Text(state.plan.command, code=True) in sections["Reproduce"]


def test_example_rows_of_several_classes_are_explained_by_their_own(state):
    contributions = [Contribution("c", "1", 0.6, 0.01)]
    examples = [Example(label, label, base=0.2, output=0.8, contributions=contributions) for label in ("A", "B")]
    text, first, second = parts_of(make_report(state, examples=examples))["Example rows"]
    assert (
        "the probability of the predicted class from its mean over the sample rows of the bundle: Shapley" in text.text
    )
    assert [first.title, second.title] == ["Row 1: A, probability of A 0.8", "Row 2: B, probability of B 0.8"]
    assert second.unit == "change of the probability of B from its mean of 0.2"


def test_example_rows_of_a_regression_group_thousands(state):
    example = Example(
        "56710.6", None, 206_800.0, 56_710.6, [Contribution("c", "1", -150_089.4, 0.0)], "TreeSHAP", "the training rows"
    )
    text, bars = parts_of(make_report(state, examples=[example]))["Example rows"]
    assert "from its mean over the training rows, 206,800: TreeSHAP of the whole ensemble" in text.text
    assert bars.title == "Row 1: prediction 56,711"


def test_example_rows_show_their_largest_contributions(state):
    contributions = [Contribution(f"c{i}", None if i else "<b>", (-1) ** i * i / 10, 0.01) for i in range(15)]
    example = Example(
        "yes", "yes", base=0.25, output=0.25 + sum(c.contribution for c in contributions), contributions=contributions
    )
    report = make_report(state, examples=[example])
    text, bars, rest = parts_of(report)["Example rows"]
    assert "0.25" in text.text
    assert [bar.value for bar in bars.rows] == sorted((c.contribution for c in contributions), key=abs, reverse=True)[
        :12
    ]
    assert bars.rows[0].label == "c14 = missing"
    assert rest.text.startswith("3 more columns contribute")
    assert "Example rows" not in parts_of(make_report(state))
    assert "c14 = missing" in to_html(report)


def test_the_leaderboard_has_the_scores_of_the_screens(state):
    table = next(part for part in parts_of(make_report(state))["Leaderboard"] if isinstance(part, Table))
    rows = [row for row in state.leaderboard if not row.not_started]
    assert [(cells[1], cells[2]) for cells in table.rows] == [(row.title, format_score(row.score)) for row in rows]
    assert all(len(cells) == len(table.header) for cells in table.rows)


def test_the_scores_of_folds_are_those_of_the_best_trial(state):
    tables = [part for part in parts_of(make_report(state))["Leaderboard"] if isinstance(part, Table)]
    folds = tables[1]
    row = next(row for row in state.leaderboard if row.score is not None and row.model != "ensemble")
    fits = sorted(
        (f for f in state.fits.values() if (f.model, f.trial) == (row.model, row.trial)), key=lambda f: f.fold
    )
    assert folds.rows[0] == (row.title, *(format_score(fit.score) for fit in fits))


def test_pages_are_well_formed_and_request_nothing(state):
    page = Page(to_html(make_report(state)))
    assert not any(tag in ("script", "link", "img", "iframe", "object") for tag, _ in page.elements)
    assert not any(name in attributes for _, attributes in page.elements for name in ("src", "onload", "onclick"))
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    anchors = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    assert links
    assert {link.removeprefix("#") for link in links} == anchors
    images = [attributes for tag, attributes in page.elements if tag == "svg"]
    assert images
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in images)


@pytest.mark.slow
def test_pages_are_valid_html(state):
    html5lib = pytest.importorskip("html5lib")
    for event in analyses():
        state = reduce(state, msgspec.structs.replace(event, seq=state.seq + 1))
    for report in (make_report(state), HOSTILE_REPORT):
        # Raises an error for everything that the standard calls a parse error.
        html5lib.HTMLParser(strict=True).parse(to_html(report))


def test_a_page_has_a_chart_for_each_effect(state):
    if state.effects is None:
        pytest.skip("the recording has no effects")
    titles = Page(to_html(make_report(state))).texts
    assert all(effect.feature in titles for effect in state.effects.effects)


def test_reports_are_the_same_each_time_and_in_each_format(state):
    report = make_report(state)
    assert to_html(report) == to_html(make_report(state))
    decoded = msgspec.json.decode(msgspec.json.encode(report), type=Report)
    assert to_markdown(decoded) == to_markdown(report)
    assert f"# {escaped(report.title)}" in to_markdown(report)


def test_an_unfinished_run_has_a_report():
    events = events_of("wine")
    for n in (4, len(events) // 2):
        state = replay(events[:n])
        text = to_html(make_report(state))
        assert f"not finished ({state.stage})" in text
    assert summary_of(RunState()) == "No model has a score yet."


def test_the_summary_of_several_targets_names_those_without_a_model():
    failed = {"best": None, "leaderboard": (), "status": "failed", "message": "The budget ended."}
    events = [
        msgspec.structs.replace(event, result=msgspec.structs.replace(event.result, **failed))
        if isinstance(event, ev.TargetFinished)
        else event
        for event in stream()
        if not isinstance(event, ev.LeaderboardChanged)
    ]
    assert make_report(replay(events)).summary == "height: The budget ended. species: The budget ended."


def test_rates_and_errors_by_class_are_those_of_scikit_learn():
    reference = pytest.importorskip("sklearn.metrics")
    matrix = ((8, 2, 0), (1, 6, 3), (0, 0, 5))
    state = replay(events_of("wine"))
    labels = a, b, c = state.plan.classes
    found = msgspec.structs.replace(state.evaluations["ensemble"], labels=labels, confusion=matrix)
    state = msgspec.structs.replace(state, evaluations={"ensemble": found})
    tables = {
        each.title: each
        for each in parts_of(make_report(state))["Quality of the predictions"]
        if isinstance(each, Table)
    }
    pairs = [(i, j) for i, row in enumerate(matrix) for j, count in enumerate(row) for _ in range(count)]
    precision, recall, f1, rows = reference.precision_recall_fscore_support(*zip(*pairs, strict=True))
    expected = [
        (f"{n}", f"{p:.3f}", f"{r:.3f}", f"{f:.3f}") for n, p, r, f in zip(rows, precision, recall, f1, strict=True)
    ]
    assert [row[1:] for row in tables["By class"].rows] == expected
    assert tables["Most frequent errors"].rows[:2] == ((b, c, "3", "30.0%"), (a, b, "2", "20.0%"))


HOSTILE_REPORT = Report(
    HOSTILE,
    HOSTILE,
    (
        Section(
            HOSTILE,
            (
                Text(HOSTILE),
                Text(f"```{HOSTILE}", code=True),
                Facts(((HOSTILE, HOSTILE),)),
                Table(HOSTILE, (HOSTILE,), ((HOSTILE,),)),
                Bars(HOSTILE, HOSTILE, (Bar(HOSTILE, 1.0, 0.5, math.inf), Bar(HOSTILE, math.nan), Bar(HOSTILE, -1.0))),
                Lines(
                    HOSTILE, HOSTILE, HOSTILE, (Series(HOSTILE, ((0, 1), (1, math.nan), (2, 3))), Series(HOSTILE, ()))
                ),
                Histogram(HOSTILE, HOSTILE, (0, 1), (1, 2, 0)),
                HeatMap(HOSTILE, HOSTILE, HOSTILE, (HOSTILE, "b"), ((1, 2), (0, 0))),
                HeatMap(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,) * 20, ((1,) * 20,) * 20),
                Grid(HOSTILE, HOSTILE, HOSTILE, ((1.0, 0.0), (3.0, 1.0)), HOSTILE),
            ),
        ),
    ),
)


def test_hostile_names_are_text_in_every_part():
    text = to_html(HOSTILE_REPORT)
    page = Page(text)
    assert not any(tag == "script" for tag, _ in page.elements)
    assert any("mass [kg]</td><script>alert(1)</script>␛]0;x" in part for part in page.texts)
    assert not any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 for c in text)
    document = to_markdown(HOSTILE_REPORT)
    assert not any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 for c in document)
    outside_code = re.sub(r"^(`{3,})text\n.*?\n\1$", "", document, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"(?<!\\)<script", outside_code)


def test_numbers_that_are_not_finite_are_left_out():
    assert "nan" not in draw_lines(HOSTILE_REPORT.sections[0].parts[5]).lower()
    assert draw_lines(Lines("t", "x", "y", (Series("", ((math.nan, 1.0),)),))) == ""
    assert draw_bars(Bars("t", "u", (Bar("a", math.inf),))) == ""


def test_a_single_point_is_visible_with_its_interval():
    line = Series("old", ((5.0, 0.5),), (0.4,), (0.6,))
    other = Series("new", ((0.0, 0.0), (10.0, 1.0)))
    drawn = draw_lines(Lines("t", "x", "y", (line, other)))
    corners = re.findall(r'<polygon class="band c0" points="([^"]*)"', drawn)[0].split()
    (left, height), (right, same) = (
        map(float, corner.split(",")) for corner in re.findall(r'class="line c0" points="([^"]*)"', drawn)[0].split()
    )
    assert right - left > 2
    assert height == same
    assert len(set(corners)) == 4


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (-3, 7, [-2, 0, 2, 4, 6]), (12_345, 98_765, [20_000, 40_000, 60_000, 80_000])],
)
def test_ticks_are_round_numbers(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.12345, "0.1235"), (1234.5, "1,234"), (98_765.4, "98,765"), (1e9, "1e+09"), (2e-5, "2e-05")],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


@pytest.fixture
def run(tmp_path):
    folder = make_run(tmp_path / "runs", "wine")
    folder.events.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events_of("wine")))
    return folder


@pytest.mark.parametrize("name", ["report.html", "report.md", "report.json"])
def test_the_command_writes_the_format_of_the_name(run, tmp_path, name, capsys):
    out = tmp_path / name
    assert run_command_line(["report", run.run, "-o", str(out), "--runs-dir", str(run.path.parent)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    text = out.read_text()
    beginning = {"html": "<!doctype html>", "md": "# ", "json": "{"}[out.suffix[1:]]
    assert text.startswith(beginning)
    if out.suffix == ".json":
        assert json.loads(text)["sections"][0]["title"] == "Result"


def test_a_format_can_be_chosen(run, tmp_path):
    out = tmp_path / "report.txt"
    words = ["report", run.run, "-o", str(out), "--runs-dir", str(run.path.parent)]
    assert run_command_line(words) == ExitCode.USAGE
    assert not out.exists()
    assert run_command_line([*words, "--format", "md"]) == 0
    assert out.read_text().startswith("# ")


def test_problems_are_sentences(run, tmp_path, capsys):
    words = ["report", run.run, "--runs-dir", str(run.path.parent)]
    assert run_command_line([*words, "-o", str(tmp_path / "missing" / "report.html")]) == ExitCode.USAGE
    assert "cannot be written" in capsys.readouterr().err
    run.events.write_bytes(b"")
    assert run_command_line([*words, "-o", str(tmp_path / "report.html")]) == ExitCode.USAGE
    assert "has not read its table yet" in capsys.readouterr().err


def test_columns_that_were_not_measured_and_unstable_values_are_named(state):
    found = state.importances
    worst = msgspec.structs.replace(found.rows[-1], permutation=99.0, unstable=True)
    incomplete = msgspec.structs.replace(found, rows=(*found.rows[:-1], worst), n_columns=2_000)
    parts = parts_of(make_report(msgspec.structs.replace(state, importances=incomplete)))["Importances"]
    texts = " ".join(part.text for part in parts if isinstance(part, Text))
    assert f"{len(found.rows)} of 2,000 columns measured before the time ended" in texts
    assert "1 importance is unstable" in texts
    bars = next(part for part in parts if isinstance(part, Bars))
    assert worst.feature not in [bar.label for bar in bars.rows]
    table = next(part for part in parts if isinstance(part, Table))
    assert [row[0] for row in table.rows] == [worst.feature]
    complete = parts_of(make_report(state))["Importances"]
    assert not any("measured before" in part.text for part in complete if isinstance(part, Text))
