"""What growth costs: exponents, and how it is kept and shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.growth_results import FIGURES, NAMES, Axis, Point, exponent, keep, read, section, table


@pytest.mark.parametrize(
    ("points", "slope"),
    [
        ([(1, 5.0), (10, 5.0), (100, 5.0)], 0.0),
        ([(10, 1.0), (1_000, 100.0)], 1.0),
        ([(10, 8.0), (100, 0.8)], -1.0),
        ([(10, 2.0), (100, 20.0), (1_000, 20.0)], 0.5),
        (
            [(10, 0.0), (100, -3.0), (1_000, 2.0), (10_000, 2.0)],
            0.0,
        ),  # a figure below what can be measured says nothing
    ],
)
def test_an_exponent_is_the_slope_of_the_logarithms(points: list[tuple[int, float]], slope: float) -> None:
    assert exponent(points) == pytest.approx(slope)


@pytest.mark.parametrize("points", [[], [(10, 1.0)], [(10, 1.0), (10, 2.0)], [(10, 0.0), (100, 1.0)]])
def test_there_is_no_exponent_of_less_than_two_sizes(points: list[tuple[int, float]]) -> None:
    assert exponent(points) is None


def test_an_axis_that_is_measured_again_replaces_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "growth.json"
    keep(path, "groups", Axis([Point(10, {"cpu_us_to_come": 5.0})], "one machine"))
    keep(path, "batch", Axis([Point(1, {"cpu_us": 30.0}), Point(10, {"cpu_us": 3.0})], "one machine"))
    keep(path, "groups", Axis([Point(10, {"cpu_us_to_come": 7.0})], "another machine"))

    kept = read(path)
    assert list(kept) == ["groups", "batch"]
    assert kept["groups"] == Axis([Point(10, {"cpu_us_to_come": 7.0})], "another machine")
    shown = "\n".join(section(path))
    assert "| records of 100 bytes in one batch | 1 | 10 | exponent |" in shown
    assert "| CPU for each, us | 30 | 3 | -1.00 |" in shown
    assert "another machine." in shown


def test_a_figure_that_one_size_lacks_leaves_its_cell_empty() -> None:
    axis = Axis([Point(1, {"cpu_us": 1234.5}), Point(10, {"cpu_us": 1.5, "batch_us": 15.0})], "a machine")
    assert list(table("batch", axis))[2:] == [
        "| CPU for each, us | 1,234 | 1.5 | -2.92 |",
        "| CPU of the whole batch, us |  | 15 |  |",
    ]


def test_what_is_measured_has_names() -> None:
    from benchmarks.growth import AXES

    assert AXES.keys() == NAMES.keys()
    assert all(list(axis.sizes) == sorted(axis.sizes) for axis in AXES.values())
    assert all(name.endswith(("_us", "_kb", "_percent")) or name == "cpu_us_to_come" for name in FIGURES)
