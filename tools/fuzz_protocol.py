"""Malformed requests for every API that a broker serves, made from the message schemas. `make fuzz` runs it.

    .venv/bin/python tools/fuzz_protocol.py [--seed 1] [--requests 2000]             starts a broker of its own
    .venv/bin/python tools/fuzz_protocol.py --address 127.0.0.1:9092 --pid 4711      fuzzes one that runs

For each API and some version of it a valid request is made of the schema, then damaged: bits flipped, cut off,
lengths and counts that lie, pieces of other requests spliced in, versions and keys that do not exist; or left whole,
with odd names and numbers in it. After each damaged request a good one follows on the same connection: its answer says
that the broker is through with the damaged one. A connection may be closed or answer with an error; it may also wait,
where the damaged request asks for that.

Meanwhile a good client on a connection of its own produces and fetches, and checks every answer. The run fails where

    the broker's process ends                     a right answer is wrong or missing
    a good request waits longer than PATIENCE_S   the broker's memory grows by more than --growth MiB after the first
                                                  third of the run

The same seed gives the same requests.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack, pack_into, unpack
from typing import Any
from uuid import UUID

from kavka.protocol.api import ApiKey, RequestHeader, api, decode_response_header, encode_request_header
from kavka.protocol.codec import EncodeError, decode, encode
from kavka.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
)
from kavka.protocol.messages.create_topics_request import CreatableTopic
from kavka.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kavka.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kavka.protocol.schema import Field, Message, Struct
from kavka.records.builder import BatchBuilder

PATIENCE_S = 10.0
"""Longer than this no good request may wait, on a machine that does other things as well."""
WAITING_S = 0.03
"""A damaged request that is not answered after this time is left alone: it may ask the broker to wait."""
LARGEST_ARRAY = 3
GOOD_TOPIC = "good-client"
MARKER_ID = 0x7A7A
EXTREMES = (0, 1, -1, -2, 2, 127, 128, 255, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**30, 65536, 10**6)
VARINTS = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80" * 12,
    b"\x80\x80\x80\x08",
    b"\x7f",
    b"\xfe\x01",
)
NAMES = ("fuzz", "fuzz-2", "", "..", "x" * 250, "no/such", "group", "\N{SNOWMAN}", "retention.ms", "range", "consumer")


# Requests that are right


class Generator:
    """Valid requests of any API and version, from the tables of their fields."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def request(self, key: ApiKey, version: int, correlation_id: int) -> tuple[bytes, int]:
        """Header and body of a request, and where the body begins."""
        client_id = self._rng.choice(("fuzz", "", None))
        header = encode_request_header(RequestHeader(key, version, correlation_id, client_id))
        for _ in range(20):
            message: Message = api(key).request_type()
            self._fill(message, version)
            try:
                return header + encode(message, version), len(header)
            except EncodeError:
                continue  # Two fields that may not go together; another draw will do.
        return header + encode(api(key).request_type(), version), len(header)

    def _fill(self, struct: Struct, version: int) -> None:
        for one in struct._fields:
            in_version = version in one.versions or version in one.tagged
            if in_version and (one.tag is None or self._rng.random() < 0.3):
                setattr(struct, one.name, self._value(one, version))

    def _value(self, one: Field, version: int) -> object:
        if version in one.nullable and self._rng.random() < 0.15:
            return None
        if one.kind == "array":
            count = self._rng.randint(0, LARGEST_ARRAY)
            return [self._element(one, version) for _ in range(count)]
        if one.kind == "struct":
            return self._struct(one, version)
        return self._scalar(one.kind, one.name)

    def _element(self, one: Field, version: int) -> object:
        return self._struct(one, version) if isinstance(one.element, type) else self._scalar(one.element, one.name)

    def _struct(self, one: Field, version: int) -> Struct:
        made = one.struct()
        self._fill(made, version)
        return made

    def _scalar(self, kind: str, name: str) -> object:
        rng = self._rng
        match kind:
            case "bool":
                return rng.random() < 0.5 or name == "validate_only"
            case "string":
                return rng.choice(NAMES)
            case "bytes":
                return rng.randbytes(rng.randint(0, 40))
            case "records":
                return batch(b"fuzz") if rng.random() < 0.7 else rng.randbytes(rng.randint(0, 100))
            case "uuid":
                return UUID(int=rng.getrandbits(128) if rng.random() < 0.5 else 0)
            case "float64":
                return rng.choice((0.0, -1.0, 1e300, float("inf")))
            case _:
                return self._integer(kind, name)

    def _integer(self, kind: str, name: str) -> int:
        unsigned = kind.startswith("u")
        bits = int(kind.lstrip("uint"))
        low = 0 if unsigned else -(1 << (bits - 1))
        high = (1 << bits) - 1 if unsigned else (1 << (bits - 1)) - 1
        usual = name.endswith("_ms") or name in ("num_partitions", "count", "replication_factor")
        value = self._rng.randint(0, 5) if usual or self._rng.random() < 0.7 else self._rng.choice(EXTREMES)
        return max(low, min(value, high))


def batch(value: bytes, timestamp_ms: int = 0) -> bytes:
    builder = BatchBuilder()
    builder.append(timestamp_ms, b"key", value)
    return bytes(builder.build())


# Damage


class Damage:
    """Takes a frame's content and gives what goes on the wire instead. Each method is one kind of damage."""

    def __init__(self, rng: random.Random, others: Sequence[bytes]) -> None:
        self._rng = rng
        self._others = others
        self.kinds = [
            self.leave_whole,
            self.leave_whole,
            self.leave_whole,
            self.flip_bits,
            self.flip_bits,
            self.cut_off,
            self.lie_in_a_field,
            self.lie_in_a_field,
            self.lie_in_a_varint,
            self.splice,
            self.repeat,
            self.random_body,
            self.lie_in_the_frame,
            self.unknown_version,
            self.unknown_key,
            self.append_garbage,
        ]

    def apply(self, content: bytes, body: int) -> tuple[bytes, str]:
        """The bytes to send for a request whose body begins at `body`, and the damage's name."""
        kind = self._rng.choice(self.kinds)
        return kind(content, body), kind.__name__

    def leave_whole(self, content: bytes, body: int) -> bytes:
        """No damage to the bytes: the generator's names and numbers are odd enough."""
        return framed(content)

    def flip_bits(self, content: bytes, body: int) -> bytes:
        damaged = bytearray(content)
        for _ in range(self._rng.choice((1, 1, 2, 8, 64))):
            at = self._position(damaged, body)
            damaged[at] ^= 1 << self._rng.randrange(8)
        return framed(damaged)

    def cut_off(self, content: bytes, body: int) -> bytes:
        return framed(content[: self._rng.randrange(len(content))])

    def lie_in_a_field(self, content: bytes, body: int) -> bytes:
        damaged = bytearray(content)
        for _ in range(self._rng.choice((1, 1, 3))):
            width = self._rng.choice((2, 4, 4, 8))
            if len(damaged) - body < width:
                return self.flip_bits(content, body)
            at = self._rng.randrange(body, len(damaged) - width + 1)
            value = self._rng.choice(EXTREMES) & (2 ** (8 * width) - 1)
            damaged[at : at + width] = value.to_bytes(width, "big")
        return framed(damaged)

    def lie_in_a_varint(self, content: bytes, body: int) -> bytes:
        at = self._position(content, body)
        replaced = self._rng.choice((0, 1))
        return framed(content[:at] + self._rng.choice(VARINTS) + content[at + replaced :])

    def splice(self, content: bytes, body: int) -> bytes:
        other = self._rng.choice(self._others)
        start = self._rng.randrange(len(other))
        piece = other[start : start + self._rng.randint(1, 60)]
        at = self._position(content, body)
        replaced = self._rng.choice((0, len(piece)))
        return framed(content[:at] + piece + content[at + replaced :])

    def repeat(self, content: bytes, body: int) -> bytes:
        start = self._position(content, body)
        piece = content[start : start + self._rng.randint(1, 40)]
        return framed(content[:start] + piece * self._rng.choice((2, 3, 50)) + content[start:])

    def random_body(self, content: bytes, body: int) -> bytes:
        return framed(content[:body] + self._rng.randbytes(self._rng.randint(0, 300)))

    def lie_in_the_frame(self, content: bytes, body: int) -> bytes:
        """What is left over is read as the next frame, or the frame never gets complete."""
        length = self._rng.choice((*EXTREMES, len(content) - 1, len(content) + 1, len(content) // 2))
        return pack(">i", length) + content

    def unknown_version(self, content: bytes, body: int) -> bytes:
        return framed(content[:2] + pack(">h", self._rng.choice((-1, 99, 2**15 - 1, -(2**15)))) + content[4:])

    def unknown_key(self, content: bytes, body: int) -> bytes:
        return framed(pack(">h", self._rng.choice((-1, 999, 2**15 - 1, 4, 5, 6, 7, 56))) + content[2:])

    def append_garbage(self, content: bytes, body: int) -> bytes:
        return framed(content + self._rng.randbytes(self._rng.randint(1, 40)))

    def _position(self, content: bytes | bytearray, body: int) -> int:
        """A byte of the body for the most part, else one of the header."""
        if len(content) > body and self._rng.random() < 0.9:
            return self._rng.randrange(body, len(content))
        return self._rng.randrange(len(content))


def framed(content: bytes | bytearray) -> bytes:
    return pack(">i", len(content)) + content


# Talking


class Talk:
    """A blocking connection with requests and answers by the book."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def ask(self, key: ApiKey, request: Message, version: int, response_type: type[Any]) -> Any:
        self._correlation_id += 1
        header = encode_request_header(RequestHeader(key, version, self._correlation_id, "good"))
        self.socket.sendall(framed(header + encode(request, version)))
        frame = self.frame()
        correlation_id, body = decode_response_header(key, version, frame)
        if correlation_id != self._correlation_id:
            raise WrongAnswer(f"answer {correlation_id} to request {self._correlation_id}")
        return decode(response_type, memoryview(frame)[body:], version)

    def frame(self) -> bytes:
        (length,) = unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise EOFError("closed by the broker")
            data += piece
        return bytes(data)

    def close(self) -> None:
        self.socket.close()


class WrongAnswer(Exception):
    """The broker answered a good request wrongly."""


class GoodClient:
    """Produces to a topic of its own and fetches what it produced, as long as the fuzzing goes on."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.rounds = 0
        self.longest_s = 0.0
        self.longest_during = ""
        self.during = ""
        """Which API is being fuzzed."""
        self.failure: Exception | None = None

    def start(self) -> None:
        talk = Talk(self._address)
        topic = CreatableTopic(name=GOOD_TOPIC, num_partitions=1, replication_factor=1)
        created = talk.ask(
            ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5, CreateTopicsResponse
        )
        if created.topics[0].error_code not in (0, 36):
            raise WrongAnswer(f"the topic {GOOD_TOPIC} cannot be made: {created.topics[0]}")
        talk.close()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            talk = Talk(self._address)
            while not self._stopping.is_set():
                began = time.monotonic()
                self._round(talk, b"%d" % self.rounds)
                took_s = time.monotonic() - began
                if took_s > self.longest_s:
                    self.longest_s, self.longest_during = took_s, self.during
                self.rounds += 1
            talk.close()
        except Exception as error:  # Whatever it is, it is the result of the run.
            self.failure = error

    def _round(self, talk: Talk, value: bytes) -> None:
        # Of now: retention takes what is old when the run has lasted for log.retention.check.interval.ms.
        good = batch(value, time.time_ns() // 1_000_000)
        data = PartitionProduceData(index=0, records=good)
        produce = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=GOOD_TOPIC, partition_data=[data])]
        )
        produced = talk.ask(ApiKey.PRODUCE, produce, 9, ProduceResponse).responses[0].partition_responses[0]
        if produced.error_code:
            raise WrongAnswer(f"a good produce got {produced}")
        partition = FetchPartition(partition=0, fetch_offset=produced.base_offset, partition_max_bytes=1 << 20)
        fetch = FetchRequest(
            max_wait_ms=1000,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic=GOOD_TOPIC, partitions=[partition])],
        )
        fetched = talk.ask(ApiKey.FETCH, fetch, 12, FetchResponse).responses[0].partitions[0]
        wanted = bytearray(good)
        found = bytes(fetched.records or b"")
        pack_into(">q", wanted, 0, produced.base_offset)
        # The leader epoch (4 bytes at 12) is the broker's to set.
        if fetched.error_code or found[:12] != wanted[:12] or found[16:] != wanted[16:]:
            raise WrongAnswer(f"fetched {found!r} where {bytes(wanted)!r} was produced (error {fetched.error_code})")


# Fuzzing


@dataclass
class Report:
    """What came of the run."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    """answered, closed, waiting, by API"""
    kinds: Counter[str] = field(default_factory=Counter)
    resident_bytes: list[int] = field(default_factory=list)
    good_rounds: int = 0
    good_longest_s: float = 0.0
    good_longest_during: str = ""
    failures: list[str] = field(default_factory=list)


class Fuzzer:
    """Sends damaged requests to one broker."""

    def __init__(self, address: tuple[str, int], pid: int, rng: random.Random) -> None:
        self._address = address
        self._pid = pid
        self._rng = rng
        self._generator = Generator(rng)
        self._talk: Talk | None = None
        header = encode_request_header(RequestHeader(ApiKey.API_VERSIONS, 0, MARKER_ID, None))
        self._marker = framed(header + encode(ApiVersionsRequest(), 0))

    def run(self, requests: int, growth_bytes: int) -> Report:
        report = Report()
        served = self._served()
        others = [self._generator.request(key, self._version(key, low, high), 1)[0] for key, low, high in served]
        damage = Damage(self._rng, others)
        good = GoodClient(self._address)
        good.start()
        try:
            for share in range(3):
                for key, low, high in served:
                    good.during = key.name
                    count = requests * (share + 1) // 3 - requests * share // 3
                    outcomes = report.outcomes.setdefault(key.name, Counter())
                    for _ in range(count):
                        self._one(key, self._version(key, low, high), damage, outcomes, report.kinds)
                    self._check(good)
                report.resident_bytes.append(self._resident())
        except (OSError, EOFError, WrongAnswer) as error:
            report.failures.append(f"{type(error).__name__}: {error}")
        finally:
            if self._talk is not None:
                self._talk.close()
            good.stop()
        report.good_rounds = good.rounds
        report.good_longest_s, report.good_longest_during = good.longest_s, good.longest_during
        self._judge(report, good, growth_bytes)
        return report

    def _served(self) -> list[tuple[ApiKey, int, int]]:
        talk = Talk(self._address)
        response = talk.ask(ApiKey.API_VERSIONS, ApiVersionsRequest(), 0, ApiVersionsResponse)
        talk.close()
        return [(ApiKey(row.api_key), row.min_version, row.max_version) for row in response.api_keys]

    def _version(self, key: ApiKey, low: int, high: int) -> int:
        known = api(key)
        return self._rng.randint(max(low, known.min_version), min(high, known.max_version))

    def _one(self, key: ApiKey, version: int, damage: Damage, outcomes: Counter[str], kinds: Counter[str]) -> None:
        content, body = self._generator.request(key, version, self._rng.getrandbits(31))
        data, kind = damage.apply(content, body)
        kinds[kind] += 1
        talk = self._talk = self._talk or Talk(self._address)
        outcome = self._send(talk, data)
        outcomes[outcome] += 1
        if outcome != "answered":
            talk.close()
            self._talk = None

    def _send(self, talk: Talk, data: bytes) -> str:
        """Sends a damaged request and a good one behind it; says what became of them."""
        try:
            talk.socket.sendall(data + self._marker)
            talk.socket.settimeout(WAITING_S)
            for _ in range(100):
                frame = talk.frame()
                if frame[:4] == pack(">i", MARKER_ID):
                    return "answered"
        except TimeoutError:
            return "waiting"
        except (EOFError, ConnectionError):
            return "closed"
        return "talkative"

    def _check(self, good: GoodClient) -> None:
        if good.failure is not None:
            raise WrongAnswer(f"the good client failed: {good.failure}")
        os.kill(self._pid, 0)

    def _resident(self) -> int:
        return int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def _judge(self, report: Report, good: GoodClient, growth_bytes: int) -> None:
        if good.failure is not None:
            report.failures.append(f"good client: {type(good.failure).__name__}: {good.failure}")
        if good.longest_s > PATIENCE_S:
            report.failures.append(f"a good request waited {good.longest_s:.1f} s")
        if not good.rounds:
            report.failures.append("the good client got no answer at all")
        resident = report.resident_bytes
        if len(resident) == 3 and resident[2] - resident[0] > growth_bytes:
            growth = f"from {resident[0] >> 20} to {resident[2] >> 20} MiB"
            report.failures.append(f"memory grew {growth} after the first third")
        talkative = sum(outcomes["talkative"] for outcomes in report.outcomes.values())
        if talkative:
            report.failures.append(f"{talkative} requests got answers without end")


@contextmanager
def own_broker() -> Iterator[tuple[tuple[str, int], int]]:
    """A broker for this run, in a process of its own."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this is a program; the tests are a package
    process = importlib.import_module("tests.kit.kavka_process").KavkaProcess

    with tempfile.TemporaryDirectory(prefix="kavka-fuzz-") as directory:
        settings = {"auto.create.topics.enable": "false"}
        with process(Path(directory) / "data", settings=settings) as broker:
            yield ("127.0.0.1", broker.port), broker.pid


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="host:port of a broker that runs; without it one is started")
    parser.add_argument("--pid", type=int, help="that broker's process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=2000, help="damaged requests for each API")
    parser.add_argument("--growth", type=int, default=32, help="MiB by which the broker's memory may grow")
    arguments = parser.parse_args()
    if (arguments.address is None) != (arguments.pid is None):
        parser.error("--address and --pid belong together")
    if arguments.address is None:
        with own_broker() as (address, pid):
            return fuzz(address, pid, arguments)
    host, _, port = arguments.address.rpartition(":")
    return fuzz((host, int(port)), arguments.pid, arguments)


def fuzz(address: tuple[str, int], pid: int, arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    report = Fuzzer(address, pid, random.Random(arguments.seed)).run(arguments.requests, arguments.growth << 20)
    for name, outcomes in report.outcomes.items():
        print(f"{name:28}", "  ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items())))
    total = sum(sum(outcomes.values()) for outcomes in report.outcomes.values())
    resident = " -> ".join(f"{size / 2**20:.1f}" for size in report.resident_bytes)
    print(f"{total} damaged requests, seed {arguments.seed}, {time.monotonic() - began:.0f} s")
    print(f"the broker's memory after each third: {resident} MiB")
    longest = f"longest round {report.good_longest_s * 1000:.0f} ms, during {report.good_longest_during}"
    print(f"good client: {report.good_rounds} records written and read, {longest}")
    for failure in report.failures:
        print(f"FAILED: {failure}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
