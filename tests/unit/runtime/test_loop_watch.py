"""LoopWatch: a loop that stands still is seen, for how long and in what."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from time import perf_counter_ns

import pytest

from kavka.metrics import Registry, render_prometheus
from kavka.runtime import loop_watch
from kavka.runtime.loop_watch import GarbageWatch, LoopWatch, Stall, cause_of

MS = 1_000_000


def watched(scenario: Callable[[LoopWatch], None]) -> LoopWatch:
    """A watch of a loop in which `scenario` runs as one callback."""

    async def work() -> LoopWatch:
        watch = LoopWatch(asyncio.get_running_loop(), interval_s=0.01, long_s=0.05)
        watch.start()
        try:
            await asyncio.sleep(0.1)
            watch.stalls.clear()  # A busy machine may have made one.
            watch.by_cause.clear()
            scenario(watch)
            async with asyncio.timeout(60):
                while not watch.stalls:  # noqa: ASYNC110 - the watch has no event for tests
                    await asyncio.sleep(0.01)
        finally:
            watch.stop()
        return watch

    return asyncio.run(work())


def block(seconds: float) -> None:
    """What a function of a module of kavka's does."""
    scope: dict[str, Callable[[float], None]] = {"__name__": "kavka.log.slow", "sleep": time.sleep}  # type: ignore[dict-item]
    exec("def append(seconds):\n    sleep(seconds)\n", scope)
    scope["append"](seconds)


def test_a_stall_is_seen_with_its_length_and_its_cause() -> None:
    during: list[tuple[int, str]] = []

    def scenario(watch: LoopWatch) -> None:
        began = perf_counter_ns()
        block(0.4)
        during.append(watch.stalled(began))

    longest = watched(scenario).longest()
    assert longest is not None
    assert longest.ended_ns - longest.began_ns > 300 * MS
    assert longest.cause == "kavka.log.slow.append"
    ((took_ns, cause),) = during  # While it still lasted.
    assert took_ns > 300 * MS
    assert cause == "kavka.log.slow.append"


def test_stalls_are_counted_by_cause_and_the_longest_of_a_minute_is_shown() -> None:
    registry = Registry()
    watched(lambda _watch: block(0.2)).register(registry)
    text = render_prometheus(registry)
    assert 'longturns_total{cause="kavka.log.slow.append"}' in text
    assert 'longestturnms{cause="kavka.log.slow.append"}' in text


def test_only_what_overlaps_counts() -> None:
    async def scenario() -> None:
        watch = LoopWatch(asyncio.get_running_loop())
        assert watch.longest() is None
        now = perf_counter_ns()
        watch.stalls.append(Stall(now - 900 * MS, now - 600 * MS, "a"))
        watch.stalls.append(Stall(now - 300 * MS, now - 100 * MS, "b"))
        assert watch.stalled(now - 2_000 * MS) == (500 * MS, "a")
        assert watch.stalled(now - 700 * MS) == (300 * MS, "b")
        assert watch.stalled(now - 50 * MS) == (0, "")

    asyncio.run(scenario())


def test_causes_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "MAX_CAUSES", 0)
    assert list(watched(lambda _watch: block(0.2)).by_cause) == ["others"]


def test_a_stack_without_kavka_has_its_innermost_function_for_a_cause() -> None:
    assert cause_of(sys._getframe()).endswith("test_a_stack_without_kavka_has_its_innermost_function_for_a_cause")


def test_the_thread_ends_with_the_watch_and_with_the_loop() -> None:
    watch = watched(lambda _watch: block(0.1))
    watch._thread.join(60)
    assert not watch._thread.is_alive()

    async def unstopped() -> LoopWatch:
        left = LoopWatch(asyncio.get_running_loop(), interval_s=0.01)
        left.start()
        return left

    left = asyncio.run(unstopped())
    left._thread.join(60)
    assert not left._thread.is_alive()


def test_collections_are_timed_by_generation() -> None:
    watch = GarbageWatch()
    try:
        before = watch.pauses[2].count
        gc.collect()
        assert watch.pauses[2].count == before + 1
    finally:
        watch.close()
    gc.collect()
    assert watch.pauses[2].count == before + 1
