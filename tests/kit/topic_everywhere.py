"""wait_everywhere: until every broker of a cluster tells clients of a topic.

CreateTopics is answered by the controller, which does not wait until all brokers have heard of the topic; neither does
Apache Kafka's. Whoever asks another broker right afterwards is told that there is no such topic.
"""

from __future__ import annotations

from tests.kit.broker_client import BrokerClient
from tests.kit.process_cluster import eventually


def wait_everywhere(bootstrap: str, topic: str, partitions: int = 0) -> None:
    """bootstrap: all brokers as host:port,host:port, in clear. Returns when each of them knows the topic with so many
    partitions (0: with any number) and their leaders."""
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        eventually(f"{address} knows {topic}", lambda: _is_known(host, int(port), topic, partitions))  # noqa: B023


def _is_known(host: str, port: int, topic: str, partitions: int) -> bool:
    with BrokerClient(port, host=host) as client:
        found = client.topics(topic)[topic]
    return (
        found.error_code == 0
        and len(found.partitions) == (partitions or max(len(found.partitions), 1))
        and all(each.error_code == 0 and each.leader_id >= 0 for each in found.partitions)
    )
