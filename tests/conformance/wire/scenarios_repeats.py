"""Scenarios of repeats and filters: lists that are appended to, producers and transactions chosen, epochs asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    describe_producers_request,
    list_offsets_request,
    offset_for_leader_epoch_request,
)
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.scenarios_configs import APPEND, DELETE, SET, SUBTRACT, TOPIC, Operation, change, describe
from tests.conformance.wire.scenarios_transactions import Transactional, ours
from tests.conformance.wire.wire_session import WireSession, batch

POLICY, REPLICAS = "cleanup.policy", "leader.replication.throttled.replicas"


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def incremental_alter_lists(session: WireSession, version: int) -> None:
    topic = session.topic()

    def leaves(name: str, value: str) -> None:
        """A broker in KRaft mode shows it a moment after the answer."""
        asked = describe((TOPIC, topic, [name]))
        session.until(lambda: session.connection.ask(asked, 4).results[0].configs[0].value == value)

    def ask(step: str, *operations: Operation, left: str) -> None:
        session.record(step, change(TOPIC, topic, *operations), version)
        leaves(operations[0][0], left)

    both = "delete,compact"
    ask("append two", (POLICY, APPEND, "compact,delete"), left=both)
    ask("append the same twice", (POLICY, APPEND, "compact,compact"), left=both)
    ask("append an empty text", (POLICY, APPEND, ""), left=both)
    ask("append null", (POLICY, APPEND, None), left=both)
    ask("append what is not allowed", (POLICY, APPEND, "burn"), left=both)
    ask("subtract what is not allowed", (POLICY, SUBTRACT, "burn"), left=both)
    ask("subtract an empty text", (POLICY, SUBTRACT, ""), left=both)
    ask("subtract null", (POLICY, SUBTRACT, None), left=both)
    ask("subtract two", (POLICY, SUBTRACT, "compact,delete"), left="")
    ask("subtract from the empty list", (POLICY, SUBTRACT, "compact"), left="")
    ask("append to the empty list", (POLICY, APPEND, "compact"), left="compact")
    ask("taken back", (POLICY, DELETE, None), left="delete")
    ask("subtract the default", (POLICY, SUBTRACT, "delete"), left="")
    ask("set to the empty list", (POLICY, SET, ""), left="")
    ask(
        "append to one, subtract from the other",
        (POLICY, APPEND, "compact"),
        (REPLICAS, SUBTRACT, "0:1"),
        left="compact",
    )
    ask("replicas", (REPLICAS, APPEND, "0:1"), left="0:1")
    ask("more replicas", (REPLICAS, APPEND, "0:1,0:2"), left="0:1,0:2")
    ask("fewer replicas", (REPLICAS, SUBTRACT, "0:1"), left="0:2")
    ask("all replicas", (REPLICAS, APPEND, "*"), left="0:2")
    ask("malformed replicas", (REPLICAS, APPEND, "zero:one"), left="0:2")
    ask("append and set", (REPLICAS, APPEND, "0:3"), (REPLICAS, SET, "0:4"), left="0:2")


@scenario(ApiKey.DESCRIBE_PRODUCERS)
def describe_producers_of_several(session: WireSession, version: int) -> None:
    wanted = describe_producers_request.TopicRequest
    topic, tx, other = session.topic(partitions=2), Transactional(session), Transactional(session, "other")

    def ask(step: str, *topics: tuple[str, list[int]]) -> None:
        chosen = [wanted(name=name, partition_indexes=indexes) for name, indexes in topics]
        session.record(step, m.DescribeProducersRequest(topics=chosen), version)

    tx.init()
    other.init()
    tx.produce(topic)
    other.produce(topic)
    ask("two producers", (topic, [0]))
    ask("two partitions", (topic, [0, 1]))
    ask("partition twice", (topic, [1, 1]))
    ask("topic twice", (topic, [1]), (topic, [1]))
    ask("negative partition", (topic, [-1]))
    ask("no partitions", (topic, []))
    ask("no topics")
    ask("known and unknown", (topic, [1, 9]), (session.name("unknown"), [0]))
    tx.end(commit=False)
    other.end(commit=True)
    ask("after both have ended", (topic, [0]))


@scenario(ApiKey.DESCRIBE_TRANSACTIONS)
def describe_transactions_of_several(session: WireSession, version: int) -> None:
    tx = Transactional(session)
    tx.init()

    def ask(step: str, *names: str) -> None:
        session.record(step, m.DescribeTransactionsRequest(transactional_ids=list(names)), version)

    ask("none")
    ask("known and unknown", tx.id, session.name("unknown"))
    ask("unknown twice", session.name("unknown"), session.name("unknown"))


@scenario(ApiKey.LIST_TRANSACTIONS)
def list_transactions_by_filters(session: WireSession, version: int) -> None:
    topic, tx = session.topic(), Transactional(session)
    keep = ours(session, tx)
    tx.init()
    tx.add((topic, 0))

    def ask(step: str, states: Sequence[str] = (), producers: Sequence[int] = (), **more: Any) -> None:
        request = m.ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producers), **more)
        session.record(step, request, version, keep=keep)

    ask("state and producer", ["Ongoing"], [tx.producer_id])
    ask("another state, this producer", ["Empty"], [tx.producer_id])
    ask("two producers", (), [tx.producer_id, tx.producer_id + 5_000])
    ask("a negative producer", (), [-1])
    ask("a state twice", ["Ongoing", "Ongoing"])
    ask("the state without a name", [""])
    if version >= 1:
        time.sleep(0.005)  # a transaction that began in this millisecond is not older than no time
        ask("at least no time", duration_filter=0)
        ask("at least a negative time", duration_filter=-2)
        ask("at least for ever", duration_filter=(1 << 63) - 1)
    if version >= 2:
        ask("pattern and state", ["Ongoing"], transactional_id_pattern=".*")
        ask("pattern and another state", ["Empty"], transactional_id_pattern=".*")
        ask("empty pattern", transactional_id_pattern="")
        ask("null pattern", transactional_id_pattern=None)
        for pattern in ("[", "a{", "(?<name>x)|.*", "\\Qx\\E|.*", "(?i)TX.*"):
            ask(f"pattern {pattern}", transactional_id_pattern=pattern)


@scenario(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch_of_several(session: WireSession, version: int) -> None:
    oe = offset_for_leader_epoch_request
    topic = session.topic(partitions=2)
    session.produced(topic, batch())

    def ask(step: str, *topics: tuple[str, list[int]], **more: Any) -> None:
        chosen = [
            oe.OffsetForLeaderTopic(
                topic=name, partitions=[oe.OffsetForLeaderPartition(partition=i, leader_epoch=0) for i in indexes]
            )
            for name, indexes in topics
        ]
        request = m.OffsetForLeaderEpochRequest(**{"replica_id": -1} | more, topics=chosen)
        session.record(step, request, version)

    ask("two partitions", (topic, [0, 1]))
    ask("partition twice", (topic, [0, 0]))
    ask("known and unknown", (topic, [0, 9]), (session.name("unknown"), [0]))
    ask("no partitions", (topic, []))
    ask("no topics")
    ask("negative partition", (topic, [-1]))
    if version >= 3:
        ask("who debugs", (topic, [0]), replica_id=-2)


@scenario(ApiKey.LIST_OFFSETS)
def list_offsets_of_several(session: WireSession, version: int) -> None:
    lo = list_offsets_request
    topic = session.topic(partitions=2)
    session.produced(topic, batch())

    def ask(step: str, *topics: tuple[str, list[int]], **more: Any) -> None:
        chosen = [
            lo.ListOffsetsTopic(
                name=name, partitions=[lo.ListOffsetsPartition(partition_index=i, timestamp=-1) for i in indexes]
            )
            for name, indexes in topics
        ]
        session.record(step, m.ListOffsetsRequest(**{"replica_id": -1} | more, topics=chosen), version)

    ask("two partitions", (topic, [0, 1]))
    ask("topic twice", (topic, [0]), (topic, [1]))
    ask("known and unknown", (topic, [0, 9]), (session.name("unknown"), [0]))
    ask("no partitions", (topic, []))
    ask("negative partition", (topic, [-1]))
    ask("who debugs", (topic, [0]), replica_id=-2)
    if version >= 2:
        ask("unknown isolation", (topic, [0]), isolation_level=7)
    if version >= 10:
        ask("no time", (topic, [0]), timeout_ms=0)
