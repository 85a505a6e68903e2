"""Scenario: named steps of raw requests of one API, run once for every version of it that a broker serves.

Not among the steps is what Apache Kafka itself never answers: records that are null, the same resource twice in
AlterConfigs, a topic assigned to no broker (3.9), a consumer's subscription that is not in its format (4.3), no
transaction at all in AddPartitionsToTxn 4, offsets of a share group in a partition that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from tests.conformance.wire.wire_session import WireSession

Steps = Callable[[WireSession, int], None]


class Scenario(NamedTuple):
    """`steps(session, version)` asks and records. Versions below `min_version` cannot say what it wants to know, and
    brokers that do not serve `beside` have nothing of what it is about."""

    name: str
    api: ApiKey
    min_version: int
    steps: Steps
    beside: ApiKey


SCENARIOS: list[Scenario] = []

# The oldest versions after KIP-896: what Apache Kafka 4 still serves. Older ones are served by 3.9 alone.
FLOOR = {
    ApiKey.PRODUCE: 3,
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.WRITE_TXN_MARKERS: 1,
}


def scenario(api: ApiKey, *, min_version: int = 0, beside: ApiKey | None = None) -> Callable[[Steps], Steps]:
    """Registers a function as a scenario under its own name."""

    def register(steps: Steps) -> Steps:
        SCENARIOS.append(Scenario(steps.__name__, api, max(min_version, FLOOR.get(api, 0)), steps, beside or api))
        return steps

    return register


def served_versions(session: WireSession) -> dict[int, tuple[int, int]]:
    """What the broker says it serves: the lowest and highest version by API key."""
    answer = session.connection.ask(m.ApiVersionsRequest(), 0)
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}


def run_scenario(found: Scenario, host: str, port: int, version: int) -> dict[str, object]:
    """The normalised answers of one run, by step."""
    session = WireSession(host, port)
    try:
        found.steps(session, version)
    finally:
        session.close()
    return session.recorded


# Each of these modules registers its scenarios here.
for _module in (
    "scenarios_administration",
    "scenarios_cluster",
    "scenarios_config_layers",
    "scenarios_configs",
    "scenarios_controller",
    "scenarios_group_administration",
    "scenarios_groups",
    "scenarios_record_corners",
    "scenarios_records",
    "scenarios_security",
    "scenarios_share",
    "scenarios_share_members",
    "scenarios_share_states",
    "scenarios_topic_corners",
    "scenarios_topic_ids",
    "scenarios_topics",
    "scenarios_transactions",
    "scenarios_repeats",
):
    import_module(f"{__package__}.{_module}")
