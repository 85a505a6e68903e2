"""The share session with one broker: what it was told to fetch, and which records it has given to this member.

Decides what a ShareFetch or ShareAcknowledge has to say, given what was said before. Must not know connections, leaders
or groups: the share consumer sends what this makes, and tells it what became of it.

Invariants
  I1  A record is held from its delivery until its acknowledgement was answered, or the session has ended. Only what is
      held can be acknowledged.
  I2  Epochs follow each other: 0 opens, each answered request adds one, -1 closes. After any other answer the session
      is begun anew, and nothing of the former one is held: the broker has released it.
  I3  An acknowledgement is sent once. If its answer is an error, or does not come, it is reported, and not sent again:
      the broker may have carried it out.

Source: KIP-932; Kafka's ShareSessionHandler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from kavka.protocol.messages import share_acknowledge_request as acknowledging
from kavka.protocol.messages import share_fetch_request as fetching

OPENING_EPOCH = 0
CLOSING_EPOCH = -1
GAP = 0
"""What is said of an offset without a record: compaction took it, or it is a transaction's marker."""
_LAST_EPOCH = 2**31 - 1


class AcknowledgeType(IntEnum):
    """What became of a record. ACCEPT: it is done. RELEASE: somebody else may have it. REJECT: nobody may. RENEW: it
    takes longer, the lock begins anew."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class SharePartition(NamedTuple):
    """A partition by its topic's id: a topic that was deleted and made again is another one."""

    topic_id: UUID
    partition: int


class AcknowledgedRun(NamedTuple):
    """Offsets `first` to `last` of which the same is said."""

    first: int
    last: int
    kind: int


Acknowledgements = dict[SharePartition, list[AcknowledgedRun]]


class FetchLimits(NamedTuple):
    """How long a ShareFetch waits, for how much, and how much it brings at most. `acquire_mode` 0: whole batches, which
    may pass `max_records`; 1: never more records than that."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    acquire_mode: int


class ShareSession:
    """One session of a member of a group with one broker."""

    def __init__(self, group_id: str, member_id: str) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self.epoch = OPENING_EPOCH
        self._fetched: frozenset[SharePartition] = frozenset()
        """What the broker fetches from in this session."""
        self._held: dict[SharePartition, dict[int, int | None]] = {}
        """What is to be said of each offset that is held; None where nothing was decided yet."""

    @property
    def held(self) -> int:
        """Records that are held and undecided."""
        return sum(kind is None for offsets in self._held.values() for kind in offsets.values())

    @property
    def has_decided(self) -> bool:
        """Whether there is an acknowledgement to send."""
        return any(kind is not None for offsets in self._held.values() for kind in offsets.values())

    def restart(self) -> int:
        """Begins anew. Returns how many records were held: the broker gives them to others."""
        lost = sum(map(len, self._held.values()))
        self.epoch = OPENING_EPOCH
        self._fetched = frozenset()
        self._held.clear()
        return lost

    def hold(self, partition: SharePartition, offsets: Iterable[int], *, kind: int | None = None) -> None:
        """These were delivered. `kind`: what is decided of them already."""
        self._held.setdefault(partition, {}).update(dict.fromkeys(offsets, kind))

    def decide(self, partition: SharePartition, offset: int, kind: int) -> bool:
        """Notes what is to be said of a record; False if it is not held."""
        offsets = self._held.get(partition)
        if offsets is None or offset not in offsets:
            return False
        offsets[offset] = kind
        return True

    def decide_all(self, kind: int) -> None:
        """Says the same of every record of which nothing was decided yet."""
        for offsets in self._held.values():
            for offset, decided in offsets.items():
                if decided is None:
                    offsets[offset] = kind

    def take_decided(self) -> Acknowledgements:
        """What is to be sent now. It is no longer held (I3), but for records whose locks are renewed: these go on to be
        held, undecided."""
        taken: Acknowledgements = {}
        for partition, offsets in self._held.items():
            decided = {offset: kind for offset, kind in sorted(offsets.items()) if kind is not None}
            if not decided:
                continue
            taken[partition] = runs_of(decided)
            for offset, kind in decided.items():
                if kind == AcknowledgeType.RENEW:
                    offsets[offset] = None
                else:
                    del offsets[offset]
        self._held = {partition: offsets for partition, offsets in self._held.items() if offsets}
        return taken

    def drop(self, acknowledgements: Mapping[SharePartition, Sequence[AcknowledgedRun]]) -> None:
        """What was to be renewed was not: nothing of it is held."""
        for partition, runs in acknowledgements.items():
            offsets = self._held.get(partition, {})
            for run in runs:
                for offset in range(run.first, run.last + 1):
                    offsets.pop(offset, None)

    def fetch(
        self, wanted: frozenset[SharePartition], acknowledgements: Acknowledgements, limits: FetchLimits
    ) -> fetching.ShareFetchRequest:
        """The next ShareFetch; `wanted` are the partitions to fetch from. In a new session nothing is acknowledged:
        nothing is held."""
        named = {partition: runs for partition, runs in acknowledgements.items() if partition in wanted}
        topics: dict[UUID, fetching.FetchTopic] = {}
        for partition in sorted((wanted - self._fetched) | named.keys()):
            topic = topics.setdefault(
                partition.topic_id, fetching.FetchTopic(topic_id=partition.topic_id, partitions=[])
            )
            batches = [
                fetching.AcknowledgementBatch(
                    first_offset=run.first, last_offset=run.last, acknowledge_types=[run.kind]
                )
                for run in named.get(partition, ())
            ]
            topic.partitions.append(
                fetching.FetchPartition(partition_index=partition.partition, acknowledgement_batches=batches)
            )
        forgotten: dict[UUID, fetching.ForgottenTopic] = {}
        for partition in sorted(self._fetched - wanted):
            forgotten.setdefault(
                partition.topic_id, fetching.ForgottenTopic(topic_id=partition.topic_id, partitions=[])
            ).partitions.append(partition.partition)
        self._fetched = wanted
        return fetching.ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            max_records=limits.max_records,
            batch_size=limits.batch_size,
            share_acquire_mode=limits.acquire_mode,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    def acknowledge(
        self, acknowledgements: Acknowledgements, *, closing: bool = False
    ) -> acknowledging.ShareAcknowledgeRequest:
        """A ShareAcknowledge; `closing` ends the session, and what is still held is released."""
        topics: dict[UUID, acknowledging.AcknowledgeTopic] = {}
        for partition, runs in sorted(acknowledgements.items()):
            topic = topics.setdefault(
                partition.topic_id, acknowledging.AcknowledgeTopic(topic_id=partition.topic_id, partitions=[])
            )
            batches = [
                acknowledging.AcknowledgementBatch(
                    first_offset=run.first, last_offset=run.last, acknowledge_types=[run.kind]
                )
                for run in runs
            ]
            topic.partitions.append(
                acknowledging.AcknowledgePartition(partition_index=partition.partition, acknowledgement_batches=batches)
            )
        return acknowledging.ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=CLOSING_EPOCH if closing else self.epoch,
            is_renew_ack=has_renewals(acknowledgements),
            topics=list(topics.values()),
        )

    def advance(self) -> None:
        """The last request was answered without an error of its own."""
        self.epoch = OPENING_EPOCH + 1 if self.epoch == _LAST_EPOCH else self.epoch + 1


def has_renewals(acknowledgements: Acknowledgements) -> bool:
    """Whether locks are to begin anew by it: a ShareAcknowledge has to say so, and a ShareFetch cannot."""
    return any(run.kind == AcknowledgeType.RENEW for runs in acknowledgements.values() for run in runs)


def runs_of(decided: Mapping[int, int]) -> list[AcknowledgedRun]:
    """Neighbouring offsets of which the same is said, together; offsets come in order.

    >>> [tuple(run) for run in runs_of({4: 1, 5: 1, 6: 2, 9: 2})]
    [(4, 5, 1), (6, 6, 2), (9, 9, 2)]
    """
    if not decided:
        return []
    items = list(decided.items())
    runs: list[AcknowledgedRun] = []
    first = items[0][0]
    for (offset, kind), (following, next_kind) in pairwise([*items, (-1, -1)]):
        if following != offset + 1 or next_kind != kind:
            runs.append(AcknowledgedRun(first, offset, kind))
            first = following
    return runs
