"""Charts: what is drawn is what is known, and it can be read without the drawing."""

from __future__ import annotations

import re
from datetime import UTC
from xml.etree import ElementTree

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("starlette")

from kavka.console.look.charts import MAX_POINTS, MAX_SERIES, Look, Series, Span, lines, membership, spark, split
from kavka.console.look.i18n import translator

LOOK = Look(translator("en"), UTC)
START = 1_767_265_200_000


def steps(*values: float | None) -> list[tuple[int, float | None]]:
    return [(START + 10_000 * number, value) for number, value in enumerate(values)]


def test_a_chart_is_well_formed_and_has_title_unit_axes_and_table() -> None:
    drawn = lines("Records in", [Series("orders", steps(1, 2, 30_000))], LOOK, unit="/s")
    tree = ElementTree.fromstring(drawn)
    texts = [each.text for each in tree.iter("text")]
    assert tree.find("figcaption") is not None
    assert "UTC" in "".join(each.text or "" for each in tree.iter("small"))
    assert "30 k" in texts or "40 k" in texts
    svg = tree.find("svg")
    assert svg is not None
    assert svg.get("role") == "img"
    assert "Records in" in (svg.get("aria-label") or "")
    cells = [each.text for each in tree.iter("td")]
    assert "30 k" in cells


def test_no_style_stands_in_an_element() -> None:
    """The pages' policy forbids it."""
    drawn = lines("A", [Series("a", steps(1, 2))], LOOK, unit="B/s", limit=(1.5, "limit"), marks=[(START, "x")])
    assert " style=" not in drawn
    assert " style=" not in split("B", [("Fetch", [("queue", 1.0), ("local", 2.0)])], LOOK, unit="ms")


def test_a_gap_in_what_was_measured_is_a_gap_in_the_line() -> None:
    drawn = lines("A", [Series("a", steps(1, 2, None, 3, 4))], LOOK, unit="")
    assert drawn.count("<polyline") == 2
    late = [*steps(1, 2, 3), (START + 3_600_000, 4.0), (START + 3_610_000, 5.0)]
    assert lines("A", [Series("a", late)], LOOK, unit="").count("<polyline") == 2


@pytest.mark.parametrize("points", [[], [(START, 1.0)], [(START, None), (START + 1, None)]])
def test_a_chart_of_nothing_says_so(points: list[tuple[int, float | None]]) -> None:
    drawn = lines("A", [Series("a", points)], LOOK, unit="")
    assert "<svg" not in drawn
    assert "Not enough measurements" in drawn


def test_a_peak_stays_when_there_are_more_points_than_are_drawn() -> None:
    values = [1.0] * 5_000
    values[3_333] = 777.0
    drawn = lines("A", [Series("a", steps(*values))], LOOK, unit="")
    line = next(each for each in ElementTree.fromstring(drawn).iter("polyline"))
    heights = [float(point.split(",")[1]) for point in (line.get("points") or "").split()]
    assert len(heights) <= MAX_POINTS
    assert min(heights) < 20


def test_more_lines_than_can_be_told_apart_are_not_drawn_and_it_says_so() -> None:
    many = [Series(f"s{number}", steps(1, 2)) for number in range(MAX_SERIES + 3)]
    drawn = lines("A", many, LOOK, unit="")
    assert drawn.count("<polyline") == MAX_SERIES
    assert "and 3 more not drawn" in drawn


def test_names_are_escaped() -> None:
    hostile = "</svg><script>"
    for drawn in (
        lines(hostile, [Series(hostile, steps(1, 2))], LOOK, unit=hostile, marks=[(START, hostile)]),
        membership(
            hostile, [(hostile, [Span(START, START + 9, "led", hostile)])], LOOK, from_ms=START, until_ms=START + 9
        ),
        split(hostile, [(hostile, [(hostile, 1.0)])], LOOK, unit="ms"),
        spark(hostile, steps(1, 2)),
    ):
        assert "<script" not in drawn


def test_an_isr_over_time_is_a_row_for_each_replica() -> None:
    rows = [
        ("broker 1", [Span(START, START + 60_000, "led", "leads")]),
        (
            "broker 2",
            [Span(START, START + 20_000, "in", "in sync"), Span(START + 20_000, START + 60_000, "out", "out")],
        ),
    ]
    tree = ElementTree.fromstring(membership("ISR", rows, LOOK, from_ms=START, until_ms=START + 60_000))
    svg = tree.find("svg")
    assert svg is not None
    bars = [(each.get("class"), float(each.get("width") or 0)) for each in svg.iter("rect")]
    assert [name for name, _width in bars] == ["led", "in", "out"]
    assert bars[2][1] == pytest.approx(2 * bars[1][1], rel=0.01)


def test_an_axis_of_bytes_goes_in_their_units() -> None:
    drawn = lines("A", [Series("a", steps(1_000_000, 3_000_000))], LOOK, unit="B/s")
    texts = [each.text for each in ElementTree.fromstring(drawn).iter("text")]
    assert "4 MiB" in texts


def test_the_latest_value_of_a_line_that_ended_is_not_known() -> None:
    ended, goes_on = Series("ended", steps(7, 7, 7)), Series("goes on", steps(*[8] * 30))
    tree = ElementTree.fromstring(lines("A", [ended, goes_on], LOOK, unit=""))
    told = ["".join(each.itertext()) for each in tree.iter("li")]
    assert told == ["ended unknown", "goes on 8"]


@pytest.mark.parametrize(
    ("most", "unit", "ticks"),
    [
        (4, "", ["0", "1", "2", "3", "4"]),
        (116, "", ["0", "30", "60", "90", "120"]),
        (100, "", ["0", "25", "50", "75", "100"]),
        (161_000, "ms", ["0", "1 min", "2 min", "3 min", "4 min"]),
        (70_000, "ms", ["0", "30 s", "1 min", "1.5 min", "2 min"]),
        (3.0, "ms", ["0", "1 ms", "2 ms", "3 ms", "4 ms"]),
    ],
)
def test_ticks_are_round_in_what_they_count(most: float, unit: str, ticks: list[str]) -> None:
    tree = ElementTree.fromstring(lines("t", [Series("a", steps(0, most))], LOOK, unit=unit))
    assert [each.text for each in tree.iter("text") if each.get("text-anchor") == "end"][:5] == ticks


def test_the_name_before_a_bar_is_in_the_picture_or_cut() -> None:
    for name in ("Fetch", "DescribeUserScramCredentials", "x" * 249):
        drawn = split("B", [(name, [("queue", 1.0)])], LOOK, unit="ms")
        label = re.search(r'<text class="label" x="(\d+)"[^>]*>([^<]+)<', drawn)
        assert label is not None
        assert int(label[1]) >= 7 * len(label[2]), "some seven pixels a letter, to its left"
        assert label[2] == name or label[2].endswith("…")
