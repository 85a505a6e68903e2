"""FlightRecorder: keeps this broker's inputs in a ring on its disk, so that its decisions can be made again.

Decides when entries are written, in which file, and what is told of the controller's decisions. What a partition tells
is `recorded_partition`'s, the bytes are `format`'s; `kavka replay` reads them. Must not know what was right.

    ring    two files of half of kavka.flight.recorder.bytes each in the first log directory; the older one is replaced
            when the newer is full

    I1  nothing waits for the recorder, and nothing changes by it: entries are kept in memory for LINGER_S at most and
        written without a sync. What was written survives the process, kill -9 included
    I2  entries are in the order in which things happened here
    I3  bounds: MAX_BUFFERED_BYTES in memory, the ring on the disk. A file may grow past its half by what one turn of
        the event loop adds
    I4  a ring that cannot be written is given up with a warning, and the broker goes on

Source: none; Apache Kafka has no such thing. The name is that of the Java Flight Recorder's bounded ring.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kavka import __version__
from kavka.controller.decide.questions import question_fields
from kavka.controller.term.input_recorder import EligibleReplicasKept, InputRecorder
from kavka.decisions import Decision, RecordDecision, RecordedDecision, forget
from kavka.errors import StorageError
from kavka.flight.format import (
    CHECK,
    CHECK_FIELDS,
    FETCH,
    FETCH_FIELDS,
    FLIGHT_FILES,
    RAISED,
    Fetch,
    encode_block,
    encode_fact,
    encode_recorded,
    verdict_name,
)
from kavka.flight.recorded_partition import RecordedPartition
from kavka.logger import Logger
from kavka.model import BrokerId, Offset, TopicPartition

if TYPE_CHECKING:
    import uuid

    from kavka.config.broker import BrokerConfig
    from kavka.controller.decide.context import ControllerContext, KnownState
    from kavka.controller.decide.election import PartitionChange
    from kavka.controller.decide.isr_proposals import Proposal, Verdict
    from kavka.controller.decide.questions import Question
    from kavka.filesystem import File, FileSystem
    from kavka.log.unified_log import UnifiedLog
    from kavka.replication.decide.partition import Partition
    from kavka.replication.decide.partition_rules import PartitionRules
    from kavka.zookeeper.znodes import PartitionState

logger = Logger(__name__)

LINGER_S: Final = 0.05
MAX_BUFFERED_BYTES: Final = 64 * 1024
"""Entries are written at once when they are more: a thousand fetches, a millisecond of compression."""


class FlightRecorder(InputRecorder):
    """One life of a broker. `wall_ms` is the time since 1970, `clock_ms` the broker's clock that never jumps.
    `record` takes note of what recorded partitions decide, and hands it to `on_decision`."""

    def __init__(
        self,
        filesystem: FileSystem,
        config: BrokerConfig,
        *,
        wall_ms: Callable[[], int],
        clock_ms: Callable[[], int],
        record: RecordDecision = forget,
    ) -> None:
        self._filesystem = filesystem
        self._directory = config.log_directories[0]
        self._file_bytes = config.kavka_flight_recorder_bytes // 2
        self._wall_ms = wall_ms
        self._clock_ms = clock_ms
        self._record = record
        self._began_ms = wall_ms()
        self._life = _life(config)
        self._ring: File | None = None
        self._failed = False
        self._started = False
        self._buffer = bytearray()
        self._flushing: asyncio.TimerHandle | None = None
        self._live: list[BrokerId] = []
        self._leaving: list[BrokerId] = []
        self._partitions = 0
        self.file = 0
        self.written_bytes = 0
        self._begin_file()

    def _begin_file(self) -> None:
        self.fact({"f": "life", "began": self._began_ms, "again": self.file > 0, **self._life})
        if self.file:
            self._tell_live()

    def start(self) -> None:
        """The log directories are this broker's own: writes the inputs recorded until now, and those that follow."""
        self._started = True
        self._flushing = asyncio.get_running_loop().call_later(LINGER_S, self._flush)

    # -- what is told

    def new_partition(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID,
        log: UnifiedLog,
        *,
        local_broker_id: BrokerId,
        min_insync_replicas: int,
        rules: PartitionRules | None = None,
    ) -> Partition:
        """A partition that is recorded; as `Partition` itself is made."""
        self._partitions += 1
        return RecordedPartition(
            self,
            self._partitions,
            topic_partition,
            topic_id,
            log,
            local_broker_id=local_broker_id,
            min_insync_replicas=min_insync_replicas,
            rules=rules,
        )

    def on_live_brokers(self, broker_ids: Iterable[BrokerId], leaving: Iterable[BrokerId] = ()) -> None:
        """These are alive, as the controller says, and of them these are shutting down."""
        told = sorted(broker_ids), sorted(leaving)
        if told != (self._live, self._leaving):
            self._live, self._leaving = told
            self._tell_live()

    def _tell_live(self) -> None:
        self.fact({"f": "brokers", "at": self._clock_ms(), "live": self._live, "leaving": self._leaving})

    def on_stopped(self, topic_partition: TopicPartition, *, delete: bool) -> None:
        """The controller has a replica of this broker stopped."""
        topic, partition = topic_partition
        self.fact({"f": "stop", "topic": topic, "partition": partition, "at": self._clock_ms(), "delete": delete})

    def on_decision(self, decision: Decision) -> None:
        """A `RecordDecision`."""
        self._add(encode_recorded(RecordedDecision("", decision)))

    def fetch(self, entry: Fetch) -> None:
        self._add(FETCH_FIELDS.pack(FETCH, *entry))

    def check(
        self, number: int, at_ms: int, log_end_offset: Offset, high_watermark: Offset, flags: int, *, only_raised: bool
    ) -> None:
        kind = RAISED if only_raised else CHECK
        self._add(CHECK_FIELDS.pack(kind, number, at_ms, log_end_offset, high_watermark, flags))

    def fact(self, fact: Mapping[str, Any]) -> None:
        self._add(encode_fact(fact))

    def decided(self, decisions: Iterable[Decision]) -> None:
        """What an input led to; its entry follows."""
        for decision in decisions:
            self._record(decision)

    # -- what the controller decides from

    def on_asked(
        self, partition: TopicPartition, known: KnownState, question: Question, answer: PartitionChange | None
    ) -> None:
        if answer is None:
            return  # Nothing becomes of most partitions that are asked about.
        self.fact(
            {
                **self._of("asked", partition),
                "state": state_znode(known.state),
                "version": known.version,
                **question_fields(question),
                "answer": state_znode(answer.state),
                "staying": answer.staying,
            }
        )

    def on_kept(self, partition: TopicPartition, kept: EligibleReplicasKept) -> None:
        self.fact(
            {
                **self._of("kept", partition),
                "state": state_znode(kept.before),
                "after": state_znode(kept.after),
                "staying": list(kept.staying),
                "needed": kept.needed,
                "unclean": list(kept.unclean),
                "answer": state_znode(kept.kept),
            }
        )

    def on_judged(self, proposal: Proposal, context: ControllerContext, verdict: Verdict, *, version: int) -> None:
        partition = proposal.partition
        known = context.states.get(partition)
        topic = context.topics.get(partition.topic)
        concerned = dict.fromkeys((*proposal.members, proposal.leader))
        replicas: tuple[BrokerId, ...] = ()
        if topic is not None and partition.partition in topic.assignment.partitions:
            replicas = topic.replicas(partition.partition)
        self.fact(
            {
                **self._of("judged", partition),
                "state": None if known is None else state_znode(known.state),
                "version": -1 if known is None else known.version,
                "replicas": replicas,
                "deleted": partition.topic in context.topics_to_delete,
                "controller_epoch": context.epoch,
                "epochs": [[each, context.broker_epoch(each)] for each in concerned],
                "shutting_down": [each for each in concerned if each in context.shutting_down],
                "unreachable": [each for each in concerned if each in context.unreachable],
                "leader": proposal.leader,
                "leader_epoch": proposal.leader_epoch,
                "isr": proposal.isr,
                "recovery": proposal.recovery,
                "on": proposal.partition_epoch,
                "api_version": version,
                "verdict": verdict_name(type(verdict).__name__),
            }
        )

    def _of(self, name: str, partition: TopicPartition) -> dict[str, Any]:
        return {"f": name, "topic": partition.topic, "partition": partition.partition, "at": self._clock_ms()}

    # -- the ring

    def _add(self, entry: bytes) -> None:
        if self._failed or (not self._started and len(self._buffer) >= MAX_BUFFERED_BYTES):
            return
        self._buffer += entry
        if not self._started:
            return
        if len(self._buffer) >= MAX_BUFFERED_BYTES:
            self._write()
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(LINGER_S, self._flush)

    def _flush(self) -> None:
        """Between inputs, so that here another file may begin."""
        self._flushing = None
        self._write()
        if self._ring is not None and self._ring.size() >= self._file_bytes and not self._failed:
            self._guarded(self._turn)

    def _write(self) -> None:
        if self._buffer and not self._failed:
            block = encode_block(self._buffer, self._wall_ms(), self._clock_ms())
            self._buffer = bytearray()
            self._guarded(lambda: self._append(block))

    def _append(self, block: bytes) -> None:
        if self._ring is None:
            self._ring = self._filesystem.open(f"{self._directory}/{FLIGHT_FILES[1]}", create=True)
        self._ring.append(block)
        self.written_bytes += len(block)

    def _turn(self) -> None:
        older, newer = (f"{self._directory}/{name}" for name in FLIGHT_FILES)
        assert self._ring is not None
        self._ring.close()
        try:
            self._filesystem.rename(newer, older)
        except FileNotFoundError:
            pass  # Somebody took it away; the ring goes on without it.
        self._ring = self._filesystem.open(newer, create=True)
        self.file += 1
        self._begin_file()

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except StorageError as failure:
            # The directory's own users find out and take it offline.
            self._failed = True
            self._buffer = bytearray()
            logger.warning("flight recording stopped", directory=self._directory, why=str(failure))

    # -- the end

    def stop(self) -> None:
        """The broker stops in order."""
        if self._started:
            self.fact({"f": "end", "at": self._clock_ms()})
            self._write()
        self.abort()

    def abort(self) -> None:
        """Writes no more; what was not written yet is lost, as in a kill."""
        self._failed = True
        if self._flushing is not None:
            self._flushing.cancel()
        if self._ring is not None:
            self._ring.close()
            self._ring = None


def state_znode(state: PartitionState) -> str:
    """A partition's state as its znode has it."""
    return state.encode().decode()


def _life(config: BrokerConfig) -> dict[str, Any]:
    """What a broker's decisions depend on besides its inputs."""
    return {
        "broker": config.broker_id,
        "kavka": __version__,
        "policy": config.kavka_replica_lag_policy,
        "max_ms": config.replica_lag_time_max_ms,
        "max_messages": config.kavka_replica_lag_max_messages,
        "holds": config.kavka_eligible_leader_replicas_enable,
    }
