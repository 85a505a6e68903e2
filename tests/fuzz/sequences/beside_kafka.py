"""The same sequences to kavka and to Apache Kafka 4.3, step by step, until the first answer that differs.

    python -m tests.fuzz.sequences.beside_kafka [--seed 1] [--sequences 100] [--steps 60]

Each side draws with the same seed from what its own answers have told, so the requests stay the same for as long as the
answers do. One request follows the other; a join that is held is a step of its own, and its answer belongs to the step
that released it. Waits are long, so that nothing ends by itself. What is compared is what tests/conformance/wire
compares: all but ids, times and the wording of messages.

Not among the requests is what a cluster does in its own time (topics that come and go, regular expressions), and
administration, which has recorded answers for each version (tests/conformance/wire), nor share groups, nor what
`is_left_out` names. Where Kafka answers UNKNOWN_SERVER_ERROR an exception came out that nobody caught; a sequence ends
there.
"""

from __future__ import annotations

import argparse
import random
import re
import select
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.create_topics_request import CreatableTopic
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from kavka.protocol.schema import Struct
from tests.apache_kafka import ApacheKafka
from tests.conformance.wire.golden import differing
from tests.conformance.wire.wire_connection import Closed, WireConnection
from tests.conformance.wire.wire_session import WireSession
from tests.fuzz.sequences.clients import nobody
from tests.fuzz.sequences.knowledge import Knowledge
from tests.fuzz.sequences.requests import Asked, Requests
from tests.fuzz.sequences.run import SETTINGS
from tests.kit.kavka_process import KavkaProcess

PATIENCE: Final = 100
"""Times as long as in a run of clients.py may members be silent."""
HELD: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
SETTLE_S: Final = 0.3
"""After requests that others wait for, or that a broker goes on with after its answer."""
SETTLING: Final = HELD | {
    ApiKey.LEAVE_GROUP, ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID, ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.DELETE_GROUPS,
}  # fmt: skip
ANSWER_S: Final = 10.0
LATE_S: Final = 2.0
COMPARED: Final = frozenset(
    {
        ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS,
        ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DELETE_RECORDS,
    }
)  # fmt: skip
PEER_SETTINGS: Final = {
    **{
        name: value
        for name, value in SETTINGS.items()
        if "segment.bytes" not in name and not name.startswith(("producer.id", "log.retention"))
    },
    "group.initial.rebalance.delay.ms": "0",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.session.timeout.ms": "45000",
    "group.share.min.session.timeout.ms": "45000",
    "group.share.session.timeout.ms": "45000",
    "group.share.record.lock.duration.ms": "30000",
    "group.max.session.timeout.ms": "1800000",
    "transactional.id.expiration.ms": "604800000",
}


class OnPurpose(NamedTuple):
    """Where kavka answers otherwise: the API, the field, both answers (None: whatever it is), and why. What is known
    of a broker differs then, so a sequence ends."""

    key: ApiKey
    path: str
    ours: Any
    theirs: Any
    reason: str

    def covers(self, key: str, path: str, ours: Any, theirs: Any) -> bool:
        return (
            key == self.key.name
            and re.fullmatch(self.path, path) is not None
            and self.ours in (None, ours)
            and self.theirs in (None, theirs)
        )


UNKNOWN_SERVER_ERROR: Final = -1
ON_PURPOSE: Final = (
    OnPurpose(
        ApiKey.JOIN_GROUP, r"\.(member_id|leader|members\[\d+\]\.member_id)", None, None,
        "a refusal names the member that asked, as Kafka's do in a group of the classic protocol; and a new id begins "
        "with the client's, as Kafka's do there",
    ),
    OnPurpose(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, r"\.error_code", 0, 69,
        "an assignment that cannot be read, of a generation that is over, does not hinder an upgrade",
    ),
    OnPurpose(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, r"\.(member_epoch|assignment.*)", None, None,
        "4.3 computes an assignment beside its answers, and gives it with a later heartbeat; kavka's answer has it",
    ),
    OnPurpose(
        ApiKey.PRODUCE, r".*\.error_code", 0, 45,
        "a producer that a partition does not know may begin a transaction there with any sequence but those behind "
        "one that is being verified, as in 4.0; under transaction version 2 4.3 wants 0",
    ),
)  # fmt: skip
PARTS: Final = ("partitions", "partition_responses")
SILENT: Final = frozenset({"error_message", "acknowledge_error_message"})
"""kavka says why more often."""


def pruned(answer: Any) -> Any:
    """Without messages, and without topics of which nothing was asked: kavka names them, Kafka leaves them out."""
    if isinstance(answer, dict):
        return {name: pruned(value) for name, value in answer.items() if name not in SILENT}
    if isinstance(answer, list):
        return [
            pruned(each)
            for each in answer
            if not (isinstance(each, dict) and any(each.get(name) == [] for name in PARTS))
        ]
    return answer


def is_left_out(asked: Asked) -> bool:
    """What Kafka does not answer (no transactions at all, records that are null), and what no client sends.

    That is a member that goes on in the other protocol under the id that it has, and the same topic or partition twice.
    Kafka puts those together, as its maps have it; kavka answers each.
    """
    if asked.key in HELD and asked.subject.member.kind is not ApiKey.JOIN_GROUP and asked.subject.member.epoch:
        return True
    if asked.key is ApiKey.ADD_PARTITIONS_TO_TXN and asked.version >= 4 and not asked.message.transactions:
        return True
    if asked.key is ApiKey.PRODUCE and any(
        each.records is None for topic in asked.message.topic_data for each in topic.partition_data
    ):
        return True
    return _has_twins(asked.message)


def _has_twins(struct: Struct) -> bool:
    for one in type(struct)._fields:
        value = getattr(struct, one.name)
        if not isinstance(value, list):
            continue
        if value and isinstance(value[0], Struct):
            names = [_name_in(each) for each in value]
            if len(set(names)) < len(names) or any(map(_has_twins, value)):
                return True
        elif one.kind == "array" and len(set(value)) < len(value):
            return True
    return False


def _name_in(struct: Struct) -> tuple[Any, ...]:
    names = (
        "name",
        "topic",
        "topic_id",
        "partition_index",
        "partition",
        "index",
        "member_id",
        "transactional_id",
        "key",
    )
    return tuple(getattr(struct, name) for name in names if hasattr(struct, name)) or (id(struct),)


class Event(NamedTuple):
    """An answer, and which step asked for it."""

    step: int
    key: ApiKey
    answer: Any


class Side:
    """One broker, and what its answers have told."""

    def __init__(self, address: tuple[str, int], seed: int) -> None:
        self.session = WireSession(*address)
        self.rng = random.Random(seed)
        self.knowledge = Knowledge(self.rng, f"-{seed}")
        self._waiting: dict[int, tuple[WireConnection, Asked]] = {}
        self._answered: list[tuple[int, Asked, Any]] = []

    def prepare(self) -> dict[int, tuple[int, int]]:
        """Topics, and a coordinator that serves; returns what the broker serves."""
        ask = self.session.connection.ask
        topics = [
            CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in self.knowledge.topic_names
        ]
        self.knowledge.learn(ApiKey.CREATE_TOPICS, None, ask(m.CreateTopicsRequest(topics=topics), 7), nobody())
        for name in self.knowledge.topic_names:
            self.session.until_it_serves(name, 2)
        wanted = [MetadataRequestTopic(name=name) for name in self.knowledge.topic_names]
        self.knowledge.learn(ApiKey.METADATA, None, ask(m.MetadataRequest(topics=wanted), 12), nobody())
        for group in self.knowledge.groups:
            self.session.coordinator_serves(group)
        for name in self.knowledge.transactional_ids:
            self._warm_up(name)
        answer = ask(m.ApiVersionsRequest(), 0)
        lowest = {int(ApiKey.PRODUCE): 3}
        return {
            each.api_key: (max(lowest.get(each.api_key, 0), each.min_version), each.max_version)
            for each in answer.api_keys
        }

    def _warm_up(self, transactional_id: str) -> None:
        """Waits for its coordinator."""
        ask = self.session.connection.ask
        find = m.FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
        begin = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        self.session.until(lambda: bool(ask(find, 4).coordinators[0].error_code == 0))
        self.session.until(lambda: bool(ask(begin, 4).error_code == 0))

    def begin(self, served: dict[int, tuple[int, int]]) -> None:
        self.requests = Requests(self.rng, self.knowledge, served, patience=PATIENCE)

    def draw(self) -> Asked:
        while is_left_out(asked := self.requests.draw()):
            pass
        return asked

    def step(self, number: int, asked: Asked) -> list[Event]:
        """Asks, and gives what was answered before all is quiet."""
        is_held = asked.key in HELD
        connection = self.session.connect() if is_held else self.session.connection
        connection.send(asked.message, asked.version)
        self._waiting[number] = (connection, asked)
        if asked.key is ApiKey.PRODUCE and asked.message.acks == 0:
            del self._waiting[number]
            self.session.connection = self.session.connect()
            time.sleep(SETTLE_S)
            return []
        deadline = time.monotonic() + (SETTLE_S if is_held else ANSWER_S)
        events: list[Event] = []
        while self._waiting and (left := deadline - time.monotonic()) > 0:
            events += self._receive(left)
            if number not in self._waiting:
                deadline = min(deadline, time.monotonic() + (SETTLE_S if asked.key in SETTLING else 0))
                if asked.key not in SETTLING:
                    break
        if asked.key in SETTLING and not self._waiting:
            time.sleep(SETTLE_S / 3)
        return sorted(events, key=lambda event: event.step)

    def late(self) -> list[Event]:
        """What comes after all, where the other side had more to say."""
        return self._receive(LATE_S) if self._waiting else []

    def learn(self) -> None:
        """Both sides learn of a step's answers in the same order."""
        for _, asked, answer in sorted(self._answered, key=lambda row: row[0]):
            self.knowledge.learn(asked.key, asked.message, answer, asked.subject)
        self._answered.clear()

    def _receive(self, timeout_s: float) -> list[Event]:
        by_socket = {connection._socket: number for number, (connection, _) in self._waiting.items()}
        ready, _, _ = select.select(list(by_socket), [], [], timeout_s)
        events = []
        for each in ready:
            number = by_socket[each]
            connection, asked = self._waiting.pop(number)
            try:
                answer = connection.receive(asked.message, asked.version)
            except Closed:
                if connection is self.session.connection:
                    self.session.connection = self.session.connect()
                events.append(Event(number, asked.key, "closed"))
                continue
            self._answered.append((number, asked, answer))
            events.append(Event(number, asked.key, pruned(self.session.normalised(answer, asked.version))))
        return events


class Excused(Exception):
    """Kafka let an exception through, or left a request without an answer."""


class Difference(NamedTuple):
    """Where two sides part."""

    seed: int
    step: int
    asked: str
    paths: list[tuple[str, Any, Any]]
    before: list[str]

    def __str__(self) -> str:
        told = "; ".join(f"{path}: kavka {ours!r:.160}, Kafka {theirs!r:.160}" for path, ours, theirs in self.paths[:4])
        return f"seed {self.seed}, step {self.step}: {self.asked[:600]}\n    {told}"


def sequence(kavka: tuple[str, int], kafka: tuple[str, int], seed: int, steps: int) -> tuple[int, Difference | None]:
    """Plays one sequence; how many steps were equal, and the first difference."""
    sides = [Side(kavka, seed), Side(kafka, seed)]
    served = [side.prepare() for side in sides]
    both = {
        key: (max(low, served[1][key][0]), min(high, served[1][key][1]))
        for key, (low, high) in served[0].items()
        if key in served[1] and key in COMPARED
    }
    for side in sides:
        side.begin(both)
    said: list[str] = []
    try:
        for number in range(steps):
            asked = [side.draw() for side in sides]
            said.append(f"{asked[0]}")
            requests = [
                side.session.normalised(each.message, each.version) for side, each in zip(sides, asked, strict=True)
            ]
            if parted := differing(*requests):
                return number, Difference(seed, number, f"{said[-1]} (drawn otherwise)", parted, said)
            events = [side.step(number, each) for side, each in zip(sides, asked, strict=True)]
            if len(events[0]) != len(events[1]):
                events = [
                    sorted([*each, *side.late()], key=lambda event: event.step)
                    for side, each in zip(sides, events, strict=True)
                ]
            for side in sides:
                side.learn()
            said[-1] += f"\n          -> {[event.answer for event in events[0]]}"[:700]
            if paths := _differences(*events):
                return number, Difference(seed, number, said[-1], paths, said)
    except Excused:
        return number, None
    finally:
        for side in sides:
            side.session.close()
    return steps, None


def _differences(ours: list[Event], theirs: list[Event]) -> list[tuple[str, Any, Any]]:
    """Those that are not on purpose."""
    extra = {event.step for event in ours} - {event.step for event in theirs}
    if extra and all(event.key in HELD for event in ours if event.step in extra):
        # A member that joins again while its join is held: kavka answers the former one, Kafka forgets it.
        raise Excused(ours[0].key.name)
    steps = [[(event.step, event.key.name) for event in each] for each in (ours, theirs)]
    if steps[0] != steps[1]:
        return [("answered", *steps)]
    found = []
    for one, other in zip(ours, theirs, strict=True):
        paths = differing(one.answer, other.answer)
        if any(path.endswith("error_code") and theirs == UNKNOWN_SERVER_ERROR for path, _, theirs in paths):
            raise Excused(one.key.name)
        excused = [any(row.covers(one.key.name, *each) for row in ON_PURPOSE) for each in paths]
        is_other_outcome = any(
            known for known, (path, _, _) in zip(excused, paths, strict=True) if "error_code" in path
        )
        if paths and (all(excused) or is_other_outcome):
            raise Excused(one.key.name)
        if paths:
            found += [(f"step {one.step} {one.key.name}{path}", here, there) for path, here, there in paths]
    return found


@contextmanager
def both(directory: Path) -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """Addresses of a kavka and an Apache Kafka of their own."""
    with (
        KavkaProcess(directory / "data", settings=PEER_SETTINGS) as kavka,
        ApacheKafka(directory / "kafka", mode="kraft", settings=PEER_SETTINGS, heap="-Xmx512M -Xms256M") as kafka,
    ):
        yield ("127.0.0.1", kavka.port), ("127.0.0.1", kafka.port)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--verbose", action="store_true", help="the requests before each difference")
    wanted = parser.parse_args(words)
    equal, kinds = 0, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="kavka-beside-") as directory, both(Path(directory)) as addresses:
        for seed in range(wanted.seed, wanted.seed + wanted.sequences):
            steps, found = sequence(*addresses, seed, wanted.steps)
            equal += steps
            if found is not None:
                kinds[found.asked.split()[0]] += 1
                print(found, flush=True)
                if wanted.verbose:
                    print(
                        *(f"        {number} {each[:500]}" for number, each in enumerate(found.before)),
                        sep="\n",
                        flush=True,
                    )
    print(f"{equal} steps with equal answers in {wanted.sequences} sequences; parted by {dict(kinds)}")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
