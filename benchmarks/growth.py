"""Growth: what a unit costs when there are many: connections, partitions, groups, members, topics, followers, records.

    python -m benchmarks.growth [AXIS ...] [--most N] [--data DIRECTORY]

For each axis one broker runs, and the axis grows on it from size to size. Noted are the broker's CPU for each unit that
comes, its memory for each unit that came since the size before, and what a request costs that has nothing to do with
them (a Produce of one record of 100 bytes, 50 in flight). CPU is that of all threads of the process, counted by the
scheduler in ns. The exponent of a figure is the slope of its logarithm over that of the size: 0 is flat, 1 means that
each unit costs more in proportion to how many there are.

`followers` runs the brokers of a cluster in one process, and counts all of it. It is kavka alone that is measured.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from tests.kit.broker_client import BrokerClient, framed
from tests.kit.kavka_process import KavkaProcess, resident_bytes
from tests.kit.process_cluster import eventually

from benchmarks import commits, growth_results
from benchmarks.groups import join as join_classic
from benchmarks.groups import sync
from benchmarks.growth_results import RESULTS, Axis, Point
from benchmarks.render import render
from benchmarks.results import machine
from kavka.protocol.api import ApiKey, RequestHeader, encode_request_header
from kavka.protocol.codec import encode
from kavka.protocol.messages.api_versions_request import ApiVersionsRequest
from kavka.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kavka.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.heartbeat_request import HeartbeatRequest
from kavka.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.protocol.messages.metadata_request import MetadataRequest
from kavka.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.builder import BatchBuilder
from kavka.runtime.loop import share_files

PROBE_VERSION: Final = 10
PROBE: Final = "probe"
IN_FLIGHT: Final = 50
PROBES: Final = 6_000
SETTLED_S: Final = 6.0
"""By then what came last is in the checkpoint, which is written every five seconds."""
REST_S: Final = 5.0
PARTITIONS_OF_A_TOPIC: Final = 10_000
PARTITIONS_OF_A_GROUP: Final = 1_000
BATCH_BYTES: Final = 100
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "message.max.bytes": "104857600",
}


def cpu_ns(pid: int) -> int:
    """CPU of all threads that a process has now, in ns. One that ends meanwhile is not counted."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            continue
    return total


class Broker:
    """A broker that runs, and requests that it is asked again and again."""

    def __init__(self, process: KavkaProcess) -> None:
        self.port, self.pid = process.port, process.pid
        self.client = BrokerClient(process.port)
        known = self.client.ask(MetadataRequest(topics=[]), 1)
        ports = {each.node_id: each.port for each in known.brokers}
        self.brokers = sorted(ports, key=lambda node_id: ports[node_id] != process.port)
        """All of the process, this one first."""
        self._controller = BrokerClient(ports[known.controller_id])
        self.create(PROBE, 1, on=self.brokers[:1])
        self._probe = produce_frame({PROBE: [0]}, records(1))
        self.ask_many(self._probe, PROBES // 2)

    def close(self) -> None:
        self.client.close()
        self._controller.close()

    @property
    def memory_kb(self) -> float:
        return resident_bytes(self.pid) / 1024

    def create(self, topic: str, partitions: int, *, on: Sequence[int] = ()) -> None:
        """Makes a topic, and returns when its last log is there. `on`: the brokers that have it, the leader first."""
        assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(on))] if on else []
        wanted = CreatableTopic(
            name=topic,
            num_partitions=-1 if on else partitions,
            replication_factor=-1 if on else 1,
            assignments=assignments,
            configs=[],
        )
        answer = self._controller.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=120_000), 7)
        assert not answer.topics[0].error_code, answer
        last = ListOffsetsPartition(partition_index=partitions - 1, current_leader_epoch=-1, timestamp=-1)
        asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[last])])
        eventually("its last log answers", lambda: not self.client.ask(asked, 4).topics[0].partitions[0].error_code)

    def ask_many(self, frame: bytes, count: int) -> None:
        """Sends a request `count` times, some of them in flight, and takes the answers."""
        burst = frame * IN_FLIGHT
        for _ in range(-(-count // IN_FLIGHT)):
            self.client.send_bytes(burst)
            for _ in range(IN_FLIGHT):
                self.client.receive_frame()

    def cpu_us(self, count: int, work: Callable[[], object]) -> float:
        """The broker's CPU for each of `count` units of `work`."""
        before = cpu_ns(self.pid)
        work()
        return (cpu_ns(self.pid) - before) / 1000 / count

    def probe_us(self) -> float:
        """What a small request costs."""
        return self.cpu_us(PROBES, lambda: self.ask_many(self._probe, PROBES))

    def idle_percent(self) -> float:
        """Of a core, while nobody asks for anything."""
        time.sleep(SETTLED_S)
        return self.cpu_us(1, lambda: time.sleep(REST_S)) / (REST_S * 1e6) * 100


class Grown(NamedTuple):
    """What is noted at one size of an axis whose units stay."""

    broker: Broker
    done: int
    memory_kb: float

    def to(self, size: int, grow: Callable[[], object]) -> tuple[Grown, Point]:
        """Grows to `size` units. Memory is that of the units since the size before."""
        came = size - self.done
        us = self.broker.cpu_us(came, grow)
        memory_kb = self.broker.memory_kb
        figures = {
            "cpu_us_to_come": us,
            "memory_kb": (memory_kb - self.memory_kb) / came,
            "idle_percent": self.broker.idle_percent(),
            "small_request_us": self.broker.probe_us(),
        }
        return Grown(self.broker, size, memory_kb), Point(size, figures)


def grown(broker: Broker) -> Grown:
    return Grown(broker, 0, broker.memory_kb)


def records(count: int) -> bytes:
    """A batch of records of 100 bytes with values that differ."""
    builder, now_ms = BatchBuilder(), int(time.time() * 1000)
    for number in range(count):
        builder.append(now_ms, None, number.to_bytes(4, "big") * (BATCH_BYTES // 4))
    return bytes(builder.build())


def produce_frame(partitions: Mapping[str, Sequence[int]], batch: bytes, *, acks: int = 1) -> bytes:
    topics = [
        TopicProduceData(
            name=name,
            partition_data=[PartitionProduceData(index=index, records=memoryview(batch)) for index in indexes],
        )
        for name, indexes in partitions.items()
    ]
    request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=30_000, topic_data=topics)
    header = RequestHeader(ApiKey.PRODUCE, PROBE_VERSION, 1, "growth")
    return framed(encode_request_header(header) + encode(request, PROBE_VERSION))


# -- axes


def connections(broker: Broker, sizes: Sequence[int]) -> Iterator[Point]:
    """Clients that have said who they are, and then say nothing."""
    asked = ApiVersionsRequest(client_software_name="growth", client_software_version="1")
    broker.client.ask(asked, 3)
    state = grown(broker)
    room = share_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1]).connections
    if max(sizes) >= room:
        print(f"connections: up to {room:,}, which is a broker's share of the files that this system lets it open")
    with ExitStack() as held:

        def grow(size: int) -> None:
            for _ in range(state.done, size):
                held.enter_context(BrokerClient(broker.port)).ask(asked, 3)

        for size in [size for size in sizes if size < room]:
            state, point = state.to(size, lambda size=size: grow(size))  # type: ignore[misc]  # the default's type
            yield point


def partitions(broker: Broker, sizes: Sequence[int]) -> Iterator[Point]:
    """Empty partitions of one replica."""
    state = grown(broker)

    def grow(size: int) -> None:
        for start in range(state.done, size, PARTITIONS_OF_A_TOPIC):
            broker.create(f"many-{start}", min(PARTITIONS_OF_A_TOPIC, size - start))

    for size in sizes:
        state, point = state.to(size, lambda size=size: grow(size))  # type: ignore[misc]  # the default's type
        yield point


def groups(broker: Broker, sizes: Sequence[int]) -> Iterator[Point]:
    """Groups of the classic protocol with one member each. The units of `heartbeat_us` are heartbeats."""
    broker.create("measured", 1)
    find = FindCoordinatorRequest(coordinator_keys=["warm"])
    eventually("a coordinator", lambda: not broker.client.ask(find, 4).coordinators[0].error_code)
    eventually("a member joins", lambda: not join_classic(broker.client, "warm").error_code)
    members: list[HeartbeatRequest] = []
    state = grown(broker)

    def grow(size: int) -> None:
        for number in range(state.done, size):
            joined = join_classic(broker.client, f"group-{number}")
            assert not sync(broker.client, f"group-{number}", joined).error_code
            members.append(
                HeartbeatRequest(
                    group_id=f"group-{number}", generation_id=joined.generation_id, member_id=joined.member_id
                )
            )

    def beat() -> None:
        for each in members:
            assert not broker.client.ask(each, 3).error_code

    for size in sizes:
        state, point = state.to(size, lambda size=size: grow(size))  # type: ignore[misc]  # the default's type
        figures = {**point.figures, "heartbeat_us": broker.cpu_us(size, beat)}
        yield Point(size, figures)


def members(broker: Broker, sizes: Sequence[int]) -> Iterator[Point]:
    """Members of one group of the newer protocol, which has a topic of 1,000 partitions. A size's members come to a
    new group: from the first heartbeat to the one with which the last member has what it is to have."""
    broker.create("measured", PARTITIONS_OF_A_GROUP)
    eventually(
        "a coordinator",
        lambda: not broker.client.ask(FindCoordinatorRequest(coordinator_keys=["warm"]), 4).coordinators[0].error_code,
    )
    eventually("a member joins", lambda: not _Members(broker.client, "warm", 1).beat_all())
    for size in sizes:
        group, memory_kb = _Members(broker.client, f"members-{size}", size), broker.memory_kb
        joined_us = broker.cpu_us(size, group.settle)
        kept_kb = (broker.memory_kb - memory_kb) / size
        figures = {
            "cpu_us_to_come": joined_us,
            "memory_kb": kept_kb,
            "heartbeat_us": broker.cpu_us(size, group.beat_all),
            "small_request_us": broker.probe_us(),
        }
        yield Point(size, figures)


class _Members:
    """All members of one group, over one connection."""

    def __init__(self, client: BrokerClient, group: str, count: int) -> None:
        self._client, self._group = client, group
        self._epochs = {str(uuid.uuid4()): 0 for _ in range(count)}
        self._owned: dict[str, list[tuple[uuid.UUID, list[int]]]] = {member: [] for member in self._epochs}

    def settle(self) -> None:
        """Heartbeats until each partition has its owner and nobody has more than others."""
        while not self._is_settled():
            assert not self.beat_all()

    def beat_all(self) -> int:
        """A heartbeat of each member. Returns the first error."""
        for member, epoch in self._epochs.items():
            first = epoch == 0
            answer = self._client.ask(
                ConsumerGroupHeartbeatRequest(
                    group_id=self._group,
                    member_id=member,
                    member_epoch=epoch,
                    rebalance_timeout_ms=300_000 if first else -1,
                    subscribed_topic_names=["measured"] if first else None,
                    topic_partitions=[
                        TopicPartitions(topic_id=topic, partitions=indexes) for topic, indexes in self._owned[member]
                    ],
                ),
                1,
            )
            if answer.error_code:
                return int(answer.error_code)
            self._epochs[member] = answer.member_epoch
            if answer.assignment is not None:
                self._owned[member] = [(part.topic_id, part.partitions) for part in answer.assignment.topic_partitions]
        return 0

    def _is_settled(self) -> bool:
        counts = [sum(len(indexes) for _, indexes in owned) for owned in self._owned.values()]
        return (
            sum(counts) == PARTITIONS_OF_A_GROUP
            and max(counts) - min(counts) <= 1
            and len(set(self._epochs.values())) == 1
        )


def topics(broker: Broker, sizes: Sequence[int]) -> Iterator[Point]:
    """Topics of one partition that one Produce names, with a record for each."""
    for number in range(max(sizes)):
        broker.create(f"named-{number}", 1)
    for size in sizes:
        frame = produce_frame({f"named-{number}": [0] for number in range(size)}, records(1))
        count = max(20_000 // size, IN_FLIGHT) // IN_FLIGHT * IN_FLIGHT
        broker.ask_many(frame, IN_FLIGHT)
        yield Point(size, {"cpu_us": broker.cpu_us(count * size, lambda: broker.ask_many(frame, count))})  # noqa: B023


def batch(broker: Broker, sizes: Sequence[int]) -> Iterator[Point]:
    """Records of 100 bytes in one batch."""
    for size in sizes:
        frame = produce_frame({PROBE: [0]}, records(size))
        count = max(200_000 // size, IN_FLIGHT) // IN_FLIGHT * IN_FLIGHT
        broker.ask_many(frame, IN_FLIGHT)
        us = broker.cpu_us(count * size, lambda: broker.ask_many(frame, count))  # noqa: B023
        yield Point(size, {"cpu_us": us, "batch_us": us * size})


def followers(broker: Broker, sizes: Sequence[int]) -> Iterator[Point]:
    """Replicas of a partition, with acks=all and one record at a time; CPU of all brokers for each replica."""
    for size in sizes:
        broker.create(f"replicas-{size}", 1, on=broker.brokers[:size])
        frame, count = produce_frame({f"replicas-{size}": [0]}, records(1), acks=-1), 2_000

        def one_by_one(times: int) -> None:
            for _ in range(times):
                broker.client.send_bytes(frame)  # noqa: B023
                broker.client.receive_frame()

        one_by_one(200)
        yield Point(size, {"cpu_us": broker.cpu_us(count * size, lambda: one_by_one(count))})  # noqa: B023


class Measured(NamedTuple):
    """An axis: its sizes, how it is measured, and how many brokers the process has."""

    measure: Callable[[Broker, Sequence[int]], Iterator[Point]]
    sizes: tuple[int, ...]
    brokers: int = 1


AXES: Final[Mapping[str, Measured]] = {
    "connections": Measured(connections, (10, 100, 1_000, 10_000, 20_000)),
    "partitions": Measured(partitions, (10, 100, 1_000, 10_000, 100_000)),
    "groups": Measured(groups, (10, 100, 1_000, 10_000)),
    "members": Measured(members, (1, 10, 100, 1_000)),
    "topics": Measured(topics, (1, 10, 100, 1_000)),
    "batch": Measured(batch, (1, 10, 100, 1_000, 10_000)),
    "followers": Measured(followers, (1, 2, 4, 8), brokers=8),
}


def measure(name: str, most: int, data: Path) -> Axis:
    axis, load = AXES[name], os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="kavka-growth-", dir=data) as directory:
        process = KavkaProcess(Path(directory) / "data", settings=SETTINGS, brokers=axis.brokers)
        with process:
            broker = Broker(process)
            points = []
            for point in axis.measure(broker, [size for size in axis.sizes if size <= most]):
                print(
                    f"{name} {point.size:,}: " + ", ".join(f"{k} {v:.3g}" for k, v in point.figures.items()), flush=True
                )
                points.append(point)
            broker.close()
    where = machine(data)
    words = f"{where['processor']}, {where['cores']} cores, {where['file_system']}, load average {load:.1f} before"
    return Axis(points, f"{words}; kavka at {commits.described('--dirty')}, Python {platform.python_version()}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.growth", description="What a unit costs when there are many.")
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=f"of {', '.join(AXES)}; all when none is named")
    parser.add_argument("--most", type=int, default=1_000_000, help="the largest size; figures of a part are not kept")
    parser.add_argument(
        "--data", type=Path, default=Path(tempfile.gettempdir()), help="where the broker keeps its data"
    )
    options = parser.parse_args()
    unknown = set(options.axes) - AXES.keys()
    if unknown:
        parser.error(f"no such axis: {', '.join(sorted(unknown))}; there are {', '.join(AXES)}")
    _allow_files(50_000)
    commits.compile_checkout()
    for name in options.axes or AXES:
        axis = measure(name, options.most, options.data)
        print("\n".join(growth_results.table(name, axis)), flush=True)
        if options.most >= max(AXES[name].sizes):
            growth_results.keep(RESULTS, name, axis)
            render()


def _allow_files(count: int) -> None:
    """Raises how many files may be open, here and in the broker, as far as the system lets."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in ((count, max(hard, count)), (hard, hard)):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, wanted)
            return
        except (ValueError, PermissionError):
            continue


if __name__ == "__main__":
    main()
