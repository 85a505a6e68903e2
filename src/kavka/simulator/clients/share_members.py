"""Members of a simulated share group (KIP-932), which send the protocol's own requests.

A member is a place, as in a consumer group: after a crash another process takes it, under another member id. Members
accept most of what they get, release, reject and renew some, and forget some, so that its lock runs out. Some lie: they
acknowledge what they do not hold, say the same twice, or come with a session epoch that is not theirs. Once
`is_honest`, all accept what they get.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kavka.errors import ErrorCode, KavkaError, RequestError
from kavka.model import Offset, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages import share_acknowledge_request as acknowledging
from kavka.protocol.messages import share_fetch_request as fetching
from kavka.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from kavka.protocol.messages.share_fetch_response import ShareFetchResponse
from kavka.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kavka.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kavka.records.batch import iterate_batches
from kavka.share.decide.share_partition import AcknowledgeType
from kavka.simulator.clients.places import Places
from kavka.simulator.rules.share_rules import ShareBounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from kavka.client.cluster import Cluster
    from kavka.simulator.host.scheduler import NodeLoop
    from kavka.simulator.world import World

GROUP: Final = "workers"
LOCK_MS: Final = 3_000
SHARING: Final[Mapping[str, str]] = {
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.session.timeout.ms": "8000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.delivery.count.limit": "2",
    "group.share.partition.max.record.locks": "100",
    "group.share.initialize.retry.interval.ms": "3000",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.write.timeout.ms": "500",
    "share.coordinator.snapshot.update.records.per.snapshot": "10",
    "share.coordinator.state.topic.prune.interval.ms": "10000",
    "share.coordinator.cold.partition.snapshot.interval.ms": "10000",
}
"""Of brokers with share groups: whatever takes long is short, so that it happens often."""


def share_settings(brokers: int) -> dict[str, str]:
    """Of each of so many brokers with share groups."""
    return {
        **SHARING,
        "share.coordinator.state.topic.replication.factor": str(min(3, brokers)),
        "share.coordinator.state.topic.min.isr": str(max(1, min(2, brokers - 1))),
    }


def share_bounds(settings: Mapping[str, str]) -> ShareBounds:
    """What holds for records and sessions under these settings of brokers, and Kafka's defaults."""
    return ShareBounds(
        lock_ms=int(settings["group.share.record.lock.duration.ms"]),
        deliveries=int(settings["group.share.delivery.count.limit"]),
        in_flight=int(settings["group.share.partition.max.record.locks"]),
        sessions=int(settings.get("group.share.max.share.sessions", "2000")),
    )


HEARTBEAT_S: Final = 1.0
RETRY_S: Final = 0.5
MOST_RECORDS: Final = 20
WAIT_MS: Final = 1_000
FINAL_EPOCH: Final = -1
_HELD_S: Final = 1.0
"""How long a member works on what it has renewed."""


@dataclass
class _Session:
    """With one broker. `due`: what is to be said of records with the next request."""

    epoch: int = 0
    partitions: dict[tuple[UUID, int], None] = field(default_factory=dict)
    due: dict[tuple[UUID, int], dict[Offset, AcknowledgeType]] = field(default_factory=dict)
    last: tuple[tuple[UUID, int], Offset] | None = None
    """What was acknowledged before: a liar says it again."""


class ShareMembers(Places["_Member"]):
    """The members of one share group."""

    node = "sharer"

    def __init__(self, world: World, topics: Iterable[str]) -> None:
        super().__init__(world)
        self.topics = tuple(topics)
        """Those that members subscribe to who come from now on."""
        self._lives = 0
        self.is_honest = False

    def disconnect(self, place: int) -> None:
        """Its connections are closed; it goes on with others."""
        member = self.clients[place]
        if member is not None:
            member.disconnect()

    def missing(self, expected: Iterable[TopicPartition]) -> list[str]:
        """SH15: which of these partitions nobody has, in words."""
        if not self.loops:
            return []
        given = {partition for member in self.clients if member is not None for partition in member.names()}
        left = sorted(set(expected) - given)
        return [f"share group {GROUP}: nobody has {left}"] if left else []

    async def _live(self, place: int, loop: NodeLoop, random: Random) -> None:
        while not self.leaving[place]:
            self._lives += 1
            try:
                async with self.world.clients.cluster(loop) as cluster:
                    for topic in self.topics:
                        await cluster.topic(topic)
                    member = _Member(cluster, f"sharer-{place}.{self._lives}", self.topics, self, random)
                    self.clients[place] = member
                    while not self.leaving[place]:
                        await member.turn()
                    await member.leave()
            except KavkaError:
                await asyncio.sleep(RETRY_S)
        self.empty(place)


class _Member:
    """One process's membership, until something goes wrong that it cannot mend but by joining anew."""

    def __init__(self, cluster: Cluster, member_id: str, topics: tuple[str, ...], all_: ShareMembers, random: Random):
        self._cluster = cluster
        self._id = member_id
        self._topics = topics
        self._all = all_
        self._random = random
        self._epoch = 0
        self._beat_at_s = 0.0
        self._sessions: dict[int, _Session] = {}
        self.assigned: dict[tuple[UUID, int], None] = {}

    def names(self) -> list[TopicPartition]:
        """What it is assigned, as it knows."""
        by_id = {topic.topic_id: name for name, topic in self._cluster.topics.items()}
        return [TopicPartition(by_id[topic_id], index) for topic_id, index in self.assigned if topic_id in by_id]

    def disconnect(self) -> None:
        self._cluster.release("share")

    # -- membership

    async def turn(self) -> None:
        """A heartbeat if it is time, then a fetch of each leader. Raises KavkaError if it is no member any more."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._beat_at_s:
            await self._beat()
            self._beat_at_s = now_s + HEARTBEAT_S
        by_leader: dict[int, dict[tuple[UUID, int], None]] = {}
        lacks_leader = False
        for topic_id, index in self.assigned:
            topic = next((each for each in self._cluster.topics.values() if each.topic_id == topic_id), None)
            leader = -1 if topic is None else self._cluster.leader(TopicPartition(topic.name, index))
            lacks_leader = lacks_leader or leader < 0
            if leader >= 0:
                by_leader.setdefault(leader, {})[topic_id, index] = None
        if not by_leader:
            await asyncio.sleep(RETRY_S)
            await self._cluster.refresh_quietly()
        turns = [self._serve(leader, wanted) for leader, wanted in by_leader.items()]
        if not all(await asyncio.gather(*turns)):
            await asyncio.sleep(RETRY_S / 2)
            await self._cluster.refresh_quietly()
        elif by_leader and lacks_leader:  # Nothing goes wrong where nobody is asked.
            await self._cluster.refresh_quietly()

    async def _beat(self) -> None:
        is_new = self._epoch == 0

        async def ask() -> ShareGroupHeartbeatResponse:
            node_id = await self._cluster.find_coordinator(GROUP)
            request = ShareGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self._id,
                member_epoch=self._epoch,
                subscribed_topic_names=list(self._topics) if is_new else None,
            )
            answer = await self._cluster.ask(
                ApiKey.SHARE_GROUP_HEARTBEAT, request, ShareGroupHeartbeatResponse, node_id=node_id
            )
            _raise_for(answer.error_code)
            return answer

        answer = await self._cluster.retry(ask, what="heartbeat")
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {
                (topic.topic_id, index): None
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            }

    async def leave(self) -> None:
        """Closes its sessions, with what is due, and leaves the group."""
        for node_id, session in self._sessions.items():
            if session.epoch > 0:
                await self._acknowledge(node_id, session, FINAL_EPOCH)
        node_id = await self._cluster.find_coordinator(GROUP)
        request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=self._id, member_epoch=FINAL_EPOCH)
        await self._cluster.ask(ApiKey.SHARE_GROUP_HEARTBEAT, request, ShareGroupHeartbeatResponse, node_id=node_id)

    # -- records

    async def _serve(self, node_id: int, wanted: dict[tuple[UUID, int], None]) -> bool:
        """One turn with a leader. Whether nothing went wrong."""
        session = self._sessions.setdefault(node_id, _Session())
        try:
            if session.due and session.epoch > 0 and self._random.random() < 0.5:
                return await self._acknowledge(node_id, session, self._epoch_of(session))
            return await self._fetch(node_id, session, wanted)
        except KavkaError:
            self._sessions[node_id] = _Session()  # What came of its last request is open.
            return False

    def _lies(self, share: float) -> bool:
        return not self._all.is_honest and self._random.random() < share

    def _epoch_of(self, session: _Session) -> int:
        return session.epoch + 1 if session.epoch > 0 and self._lies(0.01) else session.epoch

    async def _fetch(self, node_id: int, session: _Session, wanted: dict[tuple[UUID, int], None]) -> bool:
        due = self._take_due(session)
        epoch = self._epoch_of(session)
        is_renewal = any(AcknowledgeType.RENEW in kinds.values() for kinds in due.values())
        gone = [each for each in session.partitions if each not in wanted]
        added = [each for each in wanted if each not in session.partitions]
        request = self._fetch_request(epoch, added, due, gone, is_renewal=is_renewal)
        connection = await self._cluster.connection(node_id, "share")
        answer = await connection.request(ApiKey.SHARE_FETCH, request, ShareFetchResponse)
        if answer.error_code != ErrorCode.NONE:
            self._sessions[node_id] = _Session()
            return False
        session.epoch += 1
        session.partitions = dict(wanted) | {key: None for key in due if key not in gone}
        is_well = True
        for topic in answer.responses:
            for part in topic.partitions:
                key = (topic.topic_id, part.partition_index)
                is_well = is_well and part.error_code == ErrorCode.NONE
                if part.acknowledge_error_code == ErrorCode.NONE and is_renewal:
                    await self._work_on(session, key, due.get(key, {}))
                self._take(session, key, part)
        return is_well

    def _fetch_request(
        self,
        epoch: int,
        added: Sequence[tuple[UUID, int]],
        due: Mapping[tuple[UUID, int], dict[Offset, AcknowledgeType]],
        gone: Sequence[tuple[UUID, int]],
        *,
        is_renewal: bool,
    ) -> fetching.ShareFetchRequest:
        """Asks for records of what is `added` beside what the session has, and acknowledges what is `due`."""
        return fetching.ShareFetchRequest(
            group_id=GROUP,
            member_id=self._id,
            share_session_epoch=epoch,
            max_wait_ms=0 if is_renewal else WAIT_MS,
            min_bytes=0 if is_renewal else 1,
            max_bytes=0 if is_renewal else 100_000,
            max_records=0 if is_renewal else MOST_RECORDS,
            batch_size=0 if is_renewal else MOST_RECORDS,
            share_acquire_mode=int(self._random.random() < 0.5),
            is_renew_ack=is_renewal,
            topics=[
                fetching.FetchTopic(
                    topic_id=key[0],
                    partitions=[
                        fetching.FetchPartition(
                            partition_index=key[1],
                            acknowledgement_batches=[
                                fetching.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=kinds
                                )
                                for first, last, kinds in _batches(due.get(key, {}))
                            ],
                        )
                    ],
                )
                for key in dict.fromkeys([*added, *due])
            ],
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=topic_id, partitions=[index]) for topic_id, index in gone
            ],
        )

    def _take(self, session: _Session, key: tuple[UUID, int], part: object) -> None:
        """Decides what becomes of the records that were acquired."""
        records = part.records  # type: ignore[attr-defined]  # a PartitionData
        there: set[Offset] = set()
        for batch in iterate_batches(memoryview(records)) if records else ():
            if not batch.header.is_control:
                there.update(range(batch.header.base_offset, batch.header.last_offset + 1))
        for acquired in part.acquired_records:  # type: ignore[attr-defined]
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                kind = self._kind() if offset in there else AcknowledgeType.GAP
                if kind is not None:
                    session.due.setdefault(key, {})[offset] = kind
        if session.last is not None and session.last[0] == key and self._lies(0.04):
            # What it said before, or of what others have.
            offset = session.last[1] + int(self._random.random() * 4)
            session.due.setdefault(key, {}).setdefault(offset, AcknowledgeType.ACCEPT)

    def _kind(self) -> AcknowledgeType | None:
        """What is said of one record; None: nothing, until its lock is over."""
        if self._all.is_honest:
            return AcknowledgeType.ACCEPT
        kinds = (AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW, None)
        lot = self._random.random()
        for kind, share in zip(kinds, (0.15, 0.18, 0.22, 0.28), strict=True):
            if lot < share:
                return kind
        return AcknowledgeType.ACCEPT

    async def _work_on(self, session: _Session, key: tuple[UUID, int], kinds: Mapping[Offset, AcknowledgeType]) -> None:
        """What was renewed is accepted later."""
        renewed = [offset for offset, kind in kinds.items() if kind is AcknowledgeType.RENEW]
        if renewed:
            await asyncio.sleep(_HELD_S)
            session.due.setdefault(key, {}).update(dict.fromkeys(renewed, AcknowledgeType.ACCEPT))

    def _take_due(self, session: _Session) -> dict[tuple[UUID, int], dict[Offset, AcknowledgeType]]:
        due, session.due = session.due, {}
        for key, kinds in due.items():
            session.last = (key, max(kinds))
        return {} if session.epoch == 0 else due

    async def _acknowledge(self, node_id: int, session: _Session, epoch: int) -> bool:
        due = self._take_due(session)
        is_renewal = any(AcknowledgeType.RENEW in kinds.values() for kinds in due.values())
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self._id,
            share_session_epoch=epoch,
            is_renew_ack=is_renewal,
            topics=[
                acknowledging.AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[
                        acknowledging.AcknowledgePartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                acknowledging.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in _batches(kinds)
                            ],
                        )
                    ],
                )
                for (topic_id, index), kinds in due.items()
            ],
        )
        connection = await self._cluster.connection(node_id, "share")
        answer = await connection.request(ApiKey.SHARE_ACKNOWLEDGE, request, ShareAcknowledgeResponse)
        if answer.error_code != ErrorCode.NONE:
            self._sessions[node_id] = _Session()
            return False
        if epoch != FINAL_EPOCH:
            session.epoch += 1
        for key, kinds in due.items():
            if is_renewal:
                await self._work_on(session, key, kinds)
        return True


def _batches(kinds: Mapping[Offset, AcknowledgeType]) -> list[tuple[Offset, Offset, list[int]]]:
    """Runs of neighbouring offsets, with one type for each offset."""
    found: list[tuple[Offset, Offset, list[int]]] = []
    for offset in sorted(kinds):
        if found and found[-1][1] + 1 == offset:
            first, _last, types = found.pop()
            found.append((first, offset, [*types, int(kinds[offset])]))
        else:
            found.append((offset, offset, [int(kinds[offset])]))
    return found


def _raise_for(code: int) -> None:
    if code != ErrorCode.NONE:
        raise RequestError(ErrorCode(code))
