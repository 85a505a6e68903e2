"""When a broker may be restarted, and when it is back: partitions as they stand in, an answer out."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kavka.client import admin, rolling_restart
from kavka.client.durability import PartitionReplicas
from kavka.client.rolling_restart import RollingRestart, behind, never_safe, why_not
from kavka.model import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def partition(
    replicas: tuple[int, ...], in_sync: tuple[int, ...], *, least: int = 1, name: TopicPartition = P0
) -> PartitionReplicas:
    return PartitionReplicas(name, in_sync[0] if in_sync else -1, 1, replicas, in_sync, least, {})


@pytest.mark.parametrize(
    ("replicas", "least", "is_never_safe"),
    [
        ((1, 2, 3), 2, False),
        ((1, 2), 1, False),
        ((1, 2), 2, True),
        ((1,), 1, True),
        ((1,), 3, True),
        ((1, 2, 3), 3, True),
        ((4, 5), 2, False),
    ],
)
def test_a_partition_without_a_replica_to_spare_is_never_safe(
    replicas: tuple[int, ...], least: int, is_never_safe: bool
) -> None:
    found = never_safe([partition(replicas, replicas, least=least)], {1, 2})
    assert found == ([P0] if is_never_safe else [])


def test_a_broker_waits_while_it_is_the_only_one_in_sync_or_the_last_that_acks_all_needs() -> None:
    assert why_not([partition((1, 2), (1,))], 1, []) == "it is the only in-sync replica of orders-0"
    assert why_not([partition((1, 2, 3), (1, 2), least=2)], 1, []) == "acks=all would be refused on orders-0"
    assert why_not([partition((1, 2, 3), (1, 2), least=2)], 3, []) == ""
    assert why_not([partition((1, 2, 3), (1, 2, 3), least=2)], 1, []) == ""


def test_what_was_accepted_to_be_away_is_not_waited_for_but_the_others_are() -> None:
    alone, pair = partition((1,), (1,)), partition((1, 2), (1,), name=P1)
    assert why_not([alone], 1, [P0]) == ""
    assert why_not([alone, pair], 1, [P0]) == "it is the only in-sync replica of orders-1"


def test_a_broker_is_back_when_it_is_in_sync_everywhere() -> None:
    found = [partition((1, 2), (1,)), partition((1, 2), (2, 1), name=P1), partition((3,), (3,))]
    assert behind(found, 2) == [P0]
    assert behind(found, 1) == []


def rolled(readings: list[list[PartitionReplicas]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a rolling restart of brokers 1 and 2 does, in order, when the cluster stands like this, look after look."""
    did: list[str] = []
    left = iter(readings)

    async def read(_cluster: object) -> list[PartitionReplicas]:
        did.append("look")
        return next(left)

    async def describe(_admin: object) -> SimpleNamespace:
        return SimpleNamespace(controller_id=2)

    async def restart(broker: int) -> None:
        did.append(f"restart {broker}")

    monkeypatch.setattr(rolling_restart, "read_replicas", read)
    monkeypatch.setattr(rolling_restart, "LOOK_S", 0)
    monkeypatch.setattr(admin.Admin, "describe_cluster", describe)

    async def refresh(_topics: list[str]) -> None:
        refreshed.append(len(did))

    refreshed: list[int] = []
    rolling = RollingRestart(cast(Any, SimpleNamespace(refresh=refresh)), restart, lambda _line: None)
    assert asyncio.run(rolling.run([1, 2])) == [1, 2]
    assert refreshed == [at for at, what in enumerate(did) if at and what == "look"], "brokers are those of now"
    return did


def pair(*answer: int) -> list[PartitionReplicas]:
    """Both are in the ISR, and of these brokers the log ends are known."""
    return [partition((1, 2), (1, 2))._replace(log_ends=dict.fromkeys(answer, 10))]


def test_a_broker_in_the_isr_that_does_not_answer_is_not_counted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was killed just now: ZooKeeper's session holds it in the ISR for 18 s."""
    both = pair(1, 2)
    usual = ["look", "look", "restart 1", "look", "look", "restart 2", "look"]
    assert rolled([both] * 5, monkeypatch) == usual
    # It is not there when it should be back; then it goes again, before the next one would.
    readings = [both, both, pair(2), both, pair(2), pair(2), both, both]
    assert rolled(readings, monkeypatch) == [*usual[:3], "look", "look", "look", "look", "look", *usual[5:]]


def test_a_broker_that_knows_of_no_partition_yet_does_not_say_that_all_are_in_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = pair(1, 2)
    did = rolled([both, both, [], [], both, both, both], monkeypatch)
    assert did == ["look", "look", "restart 1", "look", "look", "look", "look", "restart 2", "look"]
