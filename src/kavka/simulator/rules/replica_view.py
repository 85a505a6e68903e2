"""View: a simulated cluster as its observer sees it: replicas, what is stored, and the ghosts that no broker may read.

Decides nothing: it is what the rules look at (`invariants`, `log_rules`, `join_rules`, `fencing_rules`), and how one of
them says that it is broken.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from kavka.model import Offset, TopicPartition
from kavka.records.batch import RecordBatch, iterate_batches
from kavka.simulator.rules.log_mirror import READ_BYTES, LogMirror

if TYPE_CHECKING:
    import uuid

    from kavka.model import LeaderAndIsr
    from kavka.replication.decide.isr_states import IsrState
    from kavka.replication.decide.partition import Partition
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.zookeeper.znodes import PartitionState


class Violation(Exception):
    """A rule was broken. `rule` is its number in docs/design/rules.md."""

    def __init__(self, rule: str, at_ms: int, text: str) -> None:
        super().__init__(f"{rule} at {at_ms} ms: {text}")
        self.rule = rule
        self.at_ms = at_ms


class Look(NamedTuple):
    """What was seen of a replica last."""

    log_end_offset: Offset
    high_watermark: Offset
    state: LeaderAndIsr
    is_leader: bool
    isr: IsrState
    has_failed: bool


class Seen:
    """A replica in one life of its broker, as the observer knows it."""

    __slots__ = ("_disk", "broker", "is_former", "is_leaving", "look", "mirror", "name", "partition")

    def __init__(self, partition: Partition, broker: SimulatedBroker) -> None:
        self.partition = partition
        self.broker = broker
        self.name = f"{partition.topic_partition} at broker {broker.broker_id}"
        self.mirror = LogMirror()
        self.look: Look | None = None
        self.is_former = False
        """Whether it is of a topic that had this name before."""
        self.is_leaving = False
        """Whether its broker was no replica at some time of its life: its log may be deleted."""
        self._disk = broker.disk

    @property
    def is_present(self) -> bool:
        return self.look is not None and not self.is_former and not self.partition.log.failure

    @property
    def has_moved(self) -> bool:
        """Whether the log begins or ends elsewhere than it did when it was followed last: its broker's every step that
        changes it is followed, so that between two of them there is nothing else to be seen."""
        log, mirror = self.partition.log, self.mirror
        return log.log_end_offset != mirror.end or log.log_start_offset != mirror.start

    def follow(self) -> None:
        """Takes over what the log has now. The observer's own reads do not fail."""
        with self._disk.without_faults():
            self.mirror.follow(self.partition.log)

    def batches(self, start: Offset, end: Offset) -> list[RecordBatch]:
        """The batches that begin in [`start`, `end`), as far as the log still has them."""
        log, found = self.partition.log, []
        offset = max(start, log.log_start_offset)
        while offset < end:
            with self._disk.without_faults():
                result = log.read(offset, READ_BYTES, max_offset=end, min_one_batch=True)
                read = [memoryview(chunk.tobytes()) for chunk in result.chunks]
            found += [batch for data in read for batch in iterate_batches(data) if batch.header.base_offset >= offset]
            offset = result.next_offset
        return found

    def first_damage(self) -> str:
        """What is wrong with the first bad batch of the log: its CRC, or its position."""
        log, expected = self.partition.log, -1
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            with self._disk.without_faults():
                result = log.read(offset, READ_BYTES, max_offset=log.log_end_offset, min_one_batch=True)
                read = [memoryview(chunk.tobytes()) for chunk in result.chunks]
            for data in read:
                for batch in iterate_batches(data):
                    if not batch.crc_is_right():
                        return f"the batch at {batch.header.base_offset} is damaged"
                    if batch.header.base_offset < expected:
                        return f"a batch at {batch.header.base_offset} behind {expected}"
                    expected = batch.header.last_offset + 1
            offset = result.next_offset
        return ""


class Stored(NamedTuple):
    """A partition's state znode."""

    state: PartitionState
    version: int


class View:
    """What is known of the cluster. `allow_loss` (unclean elections, more crashes than min.insync.replicas bears)
    leaves out the rules that do not hold then."""

    def __init__(self, *, allow_loss: bool) -> None:
        self.allow_loss = allow_loss
        self.now_ms = 0
        self.digest = 0
        self.replicas: dict[TopicPartition, dict[int, Seen]] = {}
        self.stored: dict[TopicPartition, Stored] = {}
        self.assigned: dict[TopicPartition, tuple[int, ...]] = {}
        self.topic_ids: dict[str, uuid.UUID | None] = {}
        self.powerless: dict[tuple[int, TopicPartition], None] = {}
        """Replicas that lost power and have not been seen with all that is committed since."""
        self.true_high_watermark: dict[TopicPartition, Offset] = {}
        self.committed: dict[TopicPartition, LogMirror] = {}
        """The log below the true high watermark, as the leader that raised it last had it."""
        self.stands_last: dict[TopicPartition, None] = {}
        """Partitions whose ISR once was down to replicas that had lost power, where nothing keeps such from leading
        (KIP-966's case, see `note_last_standing`)."""
        self.thin_topics: dict[str, None] = {}
        """Topics that somebody gave a min.insync.replicas of 1."""
        self.has_eligible_leaders = False
        """Whether brokers keep eligible leader replicas, and a minimum of in-sync replicas that they help with."""

    def allows_loss(self, partition: TopicPartition) -> bool:
        """Whether records of the partition may be lost that were acknowledged."""
        return self.allow_loss or partition in self.stands_last

    def note_last_standing(self, partition: TopicPartition, *, had_leader: bool) -> None:
        """A state was stored. Without eligible leader replicas the last member of an ISR is a leader whatever it lost:
        ZooKeeper knows of none of the others any more. So is, where all members were away at once and nobody led, the
        first of them that is back. kavka is no better there than Apache Kafka, and says so."""
        if self.has_eligible_leaders and partition.topic not in self.thin_topics:
            return
        state = self.stored[partition].state
        is_last = all((member, partition) in self.powerless for member in state.isr)
        is_first_back = not had_leader and (state.leader, partition) in self.powerless
        if is_last or is_first_back:
            self.stands_last[partition] = None
            self.note(f"{partition} is down to what lost power")

    def note(self, event: str) -> None:
        """Makes `event` part of the digest."""
        self.digest = zlib.crc32(f"{self.now_ms} {event}".encode(), self.digest)

    def require(self, rule: str, holds: bool, text: str) -> None:
        """Raises Violation unless it holds."""
        if not holds:
            self.broken(rule, text)

    def broken(self, rule: str, text: str) -> NoReturn:
        """Raises Violation; for what is checked at each step, where a text for each would cost more than the check."""
        raise Violation(rule, self.now_ms, text)

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """Which topic it is that has this name now."""
        return self.topic_ids.get(topic)

    def topic_name(self, topic_id: uuid.UUID) -> str:
        """The topic that has this id; empty if it is gone."""
        return next((name for name, known in self.topic_ids.items() if known == topic_id), "")

    def bound(self, partition: TopicPartition) -> Offset:
        """The true high watermark."""
        return self.true_high_watermark.get(partition, 0)
