"""The settings of a streams group (KIP-1071), held between the broker's smallest and largest.

Source: Kafka's GroupConfig and GroupCoordinatorConfig.
"""

from __future__ import annotations

from collections.abc import Mapping

from kavka.config.broker import BrokerConfig
from kavka.coordinator.groups.streams.decide.group import StreamsGroupLimits


def streams_group_limits(config: BrokerConfig, overrides: Mapping[str, str]) -> StreamsGroupLimits:
    """What holds for the members of a group that sets `overrides` itself."""

    def own(name: str, default: int, lowest: int, highest: int) -> int:
        return max(lowest, min(int(overrides.get(name, default)), highest))

    initial_delay_ms = config.group_streams_initial_rebalance_delay_ms
    return StreamsGroupLimits(
        session_timeout_ms=own(
            "streams.session.timeout.ms",
            config.group_streams_session_timeout_ms,
            config.group_streams_min_session_timeout_ms,
            config.group_streams_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=own(
            "streams.heartbeat.interval.ms",
            config.group_streams_heartbeat_interval_ms,
            config.group_streams_min_heartbeat_interval_ms,
            config.group_streams_max_heartbeat_interval_ms,
        ),
        max_size=config.group_streams_max_size,
        standby_replicas=own(
            "streams.num.standby.replicas",
            config.group_streams_num_standby_replicas,
            0,
            config.group_streams_max_standby_replicas,
        ),
        initial_delay_ms=int(overrides.get("streams.initial.rebalance.delay.ms", initial_delay_ms)),
        assignment_interval_ms=own(
            "streams.assignment.interval.ms",
            config.group_streams_assignment_interval_ms,
            config.group_streams_min_assignment_interval_ms,
            config.group_streams_max_assignment_interval_ms,
        ),
    )
