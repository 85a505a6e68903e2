"""Copying chosen records into a topic: the same one, to have them read once more, or another.

Decides what is written where, and who may have it written there. Must not know pages.

I1  A masked field is not copied to where who asks could read it. Whoever does not see all of the source may copy only
    into a topic in which at least the same fields are masked for them. The record itself is written whole.
I2  The preview and the audit log have no more of a record than who asks may see; the audit log has its place alone.
I3  What was acknowledged is counted: where not all of it was, the outcome is unknown, with the number.

At most MOST_REPLAYED records and search.CHOSEN_BYTES at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.client.partitioner import partition_for_key
from kavka.client.producer import Producer
from kavka.client.settings import ProducerSettings
from kavka.console.actions.action import (
    ActionRefused,
    Change,
    Field,
    Preview,
    Values,
    Warned,
    quoted,
    text,
)
from kavka.console.actions.into_topic import DELIVERY_TIMEOUT_MS, IntoTopic, partition_count
from kavka.console.messages.decoding import decode
from kavka.console.messages.search import MOST_SHOWN, Chosen
from kavka.errors import ConnectionFailed, KavkaError, RequestError
from kavka.observe.health.report import Statement

if TYPE_CHECKING:
    from kavka.client.consumer import ConsumerRecord
    from kavka.console.clusters import ClusterWatch
    from kavka.console.masks import TopicMask
    from kavka.records.record import Header

MOST_REPLAYED: Final = MOST_SHOWN
SHOWN: Final = 20
"""Records in the preview."""
BY_KEY, SAME = "as the key says", "the same number"
KEPT, NOW = "as it was", "the time of copying"
SOURCE_HEADER: Final = "kavka.copied.from"


class Masks(NamedTuple):
    """What of a topic is masked for who asks, and for those for whom the most is."""

    theirs: Callable[[str], TopicMask | None]
    any: Callable[[str], TopicMask | None]


Read = Callable[[str, Sequence[tuple[int, int]]], Awaitable[list[Chosen]]]
"""Reads records of a topic; raises as Messages.chosen."""


class Replay(IntoTopic):
    name, title, is_cheap = "replay", "Copy records", False  # it reads the records from their brokers

    def __init__(self, read: Read, masks: Masks) -> None:
        self._read = read
        self._masks = masks

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        source, places = text(values, "source", "the topic that they come from"), places_of(values)
        names = _named(source, places)
        said = f"1 record of {source}: {names}" if len(places) == 1 else f"{len(places)} records of {source}: {names}"
        return (
            Field("note", "", "note", said),
            Field("source", "", "hidden", source),
            Field("records", "", "hidden", values.get("records", "")),
            Field("topic", "To the topic", "text", values.get("topic", ""), "Of the same cluster.", required=True),
            Field("partition_by", "Partition", "choice", values.get("partition_by", BY_KEY), "", (BY_KEY, SAME)),
            Field("time", "Time of the records", "choice", values.get("time", KEPT), "", (KEPT, NOW)),
            Field(
                "mark",
                "Add a header that says where each record comes from",
                "box",
                values.get("mark", ""),
            ),
        )

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        source, target = text(values, "source", "the topic that they come from"), text(values, "topic", "the topic")
        places = places_of(values)
        chosen, partitions = await self._ready(watch, values, source, target)
        rows = [
            Change(f"{source}-{each.record.partition} @ {each.record.offset}", "", _shown(each, target, partition))
            for each, partition in zip(chosen[:SHOWN], partitions, strict=False)
        ]
        if len(chosen) > SHOWN:
            rows.append(Change("and more", "", f"{len(chosen) - SHOWN}"))
        # A size tells of what is masked, and the audit log is read by others, too.
        size = "" if self._masks.any(source) else f", {sum(_size(each.record) for each in chosen):,} bytes"
        return Preview(
            f"topic {target}",
            Statement(
                "{n} records of {source} are written to {target}, with acks=all.",
                {"n": len(chosen), "source": source, "target": target},
            ),
            tuple(rows),
            tuple(self._warnings(source, target, chosen)),
            _commands(watch.settings.bootstrap, source, target, places),
            wanted=f"{len(chosen)} records{size}: {_named(source, places)}",
            button="Write them",
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        chosen, partitions = await self._ready(watch, values, values["source"], values["topic"])
        made = ProducerSettings(linger_ms=5, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
        async with Producer(watch.cluster, made) as producer:
            told = await _written(producer, values, [each.record for each in chosen], partitions)
        failed = [each for each in told if each is not None]
        if not failed:
            return
        if len(failed) == len(told) and all(isinstance(each, RequestError) for each in failed):
            raise failed[0]
        written = len(told) - len(failed)
        raise ConnectionFailed(f"{written} of {len(told)} records were acknowledged, the others not: {failed[0]}")

    async def _ready(
        self, watch: ClusterWatch, values: Values, source: str, target: str
    ) -> tuple[list[Chosen], list[int | None]]:
        """The records and the partitions that they would get: checked for the preview, and once more for the copy."""
        count = await partition_count(watch, target)
        self.check_masks(source, target)
        await self._check_keys(watch, values, source, count)
        chosen = await self._chosen(source, places_of(values))
        return chosen, [_partition(each.record, values, count) for each in chosen]

    def check_masks(self, source: str, target: str) -> None:
        """Raises ActionRefused where a copy would show what is masked (I1)."""
        hidden = self._masks.theirs(source)
        if hidden is None:
            return
        there = self._masks.theirs(target)
        bare = [field for field in hidden.fields if there is None or field not in there.fields]
        if bare:
            raise ActionRefused(
                f"{', '.join(bare)} of {source} is masked for you, and not in {target}: you could read it there"
            )

    async def _check_keys(self, watch: ClusterWatch, values: Values, source: str, count: int) -> None:
        """Raises ActionRefused where the partitions that keys get would tell of keys which who asks does not see: into
        topics of 2, 3, 5 .. partitions, one would learn the hash of a key, and by it the key."""
        hidden = self._masks.theirs(source)
        if hidden is None or not hidden.touches("key") or values.get("partition_by") == SAME:
            return
        if await partition_count(watch, source) != count:
            raise ActionRefused(
                f"keys of {source} are masked for you: copy by the same number of a partition, or into a topic with as "
                "many partitions"
            )

    def _warnings(self, source: str, target: str, chosen: Sequence[Chosen]) -> list[Warned]:
        found = []
        if source == target:
            said = "The records go into the topic that they come from: all of its readers get them a second time."
            found.append(Warned("warn", Statement(said)))
        hidden, there = self._masks.any(source), self._masks.any(target)
        bare = [each for each in (hidden.fields if hidden else ()) if there is None or each not in there.fields]
        if bare:
            said = "{fields} is masked for others in {source}, and not in {target}: whoever reads {target} sees it."
            known = {"fields": ", ".join(bare), "source": source, "target": target}
            found.append(Warned("bad", Statement(said, known)))
        tombstones = sum(each.record.value is None for each in chosen)
        if tombstones:
            said = (
                "{n} of them are tombstones: if {target} is compacted, all earlier records of their keys are removed."
            )
            found.append(Warned("warn", Statement(said, {"n": tombstones, "target": target})))
        return found

    async def _chosen(self, source: str, places: Sequence[tuple[int, int]]) -> list[Chosen]:
        try:
            return await self._read(source, places)
        except LookupError as gone:
            raise ActionRefused(
                f"there is no record {gone.args[0]}: deleted, compacted away, or not written yet"
            ) from gone
        except OverflowError as large:
            raise ActionRefused(str(large)) from large


def places_of(values: Values) -> list[tuple[int, int]]:
    """(partition, offset) of each chosen record. Raises ActionRefused.

    >>> places_of({"records": "0:17,3:4"})
    [(0, 17), (3, 4)]
    """
    found: dict[tuple[int, int], None] = {}
    for pair in filter(None, values.get("records", "").split(",")[: MOST_REPLAYED + 1]):
        partition, _, offset = pair.partition(":")
        if not (partition.isdecimal() and offset.isdecimal()) or len(partition) > 9 or len(offset) > 18:
            raise ActionRefused(f"{pair[:40]!r} is not the place of a record")
        found[int(partition), int(offset)] = None
    if not found:
        raise ActionRefused("choose at least one record")
    if len(found) > MOST_REPLAYED:
        raise ActionRefused(f"at most {MOST_REPLAYED} records are copied at a time")
    return list(found)


def _partition(record: ConsumerRecord, values: Values, count: int) -> int | None:
    if values.get("partition_by") == SAME:
        if record.partition >= count:
            raise ActionRefused(f"a record is from partition {record.partition}, which {values['topic']} does not have")
        return record.partition
    return None if record.key is None else partition_for_key(record.key, count)


def _headers(record: ConsumerRecord, values: Values) -> list[Header]:
    own = [(SOURCE_HEADER, f"{values['source']}-{record.partition}@{record.offset}".encode())]
    return [*record.headers, *(own if values.get("mark") else ())]


def _shown(chosen: Chosen, target: str, partition: int | None) -> str:
    record = chosen.seen.record
    key = "" if record.key is None else f"{decode(record.key).preview}: "
    value = "(tombstone)" if record.value is None else decode(record.value).preview
    return f"{target}{'' if partition is None else f'-{partition}'}  {key}{value}"


def _size(record: ConsumerRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _named(source: str, places: Sequence[tuple[int, int]]) -> str:
    some = ", ".join(f"{source}-{partition} @ {offset}" for partition, offset in places[:10])
    return some + (f" and {len(places) - 10} more" if len(places) > 10 else "")


def _commands(bootstrap: str, source: str, target: str, places: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    return tuple(
        f"kavka consume {quoted(source)} -b {bootstrap} -p {partition} -o {offset} -c 1 --json"
        f" | kavka produce {quoted(target)} -b {bootstrap} -J"
        for partition, offset in places[:SHOWN]
    )


async def _written(
    producer: Producer, values: Values, records: Sequence[ConsumerRecord], partitions: Sequence[int | None]
) -> list[Exception | None]:
    """Of each record what was wrong. Where sending broke off, what was sent before is told as it is (I3)."""
    pending: list[Awaitable[object]] = []
    stopped: Exception | None = None
    try:
        for record, partition in zip(records, partitions, strict=True):
            keeps_time = values.get("time") != NOW and record.timestamp_ms >= 0
            sent = await producer.send(
                values["topic"],
                record.value,
                key=record.key,
                headers=_headers(record, values),
                partition=partition,
                timestamp_ms=record.timestamp_ms if keeps_time else None,
            )
            pending.append(sent)
    except KavkaError as failed:
        stopped = failed
    await producer.flush()
    told = await asyncio.gather(*map(_outcome, pending))
    return [*told, *[stopped] * (len(records) - len(pending))]


async def _outcome(pending: Awaitable[object]) -> Exception | None:
    try:
        await pending
    except KavkaError as failed:
        return failed
    return None
