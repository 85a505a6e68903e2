"""What a group's and the broker's own settings make of a consumer group's limits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from kavka.broker.api.groups import consumer_group_describe
from kavka.broker.api.guards import groups
from kavka.broker.coordinators.consumer_groups import consumer_group_limits
from kavka.broker.metadata.features import serves_consumer_groups
from kavka.config import effect
from kavka.config.broker import BrokerConfig
from kavka.coordinator.groups.consumer.decide.group import ConsumerGroupLimits
from kavka.errors import ErrorCode
from kavka.protocol.messages import ConsumerGroupDescribeRequest


def limits(overrides: dict[str, str] | None = None, **settings: str) -> ConsumerGroupLimits:
    named = {f"group.consumer.{name.replace('_', '.')}": value for name, value in settings.items()}
    return consumer_group_limits(BrokerConfig.from_properties(named), overrides or {})


@pytest.mark.setting(
    "group.consumer.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.max.size",
    "group.consumer.assignment.interval.ms",
    "group.consumer.regex.refresh.interval.ms",
)
def test_a_group_has_the_brokers_limits() -> None:
    found = limits(
        session_timeout_ms="46000",
        heartbeat_interval_ms="6000",
        max_size="7",
        assignment_interval_ms="8",
        regex_refresh_interval_ms="10001",
    )
    assert (found.session_timeout_ms, found.heartbeat_interval_ms, found.max_size) == (46_000, 6_000, 7)
    assert (found.assignment_interval_ms, found.regex_refresh_interval_ms) == (8, 10_001)


@pytest.mark.setting(
    "group.consumer.min.session.timeout.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.max.assignment.interval.ms",
)
@pytest.mark.parametrize(
    ("wish", "session_ms", "heartbeat_ms", "assignment_ms"), [("1", 40, 30, 20), ("99", 60, 50, 40)]
)
def test_what_a_group_sets_itself_lies_between_the_brokers_bounds(
    wish: str, session_ms: int, heartbeat_ms: int, assignment_ms: int
) -> None:
    found = limits(
        dict.fromkeys(
            ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms"), wish
        ),
        min_session_timeout_ms="40",
        session_timeout_ms="50",
        max_session_timeout_ms="60",
        min_heartbeat_interval_ms="30",
        heartbeat_interval_ms="40",
        max_heartbeat_interval_ms="50",
        min_assignment_interval_ms="20",
        assignment_interval_ms="30",
        max_assignment_interval_ms="40",
    )
    assert (found.session_timeout_ms, found.heartbeat_interval_ms) == (session_ms, heartbeat_ms)
    assert found.assignment_interval_ms == assignment_ms


@pytest.mark.setting("group.consumer.assignors")
@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("range", ("range",)),
        ("uniform,range", ("uniform", "range")),
        ("org.apache.kafka.coordinator.group.assignor.RangeAssignor,uniform", ("range", "uniform")),
    ],
)
def test_the_first_assignor_that_is_named_is_the_default(named: str, expected: tuple[str, ...]) -> None:
    assert limits(assignors=named).assignors == expected


def test_every_assignor_that_the_settings_take_is_built() -> None:
    for name in effect._CLASSES["group.consumer.assignors"][0]:
        assert len(limits(assignors=name).assignors) == 1


@pytest.mark.setting("group.consumer.migration.policy")
@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ("disabled", (False, False)),
        ("UPGRADE", (True, False)),
        ("downgrade", (False, True)),
        ("bidirectional", (True, True)),
    ],
)
def test_groups_change_the_protocol_in_the_directions_that_are_allowed(policy: str, allowed: tuple[bool, bool]) -> None:
    found = limits(migration_policy=policy)
    assert (found.upgrade_allowed, found.downgrade_allowed) == allowed


@pytest.mark.setting("group.coordinator.rebalance.protocols")
def test_the_newer_protocol_is_served_where_it_is_named_and_the_cluster_is_ready() -> None:
    both = BrokerConfig.from_properties({})
    classic = BrokerConfig.from_properties({"group.coordinator.rebalance.protocols": "classic"})
    assert serves_consumer_groups(both, 1)
    assert not serves_consumer_groups(both, 0)
    assert not serves_consumer_groups(classic, 1)


def test_where_the_newer_protocol_is_off_every_group_is_unsupported_whoever_asks() -> None:
    """Kafka looks at neither groups nor rights before (KafkaApis.handleConsumerGroupDescribe)."""

    class Denied:
        def allowed(self, *_: object, **__: object) -> NoReturn:
            raise AssertionError("nobody asks for rights")

    broker: Any = SimpleNamespace(serves_consumer_groups=lambda: False)
    refused: Any = Denied()
    request: Any = None
    asked = ConsumerGroupDescribeRequest(group_ids=["b", "a", "b"])
    for answer in (
        consumer_group_describe.handle(broker, request, asked),
        groups.consumer_group_describe(broker, refused, asked),
    ):
        described = [(group.group_id, group.error_code, group.error_message) for group in answer.groups]
        assert described == [(group_id, ErrorCode.UNSUPPORTED_VERSION, None) for group_id in ("b", "a", "b")]
