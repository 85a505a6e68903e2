"""The settings of share groups: what each changes, for a member or for a record, and between which bounds."""

from __future__ import annotations

import pytest

from kavka.broker.membership.adoption import share_topic_settings
from kavka.broker.share.group_settings import dead_letters, share_group_limits, share_settings
from kavka.broker.topics.topic_creation import TopicRequests
from kavka.config.broker import BrokerConfig
from kavka.share.decide.dead_letters import DeadLetters
from kavka.share.decide.spans import RecordState

BOUNDS = {
    "group.share.min.delivery.count.limit": "2",
    "group.share.max.delivery.count.limit": "10",
    "group.share.min.record.lock.duration.ms": "15000",
    "group.share.max.record.lock.duration.ms": "60000",
    "group.share.min.partition.max.record.locks": "100",
    "group.share.max.partition.max.record.locks": "4000",
    "group.share.min.session.timeout.ms": "45000",
    "group.share.max.session.timeout.ms": "60000",
    "group.share.min.heartbeat.interval.ms": "5000",
    "group.share.max.heartbeat.interval.ms": "15000",
    "group.share.min.assignment.interval.ms": "0",
    "group.share.max.assignment.interval.ms": "15000",
}
SCOPES = {
    # of a group: (the broker's own, field, below, within, above)
    "delivery.count.limit": ("deliveries", 3),
    "record.lock.duration.ms": ("lock_ms", 20_000),
    "partition.max.record.locks": ("in_flight", 500),
    "session.timeout.ms": ("session_timeout_ms", 50_000),
    "heartbeat.interval.ms": ("heartbeat_interval_ms", 6_000),
    "assignment.interval.ms": ("assignment_interval_ms", 2_000),
}


def limit(name: str, config: dict[str, str], overrides: dict[str, str]) -> int:
    broker = BrokerConfig.from_properties(config)
    field = SCOPES[name][0]
    records = share_settings(broker, overrides, 2).limits
    found: int = getattr(records if hasattr(records, field) else share_group_limits(broker, overrides), field)
    return found


@pytest.mark.setting(
    "group.share.delivery.count.limit",
    "group.share.record.lock.duration.ms",
    "group.share.partition.max.record.locks",
    "group.share.session.timeout.ms",
    "group.share.heartbeat.interval.ms",
    "group.share.assignment.interval.ms",
    "group.share.min.delivery.count.limit",
    "group.share.max.delivery.count.limit",
    "group.share.min.record.lock.duration.ms",
    "group.share.max.record.lock.duration.ms",
    "group.share.min.partition.max.record.locks",
    "group.share.max.partition.max.record.locks",
    "group.share.min.session.timeout.ms",
    "group.share.max.session.timeout.ms",
    "group.share.min.heartbeat.interval.ms",
    "group.share.max.heartbeat.interval.ms",
    "group.share.min.assignment.interval.ms",
    "group.share.max.assignment.interval.ms",
)
@pytest.mark.parametrize("name", SCOPES)
def test_a_group_has_its_own_limit_or_the_brokers_within_the_bounds(name: str) -> None:
    within = SCOPES[name][1]
    lowest, highest = (int(BOUNDS[f"group.share.{end}.{name}"]) for end in ("min", "max"))
    assert limit(name, {f"group.share.{name}": str(within)}, {}) == within
    assert limit(name, {}, {f"share.{name}": str(within)}) == within
    assert limit(name, {}, {f"share.{name}": str(highest + 1)}) == highest
    assert limit(name, {}, {f"share.{name}": str(lowest - 1)}) == lowest
    other_bound = {f"group.share.max.{name}": str(highest + 1)}
    assert limit(name, other_bound, {f"share.{name}": str(highest + 1)}) == highest + 1


@pytest.mark.setting(
    "group.share.max.size",
    "group.share.initialize.retry.interval.ms",
)
def test_what_else_a_group_sets() -> None:
    broker = BrokerConfig.from_properties(
        {"group.share.max.size": "11", "group.share.initialize.retry.interval.ms": "7"}
    )
    members = share_group_limits(broker, {})
    assert (members.max_size, members.initialize_retry_ms) == (11, 7)
    default = share_settings(broker, {}, 2)
    assert (default.reads_committed, default.reset, default.may_renew) == (False, "latest", True)
    own = share_settings(
        broker,
        {
            "share.isolation.level": "read_committed",
            "share.auto.offset.reset": "by_duration:PT1H",
            "share.renew.acknowledge.enable": "false",
        },
        2,
    )
    assert (own.reads_committed, own.reset, own.may_renew) == (True, "by_duration:PT1H", False)


def test_what_a_group_with_a_dead_letter_topic_gives_up_has_dead_letters_from_share_version_2_on() -> None:
    broker, letters = BrokerConfig.from_properties({}), {"errors.deadletterqueue.topic.name": "dlq.g"}
    given_up = [share_settings(broker, letters, version).limits.given_up for version in (1, 2)]
    assert given_up == [RecordState.ARCHIVED, RecordState.ARCHIVING]
    assert share_settings(broker, {}, 2).limits.given_up is RecordState.ARCHIVED
    assert dead_letters(broker, letters) == DeadLetters("dlq.g", copies=False, prefix="dlq.", may_create=False)


@pytest.mark.setting(
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.segment.bytes",
)
def test_the_topic_of_the_states_is_made_as_the_settings_say() -> None:
    broker = BrokerConfig.from_properties(
        {
            "share.coordinator.state.topic.num.partitions": "7",
            "share.coordinator.state.topic.replication.factor": "2",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.segment.bytes": "1048576",
        }
    )
    wish = TopicRequests(broker, is_alone=False).of("__share_group_state")
    assert (wish.partition_count, wish.replication_factor) == (7, 2)
    assert wish.config == share_topic_settings(broker)
    assert (wish.config["min.insync.replicas"], wish.config["segment.bytes"]) == ("1", "1048576")
    assert TopicRequests(broker, is_alone=True).of("__share_group_state").replication_factor == 1
