"""Scenarios of what brokers of ZooKeeper clusters ask their controller, sent by nobody. 4.x answers no client so."""

from __future__ import annotations

from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import alter_partition_request
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.wire_session import WireSession

NOBODY = 4711


@scenario(ApiKey.ALLOCATE_PRODUCER_IDS)
def allocate_producer_ids_for_nobody(session: WireSession, version: int) -> None:
    for step, broker, epoch in (
        ("unknown broker", NOBODY, 1),
        ("unknown broker, no epoch", NOBODY, -1),
        ("no broker, no epoch", -1, -1),
        ("an epoch that is not the broker's", session.broker_id, 0),
        ("no epoch", session.broker_id, -1),
    ):
        request = m.AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch)
        session.record(step, request, version)


@scenario(ApiKey.CONTROLLED_SHUTDOWN)
def controlled_shutdown_of_nobody(session: WireSession, version: int) -> None:
    session.record("unknown broker", m.ControlledShutdownRequest(broker_id=NOBODY), version)
    session.record("no broker", m.ControlledShutdownRequest(broker_id=-1), version)
    if version >= 2:
        for step, broker, epoch in (("unknown", NOBODY, 1), ("known", session.broker_id, 0)):
            request = m.ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch)
            session.record(f"{step} broker, another epoch", request, version)


@scenario(ApiKey.ALTER_PARTITION)
def alter_partition_by_nobody(session: WireSession, version: int) -> None:
    ap = alter_partition_request
    topic = session.topic()
    found = session.topic_id(topic)

    def ask(step: str, broker: int, epoch: int) -> None:
        partition: Any = ap.PartitionData(partition_index=0, leader_epoch=0, partition_epoch=0)
        if version >= 3:
            partition.new_isr_with_epochs = [ap.BrokerState(broker_id=session.broker_id, broker_epoch=-1)]
        else:
            partition.new_isr = [session.broker_id]
        data = ap.TopicData(topic_name=topic, topic_id=found, partitions=[partition])
        session.record(step, m.AlterPartitionRequest(broker_id=broker, broker_epoch=epoch, topics=[data]), version)

    ask("unknown broker", NOBODY, 1)
    ask("unknown broker, no epoch", NOBODY, -1)
    ask("no broker, no epoch", -1, -1)
    ask("an epoch that is not the broker's", session.broker_id, 0)
    ask("no epoch", session.broker_id, -1)
