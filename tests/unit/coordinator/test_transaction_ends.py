"""The end of a transaction of which nobody knows whether it is committed: it is written until it is, and no more."""

from __future__ import annotations

import asyncio

import pytest

from kavka.coordinator.shared.decide.log_errors import OUTCOME_UNKNOWN
from kavka.coordinator.transactions.decide.state import TransactionState
from kavka.errors import ErrorCode, RequestError
from tests.unit.coordinator.test_transaction_coordinator import Room, runs, until


@pytest.mark.parametrize("unknown", sorted(OUTCOME_UNKNOWN, key=lambda code: code.name))
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_of_unknown_outcome_is_waited_for_and_written_again_only_where_it_is_lost(
    unknown: ErrorCode, *, committed: bool
) -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        await room.add(producer)
        room.markers.gate = asyncio.Event()
        await room.end(producer)
        room.log.error = unknown
        room.markers.gate.set()
        await until(lambda: room.log.has_unknown)
        await asyncio.sleep(10.0)
        assert room.state is TransactionState.PREPARE_COMMIT
        assert room.log.states()[-2:] == ["PREPARE_COMMIT", "COMPLETE_COMMIT"], "one write waits, and no other comes"
        room.log.error, room.log.is_committed = ErrorCode.NONE, committed
        room.log.settled.set()
        await asyncio.sleep(10.0)
        assert room.state is TransactionState.COMPLETE_COMMIT
        assert room.log.states().count("COMPLETE_COMMIT") == (1 if committed else 2)
        assert len(room.markers.written) == 1
        assert room.bugs == []

    runs(scenario)


def test_a_producer_does_not_wait_long_for_an_end_that_the_log_has_refused() -> None:
    """Until it is written the producer's next transaction is refused with CONCURRENT_TRANSACTIONS."""

    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        await room.add(producer)
        room.markers.gate = asyncio.Event()
        await room.end(producer)
        room.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        room.markers.gate.set()
        await asyncio.sleep(0.05)
        with pytest.raises(RequestError) as refused:
            await room.add(producer)
        assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
        room.log.error = ErrorCode.NONE
        await asyncio.sleep(0.5)
        await room.add(producer)
        assert room.log.states()[-2:] == ["COMPLETE_COMMIT", "ONGOING"]

    runs(scenario)
