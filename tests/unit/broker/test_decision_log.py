"""DecisionLog: the ring on the disk, the way to the topic, and the bounds of both."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kavka.broker.decisions import decision_log
from kavka.broker.decisions.decision_log import MAX_PENDING, DecisionLog, Ring
from kavka.decisions import RING_FILES, Decision, DecisionKind, decode_decision
from kavka.errors import ConnectionFailed, StorageError
from kavka.filesystem import File
from kavka.model import BrokerId
from kavka.records.batch import iterate_batches
from kavka.runtime.disk import LocalFileSystem


class Topic:
    """A topic that takes batches, or fails as often as it is told to."""

    def __init__(self, *, wanted: bool = True, failures: int = 0) -> None:
        self.wanted = wanted
        self.failures = failures
        self.batches: list[bytes] = []

    def is_wanted(self) -> bool:
        return self.wanted

    async def append(self, batch: bytes) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionFailed("the leader is gone")
        self.batches.append(batch)

    def subjects(self) -> list[tuple[str, str]]:
        """(key, why) of each record."""
        found = []
        for data in self.batches:
            for batch in iterate_batches(memoryview(data)):
                for record in batch.records():
                    assert record.key is not None
                    assert record.value is not None
                    found.append((bytes(record.key).decode(), decode_decision(bytes(record.value)).decision.why))
        return found


def decided(number: int) -> Decision:
    return Decision(DecisionKind.BROKER_WENT, number, BrokerId(1), f"because of {number}", about_broker=BrokerId(2))


def new_log(topic: Topic, directory: Path, *, ring_bytes: int = 1 << 20) -> DecisionLog:
    return DecisionLog(topic, Ring(LocalFileSystem(), str(directory), ring_bytes), id_prefix="1-77")


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the code under test has no event for tests
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LINGER_S", "RETRY_S", "LOOK_S"):
        monkeypatch.setattr(decision_log, name, 0.01)


def test_decisions_reach_the_topic_in_order_with_their_subject_as_key(tmp_path: Path) -> None:
    async def scenario() -> None:
        topic = Topic()
        log = new_log(topic, tmp_path)
        log.start()
        for number in range(1200):
            log.record(decided(number))
        await until(lambda: len(topic.subjects()) == 1200)
        assert topic.subjects() == [("broker 2", f"because of {number}") for number in range(1200)]
        assert len(topic.batches) > 1, "one batch is bounded"
        await log.stop()

    asyncio.run(scenario())


def test_a_topic_that_cannot_be_written_is_tried_again_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    async def scenario() -> None:
        topic = Topic(failures=3)
        log = new_log(topic, tmp_path)
        log.start()
        log.record(decided(1))
        await until(lambda: topic.failures < 3)
        log.record(decided(2))
        await until(lambda: len(topic.subjects()) == 2)
        assert [why for _, why in topic.subjects()] == ["because of 1", "because of 2"]
        await log.stop()

    asyncio.run(scenario())


def test_decisions_wait_until_the_topic_is_wanted(tmp_path: Path) -> None:
    async def scenario() -> None:
        topic = Topic(wanted=False)
        log = new_log(topic, tmp_path)
        log.start()
        log.record(decided(1))
        await asyncio.sleep(0.1)
        assert not topic.batches
        topic.wanted = True
        await until(lambda: topic.batches)
        await log.stop()

    asyncio.run(scenario())


def test_what_waits_for_the_topic_is_bounded_and_the_overflow_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        topic = Topic(wanted=False)
        log = new_log(topic, tmp_path)
        for number in range(MAX_PENDING + 5):
            log.record(decided(number))
        assert log.dropped == 5
        log.start()
        topic.wanted = True
        await until(lambda: len(topic.subjects()) == MAX_PENDING)
        assert topic.subjects()[0] == ("broker 2", "because of 5")
        await log.stop()

    asyncio.run(scenario())


@pytest.mark.setting("kavka.decisions.ring.bytes")
def test_the_ring_keeps_the_newest_decisions_within_its_size(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = new_log(Topic(), tmp_path, ring_bytes=8_000)
        for number in range(300):
            log.record(decided(number))
            if number % 10 == 9:
                await asyncio.sleep(0.015)
        await log.stop()

    asyncio.run(scenario())
    lines = [line for name in RING_FILES for line in (tmp_path / name).read_bytes().splitlines()]
    numbers = [decode_decision(line).decision.at_ms for line in lines]

    assert sum((tmp_path / name).stat().st_size for name in RING_FILES) <= 8_000
    assert numbers == list(range(numbers[0], 300))
    assert len(numbers) > 20


def test_a_ring_whose_file_somebody_took_away_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = new_log(Topic(), tmp_path, ring_bytes=8_000)
        for number in range(300):
            log.record(decided(number))
            if number % 10 == 9:
                await asyncio.sleep(0.015)
            if number == 100:
                (tmp_path / RING_FILES[1]).unlink()
        await log.stop()

    asyncio.run(scenario())
    last = (tmp_path / RING_FILES[1]).read_bytes().splitlines()[-1]
    assert decode_decision(last).decision.at_ms == 299


def test_a_stop_leaves_the_last_decisions_in_the_ring(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = new_log(Topic(wanted=False), tmp_path)
        log.start()
        log.record(decided(1))
        await log.stop()

    asyncio.run(scenario())
    assert decode_decision((tmp_path / RING_FILES[1]).read_bytes()).decision == decided(1)


def test_a_disk_that_fails_costs_the_ring_and_not_the_topic(tmp_path: Path) -> None:
    class FailingFileSystem(LocalFileSystem):
        def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
            raise StorageError(path, "no space left on device")

    async def scenario() -> None:
        topic = Topic()
        log = DecisionLog(topic, Ring(FailingFileSystem(), str(tmp_path), 1 << 20), id_prefix="1-77")
        log.start()
        log.record(decided(1))
        log.record(decided(2))
        await until(lambda: len(topic.subjects()) == 2)
        await log.stop()

    asyncio.run(scenario())
