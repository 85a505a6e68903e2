"""cordoned.log.dirs (KIP-1066): what is placed where, while it changes on a running broker and after its next start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kavka.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kavka.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.kit.broker_client import BrokerClient
from tests.kit.command_line import run_alone
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually

BROKER = 4
SET = 0


def set_cordoned(client: BrokerClient, value: str) -> ErrorCode:
    setting = AlterableConfig(name="cordoned.log.dirs", config_operation=SET, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[setting])
    return ErrorCode(client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code)


def described(client: BrokerClient) -> list[Any]:
    results: list[Any] = client.ask(DescribeLogDirsRequest(topics=None), 5).results
    return results


def cordoned(client: BrokerClient) -> set[str]:
    return {result.log_dir for result in described(client) if result.is_cordoned}


def placed(client: BrokerClient, topic: str) -> Mapping[str, int]:
    """Directory to how many partitions of the topic are in it."""
    return Counter(
        {
            result.log_dir: sum(len(each.partitions) for each in result.topics if each.name == topic)
            for result in described(client)
        }
    )


def moved(client: BrokerClient, topic: str, directory: str) -> ErrorCode:
    wanted = AlterReplicaLogDirTopic(name=topic, partitions=[0])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=directory, topics=[wanted])])
    return ErrorCode(client.ask(request, 2).results[0].partitions[0].error_code)


@pytest.mark.setting("cordoned.log.dirs")
def test_a_cordoned_directory_gets_no_partitions_until_it_is_open_again(tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    settings = {"log.dirs": f"{first},{second}", "cordoned.log.dirs": second}
    with KavkaProcess(tmp_path / "data", settings=settings) as broker, BrokerClient(broker.port) as client:
        topic = client.create_topic("before", partitions=4)
        assert placed(client, topic) == {first: 4, second: 0}
        assert cordoned(client) == {second}
        assert moved(client, topic, second) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert "cordoned" in run_alone("log-dirs", "-b", broker.bootstrap).stdout.decode()
        assert set_cordoned(client, str(tmp_path / "another")) is ErrorCode.INVALID_REQUEST
        assert set_cordoned(client, f"*,{first}") is ErrorCode.INVALID_REQUEST
        assert set_cordoned(client, first) is ErrorCode.NONE
        eventually("the change is in force", lambda: cordoned(client) == {first})
        assert placed(client, client.create_topic("after", partitions=4)) == {first: 0, second: 4}
        assert moved(client, topic, second) is ErrorCode.NONE
        assert set_cordoned(client, "*") is ErrorCode.NONE
        eventually("all are cordoned", lambda: cordoned(client) == {first, second})
        assert sum(placed(client, client.create_topic("all", partitions=2)).values()) == 2, (
            "the controller sent them here"
        )
        assert set_cordoned(client, first) is ErrorCode.NONE
        eventually("one is open", lambda: cordoned(client) == {first})
        broker.kill()
        broker.start()
        with BrokerClient(broker.port) as again:
            assert cordoned(again) == {first}, "what was set at run time holds after a start"
