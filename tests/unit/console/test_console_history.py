"""The console's history: what is kept for how long, and how it is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from kavka.console.history import (
    MAX_ISR_CHANGES,
    MAX_SERIES,
    History,
    HistoryStore,
    IsrChange,
    Series,
)
from kavka.model import TopicPartition

HOUR_S = 3_600
START_S = 100_000_000
FIRST = TopicPartition("orders", 0)


def with_store(path: Path, work: Callable[[HistoryStore], Awaitable[None]], *, days: int = 30) -> None:
    async def run() -> None:
        store = HistoryStore(path / "history.sqlite", days=days)
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())


async def values(history: History, since_s: int, until_s: int, *, points: int = 300, of: str = "g") -> list[float]:
    found = await history.series(Series.GROUP_LAG, of, since_ms=since_s * 1000, until_ms=until_s * 1000, points=points)
    return [point.value for point in found]


def add(store: HistoryStore, at_s: float, value: float, *, of: str = "g") -> None:
    store.add("c", Series.GROUP_LAG, of, value, int(at_s * 1000))


def test_what_was_added_is_there_before_it_is_written_and_after_a_restart(tmp_path: Path) -> None:
    async def first(store: HistoryStore) -> None:
        for number in range(30):
            add(store, START_S + number, float(number))
        assert await values(store.of("c"), START_S, START_S + 60) == [4.5, 14.5, 24.5]
        await store.write(START_S)
        assert await values(store.of("c"), START_S, START_S + 60) == [4.5, 14.5, 24.5]

    async def second(store: HistoryStore) -> None:
        assert await values(store.of("c"), START_S, START_S + 60) == [4.5, 14.5, 24.5]
        add(store, START_S + 29, 100.0)  # The bucket that the first one wrote when it stopped goes on.
        (point,) = await store.of("c").series(
            Series.GROUP_LAG, "g", since_ms=(START_S + 20) * 1000, until_ms=(START_S + 29) * 1000
        )
        assert (point.least, point.most) == (20.0, 100.0)

    with_store(tmp_path, first)
    with_store(tmp_path, second)


def test_a_time_without_samples_is_a_gap_not_a_zero(tmp_path: Path) -> None:
    async def work(store: HistoryStore) -> None:
        add(store, START_S, 5.0)
        add(store, START_S + 300, 7.0)
        found = await store.of("c").series(
            Series.GROUP_LAG, "g", since_ms=START_S * 1000, until_ms=(START_S + 600) * 1000
        )
        assert [(point.at_ms // 1000 - START_S, point.value) for point in found] == [(0, 5.0), (300, 7.0)]

    with_store(tmp_path, work)


def test_a_long_time_is_given_back_coarser_with_its_extremes(tmp_path: Path) -> None:
    async def work(store: HistoryStore) -> None:
        for number in range(0, 6 * HOUR_S, 30):
            add(store, START_S + number, 1_000.0 if number == 3_600 else 1.0)
        found = await store.of("c").series(
            Series.GROUP_LAG, "g", since_ms=START_S * 1000, until_ms=(START_S + 6 * HOUR_S) * 1000, points=20
        )
        assert len(found) <= 21
        assert max(point.most for point in found) == 1_000.0
        assert min(point.least for point in found) == 1.0

    with_store(tmp_path, work)


def test_fine_buckets_go_after_an_hour_and_coarse_ones_stay_for_days(tmp_path: Path) -> None:
    async def work(store: HistoryStore) -> None:
        for number in range(0, 3 * HOUR_S, 10):
            add(store, START_S + number, 1.0)
        await store.write(START_S + 3 * HOUR_S)
        history = store.of("c")
        assert await values(history, START_S, START_S + 600) == []
        assert len(await values(history, START_S + 2 * HOUR_S + 600, START_S + 3 * HOUR_S)) > 200
        assert len(await values(history, START_S, START_S + 3 * HOUR_S)) > 100
        await store.write(START_S + 40 * 86_400)
        assert await values(history, START_S, START_S + 40 * 86_400) == [1.0], "only the bucket that is still open"

    with_store(tmp_path, work)


def test_series_of_a_kind_are_bounded_and_those_that_find_no_place_are_counted(tmp_path: Path) -> None:
    async def work(store: HistoryStore) -> None:
        for number in range(MAX_SERIES + 5):
            add(store, START_S, 1.0, of=f"g{number}")
        assert store.dropped == 5
        assert await values(store.of("c"), START_S, START_S + 60, of=f"g{MAX_SERIES}") == []
        store.add("c", Series.HEALTH, "", 100.0, START_S * 1000)
        store.add("other", Series.GROUP_LAG, "g", 1.0, START_S * 1000)
        assert store.dropped == 5

    with_store(tmp_path, work)


def change(at_ms: int, *, partition: TopicPartition = FIRST, in_sync: tuple[int, ...] = (1,)) -> IsrChange:
    return IsrChange(at_ms, partition, (1, 2), 1, 1, (1, 2), in_sync)


def test_isr_changes_are_kept_by_partition_and_time_written_or_not(tmp_path: Path) -> None:
    async def work(store: HistoryStore) -> None:
        other = TopicPartition("orders", 1)
        store.add_isr_changes("c", [change(1_000), change(2_000, partition=other)])
        await store.write(10)
        store.add_isr_changes("c", [change(3_000, in_sync=())])
        history = store.of("c")
        assert [each.at_ms for each in await history.isr_changes(since_ms=0, until_ms=9_000)] == [1_000, 2_000, 3_000]
        assert await history.isr_changes(FIRST, since_ms=0, until_ms=2_500) == [change(1_000)]
        assert [
            each.at_ms for each in await history.isr_changes(topic="orders", since_ms=0, until_ms=9_000, limit=1)
        ] == [3_000]
        assert await store.of("other").isr_changes(since_ms=0, until_ms=9_000) == []

    with_store(tmp_path, work)


def test_isr_changes_are_bounded_the_oldest_go(tmp_path: Path) -> None:
    async def work(store: HistoryStore) -> None:
        for first in range(0, MAX_ISR_CHANGES + 10_000, 10_000):
            store.add_isr_changes("c", [change(START_S * 1000 + first + number) for number in range(10_000)])
            await store.write(START_S)
        await store.write(START_S + 1_000)
        found = await store.of("c").isr_changes(since_ms=0, until_ms=START_S * 2_000, limit=10**6)
        assert len(found) == MAX_ISR_CHANGES
        assert found[-1].at_ms == START_S * 1000 + MAX_ISR_CHANGES + 9_999

    with_store(tmp_path, work)
