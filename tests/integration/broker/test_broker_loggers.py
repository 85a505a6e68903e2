"""Levels of a running broker's loggers: what is changed shows in its log at once, and is forgotten with its end."""

from __future__ import annotations

from collections.abc import Callable

from kavka.protocol.messages import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kavka.protocol.messages.describe_configs_request import DescribeConfigsResource
from kavka.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually

BROKER_LOGGER, BROKER_ID = 8, "1"
SET, DELETE = 0, 1
DECISIONS = "kavka.decisions.controller"


def change(client: BrokerClient, logger: str, level: str | None) -> None:
    entry = AlterableConfig(name=logger, config_operation=DELETE if level is None else SET, value=level)
    resource = AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name=BROKER_ID, configs=[entry])
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0, answer


def levels(client: BrokerClient) -> dict[str, str]:
    resource = DescribeConfigsResource(resource_type=BROKER_LOGGER, resource_name=BROKER_ID, configuration_keys=None)
    (answer,) = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert answer.error_code == 0, answer
    return {config.name: config.value for config in answer.configs}


def test_what_is_changed_shows_in_the_log_at_once_and_is_forgotten_with_the_broker(
    start_kavka: Callable[..., KavkaProcess],
) -> None:
    broker = start_kavka()

    def is_said_of(topic: str) -> bool:
        return f'"topic {topic} has ' in broker.log_file.read_text()

    with BrokerClient(broker.port) as client:
        assert (levels(client)["root"], levels(client)[DECISIONS]) == ("INFO", "INFO")
        client.create_topic("loud")
        eventually("the line", lambda: is_said_of("loud"))
        change(client, "kavka.decisions", "WARN")
        assert (levels(client)["root"], levels(client)[DECISIONS]) == ("INFO", "WARN")
        client.create_topic("silent")
        change(client, DECISIONS, "TRACE")
        client.create_topic("loud-again")
        eventually("the line", lambda: is_said_of("loud-again"))
        change(client, DECISIONS, None)
        client.create_topic("silent-again")
        change(client, "kavka.decisions", None)
        client.create_topic("at-last")
        eventually("the line", lambda: is_said_of("at-last"))
        assert not is_said_of("silent")
        assert not is_said_of("silent-again")
        change(client, "root", "ERROR")
    broker.restart()
    with BrokerClient(broker.port) as client:
        assert set(levels(client).values()) == {"INFO"}
