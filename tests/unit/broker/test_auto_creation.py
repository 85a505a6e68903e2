"""Topics that brokers create since a client's Metadata named them: what the client is told, and what is begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from kavka.broker.topics import auto_creation
from kavka.broker.topics.auto_creation import AutoCreation
from kavka.errors import ErrorCode

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
ON_ITS_WAY = ErrorCode.LEADER_NOT_AVAILABLE


class Cluster:
    """Creates topics when `release` is set; `errors` says which cannot be."""

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []
        self.errors: Mapping[str, ErrorCode] = {}
        self.release = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self.creation = AutoCreation(
            refusal=lambda name: ErrorCode.INVALID_TOPIC_EXCEPTION if " " in name else None,
            create=self.create,
            spawn=lambda work: self.tasks.append(asyncio.create_task(work)),
        )

    async def create(self, names: Sequence[str]) -> Mapping[str, ErrorCode]:
        self.asked.append(names)
        await self.release.wait()
        return {name: error for name, error in self.errors.items() if name in names}

    async def done(self) -> None:
        self.release.set()
        await asyncio.gather(*self.tasks)


def run(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(scenario(Cluster()), 60)

    asyncio.run(main())


def test_a_topic_has_no_leader_yet_for_who_named_it_and_is_created_once_however_often_it_is_named() -> None:
    async def scenario(cluster: Cluster) -> None:
        for _ in range(3):
            assert cluster.creation.ask(["orders"]) == {"orders": ON_ITS_WAY}
            await asyncio.sleep(0)
        await cluster.done()
        assert cluster.asked == [["orders"]]

    run(scenario)


def test_what_is_named_during_a_creation_is_created_after_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.creation.ask(["orders"])
        await asyncio.sleep(0)
        cluster.creation.ask(["payments", "orders"])
        cluster.creation.ask(["clicks"])
        await cluster.done()
        assert cluster.asked == [["orders"], ["clicks", "payments"]]

    run(scenario)


def test_what_cannot_be_is_refused_and_not_begun() -> None:
    async def scenario(cluster: Cluster) -> None:
        answers = cluster.creation.ask(["no spaces", "orders"])
        assert answers == {"no spaces": ErrorCode.INVALID_TOPIC_EXCEPTION, "orders": ON_ITS_WAY}
        await cluster.done()
        assert cluster.asked == [["orders"]]

    run(scenario)


def test_a_topic_that_could_not_be_created_is_tried_again_when_it_is_named_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.errors = {"orders": ErrorCode.POLICY_VIOLATION}
        cluster.creation.ask(["orders"])
        await cluster.done()
        assert cluster.creation.ask(["orders"]) == {"orders": ON_ITS_WAY}
        await cluster.done()
        assert cluster.asked == [["orders"], ["orders"]]

    run(scenario)


def test_no_more_than_so_many_topics_wait_to_be_created(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: Cluster) -> None:
        monkeypatch.setattr(auto_creation, "MAX_WAITING", 2)
        cluster.creation.ask(["first"])
        await asyncio.sleep(0)
        answers = cluster.creation.ask(["a", "b", "c", "first"])
        assert answers == {"a": ON_ITS_WAY, "b": ON_ITS_WAY, "c": UNKNOWN, "first": ON_ITS_WAY}
        await cluster.done()
        assert cluster.asked == [["first"], ["a", "b"]]
        cluster.creation.ask(["c"])
        await cluster.done()
        assert cluster.asked[-1] == ["c"]

    run(scenario)
