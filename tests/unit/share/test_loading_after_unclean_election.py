"""A share group's state that is ahead of the log: an unclean election cut off what it speaks of."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

from kavka.broker.share.led_share_partitions import LeaderPorts, LedShare, ShareLeaders
from kavka.broker.share.persister import StoredState
from kavka.coordinator.share_state.decide.records import ShareKey, UpdateRecord, decode_share_state_record
from kavka.coordinator.share_state.decide.shard import ShareStateShard
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.model import StateBatch
from kavka.share.decide.share_partition import Write
from kavka.share.decide.spans import RecordState

KEY = ShareKey("workers", uuid.UUID(int=1), 0)


class _States:
    """The states' coordinator, without a log of its own."""

    def __init__(self) -> None:
        self._shard = ShareStateShard(500)
        self._replay(self._shard.initialize(KEY, 1, 0, 0))

    async def read(self, key: ShareKey, leader_epoch: int, patience_s: float) -> StoredState:
        state, record = self._shard.read(key, leader_epoch, 0)
        if record is not None:
            self._replay(record)
        return StoredState(state.state_epoch, state.start_offset, state.batches)

    async def write(
        self, key: ShareKey, write: Write, *, state_epoch: int, leader_epoch: int, patience_s: float
    ) -> None:
        update = UpdateRecord(key, 0, leader_epoch, write.start_offset, write.complete, write.batches)
        self._replay(self._shard.write(update, state_epoch, 0))

    def _replay(self, record: CoordinatorRecord) -> None:
        decoded = decode_share_state_record(record)
        assert decoded is not None
        self._shard.replay(decoded)


def _load(states: _States, *, leader_epoch: int, log_end: int) -> LedShare:
    """The share-partition as its leader in this epoch begins with it."""
    log = SimpleNamespace(log_start_offset=0, log_end_offset=log_end, high_watermark=log_end)
    hosted = SimpleNamespace(topic_id=KEY.topic_id, is_leader=True, leader_epoch=leader_epoch, log=log)
    purgatory = SimpleNamespace(check=lambda key: None)
    replicas: Any = SimpleNamespace(require_partition=lambda topic, index: hosted, fetch_purgatory=purgatory)

    async def load() -> LedShare:
        loop = asyncio.get_running_loop()
        ports: Any = LeaderPorts(loop, *[None] * 7)  # type: ignore[arg-type]  # nothing of it is asked for here
        persister: Any = states
        loading = ShareLeaders(replicas, persister, ports).find(KEY, "orders", 0.0)
        assert isinstance(loading, asyncio.Task)
        return await loading

    return asyncio.run(load())


def test_what_was_done_at_offsets_that_are_gone_is_not_done_of_what_comes_there_later() -> None:
    """1. 8 of 10 records are done, those at 6 and 7 out of order; 2. an unclean election leaves 5; 3. others are
    written at their offsets; 4. the leader dies before a member has got them."""
    states = _States()
    done = [StateBatch(6, 7, RecordState.ACKNOWLEDGED, 1)]
    asyncio.run(states.write(KEY, Write(1, 4, done, 2), state_epoch=1, leader_epoch=1, patience_s=1))

    cut = _load(states, leader_epoch=2, log_end=5)
    grown = _load(states, leader_epoch=3, log_end=12)

    assert (cut.records.start, cut.records.end) == (4, 4)
    assert grown.records.next_fetch_offset == 4
    assert not [span for span in grown.records.spans if span.state is RecordState.ACKNOWLEDGED]


def test_a_start_behind_the_end_of_the_log_comes_back_to_it_for_good() -> None:
    states = _States()
    asyncio.run(states.write(KEY, Write(1, 9, (), 0), state_epoch=1, leader_epoch=1, patience_s=1))

    assert _load(states, leader_epoch=2, log_end=5).records.start == 5
    assert _load(states, leader_epoch=3, log_end=12).records.start == 5
