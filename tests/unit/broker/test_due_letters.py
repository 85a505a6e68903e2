"""Which groups have dead letters that are due: asked of every broker, and of every partition of their states."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.coordinators.group_census import CensusPorts, GroupCensus
from kavka.coordinator.share_state.coordinator import DueLetters
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.model import BrokerId
from kavka.protocol.messages.read_share_group_state_summary_response import (
    KavkaStatesWithDueLetters,
    ReadShareGroupStateSummaryResponse,
)


class _Peer:
    def __init__(self, answer: KavkaStatesWithDueLetters | None) -> None:
        self._answer = answer
        self.is_closed = False

    async def request(self, *_asked: Any, **_given: Any) -> ReadShareGroupStateSummaryResponse:
        return ReadShareGroupStateSummaryResponse(kavka_due_letters=self._answer)

    def close(self) -> None:
        self.is_closed = True


def census(partitions: int | None, here: DueLetters, there: _Peer | None) -> list[str]:
    """As broker 1 finds it, beside broker 2."""

    async def open_peer(host: str, port: int, timeout_ms: int) -> Any:
        if there is None:
            raise ConnectionFailed("it is gone")
        return there

    metadata: Any = SimpleNamespace(
        topic=lambda name: None if partitions is None else SimpleNamespace(partitions=range(partitions)),
        brokers=lambda: [SimpleNamespace(broker_id=1), SimpleNamespace(broker_id=2)],
        endpoint=lambda broker_id, listener: SimpleNamespace(host="h", port=1),
    )
    states: Any = SimpleNamespace(due_letters=lambda: here)
    ports = CensusPorts(BrokerId(1), "PLAINTEXT", 1_000, open_peer)
    asked = GroupCensus(metadata, lambda: None, lambda: states, ports)  # type: ignore[arg-type,return-value]
    return asyncio.run(asked.with_due_letters())


def test_groups_of_all_brokers_are_told_once() -> None:
    peer = _Peer(KavkaStatesWithDueLetters(state_partitions=[1, 2], group_ids=["b", "c"]))
    assert census(3, DueLetters([0], ["a", "b"]), peer) == ["a", "b", "c"]
    assert peer.is_closed


def test_without_states_there_are_none_and_nobody_is_asked() -> None:
    assert census(None, DueLetters([], []), None) == []


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (_Peer(KavkaStatesWithDueLetters(state_partitions=[2], group_ids=[])), "__share_group_state-1"),
        (_Peer(None), "__share_group_state-1"),
        (None, "broker 2 does not say"),
    ],
    ids=["nobody serves a partition", "an earlier version", "a broker that is gone"],
)
def test_where_something_is_not_known_there_is_no_answer(there: _Peer | None, why: str) -> None:
    with pytest.raises(RequestError) as refused:
        census(3, DueLetters([0], []), there)
    assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert why in str(refused.value)
