"""ShareCoordinator: the flow around the shards of `__share_group_state`: turns, their log, loading.

A shard decides. This writes its records, waits until they are committed, replays them, and answers. Must not know
sockets, the wire format of requests, or which broker leads what.

    I1  an answer that depends on a record goes out after it is committed
    I2  changes of one share-partition take turns: the next is decided when the one before is replayed
    I3  a record whose outcome is unknown is replayed, and who asked gets an error: it lies in this leader's log, so it
        is either committed, or lost together with its leadership. Sent again, it changes nothing more. Nobody is told
        what the state is before it is committed, nor that there is nothing to do (`shared.uncommitted`)
    I4  the log begins no later than the oldest state (`decide.pruning`)
    I5  states of deleted topics go, each in its turn. Who says that a topic is deleted knows it: a topic of which this
        broker has not heard may be a new one

Source: Kafka's ShareCoordinatorService and CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from kavka.coordinator.groups.turns import Turns
from kavka.coordinator.share_state.decide.pruning import Pruning
from kavka.coordinator.share_state.decide.records import (
    ShareKey,
    ShareState,
    ShareStateRecord,
    UnreadableRecord,
    UpdateRecord,
    decode_share_state_record,
)
from kavka.coordinator.share_state.decide.shard import AskedNumber, ShareStateShard, WriteNumber
from kavka.coordinator.shared.active_shards import ActiveShard, ActiveShards, ShardLog
from kavka.coordinator.shared.decide.log_errors import OUTCOME_UNKNOWN, answer_for
from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction
from kavka.coordinator.shared.uncommitted import Uncommitted
from kavka.errors import ErrorCode, ProtocolViolation, RequestError
from kavka.logger import Logger
from kavka.metrics import Histogram
from kavka.model import LeaderEpoch, Offset

logger = Logger(__name__)

_T = TypeVar("_T")
DELETED_AT_ONCE: Final = 100
"""States of deleted topics whose tombstones are written before the next ones are."""


class ShareStateLog(ShardLog, Protocol):
    """The port to `__share_group_state`."""

    def append(self, partition: int, records: Sequence[CoordinatorRecord]) -> Awaitable[ErrorCode]:
        """Appends in order, as one batch, with acks=all; NONE once it is committed. What is appended lies at the end of
        the log as it is at the moment of the call."""
        ...

    def ends(self, partition: int) -> tuple[Offset, Offset] | None:
        """The high watermark and the end of the log; None if this broker does not lead it."""
        ...

    def cut(self, partition: int, offset: Offset) -> None:
        """Moves the log start to `offset`, which is committed."""
        ...


class ShareStatePorts(NamedTuple):
    """What the broker gives. `wall_ms` is the time in ms since 1970; `updates_per_snapshot` a setting."""

    wall_ms: Callable[[], int]
    updates_per_snapshot: Callable[[], int]
    is_there: Callable[[ShareKey], bool]
    """Whether the cluster has the partition that a state is of."""


class DueLetters(NamedTuple):
    """`groups` have dead letters that are due, by the states in these `partitions` of the topic."""

    partitions: Sequence[int]
    groups: Sequence[str]


class _Active(ActiveShard):
    """Share-partitions of one partition that is led here."""

    __slots__ = ("pruning", "shard", "turns", "uncommitted")

    def __init__(
        self, partition: int, leader_epoch: LeaderEpoch, shard: ShareStateShard, uncommitted: Uncommitted
    ) -> None:
        super().__init__(partition, leader_epoch)
        self.shard = shard
        self.uncommitted = uncommitted
        self.turns = Turns()
        self.pruning = Pruning()


class ShareCoordinator(ActiveShards[_Active]):
    """All share-partitions whose states this broker keeps."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: ShareStateLog, ports: ShareStatePorts) -> None:
        super().__init__(log, missing_topic=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._loop = loop
        self._log = log
        self._ports = ports
        self._writes: set[asyncio.Task[ErrorCode]] = set()
        self.write_ms = Histogram()
        """How long leaders waited for a write to be committed, or refused by the log."""
        self.cuts: dict[int, Offset] = {}
        """By partition of the topic: where its log was cut last."""

    # -- which partitions are here

    def _new_shard(self, partition: int, leader_epoch: LeaderEpoch) -> _Active:
        shard = ShareStateShard(self._ports.updates_per_snapshot())
        return _Active(partition, leader_epoch, shard, Uncommitted(partial(self._log.ends, partition)))

    def _on_read(self, active: _Active, found: Sequence[CoordinatorRecord] | OpenTransaction) -> None:
        if not isinstance(found, OpenTransaction):
            for record in found:
                _replay(active, record)

    def _on_loaded(self, active: _Active) -> None:
        active.loading = False

    def _on_unloaded(self, active: _Active) -> None:
        """Nothing waits here: what is being written ends with its own outcome."""
        self.cuts.pop(active.partition, None)

    def _on_other_count(self, count: int) -> None:
        logger.error(
            "the number of partitions of the share groups' states has changed",
            partitions=count,
            states_placed_by=self._placement.count,
            next_step="do not restart a broker: it would look for each state by the new number, and not find it",
        )

    def shut_down(self) -> None:
        super().shut_down()
        for write in list(self._writes):
            write.cancel()

    # -- requests; each raises `RequestError`

    async def initialize(
        self, key: ShareKey, state_epoch: int, start_offset: Offset, number: AskedNumber | None = None
    ) -> None:
        """Restarts the state. -1 stands for a start offset that is not known yet. `number`: None of who does not number
        its requests, here and below."""

        def decide(shard: ShareStateShard) -> tuple[CoordinatorRecord | None, None]:
            return shard.initialize(key, state_epoch, start_offset, self._ports.wall_ms(), number), None

        await self._in_turn(key, decide)

    async def read(self, key: ShareKey, leader_epoch: int, number: WriteNumber | None = None) -> ShareState:
        """The state, for a leader in this epoch: who led before may not write from now on."""

        def decide(shard: ShareStateShard) -> tuple[CoordinatorRecord | None, ShareState]:
            state, record = shard.read(key, leader_epoch, self._ports.wall_ms(), number)
            return record, state

        return await self._in_turn(key, decide)

    async def write(self, update: UpdateRecord, state_epoch: int, number: WriteNumber | None = None) -> None:
        """Stores what a leader has decided."""

        def decide(shard: ShareStateShard) -> tuple[CoordinatorRecord | None, None]:
            return shard.write(update, state_epoch, self._ports.wall_ms(), number), None

        began = self._loop.time()
        try:
            await self._in_turn(update.key, decide)
        finally:
            self.write_ms.record(int((self._loop.time() - began) * 1000))

    async def delete(self, key: ShareKey, number: AskedNumber | None = None) -> None:
        """Deletes the state, if there is one."""
        await self._in_turn(key, lambda shard: (shard.delete(key, number), None), of_gone=True)

    def summary(self, key: ShareKey) -> ShareState | None:
        """The state; None if there is none."""
        self._check(key)
        active = self._find(str(key))
        active.uncommitted.require_none()
        return active.shard.summary(key)

    # -- topics that are gone

    def topic_ids(self) -> frozenset[uuid.UUID]:
        """The topics of all states that are served here."""
        served = [active.shard for active in self._active.values() if not active.loading]
        return frozenset(key.topic_id for shard in served for key in shard.share_partitions())

    async def on_topics_deleted(self, topic_ids: Collection[uuid.UUID]) -> None:
        """Deletes their states, of all groups (I5). What cannot be written now is left for the next time."""
        for active in list(self._active.values()):
            if active.loading:
                continue
            keys = [key for key in active.shard.share_partitions() if key.topic_id in topic_ids]
            for start in range(0, len(keys), DELETED_AT_ONCE):
                part = keys[start : start + DELETED_AT_ONCE]
                outcomes = await asyncio.gather(*(self.delete(key) for key in part), return_exceptions=True)
                failure = next((each for each in outcomes if each is not None), None)
                if failure is None:
                    logger.info("states of deleted topics deleted", partition=active.partition, states=len(part))
                    continue
                if not isinstance(failure, RequestError):
                    raise failure
                logger.warning("states of deleted topics not deleted yet", why=failure.code.name, states=len(part))
                break

    def due_letters(self) -> DueLetters:
        """What all states that are served here say."""
        served = [active for active in self._active.values() if not active.loading]
        groups = {group for active in served for group in active.shard.groups_with_due_letters()}
        return DueLetters(sorted(active.partition for active in served), sorted(groups))

    # -- the log's length

    async def renew_cold(self, older_than_ms: int) -> None:
        """Writes the states again that have not changed for this long, while the log has grown since (I4)."""
        since_ms = self._ports.wall_ms() - older_than_ms
        for active in list(self._active.values()):
            ends = self._log.ends(active.partition)
            if active.loading or active.is_gone or ends is None:
                continue
            for key in active.pruning.to_renew(active.shard.states, ends[1], not_written_since_ms=since_ms):
                try:
                    await self._in_turn(key, partial(self._renewed, key=key), of_gone=True)
                except RequestError as failure:
                    logger.warning("share group state not written anew", key=str(key), why=failure.code.name)
                    break

    def _renewed(self, shard: ShareStateShard, *, key: ShareKey) -> tuple[CoordinatorRecord | None, None]:
        return shard.renew(key, self._ports.wall_ms()), None

    async def prune(self) -> None:
        """Removes the beginnings of the logs that are no longer needed."""
        for active in list(self._active.values()):
            ends = self._log.ends(active.partition)
            if not active.loading and not active.is_gone and ends is not None and not active.shard.unreadable:
                bound = active.pruning.bound(active.shard.states, ends[0])
                self._log.cut(active.partition, bound)
                self.cuts[active.partition] = bound

    def _check(self, key: ShareKey, *, of_gone: bool = False) -> None:
        if key.partition < 0:
            raise RequestError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
        if not of_gone and not self._ports.is_there(key):
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def _in_turn(
        self,
        key: ShareKey,
        decide: Callable[[ShareStateShard], tuple[CoordinatorRecord | None, _T]],
        *,
        of_gone: bool = False,
    ) -> _T:
        """Decides in the share-partition's turn; answers when the record is committed."""
        self._check(key, of_gone=of_gone)
        name = str(key)
        active = self._find(name)
        await active.turns.take(name)
        is_handed_over = False
        try:
            if active.is_gone:
                raise RequestError(ErrorCode.NOT_COORDINATOR)
            record, answer = decide(active.shard)
            if record is None:
                active.uncommitted.require_none()
                return answer
            task = self._loop.create_task(self._write(active, key, record))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)
            is_handed_over = True
        finally:
            if not is_handed_over:
                active.turns.give(name)
        error = await asyncio.shield(task)
        if error is not ErrorCode.NONE:
            raise RequestError(error)
        return answer

    async def _write(self, active: _Active, key: ShareKey, record: CoordinatorRecord) -> ErrorCode:
        committed: ShareStateRecord | None = None
        ends = self._log.ends(active.partition)
        active.pruning.on_writing(key, 0 if ends is None else ends[1])
        try:
            outcome = await self._log.append(active.partition, [record])
            if outcome is ErrorCode.NONE:
                committed = _replay(active, record)
            elif outcome in OUTCOME_UNKNOWN:
                active.uncommitted.note()
                _replay(active, record)
            return answer_for(outcome)
        finally:
            active.pruning.on_written(key, committed)
            active.turns.give(str(key))


def _replay(active: _Active, record: CoordinatorRecord) -> ShareStateRecord | None:
    try:
        decoded = decode_share_state_record(record)
    except ProtocolViolation as garbage:
        logger.warning("share group state skipped", partition=active.partition, why=str(garbage))
        return None
    if isinstance(decoded, UnreadableRecord):
        logger.error(
            "share group state unreadable",
            partition=active.partition,
            share_partition=str(decoded.key),
            why=decoded.why,
            next_step="this share-partition is not served: start a broker of the version that wrote it, or delete the "
            "group's offsets in the topic",
        )
    if decoded is not None:
        active.shard.replay(decoded)
    return decoded
