"""`kavka consume --share GROUP`: records of a share group to standard output, and what becomes of each.

Decides when a record is acknowledged, and how. Must not know sessions or fetches: the share consumer does.

    --ack accept    written out, then accepted: the group has done it
    --ack reject    written out, then rejected: nobody gets it any more (dead letters get it, where they are on)
    --ack release   what waits is written out and given back at the end; it ends by itself
    --ack ask       for each record a line of standard input says what becomes of it; its lock is renewed meanwhile

I1  A record is acknowledged after its bytes were taken by standard output: whatever ends the command before, gives the
    record to another member.
I2  With -c N no more than N records are acquired, at brokers that know a record limit (Kafka 4.2 and later).
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from kavka.cli.output import Failure, Progress, counted, note
from kavka.cli.session import with_cluster

if TYPE_CHECKING:
    from kavka.cli.topics.line_format import Writer
    from kavka.client.cluster import Cluster
    from kavka.client.share_consumer import LostAcknowledgement, ShareConsumer, ShareRecord
    from kavka.client.share_session import AcknowledgeType

POLL_MS = 1_000
RESET = "share.auto.offset.reset"
LOOK_LOCKS = 0.5
"""With --ack release: the part of a lock's time after which no more is shown, so that what is held goes back before its
lock runs out."""
RENEWALS = 3
"""How often a lock is renewed in the time that it lasts."""


class Ack(StrEnum):
    """See the table at the top."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class ShareReading:
    """What to read, as which group, and what becomes of it."""

    topics: tuple[str, ...]
    group: str
    ack: Ack = Ack.ACCEPT
    count: int | None = None
    until_end: bool = False
    quiet: bool = False


class Tally(NamedTuple):
    """Records written, and how many of these had been delivered before."""

    records: int = 0
    again: int = 0


def print_share_records(bootstrap: str | None, reading: ShareReading, write: Writer) -> None:
    """Writes records until the end that was asked for, or without end. Raises Failure, BrokenPipeError."""
    progress = Progress("Read", quiet=reading.quiet or sys.stdout.isatty() or reading.ack is Ack.ASK)

    async def work(cluster: Cluster) -> Tally:
        from kavka.client.settings import ShareConsumerSettings
        from kavka.client.share_consumer import ShareConsumer

        for topic in reading.topics:
            await cluster.topic(topic)
        defaults = ShareConsumerSettings(group_id=reading.group)
        most = 1 if reading.ack is Ack.ASK else min(reading.count or defaults.max_records, defaults.max_records)
        is_limited = reading.ack is Ack.ASK or reading.count is not None
        settings = ShareConsumerSettings(group_id=reading.group, max_records=most, record_limit=is_limited)
        consumer = ShareConsumer(cluster, settings)
        lost = _Lost(reading.quiet)
        try:
            await _hint_at_the_start(cluster, reading)
            await consumer.subscribe(reading.topics)
            tally = await _copy(consumer, reading, write, progress, lost)
        finally:
            lost.note(await consumer.close())
        lost.fail()
        return tally

    try:
        tally = with_cluster(bootstrap, work, quiet=reading.quiet)
    finally:
        progress.end()
    if not reading.quiet and sys.stderr.isatty():
        again = f", {tally.again:,} of them delivered before" if tally.again else ""
        note(f"{counted(tally.records, 'record')} read{again}.")


async def _hint_at_the_start(cluster: Cluster, reading: ShareReading) -> None:
    """A new group begins at the end of its topics, which looks like topics without records."""
    from kavka.client.admin import Admin, ConfigResource, ResourceType
    from kavka.client.share_group_admin import ShareGroupAdmin
    from kavka.errors import ConnectionFailed, RequestError

    if reading.quiet:
        return
    try:
        positions = await ShareGroupAdmin(cluster).positions(reading.group)
        resource = ConfigResource(ResourceType.GROUP, reading.group)
        settings = {entry.name: entry.value for entry in (await Admin(cluster).describe_configs([resource]))[resource]}
    except (ConnectionFailed, RequestError):
        return  # What is wrong shows itself in a moment, or the user may read, but not describe.
    if settings.get(RESET) == "latest" and not any(place.topic in reading.topics for place in positions):
        note(f"Share group {reading.group} is new and gets new records only. For those that are there already:")
        note(f"  kavka configs set --group {reading.group} {RESET}=earliest")


async def _copy(
    consumer: ShareConsumer, reading: ShareReading, write: Writer, progress: Progress, lost: _Lost
) -> Tally:
    """Writes records as they come, and acknowledges them."""
    answers = _Answers(lost, quiet=reading.quiet) if reading.ack is Ack.ASK else None
    loop = asyncio.get_running_loop()
    count = again = size_bytes = 0
    first_at: float | None = None
    while reading.count is None or count < reading.count:
        left = None if reading.count is None else reading.count - count
        records = await consumer.poll(max_records=left, timeout_ms=POLL_MS)
        if records:
            first_at = loop.time() if first_at is None else first_at
            data = b"".join(map(write, records))
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            count += len(records)
            again += sum(record.delivery_count > 1 for record in records)
            size_bytes += len(data)
            progress.at(count, size_bytes)
        if answers is not None:
            for record in records:
                kind = await answers.of(record, consumer)
                if kind is None:
                    return Tally(count, again)
                consumer.acknowledge(record, kind)
            lost.note(await consumer.commit())
        elif reading.ack is not Ack.RELEASE:
            for record in records:
                consumer.acknowledge(record, _kind(reading.ack))
            lost.note(consumer.lost())
        if not records and (reading.until_end or reading.ack is Ack.RELEASE) and consumer.is_drained:
            break
        if reading.ack is Ack.RELEASE and first_at is not None:
            held_ms = (loop.time() - first_at) * 1000
            if held_ms > LOOK_LOCKS * (consumer.lock_timeout_ms or 0):
                note("The locks of these records end soon: they go back now. There may be more.")
                break
    return Tally(count, again)


def _kind(ack: Ack) -> AcknowledgeType:
    from kavka.client.share_session import AcknowledgeType

    return AcknowledgeType.REJECT if ack is Ack.REJECT else AcknowledgeType.ACCEPT


class _Lost:
    """Acknowledgements that were not stored: each is said when it is known, and the command's status tells of them."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._records = 0

    def note(self, lost: list[LostAcknowledgement]) -> None:
        for each in lost:
            self._records += each.last - each.first + 1
            if not self._quiet:
                place = f"{each.partition.topic}-{each.partition.partition} {each.first} to {each.last}"
                note(f"Not acknowledged: {place}: {each.failure}")

    def fail(self) -> None:
        """Raises Failure if there was any."""
        if self._records:
            raise Failure(
                f"{counted(self._records, 'record')} could not be acknowledged",
                "others get them, or got them already: `kavka why` with the partition says what became of their locks",
            )


class _Answers:
    """What becomes of each record, line by line from standard input: accept, release, reject or quit, or a, l, j, q."""

    def __init__(self, lost: _Lost, *, quiet: bool) -> None:
        self._lost = lost
        self._prompts = not quiet and sys.stdin.isatty()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        # A thread that nobody waits for: a read of a terminal cannot be cancelled.
        threading.Thread(target=self._read, name="kavka-answers", daemon=True).start()

    async def of(self, record: ShareRecord, consumer: ShareConsumer) -> AcknowledgeType | None:
        """What becomes of the record, whose lock is renewed until that is known; None: stop here."""
        from kavka.client.share_session import AcknowledgeType

        kinds = {kind.name.lower(): kind for kind in AcknowledgeType if kind is not AcknowledgeType.RENEW}
        kinds.update(a=AcknowledgeType.ACCEPT, l=AcknowledgeType.RELEASE, j=AcknowledgeType.REJECT)
        while True:
            if self._prompts:
                times = "" if record.delivery_count == 1 else f", delivery {record.delivery_count}"
                place = f"{record.topic}-{record.partition} at {record.offset}{times}"
                print(f"{place}: [a]ccept, re[l]ease, re[j]ect or [q]uit? ", end="", file=sys.stderr, flush=True)
            line = await self._next(consumer)
            answer = line.decode(errors="replace").strip().lower()
            if not line or answer in ("q", "quit"):
                return None
            if answer in kinds:
                return kinds[answer]
            if not self._prompts:
                raise Failure(f"{answer!r} is not an answer", "each line is accept, release, reject or quit")

    async def _next(self, consumer: ShareConsumer) -> bytes:
        waiting = asyncio.ensure_future(self._lines.get())
        try:
            while True:
                pause_s = (consumer.lock_timeout_ms or 30_000) / 1000 / RENEWALS
                done, _ = await asyncio.wait({waiting}, timeout=pause_s)
                if done:
                    return waiting.result()
                await consumer.renew()
                self._lost.note(await consumer.commit())
        finally:
            waiting.cancel()

    def _read(self) -> None:
        line = b"-"
        while line:
            line = sys.stdin.buffer.readline()
            with contextlib.suppress(RuntimeError):  # The loop has ended.
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
