"""Micro-batches in a table, Delta and Iceberg: each is there once, whatever came between files and commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kavka_spark.lakehouse import delta_table, lake_sink
from kavka_spark.lakehouse.batch import read_batch
from kavka_spark.lakehouse.errors import BatchRefused, CommitConflict, SchemaRefused, TableRefused
from kavka_spark.lakehouse.handles import OffsetNotHeld, TableHandle
from tests.kit.lake_case import ROWS, TOPIC_ID, Checkpoint, DeltaLake, IcebergLake, Lake, LakeCase

NewCase = Callable[..., LakeCase]


@pytest.fixture(params=[DeltaLake, IcebergLake])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return request.param(tmp_path)


@pytest.fixture
def case(lake: Lake) -> NewCase:
    def made(
        name: str = "checkpoint", *, query: str = "query-1", began: int = 0, topic_id: str = TOPIC_ID, **more: Any
    ) -> LakeCase:
        return LakeCase(Checkpoint(lake.directory / name, query, began=began, topic_id=topic_id), lake, **more)

    return made


def ids_in(lake: Lake) -> list[int]:
    return sorted(row["id"] for row in lake.rows())


def test_batches_add_up_and_each_is_one_commit(case: NewCase, lake: Lake) -> None:
    query = case(partition_by=("country",))
    assert query.run(0, 0, 10)
    assert query.run(1, 10, 25)
    assert ids_in(lake) == list(range(25))
    assert lake.commits() == 2
    assert lake.partitioned_by() == ["country"]


def test_a_driver_that_died_between_files_and_commit_writes_the_batch_again(case: NewCase, lake: Lake) -> None:
    query = case()
    query.run(0, 0, 10)
    query.checkpoint.plan(1, 20)
    query.write(range(10, 20))  # It dies here.
    assert ids_in(lake) == list(range(10))
    assert query.run(1, 10, 20)
    assert ids_in(lake) == list(range(20))


def test_a_driver_that_died_after_the_commit_leaves_the_batch_out_and_its_new_files_too(
    case: NewCase, lake: Lake
) -> None:
    query = case()
    query.run(0, 0, 10)
    before = lake.data_files()
    assert not query.run(0, 0, 10)
    assert ids_in(lake) == list(range(10))
    assert lake.data_files() == before


def test_of_two_drivers_that_commit_the_same_batch_one_does(
    case: NewCase, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one looks before the first one commits, and so has to look again."""
    query = case()
    query.run(0, 0, 10)
    query.checkpoint.plan(1, 20)
    first, second = query.write(range(10, 20)), query.write(range(10, 20))
    kept = lake_sink.next_step
    overtaken = []

    def slowly(*args, **more):
        step = kept(*args, **more)
        if not overtaken:
            overtaken.append(True)
            assert query.commit(1, second)
        return step

    monkeypatch.setattr(lake_sink, "next_step", slowly)
    assert not query.commit(1, first)
    assert ids_in(lake) == list(range(20))
    assert lake.commits() == 2


def test_others_who_are_always_faster_end_the_batch_with_an_error(
    case: NewCase, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = case()
    query.run(0, 0, 10)
    kept = lake_sink.next_step

    def overtaken(*args, **more):
        lake.append({"id": 1000})
        return kept(*args, **more)

    monkeypatch.setattr(lake_sink, "next_step", overtaken)
    monkeypatch.setattr(lake_sink, "MOST_COMMITS", 3)
    with pytest.raises(CommitConflict):
        query.run(1, 10, 20)
    assert ids_in(lake) == [*range(10), 1000, 1000, 1000]


def test_files_that_a_vacuum_took_before_the_commit_are_in_no_table(case: NewCase, lake: Lake) -> None:
    """What is in no commit yet is an orphan to VACUUM: the commit named files that were gone, and nobody could read the
    table again."""
    query = case()
    query.run(0, 0, 10)
    query.checkpoint.plan(1, 20)
    tasks = query.write(range(10, 20))
    lake.remove_orphans()
    with pytest.raises(TableRefused, match=r"of 2 files that this batch wrote for .* are gone .*start the query again"):
        query.commit(1, tasks)
    assert query.run(1, 10, 20)
    assert ids_in(lake) == list(range(20))


def test_a_batch_without_rows_counts(case: NewCase, lake: Lake) -> None:
    query = case()
    query.run(0, 0, 10)
    query.checkpoint.plan(1, 20)
    assert query.commit(1, [])
    assert query.run(2, 20, 30)
    assert ids_in(lake) == [*range(10), *range(20, 30)]


def test_a_new_checkpoint_that_begins_anew_is_refused_and_told_where_to_begin(case: NewCase, lake: Lake) -> None:
    case().run(0, 0, 10)
    with pytest.raises(BatchRefused, match=r'there twice.*startingOffsets=\{"orders":\{"0":10\}\}'):
        case("other", query="query-2").run(0, 0, 12)
    assert ids_in(lake) == list(range(10))


def test_a_new_checkpoint_that_begins_where_the_table_ends_goes_on(case: NewCase, lake: Lake) -> None:
    case().run(0, 0, 10)
    case("other", query="query-2", began=10).run(0, 10, 12)
    assert ids_in(lake) == list(range(12))


def test_a_new_checkpoint_that_does_not_say_where_it_began_is_refused_also_where_the_table_ends(
    case: NewCase, lake: Lake
) -> None:
    """As Spark's own connector leaves it, or kavka.offsets.topic.ids=false: it may have read everything again."""
    case().run(0, 0, 10)
    query = case("other", query="query-2")
    (query.checkpoint.path / "offsets" / "0").write_text('v1\n{}\n{"orders":{"0":10}}')
    with pytest.raises(BatchRefused, match="where it began is not in the checkpoint: its records would be there twice"):
        query.commit(0, query.write(range(10)))
    assert ids_in(lake) == list(range(10))


def test_a_source_without_topics_ids_goes_on_only_where_one_with_them_ended(case: NewCase, lake: Lake) -> None:
    case().run(0, 0, 10)
    anew, next_one = case("anew", query="query-2"), case("next", query="query-3")
    for query in (anew, next_one):
        (query.checkpoint.path / "offsets" / "0").write_text('v1\n{}\n{"orders":{"0":10}}')
        (query.checkpoint.path / "offsets" / "1").write_text('v1\n{}\n{"orders":{"0":15}}')
    with pytest.raises(BatchRefused, match="there twice"):
        anew.commit(0, anew.write(range(10)))
    batch = replace(read_batch(str(next_one.checkpoint.path), 1), number=0)
    assert lake_sink.commit(next_one.write(range(10, 15)), batch, lambda: next_one.prepare(ROWS), "kavka")
    with pytest.raises(BatchRefused, match="orders-0 up to before offset 15"):
        case("old", query="query-4", began=10).run(0, 10, 15)
    assert ids_in(lake) == list(range(15))


def test_once_snapshots_have_expired_the_query_that_came_last_counts(tmp_path: Path) -> None:
    """Not the one with more batches."""
    lake = IcebergLake(tmp_path / "iceberg")
    lake.directory.mkdir()
    first = LakeCase(Checkpoint(tmp_path / "first", "query-1"), lake)
    for number in range(3):
        first.run(number, number * 10, number * 10 + 10)
    second = LakeCase(Checkpoint(tmp_path / "second", "query-2", began=30), lake)
    second.run(0, 30, 40)
    lake.append({"id": 1000})
    lake.expire()
    with pytest.raises(BatchRefused, match=r"there twice.*startingOffsets=\{\"orders\":\{\"0\":40\}\}"):
        LakeCase(Checkpoint(tmp_path / "third", "query-3", began=30), lake).run(0, 30, 40)
    second.run(1, 40, 50)
    assert ids_in(lake) == [*range(50), 1000]


def test_a_location_with_a_percent_sign_is_where_readers_look(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path)
    lake.catalog = (*lake.catalog[:2], ("warehouse", f"file://{tmp_path}/a%20 b"))
    LakeCase(Checkpoint(lake.directory / "checkpoint"), lake).run(0, 0, 10)
    assert ids_in(lake) == list(range(10))


def test_a_gap_is_refused(case: NewCase) -> None:
    case().run(0, 0, 10)
    with pytest.raises(BatchRefused, match="records 10 to 14 would be missing"):
        case("other", query="query-2", began=15).run(0, 15, 20)


def test_a_backfill_is_refused_for_the_table_may_have_these_rows(case: NewCase, lake: Lake) -> None:
    case().run(0, 0, 10)
    query = case("other", query="query-2", began=10)
    query.checkpoint.plan(0, 12, filled_in=(0, 5, 5))
    with pytest.raises(BatchRefused, match=r"fills in earlier records of orders-0.*exactlyOnceId"):
        query.commit(0, query.write(range(12)))
    assert ids_in(lake) == list(range(10))


def fill(query: LakeCase, number: int, end: int, filled_in: tuple[int, int, int], ids: Sequence[int]) -> bool:
    """A batch that ends before `end`, and fills in a range as far as the third number of it."""
    query.checkpoint.plan(number, end, filled_in=filled_in)
    return query.commit(number, query.write(ids))


def test_the_query_that_began_the_table_fills_in_what_was_before_once(case: NewCase, lake: Lake) -> None:
    query = case(began=100)
    query.run(0, 100, 110)
    assert fill(query, 1, 110, (0, 50, 20), range(20))
    assert not fill(query, 1, 110, (0, 50, 20), range(20))
    lake.append({"id": 1000})
    assert fill(query, 2, 115, (0, 50, 50), [*range(20, 50), *range(110, 115)])
    assert ids_in(lake) == [*range(50), *range(100, 115), 1000]
    assert case("other", query="query-2", began=115).run(0, 115, 120)
    with pytest.raises(BatchRefused, match="would be there twice"):
        fill(query, 3, 115, (50, 60, 60), range(50, 60))


def test_a_batch_that_begins_a_table_may_fill_in_too(case: NewCase, lake: Lake) -> None:
    query = case(began=100)
    assert fill(query, 0, 110, (0, 50, 50), [*range(50), *range(100, 110)])
    assert ids_in(lake) == [*range(50), *range(100, 110)]


def test_what_one_query_has_filled_in_no_other_fills_in(case: NewCase, lake: Lake) -> None:
    """Also one that begins at the same place, because the first one found nothing there."""
    first, second = case(began=100), case("other", query="query-2", began=100)
    first.run(0, 100, 100)
    fill(first, 1, 100, (0, 50, 50), range(50))
    with pytest.raises(BatchRefused, match="fills in earlier records of orders-0"):
        fill(second, 0, 100, (0, 50, 50), range(50))
    assert ids_in(lake) == list(range(50))


def test_a_copied_checkpoint_that_fills_in_other_records_is_refused(case: NewCase, lake: Lake) -> None:
    query, copied = case(began=100), case("copied", began=100)
    for each in (query, copied):
        each.checkpoint.plan(0, 110)
    query.run(0, 100, 110)
    fill(query, 1, 110, (0, 50, 20), range(20))
    with pytest.raises(BatchRefused, match=r"other earlier records.*one was copied"):
        fill(copied, 1, 110, (30, 50, 50), range(30, 50))
    assert ids_in(lake) == [*range(20), *range(100, 110)]


def test_a_table_whose_commits_do_not_say_where_its_rows_begin_is_not_filled_in(
    case: NewCase, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version of kavka began it."""
    query = case(began=100)
    with monkeypatch.context() as earlier:
        earlier.setattr(lake_sink, "noted", lambda batch, held: batch)
        query.run(0, 100, 110)
    query.run(1, 110, 120)
    with pytest.raises(BatchRefused, match="fills in earlier records of orders-0"):
        fill(query, 2, 120, (0, 50, 50), range(50))


def test_who_filled_in_is_known_after_snapshots_have_expired(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path / "iceberg")
    lake.directory.mkdir()
    query = LakeCase(Checkpoint(tmp_path / "first", began=100), lake)
    query.run(0, 100, 110)
    fill(query, 1, 110, (0, 50, 20), range(20))
    lake.append({"id": 1000})
    lake.expire()
    assert fill(query, 2, 110, (0, 50, 50), range(20, 50))
    assert ids_in(lake) == [*range(50), *range(100, 110), 1000]


def test_a_filled_in_record_is_found_in_the_version_that_brought_it(case: NewCase, lake: Lake) -> None:
    query = case(began=100)
    query.run(0, 100, 110)
    fill(query, 1, 110, (0, 50, 50), range(50))
    query.run(2, 110, 120)
    handle = TableHandle(query.prepare)
    assert [handle.as_of("orders", 0, offset).number for offset in (105, 17, 112)] == [0, 1, 2]
    with pytest.raises(OffsetNotHeld, match="offset 70 came before"):
        handle.as_of("orders", 0, 70)


def test_another_writer_id_is_another_count(case: NewCase, lake: Lake) -> None:
    case().run(0, 0, 10)
    case("other", query="query-2", writer_id="copies").run(0, 0, 5)
    assert ids_in(lake) == sorted([*range(10), *range(5)])


def test_the_old_query_is_refused_once_another_has_gone_on(case: NewCase, lake: Lake) -> None:
    old = case()
    old.run(0, 0, 10)
    case("other", query="query-2", began=10).run(0, 10, 12)
    with pytest.raises(BatchRefused, match="up to before offset 12"):
        old.run(1, 10, 20)
    assert ids_in(lake) == list(range(12))


def test_a_checkpoint_of_another_table_is_refused(case: NewCase, lake: Lake) -> None:
    query = case()
    query.checkpoint.plan(0, 10)
    with pytest.raises(BatchRefused, match="no batch of this query: the checkpoint wrote to another table"):
        query.run(1, 10, 20)


def test_a_checkpoint_that_was_set_back_is_refused(case: NewCase, lake: Lake) -> None:
    query = case()
    for number in range(3):
        query.run(number, number * 10, number * 10 + 10)
    with pytest.raises(BatchRefused, match="batch 1 of query query-1 comes after batch 2 was committed"):
        query.run(1, 10, 20)


def test_a_copied_checkpoint_is_refused(case: NewCase) -> None:
    query, copy = case(), case("copy")
    query.run(0, 0, 10)
    with pytest.raises(BatchRefused, match="one was copied"):
        copy.run(0, 0, 12)


def test_a_topic_that_was_made_anew_is_refused_to_a_new_query(case: NewCase) -> None:
    case().run(0, 0, 10)
    other = "2f4c7c0e-0000-4000-8000-000000000002"
    with pytest.raises(BatchRefused, match="deleted and made anew"):
        case("other", query="query-2", topic_id=other).run(0, 0, 3)


def test_a_new_column_needs_merge_schema(case: NewCase, lake: Lake) -> None:
    wider = ROWS.append(pa.field("note", pa.string()))
    query = case()
    query.run(0, 0, 10)
    with pytest.raises(SchemaRefused, match=r"has no column 'note' \(string\): set option mergeSchema to true"):
        query.run(1, 10, 20, columns=wider)
    query.checkpoint.plan(1, 10)
    merging = case("again", query="query-2", began=10, merge_schema=True)
    merging.run(0, 10, 20, columns=wider)
    notes = {row["id"]: row["note"] for row in lake.rows()}
    assert notes[0] is None
    assert notes[10] == "note 10"


def test_another_partitioning_is_refused(case: NewCase, lake: Lake) -> None:
    case(partition_by=("country",)).run(0, 0, 10)
    with pytest.raises(TableRefused, match="is partitioned by country, and option 'partitionBy' is 'id'"):
        case("other", query="query-2", began=10, partition_by=("id",)).run(0, 10, 12)


def test_appends_of_others_are_no_obstacle(case: NewCase, lake: Lake) -> None:
    query = case()
    query.run(0, 0, 10)
    lake.append({"id": 1000})
    query.run(1, 10, 20)
    assert ids_in(lake) == [*range(20), 1000]


def test_a_table_that_went_back_to_an_earlier_version_is_refused_and_goes_on_from_there(
    case: NewCase, lake: Lake
) -> None:
    query = case()
    for number in range(3):
        query.run(number, number * 10, number * 10 + 10)
    lake.go_back(1)
    with pytest.raises(BatchRefused, match=r'its batches up to 1 only.*startingOffsets=\{"orders":\{"0":20\}\}'):
        query.run(3, 30, 40)
    case("other", query="query-2", began=20).run(0, 20, 25)
    assert ids_in(lake) == list(range(25))
    with pytest.raises(BatchRefused, match="Nothing was committed"):
        query.run(3, 30, 40)


def test_a_table_that_went_back_took_rows_from_each_of_its_queries(case: NewCase, lake: Lake) -> None:
    """Also from the one that comes after another has gone on."""
    first, second = case(), case("returns", query="query-2")
    first.run(0, 0, 10)
    second.run(0, 100, 105, topic="returns")
    second.run(1, 105, 110, topic="returns")
    first.run(1, 10, 20)
    gone = case("gone", query="query-3")
    gone.run(0, 200, 210, topic="gone")
    lake.go_back(3)
    case("again", query="query-4", began=10).run(0, 10, 20)
    with pytest.raises(BatchRefused, match=r"its batches up to 0 only.*105"):
        second.run(2, 110, 115, topic="returns")
    with pytest.raises(BatchRefused, match="no batch of this query"):
        gone.run(1, 210, 220, topic="gone")
    case("returned", query="query-5", began=105).run(0, 105, 110, topic="returns")
    case("from the start", query="query-6").run(0, 200, 210, topic="gone")
    assert ids_in(lake) == [*range(20), *range(100, 110), *range(200, 210)]


def test_a_table_that_went_back_long_ago_is_still_refused(
    case: NewCase, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_table, "LOOKED_BACK", 2)
    query = case()
    query.run(0, 0, 10)
    query.run(1, 10, 20)
    lake.go_back(1)
    for number in range(3):
        lake.append({"id": 1000 + number})
    with pytest.raises(BatchRefused, match="its batches up to 0 only"):
        query.run(2, 20, 30)


def test_queries_of_several_topics_share_a_table_and_each_topics_id_counts(case: NewCase, lake: Lake) -> None:
    case().run(0, 0, 10)
    returns = case("returns", query="query-2")
    returns.run(0, 100, 105, topic="returns")
    returns.run(1, 105, 110, topic="returns")
    other = "2f4c7c0e-0000-4000-8000-000000000002"
    with pytest.raises(BatchRefused, match="topic orders that had the id"):
        case("other", query="query-3", topic_id=other).run(0, 0, 3)
    lake.go_back(1)
    with pytest.raises(BatchRefused, match="orders-0 up to before offset 10"):
        case("again", query="query-4").run(0, 0, 3)
    assert ids_in(lake) == [*range(10), *range(100, 105)]


def test_a_table_that_was_replaced_while_a_batch_was_written_is_refused(case: NewCase, lake: Lake) -> None:
    query = case()
    query.checkpoint.plan(0, 10)
    tasks = query.write(range(10))
    lake.replace()
    with pytest.raises(TableRefused, match=r"replaced by another table.*start the query again"):
        query.commit(0, tasks)
