"""Raw requests of every version: kavka beside the recorded answers of Apache Kafka, those beside a live one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kavka.protocol import messages as m
from kavka.protocol.api import APIS, ApiKey
from kavka.protocol.messages import incremental_alter_configs_request
from tests.apache_kafka import ApacheKafka
from tests.conformance.wire.differences import DIFFERENCES, undocumented
from tests.conformance.wire.golden import LINES, Golden, differing
from tests.conformance.wire.scenario import SCENARIOS, Scenario, run_scenario, served_versions
from tests.conformance.wire.wire_session import WireSession

GOLDEN = Golden.load()
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
RUNS = [
    pytest.param(BY_NAME[name], version, id=f"{name}-v{version}")
    for name, version in sorted(GOLDEN.answers)
    if name in BY_NAME
]
Address = tuple[str, int]
INT16_MAX = 32_767
answered: dict[tuple[Address, str, int], dict[str, Any]] = {}
"""A scenario's run serves every test that looks at its answers: some wait for seconds."""

KEYS_OF_SHARE_GROUPS = {ApiKey(key) for key in (*range(76, 80), *range(83, 88), *range(90, 93))}
KEYS_OF_STREAMS_GROUPS = {ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE}
KEYS_OF_3_9 = (*range(52), 56, 57, 58, 60, 61, 65, 66, 67, 68, 69)

# APIs whose newest version is not served here, with the reason.
OLDER_MAXIMUM: dict[ApiKey, tuple[int, str]] = {}


def ran(address: Address, scenario: Scenario, version: int) -> dict[str, Any]:
    key = address, scenario.name, version
    if key not in answered:
        answered[key] = run_scenario(scenario, *address, version)
    return answered[key]


def closest(found: Any, candidates: dict[str, Any], scenario: str, step: str) -> list[tuple[str, Any, Any]]:
    """What differs, beyond the table, from the answer that is nearest."""
    return min((undocumented(scenario, step, differing(found, answer)) for answer in candidates.values()), key=len)


@pytest.mark.parametrize(("scenario", "version"), RUNS)
def test_kavka_answers_as_apache_kafka(kavka_address: Address, scenario: Scenario, version: int) -> None:
    if version > OLDER_MAXIMUM.get(scenario.api, (version, ""))[0]:
        pytest.skip(OLDER_MAXIMUM[scenario.api][1])
    recorded = GOLDEN.answers[scenario.name, version]
    found = ran(kavka_address, scenario, version)
    problems = []
    for step in {step: None for answers in recorded.values() for step in answers}:
        candidates = {line: answers[step] for line, answers in recorded.items() if step in answers}
        for path, here, there in closest(found.get(step, "<not asked>"), candidates, scenario.name, step):
            problems.append(f"[{step}] {path}: kavka {here!r}, Apache Kafka {there!r}")
    assert problems == [], "\n" + "\n".join(problems)


@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: f"{row.scenario}-{row.step}-{row.kavka}")
def test_every_listed_difference_is_one(kavka_address: Address, row: Any) -> None:
    """A row that nothing needs any more is to be taken out."""
    scenarios = [scenario for scenario in SCENARIOS if re.fullmatch(row.scenario, scenario.name)]
    assert scenarios, "no scenario has this name"
    for scenario in scenarios:
        newest = OLDER_MAXIMUM.get(scenario.api, (INT16_MAX, ""))[0]
        versions = sorted((version for name, version in GOLDEN.answers if name == scenario.name), reverse=True)
        for version in [version for version in versions if version <= newest]:
            found = ran(kavka_address, scenario, version)
            for answers in GOLDEN.answers[scenario.name, version].values():
                for step, answer in answers.items():
                    for path, here, _there in differing(found.get(step, "<not asked>"), answer):
                        if row.covers(scenario.name, step, path, here):
                            return
    pytest.fail("kavka answers as Apache Kafka here")


def test_kavka_serves_the_versions_that_apache_kafka_serves(kavka_address: Address) -> None:
    """Every API of the recorded scenarios, from the floor of KIP-896 to the newest recorded version."""
    session = WireSession(*kavka_address)
    served = served_versions(session)
    session.close()
    for scenario in SCENARIOS:
        of_this_api = {other.name for other in SCENARIOS if other.api is scenario.api}
        newest = max(version for name, version in GOLDEN.answers if name in of_this_api)
        newest = min(newest, OLDER_MAXIMUM.get(scenario.api, (newest, ""))[0])
        low, high = served[scenario.api]
        assert low <= scenario.min_version, scenario.api
        assert high == newest, scenario.api
        assert APIS[scenario.api].max_version >= high


def test_kavka_advertises_produce_from_0_but_closes_on_what_it_advertises_below_3(kavka_address: Address) -> None:
    """librdkafka otherwise takes the broker for one that knows no compression (4.x does the same)."""
    session = WireSession(*kavka_address)
    try:
        assert served_versions(session)[ApiKey.PRODUCE][0] == 0
    finally:
        session.close()


TELEMETRY = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)


def test_clients_are_told_of_metrics_only_while_a_subscription_asks_for_some(kavka_address: Address) -> None:
    """librdkafka prints a line at its default level wherever it is told of them."""
    session = WireSession(*kavka_address)

    def subscribe(value: str | None) -> None:
        ia = incremental_alter_configs_request
        change = ia.AlterableConfig(name="metrics", config_operation=0 if value else 1, value=value)
        resource = ia.AlterConfigsResource(resource_type=16, resource_name=session.name("all"), configs=[change])
        answer = session.connection.ask(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0, answer

    try:
        assert not set(TELEMETRY) & served_versions(session).keys()
        subscribe("org.apache.kafka.producer.")
        session.until(lambda: set(TELEMETRY) <= served_versions(session).keys())
        subscribe(None)
        session.until(lambda: not set(TELEMETRY) & served_versions(session).keys())
    finally:
        session.close()


@pytest.mark.kafka
def test_apache_kafka_does_not_tell_of_client_metrics_without_a_plug_in(live_line: tuple[str, Address]) -> None:
    session = WireSession(*live_line[1])
    try:
        assert not set(TELEMETRY) & served_versions(session).keys()
    finally:
        session.close()


def test_every_api_of_apache_kafka_3_9_is_served_but_the_one_for_forwarding(kavka_address: Address) -> None:
    """Of the keys that it advertises on ZooKeeper; 4.3's own test is that of the newest versions, above."""
    session = WireSession(*kavka_address)
    try:
        assert (
            served_versions(session).keys()
            == set(KEYS_OF_3_9) - {ApiKey.ENVELOPE}
            | {
                ApiKey.LIST_CONFIG_RESOURCES,
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            }
            | KEYS_OF_SHARE_GROUPS
            | KEYS_OF_STREAMS_GROUPS
        )
    finally:
        session.close()


@pytest.mark.kafka
def test_those_are_the_apis_of_apache_kafka_3_9(apache_kafka: ApacheKafka) -> None:
    session = WireSession("127.0.0.1", apache_kafka.port)
    try:
        assert served_versions(session).keys() == set(KEYS_OF_3_9)
    finally:
        session.close()


@pytest.mark.kafka
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_recorded_answers_are_those_of_a_live_apache_kafka(
    live_line: tuple[str, Address], scenario: Scenario
) -> None:
    line, address = live_line
    assert line in LINES
    problems = []
    for (name, version), recorded in sorted(GOLDEN.answers.items()):
        if name != scenario.name or line not in recorded:
            continue
        found = run_scenario(scenario, *address, version)
        assert found.keys() == recorded[line].keys()
        for step, answer in recorded[line].items():
            for path, here, there in differing(found[step], answer):
                problems.append(f"v{version} [{step}] {path}: live {here!r}, recorded {there!r}")
    assert problems == [], "\n" + "\n".join(problems)
