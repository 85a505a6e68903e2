"""ShareGroup: a share group that begins with the first of ten records, in a topic of the same name."""

from __future__ import annotations

import time
import uuid
from typing import Final

from kavka.protocol.messages import incremental_alter_configs_request as configs
from kavka.records.builder import BatchBuilder
from tests.kit.broker_client import BrokerClient
from tests.kit.process_cluster import eventually

RECORDS: Final = 10
GROUP_RESOURCE: Final = 32


def set_earliest(client: BrokerClient, group: str) -> None:
    """The group begins with the first record."""
    change = configs.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = configs.AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[change])
    client.ask(configs.IncrementalAlterConfigsRequest(resources=[resource]), 1)


class ShareGroup:
    """`name` is the group's and the topic's; nobody is a member yet."""

    def __init__(self, port: int) -> None:
        self.port = port
        with BrokerClient(port) as client:
            self.name = client.create_topic(f"shares-{uuid.uuid4().hex}")
            builder = BatchBuilder()
            for number in range(RECORDS):
                builder.append(int(time.time() * 1000), None, str(number).encode())
            data = builder.build()
            # Apache Kafka answers that it made a topic before its broker leads it.
            eventually("the records are written", lambda: client.produce(self.name, data).error_code == 0)
            set_earliest(client, self.name)
            self.topic_id = client.topic_id(self.name)
