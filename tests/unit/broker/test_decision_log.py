"""DecisionLog: the ring on the disk, the way to the topic, and the bounds of both."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from kavka.broker.decisions import decision_log
from kavka.broker.decisions.decision_log import MAX_PENDING, DecisionLog, Ring
from kavka.client.decisions import in_order, read_ring
from kavka.decisions import (
    RING_FILES,
    Decision,
    DecisionKind,
    RecordedDecision,
    decode_decision,
    encode_decision,
    ring_mark,
)
from kavka.errors import ConnectionFailed, ErrorCode, RequestError, StorageError
from kavka.filesystem import File
from kavka.model import NO_LEADER, BrokerId
from kavka.records.batch import iterate_batches
from kavka.runtime.disk import LocalFileSystem


class Topic:
    """A topic that takes batches, or fails as often as it is told to, or does not answer."""

    def __init__(
        self,
        *,
        wanted: bool = True,
        enabled: bool = True,
        failures: int = 0,
        hangs: bool = False,
        max_bytes: int = 1 << 20,
    ) -> None:
        self.wanted = wanted
        self.enabled = enabled
        self.led = True
        self.failures = failures
        self.hangs = hangs
        self.max_bytes = max_bytes
        self.batches: list[bytes] = []

    def is_enabled(self) -> bool:
        return self.enabled

    def is_wanted(self) -> bool:
        return self.wanted

    def has_leader(self) -> bool:
        return self.led

    async def append(self, batch: bytes) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.failures:
            self.failures -= 1
            raise ConnectionFailed("the leader is gone")
        if len(batch) > self.max_bytes:
            raise RequestError(ErrorCode.MESSAGE_TOO_LARGE)
        self.batches.append(batch)

    def reasons(self) -> list[str]:
        return [why for _, why in self.subjects()]

    def subjects(self) -> list[tuple[str, str]]:
        """(key, why) of each record."""
        return [(key, recorded.decision.why) for key, recorded in self._found()]

    def records(self) -> list[RecordedDecision]:
        return [recorded for _, recorded in self._found()]

    def _found(self) -> list[tuple[str, RecordedDecision]]:
        found = []
        for data in self.batches:
            for batch in iterate_batches(memoryview(data)):
                for record in batch.records():
                    assert record.key is not None
                    assert record.value is not None
                    found.append((bytes(record.key).decode(), decode_decision(bytes(record.value))))
        return found


def decided(number: int) -> Decision:
    return Decision(DecisionKind.BROKER_WENT, number, BrokerId(1), f"because of {number}", about_broker=BrokerId(2))


def new_log(topic: Topic, directory: Path, *, ring_bytes: int = 1 << 20, life: str = "1-77") -> DecisionLog:
    return DecisionLog(topic, Ring(LocalFileSystem(), str(directory), ring_bytes), id_prefix=life)


def in_ring(directory: Path) -> list[RecordedDecision]:
    lines = [line for name in RING_FILES if (directory / name).exists() for line in (directory / name).open("rb")]
    return read_ring(lines, 0)


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(60):
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
    numbers = [each.decision.at_ms for each in in_ring(tmp_path)]

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
    assert in_ring(tmp_path)[-1].decision.at_ms == 299


def test_a_stop_leaves_the_last_decisions_in_the_ring(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = new_log(Topic(wanted=False), tmp_path)
        log.start()
        log.record(decided(1))
        await log.stop()

    asyncio.run(scenario())
    assert [each.decision for each in in_ring(tmp_path)] == [decided(1)]


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


# -- a stop, and the next life


async def life(topic: Topic, directory: Path, *numbers: int, name: str, ring_bytes: int = 1 << 20) -> float:
    """A life that decides so much just before it stops in order. Returns how long it took to hand over, in s."""
    log = new_log(topic, directory, ring_bytes=ring_bytes, life=name)
    log.start()
    await asyncio.sleep(0)
    for number in numbers:
        log.record(decided(number))
    began = time.monotonic()
    await log.hand_over()
    seconds = time.monotonic() - began
    await log.stop()
    return seconds


def test_a_stop_hands_over_what_was_decided_just_before(tmp_path: Path) -> None:
    topic = Topic()
    asyncio.run(life(topic, tmp_path, 1, 2, name="1-77"))
    assert topic.reasons() == ["because of 1", "because of 2"]


def test_a_stop_tries_again_where_the_leader_has_just_moved(tmp_path: Path) -> None:
    topic = Topic(failures=2)
    asyncio.run(life(topic, tmp_path, 1, name="1-77"))
    assert topic.reasons() == ["because of 1"]


def test_a_stop_waits_a_moment_for_a_topic_that_does_not_answer_and_not_at_all_for_one_that_nobody_leads(
    tmp_path: Path,
) -> None:
    silent, leaderless, off = Topic(hangs=True), Topic(), Topic(enabled=False, wanted=False)
    leaderless.led = False
    assert 0.25 < asyncio.run(life(silent, tmp_path / "silent", 1, name="1-77")) < 2
    for topic in (leaderless, off):
        assert asyncio.run(life(topic, tmp_path / "other", 1, name="1-77")) < 0.02
        assert not topic.batches


def test_what_a_stop_could_not_hand_over_the_next_life_writes_once_and_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        away = Topic()
        await life(away, tmp_path, 1, 2, name="1-77")
        away.led = away.wanted = False
        await life(away, tmp_path, 3, 4, name="1-78")
        topic = Topic()
        for name, number in (("1-79", 5), ("1-7a", 6)):
            log = new_log(topic, tmp_path, life=name)
            log.start()
            log.record(decided(number))
            await until(lambda number=number: f"because of {number}" in topic.reasons())
            await log.stop()
        assert away.reasons() == ["because of 1", "because of 2"]
        assert topic.reasons() == [f"because of {number}" for number in (3, 4, 5, 6)]

    asyncio.run(scenario())


def test_a_life_that_decides_nothing_writes_what_the_last_one_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        await life(Topic(wanted=False, hangs=True), tmp_path, 1, name="1-77")
        topic = Topic()
        log = new_log(topic, tmp_path, life="1-78")
        log.start()
        await until(lambda: topic.batches)
        await log.stop()
        assert topic.reasons() == ["because of 1"]

    asyncio.run(scenario())


def test_a_kill_leaves_to_the_next_life_what_the_ring_has(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = new_log(Topic(wanted=False), tmp_path)
        log.start()
        log.record(decided(1))
        await until(lambda: in_ring(tmp_path))
        log.record(decided(2))  # Not yet in the ring: it dies with the process.
        log.abort()
        topic = Topic()
        await life(topic, tmp_path, 3, name="1-78")
        assert topic.reasons() == ["because of 1", "because of 3"]

    asyncio.run(scenario())


def test_a_kill_before_the_mark_writes_a_record_again_under_its_id(tmp_path: Path) -> None:
    class Unheard(Topic):
        async def append(self, batch: bytes) -> None:
            self.batches.append(batch)
            await asyncio.Event().wait()  # The answer never comes.

    async def scenario() -> None:
        unheard, topic = Unheard(), Topic()
        log = new_log(unheard, tmp_path)
        log.start()
        log.record(decided(1))
        await until(lambda: unheard.batches)
        log.abort()
        await life(topic, tmp_path, 2, name="1-78")
        found = [*unheard.records(), *topic.records()]
        assert [each.decision_id for each in found] == ["1-77-1", "1-77-1", "1-78-1"]
        assert [each.decision for each in in_order(found)] == [decided(1), decided(2)]

    asyncio.run(scenario())


def test_a_line_that_a_crash_cut_off_costs_neither_what_is_before_nor_what_is_after(tmp_path: Path) -> None:
    async def scenario() -> None:
        await life(Topic(wanted=False, hangs=True), tmp_path, 1, name="1-77")
        with (tmp_path / RING_FILES[1]).open("ab") as file:
            file.write(encode_decision(RecordedDecision("1-77-2", decided(2)))[:-9])
        await life(Topic(wanted=False, hangs=True), tmp_path, 3, name="1-78")
        topic = Topic()
        await life(topic, tmp_path, 4, name="1-79")
        assert topic.reasons() == [f"because of {number}" for number in (1, 3, 4)]
        assert [each.decision.at_ms for each in in_ring(tmp_path)] == [1, 3, 4]

    asyncio.run(scenario())


def test_a_damaged_subject_that_is_no_text_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """One bit of a group's name makes half of a pair of surrogates: JSON reads it, and no record can have it as key."""

    async def scenario() -> None:
        await life(Topic(wanted=False, hangs=True), tmp_path, 1, name="1-77")
        with (tmp_path / RING_FILES[1]).open("ab") as file:
            line = encode_decision(
                RecordedDecision("1-77-2", decided(2)._replace(about_broker=NO_LEADER, group=r"a\ud800"))
            )
            file.write(line.replace(rb"\\ud800", rb"L\ud800") + b"\n")
        topic = Topic()
        await life(topic, tmp_path, 3, name="1-78")
        assert topic.reasons() == ["because of 1", "because of 3"]

    asyncio.run(scenario())


def test_a_ring_that_an_earlier_build_wrote_is_not_sent_again(tmp_path: Path) -> None:
    (tmp_path / RING_FILES[1]).write_bytes(encode_decision(RecordedDecision("1-70-1", decided(1))) + b"\n")
    topic = Topic()
    asyncio.run(life(topic, tmp_path, 2, name="1-78"))
    assert topic.reasons() == ["because of 2"]


def test_a_ring_that_went_round_keeps_what_it_can_for_the_next_life(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = new_log(Topic(wanted=False), tmp_path, ring_bytes=8_000)
        for number in range(300):
            log.record(decided(number))
            if number % 10 == 9:
                await asyncio.sleep(0.015)
        await log.stop()
        kept = [each.decision.why for each in in_ring(tmp_path)]
        topic = Topic()
        await life(topic, tmp_path, 300, name="1-78")
        assert topic.reasons() == [*kept, "because of 300"]
        assert len(kept) > 20

    asyncio.run(scenario())


def test_a_ring_that_cannot_be_read_costs_only_what_was_left_in_it(tmp_path: Path) -> None:
    class Unreadable(LocalFileSystem):
        def read(self, path: str) -> bytes:
            raise StorageError(path, "input/output error")

    async def scenario() -> None:
        await life(Topic(wanted=False, hangs=True), tmp_path, 1, name="1-77")
        topic = Topic()
        log = DecisionLog(topic, Ring(Unreadable(), str(tmp_path), 1 << 20), id_prefix="1-78")
        log.start()
        log.record(decided(2))
        await until(lambda: topic.batches)
        assert topic.reasons() == ["because of 2"]
        await log.stop()

    asyncio.run(scenario())


class Moody(LocalFileSystem):
    """Reads fail so many times."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def read(self, path: str) -> bytes:
        if self.failures:
            self.failures -= 1
            raise StorageError(path, "input/output error")
        return super().read(path)


def test_a_ring_that_cannot_be_read_for_a_moment_costs_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        await life(Topic(wanted=False, hangs=True), tmp_path, 1, name="1-77")
        topic = Topic()
        log = DecisionLog(topic, Ring(Moody(2), str(tmp_path), 1 << 20), id_prefix="1-78")
        log.start()
        log.record(decided(2))
        await until(lambda: topic.batches)
        await log.stop()
        assert topic.reasons() == ["because of 1", "because of 2"]

    asyncio.run(scenario())


def test_what_a_life_cannot_read_it_does_not_mark_and_leaves_to_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        await life(Topic(wanted=False, hangs=True), tmp_path, 1, name="1-77")
        topic = Topic()
        log = DecisionLog(topic, Ring(Moody(1_000), str(tmp_path), 1 << 20), id_prefix="1-78")
        log.start()
        log.record(decided(2))
        await until(lambda: topic.batches)
        await log.stop()
        assert topic.reasons() == ["because of 2"]
        await life(topic, tmp_path, 3, name="1-79")
        assert [each.decision.why for each in in_order(topic.records())] == [f"because of {n}" for n in (1, 2, 3)]

    asyncio.run(scenario())


def test_what_waits_with_what_was_left_behind_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "MAX_PENDING", 8)

    async def scenario() -> None:
        await life(Topic(wanted=False, hangs=True), tmp_path, *range(12), name="1-77")
        topic = Topic()
        await life(topic, tmp_path, 12, 13, name="1-78")
        assert topic.reasons() == [f"because of {number}" for number in range(6, 14)]
        await life(topic, tmp_path, *range(14, 22), name="1-79")
        assert topic.reasons() == [f"because of {number}" for number in range(6, 22)]

    asyncio.run(scenario())


def test_a_ring_without_a_topic_has_no_marks(tmp_path: Path) -> None:
    asyncio.run(life(Topic(enabled=False, wanted=False), tmp_path, 1, name="1-77"))
    assert ring_mark() not in (tmp_path / RING_FILES[1]).read_bytes()
    topic = Topic()
    asyncio.run(life(topic, tmp_path, 2, name="1-78"))
    assert topic.reasons() == ["because of 2"]


def test_a_decision_that_the_topic_never_takes_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        topic = Topic(max_bytes=1_000)
        log = new_log(topic, tmp_path)
        log.start()
        log.record(decided(1))
        log.record(decided(2)._replace(why="x" * 2_000))
        for number in range(3, 9):
            log.record(decided(number))
        await until(lambda: "because of 8" in topic.reasons())
        assert topic.reasons() == [f"because of {number}" for number in (1, 3, 4, 5, 6, 7, 8)]
        assert log.dropped == 1
        await log.stop()

    asyncio.run(scenario())
