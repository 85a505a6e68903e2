"""The settings of streams groups: what each changes, and between which bounds."""

from __future__ import annotations

import pytest

from kavka.broker.coordinators.streams_group_settings import streams_group_limits
from kavka.broker.metadata.features import serves_streams_groups
from kavka.config.broker import BrokerConfig
from kavka.errors import ConfigError

BOUNDED = {
    # name: (field, within, lowest, highest)
    "session.timeout.ms": ("session_timeout_ms", 50_000, 45_000, 60_000),
    "heartbeat.interval.ms": ("heartbeat_interval_ms", 6_000, 5_000, 15_000),
    "assignment.interval.ms": ("assignment_interval_ms", 2_000, 0, 15_000),
    "num.standby.replicas": ("standby_replicas", 1, 0, 2),
}


def limit(field: str, config: dict[str, str], overrides: dict[str, str]) -> int:
    found: int = getattr(streams_group_limits(BrokerConfig.from_properties(config), overrides), field)
    return found


@pytest.mark.setting(
    "group.streams.session.timeout.ms",
    "group.streams.min.session.timeout.ms",
    "group.streams.max.session.timeout.ms",
    "group.streams.heartbeat.interval.ms",
    "group.streams.min.heartbeat.interval.ms",
    "group.streams.max.heartbeat.interval.ms",
    "group.streams.assignment.interval.ms",
    "group.streams.min.assignment.interval.ms",
    "group.streams.max.assignment.interval.ms",
    "group.streams.num.standby.replicas",
    "group.streams.max.standby.replicas",
)
@pytest.mark.parametrize("name", BOUNDED)
def test_a_group_has_its_own_limit_or_the_brokers_within_the_bounds(name: str) -> None:
    field, within, lowest, highest = BOUNDED[name]
    assert limit(field, {f"group.streams.{name}": str(within)}, {}) == within
    assert limit(field, {}, {f"streams.{name}": str(within)}) == within
    assert limit(field, {}, {f"streams.{name}": str(highest + 1)}) == highest
    assert limit(field, {}, {f"streams.{name}": str(lowest - 1)}) == lowest
    bound = name.replace("num.", "") if name == "num.standby.replicas" else name
    above = {f"group.streams.max.{bound}": str(highest + 1)}
    assert limit(field, above, {f"streams.{name}": str(highest + 1)}) == highest + 1
    if name != "num.standby.replicas":
        below = {f"group.streams.min.{bound}": str(max(lowest - 1, 1))}
        assert limit(field, below, {f"streams.{name}": "0"}) == max(lowest - 1, 1)


@pytest.mark.setting("group.streams.max.size", "group.streams.initial.rebalance.delay.ms")
def test_what_else_a_group_has() -> None:
    config = {"group.streams.max.size": "11", "group.streams.initial.rebalance.delay.ms": "7"}
    assert limit("max_size", config, {}) == 11
    assert limit("initial_delay_ms", config, {}) == 7
    assert limit("initial_delay_ms", config, {"streams.initial.rebalance.delay.ms": "9"}) == 9


def test_more_standbys_than_groups_may_have_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"group\.streams\.max\.standby\.replicas"):
        BrokerConfig.from_properties({"group.streams.num.standby.replicas": "3"})


@pytest.mark.setting("group.coordinator.rebalance.protocols")
def test_the_protocol_is_on_by_the_feature_level_and_the_setting() -> None:
    served = BrokerConfig.from_properties({})
    without = BrokerConfig.from_properties({"group.coordinator.rebalance.protocols": "classic,consumer"})
    assert serves_streams_groups(served, 1)
    assert not serves_streams_groups(served, 0)
    assert not serves_streams_groups(without, 1)
