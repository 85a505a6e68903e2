"""A process collects garbage seldom: what it makes in large numbers it keeps."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kavka.runtime.process import COLLECTIONS, End, run


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


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_a_start_makes_many_objects_and_is_not_stopped_to_look_for_garbage_among_them() -> None:
    seen: list[tuple[int, int, int]] = []
    assert run(Ends, seen.append) == 0
    assert seen == [COLLECTIONS]
