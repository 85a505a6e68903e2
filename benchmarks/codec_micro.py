#!/usr/bin/env python3
"""What encoding and decoding costs: nanoseconds per message, the best of many rounds.

    benchmarks/codec_micro.py [--rounds 25] [--json]

The best round counts, because everything else on the machine can only make a round slower. Each row has the target that
the design gives it; a row over its target is marked, and with --strict the program then exits with 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from kavka.protocol.api import ApiKey, RequestHeader, decode_request_header, encode_request_header
from kavka.protocol.codec import decode, encode, encode_chunks
from kavka.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kavka.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kavka.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC_ID = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
ROUND_NS = 4_000_000
"""A round repeats its operation for about this long: long against the clock's grain, short against interruptions."""


class Row(NamedTuple):
    name: str
    target_ns: int | None
    operation: Callable[[], object]


def rows() -> list[Row]:
    produce = ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name="orders",
                topic_id=TOPIC_ID,
                partition_data=[PartitionProduceData(index=3, records=bytes(170))],
            )
        ],
    )
    produce_v10 = memoryview(encode(produce, 10))
    produce_v13 = memoryview(encode(produce, 13))
    produce_v7 = memoryview(encode(produce, 7))
    produced = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="orders",
                topic_id=TOPIC_ID,
                partition_responses=[PartitionProduceResponse(index=3, base_offset=123_456, log_start_offset=0)],
            )
        ]
    )
    fetch = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        session_id=7,
        session_epoch=9,
        topics=[
            FetchTopic(
                topic="orders",
                topic_id=TOPIC_ID,
                partitions=[FetchPartition(partition=3, fetch_offset=123_456, partition_max_bytes=1_048_576)],
            )
        ],
    )
    fetch_bytes = {version: memoryview(encode(fetch, version)) for version in (11, 13, 16)}
    empty_fetch = memoryview(encode(FetchRequest(session_id=7, session_epoch=10), 16))
    fetched = FetchResponse(
        session_id=7,
        responses=[
            FetchableTopicResponse(
                topic="orders",
                topic_id=TOPIC_ID,
                partitions=[
                    PartitionData(
                        partition_index=3,
                        high_watermark=123_460,
                        last_stable_offset=123_460,
                        log_start_offset=0,
                        aborted_transactions=None,
                        records=memoryview(bytes(4096)),
                    )
                ],
            )
        ],
    )
    fetched_v16 = memoryview(encode(fetched, 16))
    header = memoryview(encode_request_header(RequestHeader(ApiKey.PRODUCE, 10, 77, "rdkafka")))
    metadata = MetadataResponse(
        topics=[
            MetadataResponseTopic(
                name="orders",
                topic_id=TOPIC_ID,
                partitions=[
                    MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1])
                    for index in range(1_000)
                ],
            )
        ]
    )
    return [
        Row("request header v2, decode", None, lambda: decode_request_header(header)),
        Row("Produce v7 request, decode", 3_000, lambda: decode(ProduceRequest, produce_v7, 7)),
        Row("Produce v10 request, decode", 3_000, lambda: decode(ProduceRequest, produce_v10, 10)),
        Row("Produce v13 request, decode", 3_000, lambda: decode(ProduceRequest, produce_v13, 13)),
        Row("Produce v7 response, encode", 2_000, lambda: encode(produced, 7)),
        Row("Produce v10 response, encode", 2_000, lambda: encode(produced, 10)),
        Row("Produce v13 response, encode", 2_000, lambda: encode(produced, 13)),
        Row("Fetch v11 request, decode", 4_000, lambda: decode(FetchRequest, fetch_bytes[11], 11)),
        Row("Fetch v13 request, decode", 4_000, lambda: decode(FetchRequest, fetch_bytes[13], 13)),
        Row("Fetch v16 request, decode", 4_000, lambda: decode(FetchRequest, fetch_bytes[16], 16)),
        Row("Fetch v16 request of a session, decode", 4_000, lambda: decode(FetchRequest, empty_fetch, 16)),
        Row("Fetch v11 response, encode_chunks", None, lambda: encode_chunks(fetched, 11)),
        Row("Fetch v16 response, encode_chunks", None, lambda: encode_chunks(fetched, 16)),
        Row("Fetch v16 response, decode", None, lambda: decode(FetchResponse, fetched_v16, 16)),
        Row("Fetch v16 request, encode", None, lambda: encode(fetch, 16)),
        Row("Produce v10 request, encode_chunks", None, lambda: encode_chunks(produce, 10)),
        Row("Metadata v12 response of 1,000 partitions, encode", None, lambda: encode(metadata, 12)),
    ]


def best_ns(operation: Callable[[], object], rounds: int) -> float:
    """Nanoseconds of one call in the best round, the loop's own cost taken off."""
    operation()
    started = time.perf_counter_ns()
    operation()
    once = max(time.perf_counter_ns() - started, 1)
    repeats = max(1, ROUND_NS // once)
    loop = range(repeats)
    best = empty = float("inf")
    for _ in range(rounds):
        started = time.perf_counter_ns()
        for _ in loop:
            operation()
        best = min(best, time.perf_counter_ns() - started)
        started = time.perf_counter_ns()
        for _ in loop:
            pass
        empty = min(empty, time.perf_counter_ns() - started)
    return max(0.0, best - empty) / repeats


def main() -> int:
    parser = argparse.ArgumentParser(description="Nanoseconds per encoded and decoded message.")
    parser.add_argument("--rounds", type=int, default=25, help="rounds per row; the best counts")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a row is over its target")
    arguments = parser.parse_args()
    results = [(row, best_ns(row.operation, arguments.rounds)) for row in rows()]
    if arguments.json:
        print(json.dumps({row.name: {"ns": round(ns), "target_ns": row.target_ns} for row, ns in results}, indent=2))
    else:
        for row, ns in results:
            target = "" if row.target_ns is None else f"  target {row.target_ns:>6,}"
            mark = "  OVER" if row.target_ns is not None and ns > row.target_ns else ""
            print(f"{row.name:<52}{ns:>10,.0f} ns{target}{mark}")
    over = any(row.target_ns is not None and ns > row.target_ns for row, ns in results)
    return 1 if over and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
