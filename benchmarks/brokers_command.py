"""`kavka brokers` on a large cluster: how long the command takes, and where.

    python -m benchmarks.brokers_command [--partitions 100000] [--runs 5] [--profile]

Three stand-ins answer as brokers of such a cluster would (ApiVersions, Metadata, DescribeCluster, DescribeLogDirs),
from answers that were encoded before: what is measured is the command, from the start of its process to its end.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import pstats
import resource
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence

from kavka.protocol.api import ApiKey, api, decode_request_header, encode_response_header
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages import ApiVersionsResponse, MetadataRequest, MetadataResponse
from kavka.protocol.messages.api_versions_response import ApiVersion
from kavka.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kavka.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kavka.protocol.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kavka.protocol.schema import Message

HOST = "127.0.0.1"
BROKERS = 3
PER_TOPIC = 100
SERVED = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_LOG_DIRS)


class StandIns:
    """Three ports that answer as brokers do. `start` returns when they listen; runs on a thread of its own."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._encoded: dict[tuple[int, int], bytes] = {}
        self.ports: list[int] = []

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()
        self._ready.wait()

    def _run(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()

    async def _listen(self) -> None:
        for _ in range(BROKERS):
            server = await asyncio.start_server(self._serve, HOST, 0)
            self.ports.append(server.sockets[0].getsockname()[1])
        for key in SERVED:
            for version in range(api(key).min_version, api(key).max_version + 1):
                self._encoded[key, version] = b""
        # The versions that the command asks for, so that no run pays for the encoding.
        for key in SERVED:
            self._answer(key, api(key).max_version)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                header, position = decode_request_header(frame)
                body = self._answer(header.api_key, header.api_version)
                if header.api_key == ApiKey.METADATA:
                    asked = decode(MetadataRequest, memoryview(frame)[position:], header.api_version)
                    if asked.topics is not None:
                        body = encode(self._metadata(0), header.api_version)
                head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
                writer.write((len(head) + len(body)).to_bytes(4, "big") + head + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _answer(self, key: int, version: int) -> bytes:
        if not self._encoded.get((key, version)):
            self._encoded[key, version] = encode(self._message(key), version)
        return self._encoded[key, version]

    def _message(self, key: int) -> Message:
        brokers = list(enumerate(self.ports, 1))
        names = _names(self._partitions)
        match key:
            case ApiKey.API_VERSIONS:
                served = [ApiVersion(key, api(key).min_version, api(key).max_version) for key in SERVED]
                return ApiVersionsResponse(error_code=0, api_keys=served)
            case ApiKey.DESCRIBE_CLUSTER:
                known = [DescribeClusterBroker(broker_id=n, host=HOST, port=port, rack=None) for n, port in brokers]
                return DescribeClusterResponse(cluster_id="large", controller_id=1, brokers=known)
            case ApiKey.METADATA:
                return self._metadata(self._partitions)
            case _:
                held = [
                    DescribeLogDirsTopic(
                        name=name,
                        partitions=[
                            DescribeLogDirsPartition(
                                partition_index=number, partition_size=1_000, offset_lag=0, is_future_key=False
                            )
                            for number in numbers
                        ],
                    )
                    for name, numbers in names
                ]
                place = DescribeLogDirsResult(
                    error_code=0, log_dir="/data", topics=held, total_bytes=10**12, usable_bytes=10**11
                )
                return DescribeLogDirsResponse(error_code=0, results=[place])

    def _metadata(self, partitions: int) -> MetadataResponse:
        topics = [
            MetadataResponseTopic(
                name=name,
                topic_id=uuid.uuid4(),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=number,
                        leader_id=1 + number % BROKERS,
                        leader_epoch=0,
                        replica_nodes=[1 + (number + n) % BROKERS for n in range(BROKERS)],
                        isr_nodes=[1 + (number + n) % BROKERS for n in range(BROKERS)],
                        offline_replicas=[],
                    )
                    for number in numbers
                ],
            )
            for name, numbers in _names(partitions)
        ]
        brokers = [
            MetadataResponseBroker(node_id=number, host=HOST, port=port, rack=None)
            for number, port in enumerate(self.ports, 1)
        ]
        return MetadataResponse(brokers=brokers, cluster_id="large", controller_id=1, topics=topics)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _names(partitions: int) -> list[tuple[str, range]]:
    return [(f"topic-{number}", range(PER_TOPIC)) for number in range(partitions // PER_TOPIC)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.brokers_command")
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="run it in this process, and show where the time goes")
    chosen = parser.parse_args(arguments)
    stand_ins = StandIns(chosen.partitions)
    stand_ins.start()
    words = ["brokers", "--json", "-b", f"{HOST}:{stand_ins.ports[0]}"]
    if chosen.profile:
        from kavka.cli.cluster.brokers import brokers

        profile = cProfile.Profile()
        profile.runcall(brokers, as_json=True, bootstrap=words[-1])
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return 0
    seconds, processor = [], []
    for _ in range(chosen.runs):
        began, used = time.perf_counter(), _children_s()
        subprocess.run([sys.executable, "-m", "kavka.cli.main", *words], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - began)
        processor.append(_children_s() - used)
    print(f"kavka brokers, {chosen.partitions:,} partitions with {BROKERS} replicas, {chosen.runs} runs:")
    print(f"  median {statistics.median(seconds):.2f} s, best {min(seconds):.2f} s")
    print(f"  processor time {statistics.median(processor):.2f} s")
    print(f"  load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
