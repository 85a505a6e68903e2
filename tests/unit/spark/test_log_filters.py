"""Filters choose segment files by their names, and leave out none that may hold a row."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    Not,
    StringStartsWith,
)

from kavka_spark.log_filters import LogFilters
from kavka_spark.log_segments import find_segments

TOPIC, PARTITION, OFFSET, FILE = ("topic",), ("partition",), ("offset",), ("file",)
ALL = ["orders-0/0", "orders-0/100", "orders-0/200", "orders-1/0", "orders-1/150", "pay-0/0"]


def segment(directory: Path, name: str) -> str:
    partition, _, offset = name.partition("/")
    path = directory / partition / f"{int(offset):020d}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return str(path)


def opened(paths: list[Path], *conditions: Filter) -> list[str]:
    filters = LogFilters()
    for condition in conditions:
        filters.heed(condition)
    wanted = filters.wanted(find_segments([str(path) for path in paths], ()))
    return [f"{Path(piece.path).parent.name}/{piece.base_offset}" for piece in wanted]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name in ALL:
        segment(tmp_path, name)
    return tmp_path


@pytest.mark.parametrize(
    ("conditions", "wanted"),
    [
        ((), ALL),
        ((EqualTo(TOPIC, "pay"),), ["pay-0/0"]),
        ((In(TOPIC, ("pay", "none")),), ["pay-0/0"]),
        ((EqualTo(TOPIC, "pay"), EqualTo(TOPIC, "orders")), []),
        ((StringStartsWith(TOPIC, "or"), EqualTo(PARTITION, 1)), ["orders-1/0", "orders-1/150"]),
        ((LessThan(OFFSET, 100), EqualTo(TOPIC, "orders")), ["orders-0/0", "orders-1/0"]),
        ((GreaterThanOrEqual(OFFSET, 100), LessThan(OFFSET, 101)), ["orders-0/100", "orders-1/0", "pay-0/0"]),
        ((GreaterThan(OFFSET, 10_000),), ["orders-0/200", "orders-1/150", "pay-0/0"]),
        ((EqualTo(OFFSET, 99), EqualTo(PARTITION, 0)), ["orders-0/0", "pay-0/0"]),
        ((Not(EqualTo(TOPIC, "pay")), EqualTo(("key",), "k")), ALL),
    ],
)
def test_only_files_that_may_hold_rows_are_opened(
    logs: Path, conditions: tuple[Filter, ...], wanted: list[str]
) -> None:
    assert opened([logs], *conditions) == wanted


def test_a_file_is_chosen_by_its_path(logs: Path) -> None:
    assert opened([logs], EqualTo(FILE, segment(logs, "orders-1/150"))) == ["orders-1/150"]


def test_a_replica_elsewhere_says_nothing_of_where_a_segment_ends(tmp_path: Path) -> None:
    """The first log ends nobody knows where, and the second begins at 500: offset 600 may be in both."""
    segment(tmp_path / "a", "orders-0/100")
    segment(tmp_path / "b", "orders-0/500")
    assert opened([tmp_path / "a", tmp_path / "b"], EqualTo(OFFSET, 600)) == ["orders-0/100", "orders-0/500"]
