"""Contents: what clients read of a cluster, as values that go into JSON and can be compared.

Asked of librdkafka, of ZooKeeper by kazoo, and of `kavka why` for decisions, so that an earlier build and this one are
asked the same.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.kit.committed_records import TIMEOUT_S, committed_records
from tests.kit.process_cluster import ProcessCluster, kavka_command

TOPICS = ("plain", "compacted", "trimmed", "transactions", "open", "prepared", "sequenced")
GROUPS = ("classic-group", "consumer-group")
REPLAYED = (
    *("brokers", "partitions", "inputs", "decisions", "leader_elections", "isr_changes", "isr_shrinks"),
    *("isr_expansions", "logs_cut_back", "differences", "unreadable", "versions"),
)
"""Of what `kavka replay --json` tells, the names that depend on the recordings alone."""
LONGEST_AGO = "36500d"


def contents(cluster: ProcessCluster) -> dict[str, Any]:
    """Records under read_committed, topics with their settings, and what groups committed."""
    return {
        "records": {topic: records(cluster.bootstrap, topic) for topic in TOPICS},
        "topics": {topic: _topic(cluster, topic) for topic in TOPICS},
        "groups": {group: _committed(cluster.bootstrap, group) for group in GROUPS},
    }


def records(bootstrap: str, topic: str) -> list[list[Any]]:
    """[partition, offset, key, value, headers, timestamp in ms] of each, in the order of its partition."""
    return [
        [
            *(one.partition, one.offset, _text(one.key), _text(one.value)),
            [[name, _text(value)] for name, value in one.headers],
            one.timestamp_ms,
        ]
        for one in committed_records(bootstrap, topic)
    ]


def decisions(bootstrap: str, program: Sequence[str] = (kavka_command(),)) -> list[dict[str, Any]]:
    """All that `kavka why` has to say, without the form of its words."""
    command = [*program, "why", "--json", "--since", LONGEST_AGO, "--bootstrap", bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def replayed(cluster: ProcessCluster, program: Sequence[str] = (kavka_command(),)) -> dict[str, Any]:
    """What `kavka replay` makes of the recordings in the brokers' directories."""
    directories = [str(cluster.data_dir(number)) for number in cluster.brokers]
    command = [*program, "replay", *directories, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    return {name: told[name] for name in REPLAYED}


def _topic(cluster: ProcessCluster, topic: str) -> dict[str, Any]:
    znode = cluster.znode(f"/brokers/topics/{topic}")
    return {
        "id": znode["topic_id"],
        "replicas": znode["partitions"],
        "settings": cluster.znode(f"/config/topics/{topic}")["config"],
    }


def _committed(bootstrap: str, group: str) -> list[list[Any]]:
    """[topic, partition, offset, metadata] of each partition of `plain`."""
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group})) as consumer:
        found = consumer.committed([TopicPartition("plain", partition) for partition in range(2)], TIMEOUT_S)
    return [[one.topic, one.partition, one.offset, one.metadata] for one in found]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
