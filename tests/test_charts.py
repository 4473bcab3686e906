"""Charts have the requested size and show the correct values."""

from __future__ import annotations

import math

import pytest

from tabapp import charts


def dots(lines: list[str]) -> set[tuple[int, int]]:
    """Positions (x, y) of braille dots, from the top left."""
    return {
        (2 * column + x, 4 * row + y)
        for row, line in enumerate(lines)
        for column, character in enumerate(line)
        for y, bits in enumerate(charts.BRAILLE_DOTS)
        for x, bit in enumerate(bits)
        if (ord(character) - charts.BRAILLE_BLANK) & bit
    }


def test_sparkline_spans_lowest_to_highest_block():
    assert charts.sparkline([0, 1, 2, 3, 4, 5, 6], 8) == "▁▂▃▄▅▆▇"
    assert charts.sparkline([5, 5, 5], 8) == "▁▁▁"
    assert charts.sparkline([0.5], 8, low=0, high=1) == "▄"
    assert charts.sparkline([], 8) == ""
    assert charts.sparkline([math.nan, 1.0, math.inf], 8) == "▁"


def test_sparkline_resamples_to_the_width_by_means():
    assert charts.resample([1, 3, 5, 7], 2) == [2, 6]
    assert len(charts.sparkline(list(range(1000)), 10)) == 10
    assert charts.sparkline(list(range(1000)), 10)[-1] == "▇"


def test_histogram_distinguishes_empty_bins_from_small_ones():
    assert charts.histogram([100, 0, 1], 10) == "▇ ▁"
    assert charts.histogram([0, 0], 10) == ""
    assert len(charts.histogram(list(range(50)), 10)) == 10


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0, "    "), (1, "████"), (0.5, "██  "), (2, "████"), (-1, "    "), (0.25 + 1 / 8, "█▌  "), (math.nan, "    ")],
)
def test_bar_fills_its_share_in_eighths(share: float, expected: str):
    assert charts.bar(share, 4) == expected


@pytest.mark.parametrize(
    ("share", "expected"), [(0, ""), (1, "━━━━"), (0.5, "━━"), (0.6, "━━╸"), (9, "━━━━"), (-1, ""), (math.nan, "")]
)
def test_rule_has_half_cell_resolution(share: float, expected: str):
    assert charts.rule(share, 4) == expected


def test_interval_rule_extends_to_the_upper_end():
    assert charts.interval_rule(0.5, 0.3, 0.7, 1.0, 10) == ("━━━━━", "─┤")
    assert charts.interval_rule(0.55, 0.3, 0.8, 1.0, 10) == ("━━━━━╾", "─┤")
    assert charts.interval_rule(0.5, 0.49, 0.51, 1.0, 10) == ("━━━━━", "")
    assert charts.interval_rule(-0.1, -0.3, 0.2, 1.0, 10) == ("", "─┤")
    assert charts.interval_rule(0.1, 0, 0.2, 0.0, 10) == ("", "")


@pytest.mark.parametrize("value", [0.0, 0.3, 0.99, 1.0])
@pytest.mark.parametrize("spread", [0.0, 0.01, 0.2, 3.0])
def test_interval_rule_stays_within_its_width(value: float, spread: float):
    solid, light = charts.interval_rule(value, value - spread, value + spread, 1.0, 12)
    assert len(solid + light) <= 12


def test_decimation_keeps_extremes_and_order():
    points = [(float(x), math.sin(x / 7)) for x in range(5000)]
    points[1234] = (1234.0, 9.0)
    points[4321] = (4321.0, -9.0)
    kept = charts.decimate(points, 50)
    assert len(kept) <= 100
    assert (1234.0, 9.0) in kept
    assert (4321.0, -9.0) in kept
    assert kept == sorted(kept)


def test_braille_line_joins_corner_to_corner():
    lines = charts.braille_line([(0, 0), (1, 1)], 4, 2)
    assert [len(line) for line in lines] == [4, 4]
    assert dots(lines) == {(x, 7 - x) for x in range(8)}


def test_braille_line_has_no_gaps_and_no_dots_outside():
    points = [(float(x), (x * 37) % 11) for x in range(40)]
    lines = charts.braille_line(points, 30, 6)
    columns = {x for x, _ in dots(lines)}
    assert columns == set(range(60))
    assert charts.braille_line([], 3, 2) == ["⠀⠀⠀", "⠀⠀⠀"]
    assert charts.braille_line([(0, 1)], 0, 2) == []


def test_braille_line_clips_to_the_given_range():
    lines = charts.braille_line([(0, 5.0), (1, 5.0)], 4, 2, y_range=(0, 1))
    assert {y for _, y in dots(lines)} == {0}


def test_flat_line_is_drawn_in_the_middle():
    assert {y for _, y in dots(charts.braille_line([(0, 3), (9, 3)], 5, 3))} == {6}


def test_best_so_far_in_both_directions():
    assert charts.best_so_far([1, 3, 2], greater_is_better=True) == [1, 3, 3]
    assert charts.best_so_far([3, 1, 2], greater_is_better=False) == [3, 1, 1]
    assert charts.best_so_far([], greater_is_better=True) == []


def test_axis_labels_have_equal_width_and_include_the_ends():
    labels = charts.axis_labels(0.0, 10.0, 5, lambda value: f"{value:g}")
    assert labels == ["10", "  ", " 5", "  ", " 0"]
    assert charts.axis_labels(2.0, 2.0, 3, str) == ["   ", "2.0", "   "]
    assert charts.axis_labels(1.0, 2.0, 1, str) == ["2.0"]
    assert charts.axis_labels(1.0, 2.0, 0, str) == []


def test_points_are_drawn_separately_in_any_order():
    lines = charts.braille_points([(1, 1), (0, 0)], 4, 2)
    assert dots(lines) == {(0, 7), (7, 0)}
    assert dots(
        charts.braille_points([(0, 0), (math.nan, 1), (1, math.inf)], 4, 2, x_range=(0, 1), y_range=(0, 1))
    ) == {(0, 7)}
    assert charts.braille_points([], 3, 1) == ["⠀⠀⠀"]
    assert charts.braille_points([(0, 0)], 3, 0) == []
    outside = charts.braille_points([(-5, 9)], 2, 1, x_range=(0, 1), y_range=(0, 1))
    assert dots(outside) == {(0, 0)}, "points outside are drawn at the edge"


@pytest.mark.parametrize("point", [(0.0, 0.0), (0.3, 0.9), (1.0, 1.0), (0.5, 0.5)])
def test_cell_of_a_point_matches_its_drawing(point):
    column, line = charts.cell_of(point, 7, 5, (0.0, 1.0), (0.0, 1.0))
    drawn = charts.braille_points([point], 7, 5, x_range=(0.0, 1.0), y_range=(0.0, 1.0))
    found = [
        (x, y)
        for y, text in enumerate(drawn)
        for x, character in enumerate(text)
        if ord(character) != charts.BRAILLE_BLANK
    ]
    assert found == [(column, line)]


def test_overlay_has_the_dots_of_both():
    one, other = charts.braille_line([(0, 0), (1, 1)], 5, 3), charts.braille_line([(0, 1), (1, 0)], 5, 3)
    assert dots(charts.overlay(one, other)) == dots(one) | dots(other)
    with pytest.raises(ValueError, match="argument"):
        charts.overlay(one, other[:2])


def test_shades_increase_and_only_zero_is_blank():
    assert "".join(charts.shade(share) for share in (0, 0.001, 0.25, 0.26, 0.5, 0.75, 0.76, 1, 7)) == " ░░▒▒▓███"
    assert charts.shade(math.nan) == charts.shade(-1.0) == " "


def test_grid_is_resized_by_means():
    assert charts.fit_grid([[1, 3], [5, 7]], 1, 1) == [[4]]
    assert charts.fit_grid([[1, 3], [5, 7]], 2, 1) == [[3, 5]]
    assert charts.fit_grid([[1, 3]], 4, 2) == [[1, 1, 3, 3], [1, 1, 3, 3]]
    assert charts.fit_grid([], 4, 2) == charts.fit_grid([[1]], 0, 2) == []
    assert charts.fit_grid([[1, 2, 3]], 2, 1) == [[1, 2.5]]


def test_density_starts_at_the_bottom_and_shows_small_counts():
    assert charts.density([[100, 0], [0, 1]], 2, 2) == [" ░", "█ "]
    assert charts.density([[0, 0]], 2, 1) == ["  "]


def test_heat_map_is_relative_to_each_row():
    assert charts.heat_map([[90, 10], [1, 1], [0, 0]]) == ["██░░", "████", "    "]
    assert charts.heat_map([[4, 1]], cell=1) == ["█░"]


def test_bars_have_eighth_cell_resolution():
    assert charts.bars([8, 4, 1, 0], 4, 1) == ["█▄▁ "]
    assert charts.bars([16, 12, 0], 3, 2) == ["█▄ ", "██ "]
    assert charts.bars([1000, 1], 2, 3)[-1] == "█▁"
    assert charts.bars([], 3, 2) == ["   ", "   "]
    assert charts.bars([1], 0, 2) == []
    assert [len(line) for line in charts.bars(list(range(100)), 17, 3)] == [17] * 3


def test_diagonal_connects_the_corners():
    drawn = dots(charts.diagonal(10, 5))
    assert {(0, 19), (19, 0)} <= drawn
    assert len(drawn) == 6
    assert len(dots(charts.diagonal(10, 5, gap=2))) == 11


def test_box_has_whiskers_box_and_median():
    assert charts.box([0, 2, 5, 8, 10], 0, 10, 11) == "├─███┃"[:2] + "███┃███─┤"
    assert charts.box([5, 5, 5, 5, 5], 0, 10, 11) == "     ┃     "
    assert charts.box([-99, 0, 5, 10, 99], 0, 10, 11) == "█████┃█████"
    assert charts.box([1, 2, 3], 0, 10, 5) == charts.box([0, 0, math.nan, 1, 1], 0, 1, 5) == " " * 5
    assert charts.box([0, 1, 2, 3, 4], 2, 2, 3) == "   "
