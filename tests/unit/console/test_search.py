"""A search for messages, newest first: it goes on where it stopped, and leaves out and repeats nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

pytest.importorskip("starlette")

from kavka.client.cluster import Cluster
from kavka.client.settings import ClientSettings
from kavka.console.messages import search
from kavka.console.messages.search import Filters, Found, Messages, Query, Start
from kavka.model import TopicPartition
from kavka.records.builder import BatchBuilder
from tests.unit.client.fake_cluster import FakeCluster

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=5)


def topic(*partitions: Sequence[tuple[int, bytes]]) -> FakeCluster:
    """`t`, whose partitions have these records: (time in ms, value)."""
    fake = FakeCluster()
    for log, records in zip(fake.add_topic("t", len(partitions)), partitions, strict=True):
        for at_ms, value in records:
            builder = BatchBuilder()
            builder.append(at_ms, None, value)
            log.append(builder.build())
    return fake


def pages(fake: FakeCluster, query: Query, *, most: int = 100) -> list[Found]:
    """What is found, page by page, until it is over."""

    async def run() -> list[Found]:
        async with Cluster(fake, [("fake", 9001)], SETTINGS, random=Random(1)) as cluster:
            messages, found = Messages(cluster), list[Found]()
            while len(found) < most and (not found or found[-1].resume):
                found.append(await messages.search(query._replace(resume=found[-1].resume if found else {}), "ada"))
            return found

    return asyncio.run(asyncio.wait_for(run(), 60))


def seen(found: Sequence[Found]) -> list[tuple[int, int]]:
    return [(message.partition, message.offset) for page in found for message in page.messages]


def test_every_record_comes_once_the_newest_first() -> None:
    fake = topic(*[[(1_000 * number + part, b"v") for number in range(150)] for part in range(3)])
    found = pages(fake, Query("t", None, limit=40))
    expected = [(part, number) for number in reversed(range(150)) for part in (2, 1, 0)]
    assert seen(found) == expected
    assert [page.stopped for page in found] == ["limit"] * (len(found) - 1) + ["end"]


def test_times_that_do_not_follow_the_offsets_leave_nothing_out_and_repeat_nothing() -> None:
    times = Random(7)
    fake = topic(*[[(times.randrange(1_000_000), b"v") for _ in range(120)] for _ in range(4)])
    found = pages(fake, Query("t", None, limit=7))
    assert sorted(seen(found)) == [(part, number) for part in range(4) for number in range(120)]
    assert all(page.messages for page in found)


def test_a_search_that_its_bound_stopped_goes_on_and_finds_what_is_far_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SCAN_RECORDS", 100)
    fake = topic([(number, b"needle" if number == 3 else b"hay") for number in range(500)])
    found = pages(fake, Query("t", None, filters=Filters(value="needle")))
    assert found[0].stopped == "records"
    assert found[0].messages == []
    assert seen(found) == [(0, 3)]
    assert not found[-1].resume
    covered = [(page.ranges[0].looked_from, page.ranges[0].looked_to) for page in found]
    assert covered[0][1] == 500
    assert all(lower == upper for (lower, _), (_, upper) in pairwise(covered))


def test_records_too_large_for_one_window_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SCAN_BYTES", 8 * 1024)
    fake = topic([(number, bytes(3_000)) for number in range(30)])
    found = pages(fake, Query("t", None, limit=50))
    assert seen(found) == [(0, number) for number in reversed(range(30))]


def test_a_search_with_bounds_shows_the_same_records_whatever_is_written_meanwhile() -> None:
    """Those of an address that somebody passes on: from where the first began to where it had come."""

    async def run() -> None:
        fake = topic(*[[(1_000 * number + part, b"v") for number in range(30)] for part in range(2)])
        async with Cluster(fake, [("fake", 9001)], SETTINGS, random=Random(1)) as cluster:
            messages = Messages(cluster)
            for query in (
                Query("t", None, limit=25),
                Query("t", None, Start.OLDEST, limit=25),
                Query("t", None, Start.OFFSET, 20, limit=50),
            ):
                first = await messages.search(query, "ada")
                begin = {number: looked.looked_from for number, looked in first.ranges.items()}
                end = {number: looked.looked_to for number, looked in first.ranges.items()}
                is_newest = query.start is Start.NEWEST
                pinned = query._replace(resume=end if is_newest else begin, upto={} if is_newest else end)
                for log in (fake.log(TopicPartition("t", part)) for part in range(2)):
                    builder = BatchBuilder()
                    builder.append(99_999, None, b"new")
                    log.append(builder.build())
                again = await messages.search(pinned, "eve")
                assert seen([again]) == seen([first])
                assert again.messages

    asyncio.run(asyncio.wait_for(run(), 60))


def test_records_at_places_come_as_they_were_asked_for_and_what_is_not_there_is_named() -> None:
    async def run() -> None:
        fake = topic([(number, b"v%d" % number) for number in range(1_200)], [(1, b"other")])
        async with Cluster(fake, [("fake", 9001)], SETTINGS, random=Random(1)) as cluster:
            messages = Messages(cluster)
            found = await messages.chosen("t", [(0, 1_100), (1, 0), (0, 3)], "ada", mask=None)
            assert [each.record.value for each in found] == [b"v1100", b"other", b"v3"]
            for place, told in (((0, 1_200), "t-0 @ 1200"), ((7, 0), "t-7 @ 0")):
                with pytest.raises(LookupError, match=told):
                    await messages.chosen("t", [(0, 3), place], "ada", mask=None)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_more_bytes_than_may_be_copied_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        fake = topic([(number, b"v" * 100) for number in range(10)])
        async with Cluster(fake, [("fake", 9001)], SETTINGS, random=Random(1)) as cluster:
            await Messages(cluster).chosen("t", [(0, number) for number in range(4)], "ada", mask=None)
            with pytest.raises(OverflowError, match="choose fewer"):
                await Messages(cluster).chosen("t", [(0, number) for number in range(5)], "ada", mask=None)

    monkeypatch.setattr(search, "CHOSEN_BYTES", 400)
    asyncio.run(asyncio.wait_for(run(), 60))
