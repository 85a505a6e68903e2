"""ShareLeaderCase: the leader of a share-partition without a broker. States may refuse writes, or be set anew."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from kavka.broker.share.led_share_partitions import LeaderPorts, LedShare, ShareLeaders
from kavka.broker.share.persister import StateSummary, StoredState
from kavka.coordinator.share_state.decide.records import ShareKey, UpdateRecord, decode_share_state_record
from kavka.coordinator.share_state.decide.shard import ShareStateShard, WriteNumber
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.share.decide.acquired_records import LogBatch, Wish
from kavka.share.decide.share_partition import Acknowledgement, AcknowledgeType, ShareLimits, Write
from kavka.share.decide.spans import RecordState, Span

KEY = ShareKey("workers", uuid.UUID(int=1), 0)
LIMITS = ShareLimits(deliveries=5, lock_ms=30_000, in_flight=100, given_up=RecordState.ARCHIVING)


class _States:
    """The states' coordinator, without a log of its own. Writes wait until `goes_on` is set."""

    def __init__(self) -> None:
        self._shard = ShareStateShard(500)
        self._number = 0
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.may_be_read = asyncio.Event()
        self.may_be_read.set()
        self.summaries = 0
        self.refuses = ErrorCode.NONE
        """What every write is answered with, unless it is NONE."""
        self.refused = 0
        self.peers = SimpleNamespace(broker_id=1)
        self.set(1, 0)

    def set(self, state_epoch: int, start: int) -> None:
        """What an administrator does."""
        self._replay(self._shard.initialize(KEY, state_epoch, start, 0))

    def make_again(self) -> None:
        """The group is deleted, and made again: its epochs begin anew."""
        self._replay(self._shard.delete(KEY))
        self.set(1, 0)

    async def read(self, key: ShareKey, leader_epoch: int, patience_s: float) -> StoredState:
        state, record = self._shard.read(key, leader_epoch, 0)
        if record is not None:
            self._replay(record)
        return StoredState(state.state_epoch, state.start_offset, state.batches)

    async def summary(self, key: ShareKey, patience_s: float) -> StateSummary:
        self.summaries += 1
        asked = self._summary()
        await self.may_be_read.wait()
        return asked

    def _summary(self) -> StateSummary:
        state = self._shard.summary(KEY)
        assert state is not None
        return StateSummary(state.state_epoch, state.leader_epoch, state.start_offset, state.complete_count)

    async def write(
        self, key: ShareKey, write: Write, *, state_epoch: int, leader_epoch: int, patience_s: float
    ) -> None:
        await self.goes_on.wait()
        if self.refuses is not ErrorCode.NONE:
            self.refused += 1
            raise RequestError(self.refuses)
        update = UpdateRecord(key, 0, leader_epoch, write.start_offset, write.complete, write.batches)
        self._number += 1
        self._replay(self._shard.write(update, state_epoch, 0, WriteNumber(90, self._number)))

    def _replay(self, record: CoordinatorRecord | None) -> None:
        assert record is not None
        decoded = decode_share_state_record(record)
        assert decoded is not None
        self._shard.replay(decoded)


class _Writer:
    """Writes dead letters when it is let."""

    def __init__(self) -> None:
        self.may_write = asyncio.Event()
        self.begun: list[list[tuple[int, int]]] = []

    async def bury(self, grave: Any, spans: Sequence[Span]) -> Sequence[Span]:
        self.begun.append([(span.first, span.last) for span in spans])
        await self.may_write.wait()
        return spans if grave.is_current() else ()

    def close(self) -> None:
        """Nothing to end."""


class ShareLeaderCase:
    """A group on a broker; its only member has rejected two of three records."""

    def __init__(self, limits: ShareLimits = LIMITS) -> None:
        loop = asyncio.get_running_loop()
        self.states, self.writer = _States(), _Writer()
        log = SimpleNamespace(log_start_offset=0, log_end_offset=3, high_watermark=3)
        self.hosted = hosted = SimpleNamespace(
            topic_id=KEY.topic_id,
            is_leader=True,
            leader_epoch=4,
            log=log,
            topic_partition=TopicPartition("orders", 0),
        )
        replicas: Any = SimpleNamespace(
            require_partition=lambda topic, index: hosted, fetch_purgatory=SimpleNamespace(check=lambda key: None)
        )
        self._tasks: set[asyncio.Task[None]] = set()

        def spawn(work: Any) -> None:
            task = loop.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        settings: Any = SimpleNamespace(limits=limits, reset="earliest")
        ports: Any = LeaderPorts(
            loop,
            settings=lambda group_id: settings,
            find_offset=None,  # type: ignore[arg-type]  # not asked for
            wall_ms=lambda: 0,
            write_timeout_s=lambda: 1.0,
            spawn=spawn,
            record=lambda decision: None,
            dead_letters=lambda counts: self.writer,  # type: ignore[arg-type,return-value]
        )
        persister: Any = self.states
        self.leaders = ShareLeaders(replicas, persister, ports)

    async def find(self, since: float | None = None) -> LedShare:
        """What a session gets that began at `since`; now, if nothing is said."""
        found = self.leaders.find(KEY, "orders", self.now() if since is None else since)
        return found if isinstance(found, LedShare) else await found

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def reject(self) -> LedShare:
        led = await self.find()
        led.records.acquire("m", [LogBatch(0, 2, is_aborted=False)], Wish(500, 500), 0, LIMITS)
        self.leaders.acknowledge(led, "m", [Acknowledgement(0, 1, [AcknowledgeType.REJECT])])
        self.leaders.acknowledge(led, "m", [Acknowledgement(2, 2, [AcknowledgeType.ACCEPT])])
        await settled()
        return led

    def leave(self) -> None:
        """The last session of the group is over."""
        self.leaders.release(KEY.group_id, "m")
        self.leaders.forget(KEY.group_id)


async def settled() -> None:
    """What can be done without waiting for anybody is done."""
    for _ in range(20):
        await asyncio.sleep(0)
