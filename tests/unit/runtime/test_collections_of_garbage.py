"""When a process looks for garbage among all that it keeps: seldom, and in a quiet moment."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from kavka.runtime import garbage
from kavka.runtime.garbage import LOOK_S, MIDDLE, NEVER, NEW_OBJECTS, PATIENCE_S, YOUNG, FullCollections
from kavka.runtime.process import End, run


class Ends:
    """A service that ends as soon as it has started; tells when garbage is collected meanwhile."""

    def __init__(self, end: End) -> None:
        self._end = end

    async def start(self) -> tuple[int, int, int]:
        self._end(0)
        return gc.get_threshold()

    async def stop(self) -> None:
        pass

    def reload(self) -> None:
        pass


class Loop:
    """A loop whose time the test moves; `used_s` is the processor time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used_s = 0.0
        self._soon: list[Callable[[], object]] = []
        self._later: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object:
        self._later.append((self.now + delay, callback))
        return None

    def call_soon_threadsafe(self, callback: Callable[[], object], /) -> object:
        self._soon.append(callback)
        return None

    def pass_by(self, *, busy: float) -> None:
        """LOOK_S goes by, in which the process uses this part of a processor."""
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()
        self.now += LOOK_S
        self.used_s += LOOK_S * busy
        due = [callback for at, callback in self._later if at <= self.now]
        self._later = [(at, callback) for at, callback in self._later if at > self.now]
        for callback in due:
            callback()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    """Of a process whose full collections are seldom ones; here few new objects make one due."""
    monkeypatch.setattr(garbage, "NEW_OBJECTS", 200)
    monkeypatch.setattr(garbage, "YOUNG", 2)
    monkeypatch.setattr(garbage, "MIDDLE", 3)
    gc.collect()
    loop = Loop()
    collections = FullCollections(loop, cpu_s=lambda: loop.used_s)
    collections.start()
    yield loop
    collections.stop()
    assert gc.get_threshold() == (200, 2, 3), "the interpreter decides again"


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


def burst() -> list[list[int]]:
    """Objects that stay, more than make a full collection due."""
    return [[number] for number in range(200 * 3 * 8)]


def test_a_start_makes_many_objects_and_is_not_stopped_to_look_for_garbage_among_them() -> None:
    seen: list[tuple[int, int, int]] = []
    assert run(Ends, seen.append) == 0
    assert seen == [(NEW_OBJECTS, YOUNG, NEVER)]
    assert gc.get_threshold() == (NEW_OBJECTS, YOUNG, MIDDLE)


def test_a_full_collection_waits_until_the_process_is_quiet(loop: Loop) -> None:
    before = full_collections()
    kept = burst()
    for _ in range(5):
        loop.pass_by(busy=0.9)
    assert full_collections() == before, "the process has other things to do"
    loop.pass_by(busy=0.01)
    assert full_collections() == before + 1
    assert len(kept) > 0
    loop.pass_by(busy=0.01)
    assert full_collections() == before + 1, "nothing new has come"


def test_a_process_that_is_never_quiet_collects_after_a_while_all_the_same(loop: Loop) -> None:
    before = full_collections()
    kept = burst()
    for _ in range(round(PATIENCE_S / LOOK_S) - 1):
        loop.pass_by(busy=1.0)
    assert full_collections() == before
    loop.pass_by(busy=1.0)
    assert full_collections() == before + 1
    assert len(kept) > 0


def test_very_many_objects_do_not_wait(loop: Loop) -> None:
    before = full_collections()
    kept = [burst() for _ in range(10)]
    loop.pass_by(busy=1.0)
    assert full_collections() == before + 1
    assert len(kept) > 0


def test_after_one_full_collection_the_next_burst_leads_to_another(loop: Loop) -> None:
    before = full_collections()
    kept = [burst()]
    loop.pass_by(busy=0.0)
    kept.append(burst())
    loop.pass_by(busy=0.0)
    assert full_collections() == before + 2
    assert len(kept) == 2


def test_few_objects_make_none_due(loop: Loop) -> None:
    before = full_collections()
    for _ in range(10):
        loop.pass_by(busy=0.0)
    assert full_collections() == before
