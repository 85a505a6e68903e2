"""LoopWatch: how long the event loop stands still, and in what.

Everything that a broker decides it decides in one loop: a callback that takes long makes all clients, followers and
heartbeats wait. A thread asks the loop for a sign of life ten times a second. If none comes within LONG_S, it looks at
what the loop's thread does at that moment: the innermost functions of kavka's own on its stack are the cause.

    asked ─ answered at once ─────────────────────────────── wait INTERVAL_S, ask again
          └ not within LONG_S ─ look at the stack ─ answered ─ a Stall, from the question to the answer

    I1  the loop pays one short callback for each question, and nothing for its callbacks
    I2  a stall is never longer than it was: it begins with the question, which came after it had begun. One that falls
        between two questions, and so is shorter than INTERVAL_S, may not be seen
    I3  names of causes have a bound (MAX_CAUSES); further ones are counted together

Garbage collections are timed by the interpreter's own hook, those of the whole process.

Source: none. asyncio's debug mode times each callback, which costs every one of them; uvloop has no such mode.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from types import FrameType
from typing import Final, NamedTuple

from kavka.metrics import Histogram, Member, Registry

INTERVAL_S: Final = 0.1
LONG_S: Final = 0.1
REMEMBERED: Final = 200
"""Stalls that are remembered."""
WINDOW_NS: Final = 60 * 1_000_000_000
"""The longest turn is that of the last minute."""
MAX_CAUSES: Final = 50
OTHERS: Final = "others"
NOT_SEEN: Final = "not seen"
"""The cause, where the thread could not look while it lasted: native code held the interpreter."""
_MS_PER_NS: Final = 1e-6
_GROUP, _KIND = "kavka.server", "EventLoop"


class Stall(NamedTuple):
    """The loop did nothing else from `began_ns` to `ended_ns` (perf_counter_ns)."""

    began_ns: int
    ended_ns: int
    cause: str


class LoopWatch:
    """Watches the loop on whose thread it is made, from `start` to `stop`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, interval_s: float = INTERVAL_S, long_s: float = LONG_S
    ) -> None:
        self._loop = loop
        self._watched = threading.get_ident()
        self._interval_s = interval_s
        self._long_s = long_s
        self._asked_ns = 0
        """When the question was asked that is not answered yet; 0 for none."""
        self._cause = NOT_SEEN
        self._answered = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kavka-loop-watch", daemon=True)
        self.stalls: deque[Stall] = deque(maxlen=REMEMBERED)
        self.by_cause: dict[str, tuple[int, int]] = {}
        """How many stalls, and their nanoseconds."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns at once; the thread ends with its next look."""
        self._ended.set()
        self._answered.set()

    def stalled(self, since_ns: int) -> tuple[int, str]:
        """For how many nanoseconds the loop has stood still since then, one stall that lasts included, and the cause of
        the longest."""
        now_ns = perf_counter_ns()
        stalls = list(self.stalls)
        asked_ns = self._asked_ns
        if asked_ns and now_ns - asked_ns >= self._long_s * 1e9:
            stalls.append(Stall(asked_ns, now_ns, self._cause))
        overlaps = [(min(each.ended_ns, now_ns) - max(each.began_ns, since_ns), each.cause) for each in stalls]
        within = [each for each in overlaps if each[0] > 0]
        return (sum(took for took, _ in within), max(within)[1]) if within else (0, "")

    def longest(self) -> Stall | None:
        """The longest stall of the last minute."""
        since_ns = perf_counter_ns() - WINDOW_NS
        recent = [each for each in self.stalls if each.ended_ns >= since_ns]
        return max(recent, key=lambda each: each.ended_ns - each.began_ns) if recent else None

    # -- the thread

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._answered.clear()
            self._cause = NOT_SEEN
            self._asked_ns = asked_ns = perf_counter_ns()
            try:
                self._loop.call_soon_threadsafe(self._answer, asked_ns)
            except RuntimeError:
                return  # The loop is closed.
            if not self._answered.wait(self._long_s):
                self._cause = self._look()
                while not self._answered.wait(1.0):
                    if self._ended.is_set():
                        return

    def _look(self) -> str:
        frame = sys._current_frames().get(self._watched)
        return NOT_SEEN if frame is None else cause_of(frame)

    # -- the loop

    def _answer(self, asked_ns: int) -> None:
        now_ns = perf_counter_ns()
        cause, self._asked_ns = self._cause, 0
        if now_ns - asked_ns >= self._long_s * 1e9:
            if cause not in self.by_cause and len(self.by_cause) >= MAX_CAUSES:
                cause = OTHERS
            count, took_ns = self.by_cause.get(cause, (0, 0))
            self.by_cause[cause] = (count + 1, took_ns + now_ns - asked_ns)
            self.stalls.append(Stall(asked_ns, now_ns, cause))
        self._answered.set()

    # -- metrics

    def register(self, registry: Registry) -> None:
        registry.family(_GROUP, _KIND, "LongestTurnMs", self._longest_member)
        registry.family(
            _GROUP, _KIND, "LongTurns", lambda: self._members(lambda count, _took: float(count)), is_counter=True
        )
        registry.family(
            _GROUP, _KIND, "LongTurnsMs", lambda: self._members(lambda _count, took: took * _MS_PER_NS), is_counter=True
        )

    def _longest_member(self) -> list[Member]:
        longest = self.longest()
        if longest is None:
            return [((("cause", ""),), 0.0)]
        return [((("cause", longest.cause),), (longest.ended_ns - longest.began_ns) * _MS_PER_NS)]

    def _members(self, value: Callable[[int, int], float]) -> list[Member]:
        return [((("cause", cause),), value(*counted)) for cause, counted in sorted(self.by_cause.items())]


def cause_of(frame: FrameType | None) -> str:
    """The innermost function of kavka's own on a stack and the one that called it, else the innermost of all:
    `kavka.log.segment.append < kavka.log.unified_log.append_as_leader`."""
    innermost = ""
    own: list[str] = []
    while frame is not None and len(own) < 2:
        module = frame.f_globals.get("__name__", "?")
        name = f"{module}.{frame.f_code.co_name}"
        innermost = innermost or name
        if module.startswith("kavka."):
            own.append(name)
        frame = frame.f_back
    return " < ".join(own) or innermost or NOT_SEEN


class GarbageWatch:
    """Times the interpreter's garbage collections, by generation."""

    def __init__(self) -> None:
        self._began_ns = 0
        self.pauses = tuple(Histogram(scale=_MS_PER_NS) for _ in range(3))
        gc.callbacks.append(self._on_collection)

    def close(self) -> None:
        gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_ns = perf_counter_ns()
        elif self._began_ns:
            self.pauses[info["generation"]].record(perf_counter_ns() - self._began_ns)

    def register(self, registry: Registry) -> None:
        for generation, pauses in enumerate(self.pauses):
            registry.derive(_GROUP, "GarbageCollection", "PauseMs", partial(_same, pauses), generation=str(generation))


def _same(histogram: Histogram) -> Histogram:
    return histogram
