"""What an authorizer costs: the time of a decision, the CPU of produce with and without one, and how long it takes
until a change is in force on three brokers.

    python -m benchmarks.authorizer            decisions, changes and produce; about five minutes
    python -m benchmarks.authorizer --quick    fewer of each; about a minute

Everything runs on this machine; produce in turn with and without (A B A B), so that a busy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.broker_client import BrokerClient, batch, produce_of
from tests.kit.rights_script import SETTINGS, add, creation, reserve

from kavka.broker.api.guards.records import produce as produce_guard
from kavka.broker.authorization.authorization import Authorization, AuthorizationPorts
from kavka.broker.authorization.denials import Denials
from kavka.decisions import forget
from kavka.model import BrokerId
from kavka.protocol.api import ApiKey, RequestHeader
from kavka.protocol.codec import decode, encode
from kavka.protocol.connection import ConnectionContext, Request
from kavka.protocol.messages import ProduceRequest
from kavka.security.acls import Entry, Operation, Permission
from kavka.security.authorizer import AclIndex, Question, Rules, Verdict, decide, decide_on_any
from kavka.security.principals import Principal
from kavka.security.resource_patterns import Pattern, PatternType, ResourceType

TOPIC = ResourceType.TOPIC
HOST = "10.0.0.1"


def index_of(count: int) -> AclIndex:
    """Of `count` entries: nine literal lists to one prefixed one."""
    lists: dict[Pattern, set[Entry]] = {}
    for number in range(count):
        kind = PatternType.PREFIXED if number % 10 == 0 else PatternType.LITERAL
        entry = Entry(f"User:u{number % 100}", "*", Operation.READ, Permission.ALLOW)
        lists.setdefault(Pattern(TOPIC, f"topic-{number}", kind), set()).add(entry)
    return AclIndex().with_lists(lists)


def microseconds(work: Callable[[], object], times: int) -> float:
    """Of CPU, for the machine may be busy: the median of five."""
    found = []
    for _ in range(5):
        began = time.thread_time()
        for _ in range(times):
            work()
        found.append((time.thread_time() - began) / times * 1e6)
    return statistics.median(found)


def measure(count: int) -> None:
    """Prints what a decision, a change and a question about any resource cost with so many entries."""
    index, rules = index_of(count), Rules()
    questions = [
        Question(Principal("User", f"u{number % 100}"), HOST, Operation.READ, TOPIC, f"topic-{number % count}")
        for number in range(1_000)
    ]
    asked = itertools.cycle(questions)
    miss = microseconds(lambda: decide(next(asked), index, rules), 2_000)
    added = {Pattern(TOPIC, "new"): {Entry("User:x", "*", Operation.READ, Permission.ALLOW)}}
    change = microseconds(lambda: index.with_lists(added), 20) / 1e3
    began = time.thread_time()
    decide_on_any(questions[0], index, rules)
    first = (time.thread_time() - began) * 1e3
    again = microseconds(lambda: decide_on_any(questions[0], index, rules), 20)
    print(
        f"{count:>7,} entries: a decision {miss:.2f} us, a change of the index {change:.2f} ms, on some resource "
        f"{first:.1f} ms at first, then {again:.0f} us"
    )


class _Lists:
    """An authorizer that goes by an index."""

    generation = 0

    def __init__(self, index: AclIndex) -> None:
        self._index = index

    def decide(self, question: Question) -> Verdict:
        return decide(question, self._index, Rules())

    def decide_on_any(self, question: Question) -> Verdict:
        return decide_on_any(question, self._index, Rules())


def guard() -> None:
    """Prints what is done to a produce request of one record more than without an authorizer."""
    index = index_of(10_000).with_lists(
        {Pattern(TOPIC, "orders"): {Entry("User:*", "*", Operation.WRITE, Permission.ALLOW)}}
    )
    denials = Denials(BrokerId(1), forget, wall_ms=lambda: 0)
    authorization = Authorization(_Lists(index), AuthorizationPorts(lambda: 0, denials, frozenset()))
    message = produce_of("orders", bytes(batch(b"v" * 100)))
    header = RequestHeader(ApiKey.PRODUCE, 9, 1, "client")
    body = memoryview(encode(message, 9))
    request = Request(header, body, ConnectionContext("c", HOST, 1, "PLAINTEXT"))
    decoded = decode(ProduceRequest, body, 9)
    broker: Any = None  # It is asked for nothing but topics' ids, which this version has not.
    cost = microseconds(lambda: produce_guard(broker, authorization.caller(request), decoded), 20_000)
    print(f"a produce request of one record passes its guard in {cost:.2f} us")


async def changes(directory: Path, count: int) -> None:
    """From the answer of one broker until the change is in force on all three."""
    async with InProcessCluster(directory, count=3, settings=SETTINGS) as cluster:
        await cluster.wait_until_all_know([1, 2, 3])
        (_host, port), *_ = cluster.bootstrap
        stores = [cluster.broker(each).authorization.acls for each in (1, 2, 3)]  # type: ignore[union-attr]
        took: list[float] = []
        with BrokerClient(port) as admin:
            for number in range(count):
                wanted = creation(TOPIC, f"topic-{number}", Operation.READ, host=HOST)
                began = time.perf_counter()
                asking = asyncio.create_task(asyncio.to_thread(add, admin, [wanted]))
                pattern = Pattern(TOPIC, f"topic-{number}")
                while not all(pattern in store.index.lists for store in stores if store is not None):  # noqa: ASYNC110
                    await asyncio.sleep(0.000_2)
                took.append((time.perf_counter() - began) * 1e3)
                assert await asking == [0]
    took.sort()
    print(
        f"a change in force on three brokers, from its request: median {statistics.median(took):.1f} ms, "
        f"p99 {took[int(len(took) * 0.99)]:.1f} ms, longest {took[-1]:.1f} ms ({count} changes)"
    )


def produced(port: int, requests: int) -> None:
    with BrokerClient(port) as client:
        records = bytes(batch(b"v" * 100))
        for _ in range(requests):
            assert client.produce("orders", records).error_code == 0


async def produce(directory: Path, settings: dict[str, str], requests: int) -> float:
    """User CPU microseconds of the broker's thread per request of one record."""
    async with InProcessCluster(directory, count=1, settings=settings) as cluster:
        ((_host, port),) = cluster.bootstrap

        def prepare() -> None:
            with BrokerClient(port) as admin:
                if "authorizer.class.name" in settings:
                    reserve(admin)
                    for first in range(0, 10_000, 100):
                        names = [f"topic-{number}" for number in range(first, first + 100)]
                        add(admin, [creation(TOPIC, name, Operation.READ, host=HOST) for name in names])
                admin.create_topic("orders")

        await asyncio.to_thread(prepare)
        await asyncio.to_thread(produced, port, requests // 10)
        # The broker's loop is this thread; the client has one of its own.
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_utime
        await asyncio.to_thread(produced, port, requests)
        return (resource.getrusage(resource.RUSAGE_THREAD).ru_utime - before) / requests * 1e6


async def compare(directory: Path, rounds: int, requests: int) -> None:
    without = {key: value for key, value in SETTINGS.items() if "acl" not in key and "authorizer" not in key}
    found: dict[str, list[float]] = {"without": [], "with": []}
    for turn in range(rounds):
        for name, settings in (("without", without), ("with", SETTINGS)):
            found[name].append(await produce(directory / f"{name}-{turn}", settings, requests))
    bare, guarded = (statistics.median(found[name]) for name in ("without", "with"))
    ratios = [b / a for a, b in zip(found["without"], found["with"], strict=True)]
    print(
        f"produce of one record: {bare:.1f} us of user CPU without, {guarded:.1f} with 10,000 lists; "
        f"ratio of a round: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f} "
        f"({rounds} rounds)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    for count in (10, 10_000, 100_000):
        measure(count)
    guard()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        asyncio.run(changes(directory / "changes", 50 if quick else 500))
        asyncio.run(compare(directory, 2 if quick else 7, 2_000 if quick else 10_000))


if __name__ == "__main__":
    main()
