"""The settings of a streams group (KIP-1071), held between the broker's smallest and largest.

Source: Kafka's GroupConfig and GroupCoordinatorConfig.
"""

from __future__ import annotations

from collections.abc import Mapping

from kavka.config.broker import BrokerConfig
from kavka.config.group import held
from kavka.coordinator.groups.streams.decide.group import StreamsGroupLimits


def streams_group_limits(config: BrokerConfig, overrides: Mapping[str, str]) -> StreamsGroupLimits:
    """What holds for the members of a group that sets `overrides` itself."""
    initial_delay_ms = config.group_streams_initial_rebalance_delay_ms
    return StreamsGroupLimits(
        session_timeout_ms=held(config, overrides, "streams.session.timeout.ms"),
        heartbeat_interval_ms=held(config, overrides, "streams.heartbeat.interval.ms"),
        max_size=config.group_streams_max_size,
        standby_replicas=held(config, overrides, "streams.num.standby.replicas"),
        initial_delay_ms=int(overrides.get("streams.initial.rebalance.delay.ms", initial_delay_ms)),
        assignment_interval_ms=held(config, overrides, "streams.assignment.interval.ms"),
    )
