"""What an expectation may say, which plans have a quarantine that is exact, and what Spark's reports come to."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.connect.proto import relations_pb2 as relations

from kavka.errors import ConfigError
from kavka_spark.expectations import OBSERVED, counts_of, expect, parse_column, refuse_inexact
from kavka_spark.pipelines.progress import CheckedBatch, Figures
from kavka_spark.stream_plans import Step, nodes


class _Plan:
    """What Spark Connect sends of a frame."""

    def __init__(self, message: relations.Relation) -> None:
        self.message = message

    def plan(self, client: object) -> relations.Relation:
        return self.message


class _Frame:
    """A frame of Spark Connect's, of which only the plan counts."""

    def __init__(self, message: relations.Relation) -> None:
        self._plan = _Plan(message)
        self._session = type("Session", (), {"client": None})()


def _read(*, is_streaming: bool = True, **options: str) -> relations.Relation:
    source = relations.Read.DataSource(format="kavka", options=options)
    return relations.Relation(read=relations.Read(data_source=source, is_streaming=is_streaming))


def _check(message: relations.Relation, *, with_quarantine: bool = True) -> None:
    refuse_inexact("orders", list(nodes(cast(DataFrame, _Frame(message)))), with_quarantine=with_quarantine)


EARLIEST = _read(subscribe="a", startingOffsets="earliest")


def test_a_plan_is_seen_with_its_sources_and_their_options() -> None:
    plan = relations.Relation(filter=relations.Filter(input=EARLIEST))
    steps = list(nodes(cast(DataFrame, _Frame(plan))))
    assert Step("Filter") in steps
    assert Step("Read", True, "kavka", {"subscribe": "a", "startingoffsets": "earliest"}) in steps


@pytest.mark.parametrize(
    "options",
    [{"startingOffsets": "earliest"}, {"startingOffsets": '{"a":{"0":17}}'}, {"startingTimestamp": "1700000000000"}],
)
def test_a_quarantine_needs_a_source_that_begins_at_a_fixed_place(options: dict[str, str]) -> None:
    _check(_read(subscribe="a", **options))


@pytest.mark.parametrize("options", [{}, {"startingOffsets": "latest"}, {"startingOffsets": '{"a":{"0":-1}}'}])
def test_a_source_that_begins_at_the_end_would_lose_what_comes_between_two_starts(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="begins where its topic ends"):
        _check(_read(subscribe="a", **options))
    _check(_read(subscribe="a", **options), with_quarantine=False)


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (relations.Relation(with_watermark=relations.WithWatermark(input=EARLIEST)), "WithWatermark"),
        (relations.Relation(deduplicate=relations.Deduplicate(input=EARLIEST)), "Deduplicate"),
        (relations.Relation(aggregate=relations.Aggregate(input=EARLIEST)), "Aggregate"),
        (relations.Relation(group_map=relations.GroupMap(input=EARLIEST)), "GroupMap"),
    ],
)
def test_steps_that_depend_on_micro_batches_have_no_exact_quarantine(step: relations.Relation, name: str) -> None:
    with pytest.raises(ConfigError, match=f"has a step {name}, whose outcome"):
        _check(step)


def test_a_join_of_two_streams_has_no_exact_quarantine_and_one_with_a_table_has() -> None:
    with pytest.raises(ConfigError, match="joins streams"):
        _check(relations.Relation(join=relations.Join(left=EARLIEST, right=EARLIEST)))
    _check(relations.Relation(join=relations.Join(left=EARLIEST, right=_read(is_streaming=False))))


def test_a_view_that_is_computed_anew_has_no_expectations() -> None:
    with pytest.raises(ConfigError, match="is no stream"):
        _check(_read(is_streaming=False), with_quarantine=False)


def test_sql_has_expectations_and_no_quarantine() -> None:
    text = relations.Relation(sql=relations.SQL(query="SELECT * FROM STREAM a"))
    _check(text, with_quarantine=False)
    with pytest.raises(ConfigError, match="is made of SQL"):
        _check(text)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "without an expectation"),
        ({"drop": {"a": "x > 1"}, "into": "t"}, "without quarantine"),
        ({"drop": {"a": "x > 1"}, "warn": {"a": "x > 2"}}, "two expectations are called 'a'"),
        ({"quarantine": {"a": "at < now()"}}, "'a' uses now"),
        ({"quarantine": {"a": "at < unix_timestamp( )"}}, "'a' uses unix_timestamp"),
        ({"quarantine": {"a": "reflect('java.util.UUID', 'randomUUID') < x"}}, "'a' uses reflect"),
        ({"quarantine": {"a": "x"}, "fail": {"b": "at < current_timestamp"}}, "'b' uses current_timestamp"),
        ({"warn": {str(number): "x" for number in range(201)}}, "at most 200"),
    ],
)
def test_what_cannot_be_kept_is_refused_where_it_is_written(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        expect(**wrong)


def test_a_column_or_a_text_may_be_called_as_a_function_of_the_moment() -> None:
    expect(quarantine={"a": "now > 3 AND what <> 'rand() now()'"})
    expect(quarantine={"a": "unix_timestamp(text) > 3"})
    expect(warn={"recent": "at > now() - INTERVAL 1 DAY"})


def _progress(batch: int, **counts: int) -> dict[str, object]:
    return {"batchId": batch, "durationMs": {"addBatch": 1}, "observedMetrics": {OBSERVED: {"rows": 10, **counts}}}


def test_counts_add_up_and_each_micro_batch_with_broken_ones_is_told_once() -> None:
    figures = Figures("orders")
    figures.add_batch(_progress(0, **{"drop: has an id": 0, "warn: b": 0}))
    figures.add_batch(_progress(1, **{"drop: has an id": 3, "warn: b": 0}))
    figures.add_batch(_progress(1, **{"drop: has an id": 3, "warn: b": 0}))
    assert figures.checked == 20
    assert figures.take_checked() == [CheckedBatch(1, 10, {"drop: has an id": 3})]
    assert figures.take_checked() == []
    assert figures.as_json()["expectations"] == [
        {"expectation": "has an id", "otherwise": "drop", "broken": 3},
        {"expectation": "b", "otherwise": "warn", "broken": 0},
    ]


def test_counts_of_a_micro_batch_without_rows_are_none() -> None:
    assert counts_of({"observedMetrics": {OBSERVED: {"rows": 0, "drop: a": None}}}) == (0, {"drop: a": 0})
    assert counts_of({"batchId": 3}) is None
    assert parse_column("drop: a: b") == ("drop", "a: b")
    assert parse_column("rows") is None


def test_expectations_above_what_defines_the_table_are_refused() -> None:
    """It is defined already then, and none of them counted: the run was well, and every row in the table."""
    with pytest.raises(ConfigError, match=r"@expect stands above @dp\.table .*: write it below"):
        expect(drop={"a": "x > 1"})(None)  # type: ignore[arg-type]  # what pyspark's decorators return
