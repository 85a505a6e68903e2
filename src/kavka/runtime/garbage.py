"""FullCollections: when a process looks for garbage among all that it keeps. It does in a quiet moment.

The interpreter looks through new objects often, and through all objects after a burst of new ones, in the middle of it.
A broker that becomes the controller of a hundred thousand partitions reads their states: a burst of objects that stay.
It looked through all of them several times while the cluster waited for leaders.

So new objects are looked through as before, and all objects by themselves never. Once a million new ones have stayed,
this waits until the process has little to do, but neither longer than PATIENCE_S nor for more than AT_MOST times as
many. The interpreter looks at all after a tenth of a million, if those are a quarter of all.

A cycle that lives shortly is found by the looks at new objects. So what waits is what lived long, and it is limited in
number, not in size: what holds much memory must not be part of a cycle.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final, Literal, Protocol

NEW_OBJECTS: Final = 5_000
"""After so many the newest are looked through. What a process makes in large numbers it keeps: partitions, states,
assignments. With the interpreter's 700 a broker looked at all of them nine times while 10,000 partitions were made: a
third of the processor time. Requests leave no cycles: while 6,000 records were written one at a time nothing was
collected."""
YOUNG: Final = 10
"""After so many such looks those that stayed meanwhile are looked through, too."""
MIDDLE: Final = 20
"""After so many of these a full collection is due: 1,000,000 objects that stayed."""
AT_MOST: Final = 5
"""After so many times as many it waits no longer: five million objects, what they hold besides is not counted. Closed
connections, of TLS too, requests, groups, transactions and deleted logs leave no cycles: a collection after some dozens
of each found nothing."""
NEVER: Final = 1 << 30
LOOK_S: Final = 0.5
"""Over so long it is measured how busy the process is."""
QUIET: Final = 0.2
"""Of a processor: a process that uses less has little to do."""
PATIENCE_S: Final = 30.0
"""A full collection that is due waits so long at the most for a quiet moment."""


class Clock(Protocol):
    """The part of an event loop that is used."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object: ...

    def call_soon_threadsafe(self, callback: Callable[[], object], /) -> object: ...


class FullCollections:
    """One for the process, from `start` to `stop`. `cpu_s` is the processor time that the process has used."""

    def __init__(self, loop: Clock, *, cpu_s: Callable[[], float] = time.process_time) -> None:
        self._loop = loop
        self._cpu_s = cpu_s
        self._is_due = False
        self._waits_since = 0.0
        self._looked_at = 0.0
        self._used_s = 0.0
        self._has_ended = False

    def start(self) -> None:
        gc.set_threshold(NEW_OBJECTS, YOUNG, NEVER)
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """The interpreter decides again; a look that is to come does nothing."""
        self._has_ended = True
        gc.callbacks.remove(self._on_collection)
        gc.set_threshold(NEW_OBJECTS, YOUNG, MIDDLE)

    def _on_collection(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        """On any thread, and anywhere in the code."""
        if phase == "stop" and not self._is_due and info["generation"] == 1 and gc.get_count()[2] >= MIDDLE:
            self._is_due = True
            self._loop.call_soon_threadsafe(self._wait)

    def _wait(self) -> None:
        self._waits_since = self._loop.time()
        self._measure()

    def _measure(self) -> None:
        self._looked_at, self._used_s = self._loop.time(), self._cpu_s()
        self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        if self._has_ended:
            return
        now = self._loop.time()
        is_quiet = self._cpu_s() - self._used_s <= QUIET * (now - self._looked_at)
        if is_quiet or now - self._waits_since >= PATIENCE_S or gc.get_count()[2] >= AT_MOST * MIDDLE:
            gc.collect()
            self._is_due = False
        else:
            self._measure()


def keep_all() -> None:
    """What is there now lives as long as the process: later collections need not look at it."""
    gc.collect()
    gc.freeze()
