"""Groups: a rebalance of many members, and many groups on one broker; kavka and Apache Kafka, the same requests.

    python -m benchmarks.groups kavka|kafka [--members 100] [--groups 1000]

One process plays all members over plain connections, so that what is measured is the coordinator. Classic members:
from the first JoinGroup to the last SyncGroup's answer. Members of the newer protocol: heartbeats as fast as they are
answered, from the first one to the moment when all have all that they are to have. 1,000 groups: one member each joins,
syncs, commits, and all send heartbeats; memory is the process's resident set before and after.

Settings of both: group.initial.rebalance.delay.ms=0, group.consumer.assignment.interval.ms=0.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.apache_kafka import ApacheKafka
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import KavkaProcess, resident_bytes

from kavka.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kavka.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.heartbeat_request import HeartbeatRequest
from kavka.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

TOPIC = "measured"
PARTITIONS = 200
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x08measured\xff\xff\xff\xff"
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.consumer.assignment.interval.ms": "0"}


def prepare(port: int) -> None:
    client = BrokerClient(port, timeout_s=60)
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
    client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    for group in ("warm", *(f"warm-{number}" for number in range(50))):
        while client.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators[0].error_code:
            time.sleep(0.2)
        while beat(client, group, str(uuid.uuid4()), 0, []).error_code:
            time.sleep(0.2)


def beat(client: BrokerClient, group: str, member: str, epoch: int, owned: list[tuple[uuid.UUID, list[int]]]) -> Any:
    first = epoch == 0
    return client.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if first else -1,
            subscribed_topic_names=[TOPIC] if first else None,
            topic_partitions=[TopicPartitions(topic_id=topic, partitions=numbers) for topic, numbers in owned],
        ),
        1,
    )


def consumer_rebalance(port: int, count: int) -> float:
    """Seconds until every member has its part and nobody has more."""
    members = [str(uuid.uuid4()) for _ in range(count)]
    client = BrokerClient(port, timeout_s=60)
    epochs = dict.fromkeys(members, 0)
    owned: dict[str, list[tuple[uuid.UUID, list[int]]]] = {member: [] for member in members}
    began = time.perf_counter()
    while True:
        for member in members:
            answer = beat(client, "newer", member, epochs[member], owned[member])
            assert answer.error_code == 0, answer
            epochs[member] = answer.member_epoch
            if answer.assignment is not None:
                owned[member] = [(part.topic_id, part.partitions) for part in answer.assignment.topic_partitions]
        sizes = [sum(len(numbers) for _, numbers in owned[member]) for member in members]
        if sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1 and len(set(epochs.values())) == 1:
            return time.perf_counter() - began


def join(client: BrokerClient, group: str) -> Any:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )
    answer = client.ask(request, 5)
    request.member_id = answer.member_id
    return client.ask(request, 5)


def sync(client: BrokerClient, group: str, joined: Any) -> Any:
    assignments = [
        SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")
        for member in joined.members
    ]
    return client.ask(
        SyncGroupRequest(
            group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=assignments
        ),
        3,
    )


def classic_rebalance(port: int, count: int) -> float:
    """Seconds from the first join to the last sync, over as many generations as the members make of it."""
    clients = [BrokerClient(port, timeout_s=60) for _ in range(count)]

    def member(client: BrokerClient) -> int:
        joined = join(client, "classic")
        while True:
            assert joined.error_code == 0, joined
            synced = sync(client, "classic", joined)
            if synced.error_code == 0:
                alive = client.ask(
                    HeartbeatRequest(
                        group_id="classic", generation_id=joined.generation_id, member_id=joined.member_id
                    ),
                    3,
                )
                if alive.error_code == 0:
                    return int(joined.generation_id)
            joined = client.ask(
                JoinGroupRequest(
                    group_id="classic",
                    session_timeout_ms=45_000,
                    rebalance_timeout_ms=60_000,
                    member_id=joined.member_id,
                    protocol_type="consumer",
                    protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
                ),
                5,
            )

    began = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(member, clients))
    return time.perf_counter() - began


def many_groups(port: int, count: int) -> dict[str, float]:
    client = BrokerClient(port, timeout_s=60)
    began = time.perf_counter()
    members = []
    for number in range(count):
        group = f"group-{number}"
        joined = join(client, group)
        assert sync(client, group, joined).error_code == 0
        members.append((group, joined.member_id, joined.generation_id))
    joined_s = time.perf_counter() - began
    began = time.perf_counter()
    for group, member_id, generation in members:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        answer = client.ask(
            OffsetCommitRequest(
                group_id=group,
                member_id=member_id,
                generation_id_or_member_epoch=generation,
                topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
            ),
            7,
        )
        assert answer.topics[0].partitions[0].error_code == 0
    committed_s = time.perf_counter() - began
    began = time.perf_counter()
    for group, member_id, generation in members:
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        assert client.ask(request, 3).error_code == 0
    return {
        "joins_per_s": count / joined_s,
        "commits_per_s": count / committed_s,
        "heartbeats_per_s": count / (time.perf_counter() - began),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("broker", choices=["kavka", "kafka"])
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--groups", type=int, default=1_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "data"
        if options.broker == "kavka":
            broker: Any = KavkaProcess(path, settings=SETTINGS)
        else:
            broker = ApacheKafka(path, mode="kraft", settings=SETTINGS)
        with broker:
            port = int(broker.bootstrap.rpartition(":")[2])
            prepare(port)
            before = resident_bytes(broker.pid)
            figures: dict[str, float] = {
                "newer_rebalance_s": consumer_rebalance(port, options.members),
                "classic_rebalance_s": classic_rebalance(port, options.members),
                **many_groups(port, options.groups),
            }
            figures["memory_mb_before"] = before / 1e6
            figures["memory_mb_after"] = resident_bytes(broker.pid) / 1e6
    print(json.dumps({"broker": options.broker, **{name: round(value, 3) for name, value in figures.items()}}))


if __name__ == "__main__":
    main()
