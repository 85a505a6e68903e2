"""Replica selection: which replica a consumer should read from (KIP-392).

Decides from racks and offsets; pure. Must not know how a consumer says its rack or where a replica is reached.

    I1  the leader, where it stands in the consumer's rack or nobody there can serve
    I2  only members of the ISR whose log holds the offset: others would send the consumer back

Source: Kafka's RackAwareReplicaSelector and ReplicaManager.findPreferredReadReplica, 3.9.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.model import BrokerId, Offset
from kavka.replication.decide.partition import Partition

RackOf = Callable[[BrokerId], str | None]
"""A live broker's rack; None if it has none, or cannot be reached by consumers."""


def preferred_read_replica(partition: Partition, rack: str, offset: Offset, rack_of: RackOf) -> BrokerId | None:
    """The follower that a consumer in `rack` should read `offset` from; None: here, from the leader.

    Of several in the rack, the one whose log reaches farthest, then the one that was caught up last.
    """
    if not rack or rack_of(partition.local_broker_id) == rack:
        return None
    isr = partition.state.isr
    candidates = [
        (replica.log_end_offset, replica.last_caught_up_ms, replica.broker_id)
        for replica in partition.remote_replicas()
        if replica.broker_id in isr
        and 0 <= replica.log_start_offset <= offset <= replica.log_end_offset
        and rack_of(replica.broker_id) == rack
    ]
    return max(candidates)[2] if candidates else None
