"""Pages are well-formed, need nothing from elsewhere, and escape what they show."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from kavka.studies import plots


def drawings(html: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]


def test_a_page_is_self_contained_and_its_drawings_are_well_formed() -> None:
    curve = plots.Curve("a < b & c", [(0.0, 0.0), (1.0, 5_000.0)])
    bands = [plots.Band(0.2, 0.4), plots.Band(0.5, 0.9, "out <3>", 1)]
    html = plots.page(
        "T & <t>",
        [
            plots.heading("<h>"),
            plots.table(["a", "<b>"], [["1", "&"]]),
            plots.lines("l", [curve], x_unit="s", y_unit="r", bands=bands, limit=(4_000.0, "<limit>")),
            plots.bars("b", ["g<"], [("s&", [3.0]), ("n", [None])]),
        ],
    )
    assert not re.search(r"https?://|<script|<link|@import|url\(", html)
    assert "<h>" not in html
    assert "<limit>" not in html
    lines, bars = drawings(html)
    assert len(lines.findall(".//polyline")) == 1
    assert "✗ never" in "".join(bars.itertext())


def test_nothing_is_drawn_outside_of_the_drawing() -> None:
    curve = plots.Curve("c", [(10.0, 3.0), (20.0, 17.0)])
    (drawing,) = drawings(plots.lines("l", [curve], x_unit="s", y_unit="r", bands=[plots.Band(-5.0, 99.0)]))
    polyline = drawing.find("polyline")
    assert polyline is not None
    for pair in polyline.attrib["points"].split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= plots.WIDTH
        assert 0 <= y <= float(drawing.attrib["height"])
    for rectangle in drawing.findall("rect"):
        assert 0 <= float(rectangle.attrib["x"]) <= plots.WIDTH
        assert float(rectangle.attrib["x"]) + float(rectangle.attrib["width"]) <= plots.WIDTH


def test_values_of_zero_and_no_points_are_drawn_too() -> None:
    assert drawings(plots.bars("b", ["g"], [("s", [0.0])]))
    assert drawings(plots.lines("l", [plots.Curve("c", [])], x_unit="s", y_unit="r"))
