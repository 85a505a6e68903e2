"""Members of a simulated streams group (KIP-1071): threads of a Kafka Streams application.

They send the protocol's own requests.

A member is a place, as in a consumer group: after a crash another process takes it, under another member id. Two places
are threads of one instance of the application. A member runs what it is told to, and takes its time to give back what
it is to give back; it commits offsets of what it runs. Some come with an epoch that is not theirs, or with a topology
that is not the group's: that must change nothing. Once `is_honest`, none does, and none
commits, so that logs come to rest.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kavka.coordinator.groups.streams.decide.records import ids_of
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, TaskIds, Tasks
from kavka.errors import ErrorCode, KavkaError, RequestError
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages import offset_commit_request as committing
from kavka.protocol.messages import streams_group_heartbeat_request as beating
from kavka.protocol.messages.offset_commit_response import OffsetCommitResponse
from kavka.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kavka.simulator.clients.places import Places

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from kavka.client.cluster import Cluster
    from kavka.simulator.host.scheduler import NodeLoop
    from kavka.simulator.world import World

GROUP: Final = "application"
READING, COUNTING = "0", "1"
"""The parts of the application: one sends what it reads to who counts it, the other keeps the counts."""
REPARTITION: Final = f"{GROUP}-by-key-repartition"
CHANGELOG: Final = f"{GROUP}-counts-changelog"
REPARTITIONS: Final = 2
STREAMING: Final[Mapping[str, str]] = {
    "group.streams.session.timeout.ms": "8000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.assignment.interval.ms": "300",
    "group.streams.num.standby.replicas": "1",
}
"""Of brokers with streams groups: whatever takes long is short, so that it happens often."""
THREADS: Final = 2
"""Members of one instance."""
RETRY_S: Final = 0.5
REBALANCE_MS: Final = 10_000
HIGHEST_COMMIT: Final = 9
"""The last version of OffsetCommit that names topics."""
GONE: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
"""Who is told so has no task any more, and joins again."""


class StreamsMembers(Places["_Member"]):
    """The members of one application, which reads `topic`."""

    node = "streamer"

    def __init__(self, world: World, topic: str) -> None:
        super().__init__(world)
        self.topic = topic
        self._lives = 0
        self.is_honest = False

    def running(self) -> dict[str, Tasks]:
        """By member id, what each runs that is alive and takes itself for a member."""
        return {member.id: member.runs for member in self.clients if member is not None and member.epoch > 0}

    async def _live(self, place: int, loop: NodeLoop, random: Random) -> None:
        while not self.leaving[place]:
            self._lives += 1
            try:
                async with self.world.clients.cluster(loop) as cluster:
                    await cluster.topic(self.topic)
                    member = _Member(cluster, f"streamer-{place}.{self._lives}", place // THREADS, self, random)
                    self.clients[place] = member
                    while not self.leaving[place]:
                        await member.turn()
                    await member.leave()
            except KavkaError:
                self.clients[place] = None  # It runs nothing any more; the group will find out.
                await asyncio.sleep(RETRY_S)
        self.empty(place)


class _Member:
    """One process's membership, until its connection is of no use any more."""

    def __init__(self, cluster: Cluster, member_id: str, instance: int, all_: StreamsMembers, random: Random) -> None:
        self._cluster = cluster
        self.id = member_id
        self._process_id = f"instance-{instance}"
        self._all = all_
        self._random = random
        self.epoch = 0
        self.runs = NOTHING
        self._told = NOTHING
        self._committed = 0
        self._was_member = False

    async def turn(self) -> None:
        """A heartbeat, and what it leads to. Raises KavkaError where it cannot be answered for long."""
        pause_s = await self._beat()
        if self.runs != self._told:
            # What it gives back takes a while. Some say meanwhile that they still have it.
            await asyncio.sleep(self._random.random() * (0.2 if self._all.is_honest else 1.5))
            if self._all.is_honest or self._random.random() < 0.6:
                self.runs = self._told
            return
        if not self._all.is_honest and self._random.random() < 0.3:
            await self._commit()
        await asyncio.sleep(pause_s * (0.5 + self._random.random()))

    async def leave(self) -> None:
        self._abandon()
        node_id = await self._cluster.find_coordinator(GROUP)
        request = beating.StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=self.id, member_epoch=-1)
        await self._cluster.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, request, StreamsGroupHeartbeatResponse, node_id=node_id)

    def _abandon(self) -> None:
        self.epoch = 0
        self.runs = self._told = NOTHING

    def _lies(self, share: float) -> bool:
        return not self._all.is_honest and self._random.random() < share

    async def _beat(self) -> float:
        """Returns after how many seconds it is to come again."""
        # The first member's topology is the group's: a liar was a member before.
        is_other = self.epoch == 0 and self._was_member and self._lies(0.3)
        epoch = self.epoch + 1 if self.epoch > 0 and self._lies(0.01) else self.epoch
        request = self._heartbeat(epoch, is_other=is_other)

        async def ask() -> StreamsGroupHeartbeatResponse:
            node_id = await self._cluster.find_coordinator(GROUP)
            answer = await self._cluster.ask(
                ApiKey.STREAMS_GROUP_HEARTBEAT, request, StreamsGroupHeartbeatResponse, node_id=node_id
            )
            if answer.error_code != ErrorCode.NONE:
                raise RequestError(ErrorCode(answer.error_code), answer.error_message or "")
            return answer

        try:
            answer = await self._cluster.retry(ask, what="heartbeat")
        except RequestError as refused:
            if refused.code in GONE:
                self._abandon()
            elif not (is_other and refused.code is ErrorCode.INVALID_REQUEST):
                raise
            return RETRY_S
        self._take(answer)
        return answer.heartbeat_interval_ms / 1_000

    def _take(self, answer: StreamsGroupHeartbeatResponse) -> None:
        self._all.world.observer.streams.on_told(self.id, self.epoch, answer.member_epoch)
        self.epoch, self._was_member = answer.member_epoch, True
        if answer.active_tasks is not None:
            parts = (answer.active_tasks, answer.standby_tasks or (), answer.warmup_tasks or ())
            self._told = Tasks(*map(ids_of, parts))
            self.runs = self.runs.together(self._told)
            self._all.world.observer.streams.check_running(self._all.running())

    def _heartbeat(self, epoch: int, *, is_other: bool) -> beating.StreamsGroupHeartbeatRequest:
        is_new = epoch == 0
        active, standby, warmup = map(_message, self.runs)
        return beating.StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_MS if is_new else -1,
            topology=self._topology(is_other=is_other) if is_new else None,
            active_tasks=active,
            standby_tasks=standby,
            warmup_tasks=warmup,
            process_id=self._process_id if is_new else None,
            client_tags=[] if is_new else None,
        )

    def _topology(self, *, is_other: bool) -> beating.Topology:
        replicas = self._all.world.replicas
        repartition = beating.TopicInfo(name=REPARTITION, partitions=REPARTITIONS, replication_factor=replicas)
        changelog = beating.TopicInfo(name=CHANGELOG, replication_factor=replicas)
        reading = beating.Subtopology(
            subtopology_id=READING,
            source_topics=[self._all.topic],
            repartition_sink_topics=[] if is_other else [REPARTITION],
        )
        counting = beating.Subtopology(
            subtopology_id=COUNTING, repartition_source_topics=[repartition], state_changelog_topics=[changelog]
        )
        return beating.Topology(epoch=0, subtopologies=[reading] if is_other else [reading, counting])

    async def _commit(self) -> None:
        """Commits an offset of each partition that it reads. What comes of it the rules look at."""
        partitions, epoch = sorted(self.runs.active.get(READING, ())), self.epoch
        if self._lies(0.1):
            # As one does that has not heard of its present epoch, and of what it is to give back.
            partitions, epoch = list(range(len(self._cluster.topics[self._all.topic].partitions))), epoch - 1
        if not partitions or epoch <= 0:
            return
        self._committed += 1
        request = committing.OffsetCommitRequest(
            group_id=GROUP,
            member_id=self.id,
            generation_id_or_member_epoch=epoch,
            topics=[
                committing.OffsetCommitRequestTopic(
                    name=self._all.topic,
                    partitions=[
                        committing.OffsetCommitRequestPartition(
                            partition_index=number, committed_offset=self._committed, committed_metadata=""
                        )
                        for number in partitions
                    ],
                )
            ],
        )
        node_id = await self._cluster.find_coordinator(GROUP)
        await self._cluster.ask(
            ApiKey.OFFSET_COMMIT, request, OffsetCommitResponse, node_id=node_id, highest=HIGHEST_COMMIT
        )


def _message(ids: TaskIds) -> list[beating.TaskIds]:
    return [beating.TaskIds(subtopology_id=name, partitions=sorted(ids[name])) for name in sorted(ids)]
