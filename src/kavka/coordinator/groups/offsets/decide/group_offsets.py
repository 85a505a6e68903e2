"""GroupOffsets: the offsets that groups committed, and those that wait for the log or for the end of a transaction.

Decides which offset holds for a partition. Must not know groups, members, the log.

    I1  of one partition the offset holds whose record lies furthest back in the log, be it committed at once or, when
        its transaction is committed, by the marker: a marker brings nothing back that was written over after it
    I2  what a transaction wrote holds with its commit marker, never if it is aborted (G3, S49)
    I3  an offset counts as pending from the moment its record is appended: a marker may follow before the append is
        known to be committed. The interleaving: 1 offset appended, waits for the followers; 2 the marker is appended;
        3 both are committed at once; 4 who waits for the marker wakes first. If the offset became pending only with
        its own waking, it would stay so for ever.
    I4  what is on its way into the log counts when it is asked what may expire and what goes with a deletion: it lies
        before the tombstone. The interleaving: 1 an offset is appended in place of an old one, and waits for the
        followers; 2 the old one is over its retention, and its tombstone is appended; 3 both are committed, the commit
        is answered with success, and the offset is gone

    I5  so does what was appended and nobody knows to be committed, until something later is known of its key: the next
        coordinator finds it in the log, and would bring back what was deleted
    I6  a marker ends what was appended before it, and nothing that is appended while it waits for the followers: 1. a
        marker is written twice, and the second one comes late; 2. the producer commits an offset in its next
        transaction; 3. both are committed at once. The next transaction may still be aborted
    I7  the end of a topic takes no offset with it that was committed for another one of its name. The interleaving: 1 a
        coordinator is cut off; 2 a topic is deleted, made again, and read; 3 a member commits; 4 the coordinator hears
        of all that at once. The other way round, offsets of a topic that is gone hold for no other one (`get`)

A position is the number of a record's append, in the order of the log.

Source: KIP-98, KIP-447; Kafka's OffsetMetadataManager, KAFKA-16371.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kavka.coordinator.groups.decide.records import CommittedOffset, OffsetRecord, offset_record
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.model import NO_TOPIC_ID, GoneTopic


class OffsetKey(NamedTuple):
    """What an offset belongs to."""

    group_id: str
    topic: str
    partition: int


def offset_tombstone(key: OffsetKey) -> CoordinatorRecord:
    return offset_record(key.group_id, key.topic, key.partition, None)


class _Placed(NamedTuple):
    """An offset at a position; None if the record deletes."""

    position: int
    committed: CommittedOffset | None


def _key_of(record: OffsetRecord) -> OffsetKey:
    return OffsetKey(record.group_id, record.topic, record.partition)


def _topic_id_of(record: OffsetRecord) -> uuid.UUID:
    return NO_TOPIC_ID if record.committed is None else record.committed.topic_id


class GroupOffsets:
    """All offsets of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[tuple[str, int], _Placed]] = {}
        self._pending: dict[int, dict[OffsetKey, list[_Placed]]] = {}
        """By producer id. A key has several while appends of one transaction are under way."""
        self._open: Counter[str] = Counter()
        """How many pending keys a group has, over all transactions."""
        self._under_way: dict[str, dict[OffsetKey, list[uuid.UUID]]] = {}
        """By group, the keys of records that were appended outside of transactions and are not committed yet, with the
        topic's id in each."""
        self._in_doubt: dict[str, dict[OffsetKey, uuid.UUID]] = {}
        """By group, the keys of records that are in the log and perhaps committed (I5), with the topic's id in the
        last."""

    # -- questions

    def get(
        self, group_id: str, topic: str, partition: int, topic_id: uuid.UUID = NO_TOPIC_ID
    ) -> CommittedOffset | None:
        """The offset that holds. Who knows the topic's id gets none that was committed for another one (I7)."""
        placed = self._committed.get(group_id, {}).get((topic, partition))
        found = None if placed is None else placed.committed
        if found is None or NO_TOPIC_ID in (topic_id, found.topic_id) or topic_id == found.topic_id:
            return found
        return None

    def of_group(self, group_id: str) -> list[tuple[str, int, CommittedOffset]]:
        """All offsets of a group, by topic and partition."""
        there = self._committed.get(group_id, {})
        return [
            (topic, partition, placed.committed)
            for (topic, partition), placed in sorted(there.items())
            if placed.committed is not None
        ]

    def has_any(self, group_id: str) -> bool:
        """Whether a group has offsets, committed or pending."""
        return group_id in self._committed or group_id in self._open

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._open or group_id in self._under_way

    def is_pending(self, key: OffsetKey) -> bool:
        """Whether the offset may change by what is done already: by a transaction that is open (KIP-447), or a record
        that is on its way into the log."""
        if key in self._under_way.get(key.group_id, ()):
            return True
        return key.group_id in self._open and any(key in waiting for waiting in self._pending.values())

    def group_ids(self) -> list[str]:
        """Groups with committed offsets."""
        return list(self._committed)

    def keys_of(self, group_id: str) -> list[OffsetKey]:
        """Everything that a group has committed, perhaps too, and what is pending for it, each once."""
        keys = {OffsetKey(group_id, topic, partition): None for topic, partition in self._committed.get(group_id, {})}
        keys.update(dict.fromkeys(self._under_way.get(group_id, ())))
        keys.update(dict.fromkeys(sorted(self._in_doubt.get(group_id, ()))))
        if group_id in self._open:
            for waiting in self._pending.values():
                keys.update((key, None) for key in waiting if key.group_id == group_id)
        return list(keys)

    def keys_of_deleted(self, topics: Iterable[GoneTopic]) -> Iterator[OffsetKey]:
        """What groups have committed, or may commit, for these topics, and for no other one of their names (I7)."""
        gone: dict[str, list[GoneTopic]] = {}
        for topic in topics:
            gone.setdefault(topic.name, []).append(topic)
        for group_id in dict.fromkeys((*self._committed, *self._open, *self._under_way, *self._in_doubt)):
            for key in self.keys_of(group_id):
                if key.topic in gone and all(
                    any(topic.had(topic_id) for topic in gone[key.topic]) for topic_id in self._topic_ids_of(key)
                ):
                    yield key

    def _topic_ids_of(self, key: OffsetKey) -> Iterator[uuid.UUID]:
        """For which topics of its name something was committed, perhaps too, or is pending."""
        committed = self.get(key.group_id, key.topic, key.partition)
        if committed is not None:
            yield committed.topic_id
        yield from self._under_way.get(key.group_id, {}).get(key, ())
        doubtful = self._in_doubt.get(key.group_id, {})
        if key in doubtful:
            yield doubtful[key]
        for waiting in self._pending.values():
            yield from (placed.committed.topic_id for placed in waiting.get(key, ()) if placed.committed is not None)

    # -- changes

    def begin(self, records: Sequence[OffsetRecord]) -> None:
        """Records outside of transactions are on their way into the log (I4)."""
        for record in records:
            keys = self._under_way.setdefault(record.group_id, {})
            keys.setdefault(_key_of(record), []).append(_topic_id_of(record))

    def finish(self, records: Sequence[OffsetRecord]) -> None:
        """It is known what became of the records, or that nobody will know."""
        for record in records:
            key, keys = _key_of(record), self._under_way[record.group_id]
            keys[key].remove(_topic_id_of(record))
            if not keys[key]:
                del keys[key]
            if not keys:
                del self._under_way[record.group_id]

    def doubt(self, records: Sequence[OffsetRecord]) -> None:
        """Records outside of transactions are in the log, and nobody will say whether they are committed (I5)."""
        for record in records:
            self._in_doubt.setdefault(record.group_id, {})[_key_of(record)] = _topic_id_of(record)

    def replay(self, record: OffsetRecord, position: int) -> None:
        """A record outside of transactions is committed."""
        key = _key_of(record)
        doubts = self._in_doubt.get(key.group_id)
        if doubts is not None:
            doubts.pop(key, None)
            if not doubts:
                del self._in_doubt[key.group_id]
        if record.committed is None:
            # What was written over before its marker comes must not come back with it (I1).
            self._drop(key, position)
        self._put(key, _Placed(position, record.committed))

    def hold(self, producer_id: int, records: Sequence[OffsetRecord], position: int) -> None:
        """Records of a transaction are on their way into the log (I3)."""
        waiting = self._pending.setdefault(producer_id, {})
        for record in records:
            key = _key_of(record)
            if key not in waiting:
                self._open[key.group_id] += 1
            waiting.setdefault(key, []).append(_Placed(position, record.committed))
        if not waiting:
            del self._pending[producer_id]

    def confirm(self, producer_id: int, position: int) -> None:
        """The records at `position` are in the log: what the same transaction wrote before to their keys is over."""
        for placed in self._pending.get(producer_id, {}).values():
            if any(one.position == position for one in placed):
                placed[:] = [one for one in placed if one.position >= position]

    def revoke(self, producer_id: int, position: int) -> None:
        """The records at `position` are certainly not in the log (KAFKA-16371)."""
        self._keep_only(producer_id, lambda placed: placed.position != position)

    def end(self, producer_id: int, *, committed: bool, position: int | None = None) -> list[str]:
        """The producer's transaction has its marker, at `position`; None: behind all that is pending. Returns the
        groups it concerned. Without a transaction nothing happens."""
        waiting = self._pending.get(producer_id, {})
        groups: dict[str, None] = {}
        for key in list(waiting):
            placed = waiting[key]
            ended = [one for one in placed if position is None or one.position < position]
            if not ended:
                continue
            placed[:] = placed[len(ended) :]
            self._forget_if_empty(producer_id, key)
            if committed:
                self._put(key, ended[-1])
            groups[key.group_id] = None
        return list(groups)

    def _put(self, key: OffsetKey, placed: _Placed) -> None:
        there = self._committed.get(key.group_id)
        place = (key.topic, key.partition)
        known = None if there is None else there.get(place)
        if known is not None and known.position > placed.position:
            return
        if placed.committed is not None:
            self._committed.setdefault(key.group_id, {})[place] = placed
        elif there is not None and known is not None:
            del there[place]
            if not there:
                del self._committed[key.group_id]

    def _drop(self, key: OffsetKey, position: int) -> None:
        if key.group_id not in self._open:
            return
        for producer_id in list(self._pending):
            if key in self._pending[producer_id]:
                placed = self._pending[producer_id][key]
                placed[:] = [one for one in placed if one.position > position]
                self._forget_if_empty(producer_id, key)

    def _keep_only(self, producer_id: int, keeps: Callable[[_Placed], bool]) -> None:
        waiting = self._pending.get(producer_id, {})
        for key in list(waiting):
            waiting[key][:] = [one for one in waiting[key] if keeps(one)]
            self._forget_if_empty(producer_id, key)

    def _forget_if_empty(self, producer_id: int, key: OffsetKey) -> None:
        waiting = self._pending[producer_id]
        if not waiting[key]:
            del waiting[key]
            self._close(key.group_id)
        if not waiting:
            del self._pending[producer_id]

    def _close(self, group_id: str) -> None:
        self._open[group_id] -= 1
        if not self._open[group_id]:
            del self._open[group_id]
