"""Who leads now, for answers that send a client elsewhere (KIP-951). Not an API: produce and fetch share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.model import NO_EPOCH, NO_LEADER, LeaderAndIsr

if TYPE_CHECKING:
    from kavka.broker.api.records.ports import RecordsBroker


def leader_of(broker: RecordsBroker, topic: str, index: int) -> LeaderAndIsr:
    """The leader that this broker knows of; -1 and epoch -1 where it knows none."""
    hosted = broker.replicas.partition(topic, index)
    if hosted is not None and hosted.leader_epoch >= 0:
        return hosted.state
    published = broker.metadata.partition(topic, index)
    return LeaderAndIsr(NO_LEADER, NO_EPOCH, (), -1) if published is None else published.state
