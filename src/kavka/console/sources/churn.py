"""Churn: the windows that the isr-churn pipeline has counted, out of its topic, and what they add up to.

Decides which records are windows, how much of the topic is read, and how windows become lines and sums. Must not know
pages. Nothing of a record is believed: what is no window is counted, and told.

    I1  at most MOST_WINDOWS are read, the newest of each partition, for no longer than READ_S
    I2  a topic whose end has not moved is not read again

Source: kavka_spark/pipelines/examples/isr-churn, whose rows these are; docs/pipelines.md.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.client.consumer import Consumer
from kavka.client.offsets import EARLIEST, LATEST, OffsetAt, list_offsets
from kavka.client.settings import ConsumerSettings, OffsetReset
from kavka.console.look.charts import Series
from kavka.errors import ConnectionFailed
from kavka.model import TopicPartition

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster

TOPIC: Final = "isr-churn"
"""Where the pipeline writes, unless its `churn.topic` says otherwise."""
MOST_WINDOWS: Final = 5_000
READ_S: Final = 5.0
_COUNTS: Final = ("shrinks", "expansions", "elections")
_TIMES: Final = ("window_start", "window_end")


class ChurnWindow(NamedTuple):
    """What moved in a window of time, of one broker, topic and cause. Times in ms since 1970."""

    from_ms: int
    until_ms: int
    broker: int
    topic: str
    cause: str
    shrinks: int
    expansions: int
    elections: int
    last_why: str

    @property
    def changes(self) -> int:
        return self.shrinks + self.expansions + self.elections


class Churn(NamedTuple):
    """What stands in the topic. `left_out`: older records that were not read; `strange`: those that are no windows."""

    windows: Sequence[ChurnWindow]
    left_out: int
    strange: int


class ChurnReader:
    """Reads the topic of one cluster when it is looked at."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read: dict[str, tuple[dict[TopicPartition, int], Churn]] = {}
        self._turn = asyncio.Lock()

    async def read(self, topic: str) -> Churn:
        """Raises `RequestError` where there is no such topic, `ConnectionFailed`."""
        async with self._turn:
            partitions = [
                TopicPartition(topic, each.partition) for each in (await self._cluster.topic(topic)).partitions
            ]
            ends = {name: at.offset for name, at in (await self._list(partitions, LATEST)).items()}
            known = self._read.get(topic)
            if known is not None and known[0] == ends:
                return known[1]
            starts = {name: at.offset for name, at in (await self._list(partitions, EARLIEST)).items()}
            share = MOST_WINDOWS // max(len(partitions), 1)
            begins = {name: max(starts[name], ends[name] - share) for name in partitions}
            values = await self._values(begins, ends)
            windows = [window for window in map(parse, values) if window is not None]
            windows.sort(key=lambda window: (-window.from_ms, window.topic, window.broker, window.cause))
            left_out = sum(begins[name] - starts[name] for name in partitions)
            churn = Churn(windows, left_out, len(values) - len(windows))
            self._read = {topic: (ends, churn)}
            return churn

    async def _list(self, partitions: Sequence[TopicPartition], at: int) -> Mapping[TopicPartition, OffsetAt]:
        return await list_offsets(self._cluster, dict.fromkeys(partitions, at), read_committed=True)

    async def _values(self, begins: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> list[bytes]:
        wanted = [name for name in begins if begins[name] < ends[name]]
        settings = ConsumerSettings(
            auto_offset_reset=OffsetReset.EARLIEST, read_committed=True, enable_auto_commit=False
        )
        values: list[bytes] = []
        if not wanted:
            return values
        consumer = Consumer(self._cluster, settings)
        try:
            consumer.assign(wanted, offsets={name: begins[name] for name in wanted})
            async with asyncio.timeout(READ_S):
                while not consumer.reached(ends):
                    values.extend(
                        record.value or b""
                        for record in await consumer.poll(timeout_ms=500)
                        if record.offset < ends[TopicPartition(record.topic, record.partition)]
                    )
        except TimeoutError:
            raise ConnectionFailed(f"{wanted[0].topic} was not read to its end within {READ_S:.0f} s") from None
        finally:
            await consumer.close()
        return values


def parse(value: bytes) -> ChurnWindow | None:
    """A window as the pipeline writes it; None for anything else."""
    try:
        row = json.loads(value)
        begins, ends = (round(datetime.fromisoformat(row[name]).timestamp() * 1_000) for name in _TIMES)
        shrinks, expansions, elections = (int(row.get(name, 0)) for name in _COUNTS)
        window = ChurnWindow(
            begins,
            ends,
            int(row["broker"]),
            str(row["topic"]),
            str(row["cause"]),
            shrinks,
            expansions,
            elections,
            str(row.get("last_why", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return window if begins < ends and min(shrinks, expansions, elections) >= 0 else None


def lines(windows: Iterable[ChurnWindow], names: Mapping[str, str]) -> list[Series]:
    """What changed in each window, a line for each kind of change; `names` are what they are called. A window in which
    nothing changed is not in the topic: zeros stand around those that are."""
    totals: dict[int, Counter[str]] = {}
    lengths: dict[int, int] = {}
    for window in windows:
        lengths[window.from_ms] = window.until_ms - window.from_ms
        totals.setdefault(window.from_ms, Counter()).update({name: getattr(window, name) for name in _COUNTS})
    for from_ms, length in lengths.items():
        for beside in (from_ms - length, from_ms + length):
            totals.setdefault(beside, Counter())
    times = sorted(totals)
    return [Series(names[kind], [(at, totals[at][kind]) for at in times]) for kind in _COUNTS]


class Sum(NamedTuple):
    """Changes of one broker and cause in all windows; `topics` are how many topics had any."""

    broker: int
    cause: str
    shrinks: int
    expansions: int
    elections: int
    topics: int


def sums(windows: Iterable[ChurnWindow]) -> list[Sum]:
    """Per broker and cause, the most changes first."""
    counts: dict[tuple[int, str], Counter[str]] = {}
    topics: dict[tuple[int, str], set[str]] = {}
    for window in windows:
        key = (window.broker, window.cause)
        counts.setdefault(key, Counter()).update({name: getattr(window, name) for name in _COUNTS})
        topics.setdefault(key, set()).add(window.topic)
    found = [
        Sum(broker, cause, count["shrinks"], count["expansions"], count["elections"], len(topics[broker, cause]))
        for (broker, cause), count in counts.items()
    ]
    return sorted(found, key=lambda each: (-(each.shrinks + each.expansions + each.elections), each.broker, each.cause))
