"""The topic with the markers of micro-batches: made, checked, and read up to its end.

Decides which settings the topic needs, where a query's records are, and how far a worker process has read. What a
marker means is in `markers`.

Invariants
  I1  `look` reads to the high watermark that the leader of the query's partition names. That shows what was committed
      before, if the broker that answers still leads. One that has lost its place without knowing it shows less.
  I2  `look_before` shows all that was committed before a record of the caller's own, once that is delivered: only the
      leader takes records, and their offsets are behind what it had.
  I3  A topic that could forget a marker is never used: its cleanup.policy is checked once per process.
  I4  A partition is read once, then only what came since; a topic that was deleted and made again is read anew.
  I5  The markers of all tasks of a query and its layout are in one partition, by the key of the layout: so one record
      of a task's own is behind all that it acted on (I2). Earlier versions of kavka put a marker where its own key
      belongs; there it is looked for while the query's partition has none of that task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kavka.client.admin import Admin, ConfigResource, NewTopic, ResourceType
from kavka.client.answers import error_of, raise_for
from kavka.client.cluster import Cluster
from kavka.client.consumer import HIGHEST_FETCH
from kavka.client.deliveries import Delivery
from kavka.client.offsets import earliest_offsets, latest_offsets
from kavka.client.partitioner import partition_for_key
from kavka.errors import ConfigError, ConnectionFailed, ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.messages.fetch_response import FetchResponse, PartitionData
from kavka.records.batch import iterate_batches
from kavka_spark.markers import CommittedMarkers, Marker, Task
from kavka_spark.writer_layouts import Layout, layout_key

PARTITION_COUNT: Final = 16
MOST_REPLICAS: Final = 3
FETCH_BYTES: Final = 1 << 20
_SEGMENT_BYTES: Final = 1 << 20
"""Only segments that are closed are compacted; this is the least that Apache Kafka 4 allows."""
_DIRTY_RATIO: Final = "0.1"


class Seen(NamedTuple):
    """What is committed of a query."""

    layout: Layout | None
    markers: Mapping[Task, Marker | None]
    """Of the tasks that were asked for, the last ones."""


class MarkerTopic:
    """A topic of markers, as one worker process knows it. Belongs to the loop of its cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._topic_id: object = None
        self._read: dict[int, CommittedMarkers] = {}

    async def partition_of(self, query: str) -> TopicPartition:
        """The partition with the query's records. Creates the topic if there is none.

        Raises `ConfigError` for a topic of that name that is not compacted, `RequestError` and `ConnectionFailed`.
        """
        return TopicPartition(self._name, partition_for_key(layout_key(query), await self._ready()))

    async def look(self, query: str, tasks: Iterable[Task] = ()) -> Seen:
        """What is committed of a query and of some of its tasks (I1). Raises as `partition_of`, and `RecordsError`
        for what is no marker."""
        partition = await self.partition_of(query)
        known = await self._read_to_end(partition)
        return await self._seen(partition, known, query, tasks)

    async def look_before(self, delivered: Delivery, query: str, tasks: Iterable[Task] = ()) -> Seen:
        """What was committed before the caller's own record of that query (I2). Raises as `look`."""
        partition = TopicPartition(delivered.topic, delivered.partition)
        known = await self._read_to(partition, delivered.offset)
        return await self._seen(partition, known, query, tasks)

    async def _seen(
        self, partition: TopicPartition, known: CommittedMarkers, query: str, tasks: Iterable[Task]
    ) -> Seen:
        layout = known.layout_of(query)
        markers = {task: known.of(task) for task in tasks}
        for task, marker in markers.items():
            before = TopicPartition(self._name, partition_for_key(task.key, await self._ready()))
            if marker is None and before != partition:
                markers[task] = (await self._read_to_end(before)).of(task)
        return Seen(layout, markers)

    async def last_batch(self, query: str) -> int | None:
        """The last batch that any task of the query committed. Reads the whole topic; raises as `look`."""
        markers = await self.markers_of(query)
        return max((marker.batch for marker in markers.values()), default=None)

    async def markers_of(self, query: str) -> dict[int, Marker]:
        """The last marker of each task of the query. Reads the whole topic; raises as `look`."""
        found: dict[int, Marker] = {}
        for index in range(await self._ready()):
            known = await self._read_to_end(TopicPartition(self._name, index))
            for task, marker in known.markers_of(query).items():
                if task not in found or found[task].batch < marker.batch:
                    found[task] = marker
        return found

    async def _read_to_end(self, partition: TopicPartition) -> CommittedMarkers:
        return await self._read_to(partition, (await latest_offsets(self._cluster, [partition]))[partition])

    async def _read_to(self, partition: TopicPartition, end: int) -> CommittedMarkers:
        known = self._read.setdefault(partition.partition, CommittedMarkers())

        async def read_on() -> None:
            while known.next_offset < end:
                await self._read_some(partition, known)

        await self._cluster.retry(read_on, what=f"read the markers in {partition}")
        if known.is_too_large:
            del self._read[partition.partition]
        return known

    async def _ready(self) -> int:
        """The number of partitions, once the topic exists with the right settings."""
        try:
            if self._name not in self._cluster.topics:
                # One look: waiting for a topic that nobody has made would cost the first task seconds.
                await self._cluster.topic(self._name, timeout_ms=1)
        except ConnectionFailed:
            pass
        except RequestError as missing:
            if missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                await self._create()
        topic = await self._cluster.topic(self._name)
        if topic.topic_id != self._topic_id:
            await self._check()
            self._topic_id = topic.topic_id
            self._read.clear()
        return len(topic.partitions)

    async def _create(self) -> None:
        admin = Admin(self._cluster)
        brokers = len((await admin.describe_cluster()).brokers)
        replicas = min(brokers, MOST_REPLICAS)
        settings = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": _DIRTY_RATIO,
            "min.insync.replicas": str(max(replicas - 1, 1)),
            "segment.bytes": str(_SEGMENT_BYTES),
            "unclean.leader.election.enable": "false",
        }
        refused = (await admin.create_topics([NewTopic(self._name, PARTITION_COUNT, replicas, settings)])).get(
            self._name
        )
        if refused is not None and refused.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise RequestError(
                refused.code,
                f"the topic {self._name!r}, which exactlyOnce needs, could not be created: {refused.message}; create "
                "it with cleanup.policy=compact, or name another with option 'exactlyOnceTopic'",
            )

    async def _check(self) -> None:
        resource = ConfigResource(ResourceType.TOPIC, self._name)
        entries = (await Admin(self._cluster).describe_configs([resource]))[resource]
        policy = next((entry.value for entry in entries if entry.name == "cleanup.policy"), None)
        if policy != "compact":
            raise ConfigError(
                f"topic {self._name!r} has cleanup.policy={policy}, and exactlyOnce needs one that forgets no marker: "
                "set it to compact, or name another topic with option 'exactlyOnceTopic'"
            )

    async def _read_some(self, partition: TopicPartition, known: CommittedMarkers) -> None:
        """Fetches once, from where reading stopped."""
        leader = self._cluster.leader(partition)
        if leader < 0:
            await self._cluster.refresh_quietly()
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        fetched = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=self._cluster.leader_epoch(partition),
            fetch_offset=known.next_offset,
            partition_max_bytes=FETCH_BYTES,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=partition.topic, partitions=[fetched])],
        )
        answer = await self._cluster.ask(ApiKey.FETCH, request, FetchResponse, node_id=leader, highest=HIGHEST_FETCH)
        for topic in answer.responses:
            for data in topic.partitions:
                await self._take(partition, known, data)

    async def _take(self, partition: TopicPartition, known: CommittedMarkers, data: PartitionData) -> None:
        code = error_of(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            # Records were deleted by hand: what is left begins later.
            known.restart((await earliest_offsets(self._cluster, [partition]))[partition])
        elif code is not ErrorCode.NONE:
            await self._cluster.refresh_quietly()
            raise_for(data.error_code, f"fetch of {partition}")
        elif data.records:
            assert isinstance(data.records, memoryview)
            known.take(iterate_batches(data.records))
        elif data.high_watermark > known.next_offset:
            known.skip_to(data.high_watermark)  # Compaction left nothing up to the end.
        else:
            # A leader that was just elected: it learns with its followers' next fetches how far it may be read.
            raise RequestError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition} cannot be read to its end yet")
