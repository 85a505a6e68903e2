"""The throttle of moves: which settings say it, on which replicas it lies, and how it is lifted.

Decides who is throttled: replicas that copy, and those that may be copied from. It is what Kafka's own tool sets, under
the same names, so that either tool sees and clears the other's:

    broker   leader.replication.throttled.rate, follower.replication.throttled.rate     bytes per second
    topic    leader.replication.throttled.replicas      partition:broker for every replica that may be copied from
             follower.replication.throttled.replicas    partition:broker for every replica that copies

Source: KIP-73; kafka-reassign-partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kavka.cli.output import Failure

if TYPE_CHECKING:
    from kavka.client.admin import Admin, ConfigChange, ConfigResource, Reassignment
    from kavka.client.reassignment_plan import Plan
    from kavka.model import TopicPartition

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


async def set_throttle(admin: Admin, plan: Plan, under_way: Mapping[TopicPartition, Reassignment], rate: int) -> None:
    """Throttles a plan's moves, and those under way in its topics, to `rate` bytes per second and broker."""
    from kavka.client.admin import ConfigChange

    leaders, followers = throttled_replicas(plan, under_way)
    changes: dict[ConfigResource, Sequence[ConfigChange]] = {}
    for topic in sorted({*leaders, *followers}):
        lists = (leaders.get(topic, ()), followers.get(topic, ()))
        changes[_topic(topic)] = [
            ConfigChange(name, ",".join(entries)) for name, entries in zip(REPLICAS, lists, strict=True) if entries
        ]
    moves = plan.moves
    involved = {replica for each in (plan.before, moves) for replicas in each.values() for replica in replicas}
    for node_id in sorted(involved):
        changes[_broker(node_id)] = [ConfigChange(name, str(rate)) for name in RATES]
    for resource, error in (await admin.alter_configs(changes)).items():
        raise Failure(f"the throttle of {resource.name} could not be set: {error.message}", "nothing was moved")


def throttled_replicas(
    plan: Plan, under_way: Mapping[TopicPartition, Reassignment]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """By topic: replicas that are copied from, and replicas that copy; of moves that are under way, too."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    origins = {**{key: origin_of(each) for key, each in under_way.items()}, **plan.before}
    targets = {**{key: each.target for key, each in under_way.items()}, **plan.moves}
    topics = {partition.topic for partition in plan.moves}
    for partition in sorted(targets):
        if partition.topic not in topics:
            continue
        origin = origins[partition]
        coming = [replica for replica in targets[partition] if replica not in origin]
        if coming:
            leaders.setdefault(partition.topic, []).extend(f"{partition.partition}:{each}" for each in origin)
            followers.setdefault(partition.topic, []).extend(f"{partition.partition}:{each}" for each in coming)
    return leaders, followers


async def clear_throttle(admin: Admin, topics: Iterable[str]) -> list[str]:
    """Lifts the throttles of all brokers and of these topics; returns what had one, in words."""
    from kavka.client.admin import ConfigChange, ConfigOperation, ConfigSource

    brokers = [_broker(broker.node_id) for broker in (await admin.describe_cluster()).brokers]
    found = await admin.describe_configs([*brokers, *map(_topic, sorted(set(topics)))])
    changes: dict[ConfigResource, Sequence[ConfigChange]] = {}
    for resource, entries in found.items():
        own = (ConfigSource.DYNAMIC_BROKER, ConfigSource.TOPIC)
        names = [e.name for e in entries if e.source in own and e.name in (*RATES, *REPLICAS)]
        if names:
            changes[resource] = [ConfigChange(name, None, ConfigOperation.DELETE) for name in names]
    for resource, error in (await admin.alter_configs(changes)).items():
        raise Failure(f"the throttle of {resource.name} could not be lifted: {error.message}")
    return [f"{resource.resource_type.name.lower()} {resource.name}" for resource in changes]


def origin_of(reassignment: Reassignment) -> tuple[int, ...]:
    """The replicas before the move."""
    return tuple(replica for replica in reassignment.replicas if replica not in reassignment.adding)


def _topic(name: str) -> ConfigResource:
    from kavka.client.admin import ConfigResource, ResourceType

    return ConfigResource(ResourceType.TOPIC, name)


def _broker(node_id: int) -> ConfigResource:
    from kavka.client.admin import ConfigResource, ResourceType

    return ConfigResource(ResourceType.BROKER, str(node_id))
