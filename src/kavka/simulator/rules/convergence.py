"""R20: what still keeps a cluster without faults from being whole again, in words.

Does not decide when it must be whole: `liveness` asks until nothing is missing or the time is up. A core (the brokers
that run while the others are broken) must do less than the whole cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.model import NO_LEADER
from kavka.simulator.rules.log_mirror import differ
from kavka.zookeeper.znode_paths import DELETE_TOPICS_PATH

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kavka.broker.metadata.metadata_cache import PartitionMetadata
    from kavka.model import BrokerId, Offset, TopicPartition
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.rules.invariants import Observer
    from kavka.simulator.rules.log_mirror import LogMirror


def missing_of_core(observer: Observer, brokers: Mapping[int, SimulatedBroker], core: Collection[int]) -> list[str]:
    """Each partition has a leader in the core that knows that it leads, all of the core's replicas are in sync, and no
    others are. What is being deleted is gone, or waits for brokers outside the core and is gone from those within."""
    doomed = [path.removeprefix(f"{DELETE_TOPICS_PATH}/") for path in observer.paths_below(DELETE_TOPICS_PATH)]
    waiting = {each.topic for each, replicas in observer.assigned.items() if not set(replicas) <= set(core)}
    missing = [f"topic {name} is not deleted, the core is {core}" for name in doomed if name not in waiting]
    for partition, stored in observer.stored.items():
        here = set(observer.assigned[partition]) & set(core)
        if partition.topic in doomed:
            left = [broker_id for broker_id in sorted(here) if _hosts(brokers[broker_id], partition)]
            missing += [f"{partition}: is being deleted, and still at brokers {left}"] if left else []
            continue
        if stored.state.leader not in here or set(stored.state.isr) != here:
            missing.append(f"{partition}: {stored.state}, replicas {observer.assigned[partition]}, the core is {core}")
            continue
        running = brokers[stored.state.leader].broker
        found = running.replicas.partition(*partition) if running is not None else None
        if found is None or not found.is_leader:
            missing.append(f"{partition}: broker {stored.state.leader} does not know that it leads")
    return missing


def _hosts(broker: SimulatedBroker, partition: TopicPartition) -> bool:
    return broker.broker is not None and broker.broker.replicas.partition(*partition) is not None


def missing(observer: Observer, brokers: Mapping[int, SimulatedBroker]) -> list[str]:
    """All replicas in sync, all logs equal, nothing half-done, and every broker knows what ZooKeeper knows."""
    found = [f"{partition}: is still being reassigned" for partition in observer.reassignments]
    found += [f"{path} is still there" for path in observer.paths_below(DELETE_TOPICS_PATH)]
    for partition, stored in observer.stored.items():
        replicas = observer.assigned[partition]
        if stored.state.leader == NO_LEADER or set(stored.state.isr) != set(replicas):
            found.append(f"{partition}: leader {stored.state.leader}, ISR {stored.state.isr} of {replicas}")
        else:
            found += _missing_of_logs(observer, brokers, partition)
    for broker in brokers.values():
        found += _missing_at(observer, broker)
    return found


def _missing_of_logs(
    observer: Observer, brokers: Mapping[int, SimulatedBroker], partition: TopicPartition
) -> list[str]:
    ends: dict[int, tuple[Offset, Offset]] = {}
    spans_of: dict[int, tuple[Offset, Offset]] = {}
    known: dict[BrokerId, tuple[Offset, Offset]] = {}
    mirrors: list[LogMirror] = []
    for replica in observer.assigned[partition]:
        observer.check_broker(brokers[replica], observer.now_ms)
        running = brokers[replica].broker
        found = running.replicas.partition(*partition) if running is not None else None
        if found is None:
            return [f"{partition}: not at broker {replica}"]
        seen = observer.replicas[partition][replica]
        seen.follow()
        mirrors.append(seen.mirror)
        ends[replica] = (found.log.log_end_offset, found.log.high_watermark)
        spans_of[replica] = (found.log.log_start_offset, found.log.log_end_offset)
        is_open = found.is_leader and found.log.last_stable_offset < found.log.high_watermark
        if is_open and not observer.stands_last:
            return [f"{partition}: a transaction is open at {found.log.last_stable_offset}"]
        if found.is_leader:
            known = {each.broker_id: (each.log_start_offset, each.log_end_offset) for each in found.remote_replicas()}
    if len(set(ends.values())) > 1 or any(differ(mirrors[0], each, each.end) for each in mirrors):
        return [f"{partition}: logs differ: {ends}"]
    spans = {broker_id: spans_of.get(broker_id) for broker_id in known}
    if known != spans:
        return [f"{partition}: the leader knows its followers' logs to be {known}, they are {spans}"]
    return []


def _missing_at(observer: Observer, broker: SimulatedBroker) -> list[str]:
    """What one broker tells its clients and is not true.

    It may still host a replica that is no longer assigned to it: as in Apache Kafka, a broker that cannot be reached at
    the end of a reassignment, and then gets another controller, keeps the replica that nobody told it to delete.
    """
    running = broker.broker
    if running is None:
        return [f"{broker.node} does not run"]
    found = []
    if running.metadata.controller_id != observer.controller:
        found.append(f"{broker.node} takes {running.metadata.controller_id} for the controller")
    known: dict[TopicPartition, PartitionMetadata] = {}
    for partition in observer.stored:
        told = running.metadata.partition(partition.topic, partition.partition)
        if told is not None:
            known[partition] = told
    for partition, stored in observer.stored.items():
        told = known.get(partition)
        stored_state = (stored.state.leader, stored.state.leader_epoch, set(stored.state.isr))
        if told is None or (told.state.leader, told.state.leader_epoch, set(told.state.isr)) != stored_state:
            found.append(f"{broker.node} tells of {partition} {told}, stored is {stored.state}")
        elif tuple(told.replicas) != observer.assigned[partition]:
            found.append(f"{broker.node} tells of {partition} {told}, replicas are {observer.assigned[partition]}")
    gone = [topic.name for topic in running.metadata.topics() if observer.topic_id(topic.name) != topic.topic_id]
    return found + [f"{broker.node} tells of topic {name}, which is gone" for name in gone]


def differing_bytes(observer: Observer) -> list[str]:
    """Partitions whose replicas differ in bytes, of those that all replicas have some bytes of."""
    found = []
    for partition, assigned in observer.assigned.items():
        replicas = [observer.replicas[partition][broker_id] for broker_id in assigned]
        start = max(seen.partition.log.log_start_offset for seen in replicas)
        held = {
            seen.name: b"".join(bytes(batch.view) for batch in seen.batches(start, seen.partition.log.log_end_offset))
            for seen in replicas
        }
        if len(set(held.values())) > 1:
            found.append(f"{partition}: { ({name: len(data) for name, data in held.items()}) } bytes from {start} on")
    return found
