"""A share-partition against a model that knows each offset by itself, over many random stories."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from kavka.errors import ErrorCode, RequestError
from kavka.model import StateBatch
from kavka.share.decide.acquired_records import LogBatch, Wish
from kavka.share.decide.share_partition import (
    MOST_SPANS,
    Acknowledgement,
    AcknowledgeType,
    ShareLimits,
    SharePartition,
    Write,
    check_acknowledgements,
)
from kavka.share.decide.spans import TERMINAL, RecordState

LIMITS = ShareLimits(deliveries=3, lock_ms=100, in_flight=12)
MEMBERS = ("a", "b")


@dataclass
class Offset:
    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member: str = ""
    deadline_ms: int = 0
    leaving: RecordState | None = None


LOG = [
    LogBatch(first, first + 2, is_aborted=first % 15 == 9)
    for first in range(0, 90, 3)
    if first % 21 != 6  # A hole: what was there was compacted.
]
DELIVERABLE = {offset for batch in LOG if not batch.is_aborted for offset in range(batch.first, batch.last + 1)}


class Story:
    """One run: the partition, and a dict of offsets that says what must be true of it. `stored`: the same of what a
    coordinator keeps, from which another leader goes on."""

    def __init__(self, seed: int, limits: ShareLimits = LIMITS) -> None:
        self.draw = random.Random(seed)
        self.limits = limits
        self.partition = SharePartition(0)
        self.model: dict[int, Offset] = {}
        self.now_ms = 0
        self.write: Write | None = None
        self.in_write: set[int] = set()
        self.stored: dict[int, tuple[int, int]] = {}
        self.stored_start = 0
        self.log = LOG

    def step(self) -> None:
        self.now_ms += self.draw.randrange(20)
        kinds = ("acquire", "acknowledge", "release", "expire", "bury", "send", "settle")
        getattr(self, "move" if self.draw.random() < 0.02 else self.draw.choice(kinds))()
        self.check()

    def move(self) -> None:
        """Another leader goes on with what is stored; it may have been written and not told."""
        if self.write is not None and self.draw.random() < 0.5:
            self.store(self.write)
        self.write = None
        batches = [StateBatch(offset, offset, *state) for offset, state in self.stored.items()]
        self.draw.shuffle(batches)
        self.partition = SharePartition(self.stored_start, batches)
        self.model = {offset: Offset(RecordState(state), count) for offset, (state, count) in self.stored.items()}

    def store(self, write: Write) -> None:
        for first, last, state, count in write.batches:
            self.stored.update(dict.fromkeys(range(first, last + 1), (state, count)))
        self.stored_start = max(self.stored_start, write.start_offset)
        self.stored = {offset: state for offset, state in self.stored.items() if offset >= self.stored_start}

    def acquire(self) -> None:
        member, at = self.draw.choice(MEMBERS), self.partition.next_fetch_offset
        wish = Wish(self.draw.randrange(1, 8), is_exact=self.draw.random() < 0.5)
        batches = [batch for batch in self.log if batch.last >= at]
        given = self.partition.acquire(member, batches, wish, self.now_ms, self.limits)
        offsets = [(offset, piece.deliveries) for piece in given for offset in range(piece.first, piece.last + 1)]
        assert not wish.is_exact or len(offsets) <= wish.max_records
        for offset, count in offsets:
            assert offset in DELIVERABLE
            known = self.model.setdefault(offset, Offset())
            assert (known.state, known.leaving) == (RecordState.AVAILABLE, None), "given out though it was not free"
            assert count == known.count + 1 <= self.limits.deliveries
            self.model[offset] = Offset(RecordState.ACQUIRED, count, member, self.now_ms + self.limits.lock_ms)

    def acknowledge(self) -> None:
        """Up to three ranges; one may begin with the last offset of the one before it."""
        member, asked, said = self.draw.choice(MEMBERS), [], []
        first = self.draw.randrange(0, self.partition.end + 2)
        for _ in range(self.draw.randrange(1, 4)):
            last = first + self.draw.randrange(4)
            kinds = [int(self.draw.choice(list(AcknowledgeType))) for _ in range(first, last + 1)]
            kinds = kinds[:1] if self.draw.random() < 0.5 else kinds
            asked.append(Acknowledgement(first, last, kinds))
            said += [
                (offset, AcknowledgeType(kinds[(offset - first) % len(kinds)])) for offset in range(first, last + 1)
            ]
            first = last + self.draw.randrange(3)
        said = [(offset, kind) for offset, kind in said if offset >= self.partition.start]
        held, left = True, set()
        for offset, kind in said:
            known = self.model.get(offset, Offset())
            held &= (known.state, known.leaving, known.member) == (RecordState.ACQUIRED, None, member)
            held &= offset not in left
            left |= {offset} if kind is not AcknowledgeType.RENEW else set()
        try:
            change = self.partition.acknowledge(member, asked, self.now_ms, self.limits)
        except RequestError:
            assert not held
            return
        assert held
        assert bool(change) == bool(left)
        for offset, kind in said:
            if kind is AcknowledgeType.RENEW:
                self.model[offset].deadline_ms = self.now_ms + self.limits.lock_ms
            else:
                self.leave(offset, kind)

    def leave(self, offset: int, kind: AcknowledgeType) -> None:
        known = self.model[offset]
        if kind is AcknowledgeType.ACCEPT:
            known.leaving = RecordState.ACKNOWLEDGED
        elif kind is AcknowledgeType.RELEASE and known.count < self.limits.deliveries:
            known.leaving = RecordState.AVAILABLE
        else:
            known.leaving = RecordState.ARCHIVED if kind is AcknowledgeType.GAP else self.limits.given_up

    def release(self) -> None:
        member = self.draw.choice(MEMBERS)
        self.partition.release(member, self.limits)
        for offset, known in self.model.items():
            if known.state is RecordState.ACQUIRED and known.leaving is None and known.member == member:
                self.leave(offset, AcknowledgeType.RELEASE)

    def expire(self) -> None:
        self.partition.expire(self.now_ms, self.limits)
        for offset, known in self.model.items():
            if known.state is RecordState.ACQUIRED and known.leaving is None and known.deadline_ms <= self.now_ms:
                self.leave(offset, AcknowledgeType.RELEASE)

    def bury(self) -> None:
        """The dead letters of some are written."""
        due = self.partition.dead_letters()
        told = {offset for span in due for offset in range(span.first, span.last + 1)}
        waiting = {
            offset
            for offset, known in self.model.items()
            if known.state is RecordState.ARCHIVING and known.leaving is None
        }
        assert told == waiting
        assert not waiting or self.partition.may_have_dead_letters
        if due:
            span = self.draw.choice(due)
            assert self.partition.archive(span.first, span.last)
            assert not self.partition.archive(span.first, span.last), "once"
            for offset in range(span.first, span.last + 1):
                self.model[offset].leaving = RecordState.ARCHIVED

    def send(self) -> None:
        if self.write is None and self.partition.has_unsent:
            self.write = self.partition.take_write()
            self.in_write = {offset for offset, known in self.model.items() if known.leaving is not None}
            written = {
                offset: (batch.state, batch.deliveries)
                for batch in self.write.batches
                for offset in range(batch.first_offset, batch.last_offset + 1)
            }
            assert written == {
                offset: (self.model[offset].leaving, self.model[offset].count) for offset in self.in_write
            }
            start = self.write.start_offset
            done = {offset for offset, known in self.model.items() if (known.leaving or known.state) in TERMINAL}
            assert not [offset for offset in self.model if offset < start and offset not in done]
            assert start == self.partition.end or start not in done
            assert self.write.complete == len([offset for offset in done if offset >= start])

    def settle(self) -> None:
        if self.write is None:
            return
        is_committed = self.draw.random() < 0.7
        if is_committed:
            self.store(self.write)
        self.partition.settle(self.write, is_committed=is_committed)
        for offset in self.in_write:
            known = self.model[offset]
            assert known.leaving is not None
            if is_committed:
                self.model[offset] = Offset(known.leaving, known.count)
                continue
            if known.state is not RecordState.ARCHIVING:  # Its dead letter is there, and it is written again.
                known.leaving = None
        self.write = None

    def check(self) -> None:
        partition, told = self.partition, {}
        for span in partition.spans:
            for offset in range(span.first, span.last + 1):
                told[offset] = (span.state, span.deliveries, span.becomes)
                if offset not in DELIVERABLE and span.state is RecordState.ARCHIVED:
                    self.model[offset] = Offset(RecordState.ARCHIVED, span.deliveries)
        for offset, known in self.model.items():
            if offset < partition.start:
                assert known.leaving is None
                assert known.state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
            else:
                assert told[offset] == (known.state, known.count, known.leaving), offset
        assert partition.in_flight <= 2 * self.limits.in_flight
        assert all(
            before.last + 1 == after.first
            for before, after in zip(list(partition.spans), list(partition.spans)[1:], strict=False)
        )

    def finish(self) -> None:
        """From now on a member accepts all that it gets, and every write is made."""
        for _ in range(400):
            self.now_ms += self.limits.lock_ms
            self.expire()
            self.bury()
            batches = [batch for batch in self.log if batch.last >= self.partition.next_fetch_offset]
            given = self.partition.acquire("last", batches, Wish(500), self.now_ms, self.limits)
            assert all(set(range(one.first, one.last + 1)) <= DELIVERABLE for one in given)
            for one in given:
                accepted = Acknowledgement(one.first, one.last, [AcknowledgeType.ACCEPT])
                self.partition.acknowledge("last", [accepted], self.now_ms, self.limits)
                for offset in range(one.first, one.last + 1):
                    self.model[offset] = Offset(RecordState.ACQUIRED, one.deliveries, leaving=RecordState.ACKNOWLEDGED)
            self.check()
            self.send()
            if self.write is not None:
                self.partition.settle(self.write, is_committed=True)
                for offset in self.in_write:
                    known = self.model[offset]
                    assert known.leaving is not None
                    self.model[offset] = Offset(known.leaving, known.count)
                self.write = None
            if self.partition.start == LOG[-1].last + 1:
                return
        raise AssertionError(f"{self.partition.start} is not passed: {list(self.partition.spans)[:3]}")


@pytest.mark.parametrize("seed", range(40))
def test_a_share_partition_is_what_a_model_of_single_offsets_says(seed: int) -> None:
    story = Story(seed)
    for _ in range(200):
        story.step()
    assert story.model
    assert not story.partition.may_have_dead_letters
    story.finish()


@pytest.mark.parametrize("seed", range(40))
def test_the_same_in_a_group_with_dead_letters(seed: int) -> None:
    story = Story(seed, LIMITS._replace(given_up=RecordState.ARCHIVING))
    for _ in range(200):
        story.step()
    assert story.model
    story.finish()


def given_up(kind: AcknowledgeType, *, deliveries: int = 3) -> SharePartition:
    """One record that was delivered once and acknowledged so, in a group with dead letters; it is stored."""
    partition = SharePartition(0)
    limits = ShareLimits(deliveries, 100, 12, RecordState.ARCHIVING)
    partition.acquire("a", [LogBatch(0, 0)], Wish(1), 0, limits)
    partition.acknowledge("a", [Acknowledgement(0, 0, [kind])], 0, limits)
    assert not partition.dead_letters(), "before it is stored, a dead letter could be one of a record that goes on"
    partition.settle(partition.take_write(), is_committed=True)
    return partition


def test_a_rejected_record_has_a_dead_letter_that_says_so() -> None:
    (span,) = given_up(AcknowledgeType.REJECT).dead_letters()
    assert (span.first, span.last, span.deliveries, span.is_rejected) == (0, 0, 1, True)


def test_a_record_at_its_limit_has_a_dead_letter() -> None:
    (span,) = given_up(AcknowledgeType.RELEASE, deliveries=1).dead_letters()
    assert not span.is_rejected


def test_where_there_was_no_record_there_is_no_dead_letter() -> None:
    partition = given_up(AcknowledgeType.GAP)
    assert not partition.dead_letters()
    assert partition.start == 1


def test_the_start_waits_for_a_dead_letter_and_passes_when_it_is_archived() -> None:
    partition = given_up(AcknowledgeType.REJECT)
    assert (partition.start, partition.in_flight) == (0, 1)
    assert partition.archive(0, 0)
    write = partition.take_write()
    assert (write.start_offset, write.batches[0].state) == (1, RecordState.ARCHIVED)
    partition.settle(write, is_committed=True)
    assert (partition.start, partition.in_flight, partition.may_have_dead_letters) == (1, 0, True)
    assert not partition.dead_letters()
    assert not partition.may_have_dead_letters


def test_a_refused_write_of_what_is_archived_is_written_again_without_another_dead_letter() -> None:
    partition = given_up(AcknowledgeType.REJECT)
    partition.archive(0, 0)
    write = partition.take_write()
    assert not partition.dead_letters()
    assert partition.may_have_dead_letters, "whoever hears that it was refused asks this before it tries again"
    partition.settle(write, is_committed=False)
    assert not partition.dead_letters()
    assert partition.has_unsent
    partition.settle(partition.take_write(), is_committed=True)
    assert partition.start == 1


def test_another_leader_finds_the_dead_letters_that_are_due() -> None:
    partition = SharePartition(0, [StateBatch(0, 1, RecordState.ARCHIVING, 3), StateBatch(2, 2, 0, 1)])
    (span,) = partition.dead_letters()
    assert (span.first, span.last, span.deliveries) == (0, 1, 3)
    assert partition.next_fetch_offset == 2


def test_records_that_the_log_deletes_while_their_dead_letters_are_due_are_done() -> None:
    partition = given_up(AcknowledgeType.REJECT)
    partition.archive_below(1)
    assert not partition.archive(0, 0)
    assert partition.start == 1


def test_a_start_that_passed_what_is_not_delivered_is_to_be_written_once() -> None:
    """Aborted records at the end: no acknowledgement will tell of them, and until then they count as lag."""
    partition = SharePartition(0)
    assert partition.acquire("one", [LogBatch(0, 4, is_aborted=True)], Wish(10), 0, LIMITS) == []
    assert (partition.start, partition.has_unsent) == (5, True)
    write = partition.take_write()
    assert (write.start_offset, write.batches, write.complete) == (5, [], 0)
    assert not partition.has_unsent
    partition.settle(write, is_committed=False)
    assert not partition.has_unsent, "a refused one waits for the next change"


def test_a_start_that_passes_more_while_a_write_is_under_way_is_written_after_it() -> None:
    partition = SharePartition(0)
    partition.acquire("one", [LogBatch(0, 4, is_aborted=False)], Wish(10), 0, LIMITS)
    partition.acknowledge("one", [Acknowledgement(0, 4, [AcknowledgeType.ACCEPT])], 0, LIMITS)
    write = partition.take_write()
    partition.acquire("one", [LogBatch(5, 9, is_aborted=True)], Wish(10), 0, LIMITS)
    assert not partition.has_unsent
    partition.settle(write, is_committed=True)
    assert partition.has_unsent
    assert partition.take_write().start_offset == 10


def taken(wish: Wish, *batches: LogBatch) -> tuple[list[tuple[int, int]], SharePartition]:
    """What members are given one after the other, and the share-partition then."""
    partition, given = SharePartition(0), []
    while acquired := partition.acquire("m", batches, wish, 0, LIMITS):
        given.append((acquired[0].first, acquired[-1].last))
    return given, partition


def test_a_batch_is_not_cut_for_the_limit_of_records_in_flight() -> None:
    """It would be sent whole to each of those who get a piece of it. Apache Kafka gives it whole, too."""
    given, partition = taken(Wish(5), LogBatch(0, 9), LogBatch(10, 19), LogBatch(20, 29))
    assert given == [(0, 9), (10, 19)]
    assert (partition.in_flight, partition.may_take_more(LIMITS)) == (20, False)


def test_a_batch_that_would_more_than_double_the_limit_is_cut() -> None:
    given, partition = taken(Wish(5), LogBatch(0, 9), LogBatch(10, 29))
    assert given == [(0, 9), (10, 11)]
    assert partition.in_flight == LIMITS.in_flight
    assert taken(Wish(5), LogBatch(0, 24))[0] == [(0, 11)]
    assert taken(Wish(5), LogBatch(0, 23))[0] == [(0, 23)]


def test_who_wants_no_more_than_a_number_of_records_gets_none_beyond_the_limit() -> None:
    given, _partition = taken(Wish(5, is_exact=True), LogBatch(0, 29))
    assert given == [(0, 4), (5, 9), (10, 11)]


@pytest.mark.parametrize(("first", "which"), [(0, "last"), (4, "last"), (5, "first"), (7, "first")])
def test_who_acknowledges_what_nobody_was_given_is_told_which_offset_it_is(first: int, which: str) -> None:
    """The words of Apache Kafka's SharePartition."""
    partition = SharePartition(0)
    partition.acquire("m", [LogBatch(0, 4)], Wish(5), 0, LIMITS)
    with pytest.raises(RequestError, match=f"The {which} offset in request is past acquired records") as refused:
        partition.acknowledge("m", [Acknowledgement(first, 9, [AcknowledgeType.ACCEPT])], 0, LIMITS)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_what_is_stored_twice_or_done_at_the_front_is_taken_as_it_is() -> None:
    stored = [StateBatch(0, 4, RecordState.ACKNOWLEDGED, 1), StateBatch(2, 3, 0, 1), StateBatch(5, 6, 0, 2)]
    partition = SharePartition(0, stored)
    assert [(span.first, span.last, span.state, span.deliveries) for span in partition.spans] == [(5, 6, 0, 2)]
    assert (partition.start, partition.end) == (5, 7)
    assert SharePartition(0, [StateBatch(0, 0, RecordState.ARCHIVING, 3)]).may_have_dead_letters


def test_the_start_passes_what_is_done_behind_what_the_log_has_deleted() -> None:
    partition = SharePartition(0, [StateBatch(0, 1, 0, 1), StateBatch(2, 4, RecordState.ACKNOWLEDGED, 1)])
    partition.archive_below(2)
    assert (partition.start, partition.end) == (5, 5)


@pytest.mark.parametrize(("deliveries", "is_failing"), [(1, False), (2, True)])
def test_what_failed_for_half_of_its_deliveries_goes_out_alone(deliveries: int, *, is_failing: bool) -> None:
    partition = SharePartition(0, [StateBatch(0, 1, 0, deliveries)])
    assert partition.next_is_failing(LIMITS) is is_failing


def test_one_more_record_may_be_given_out_until_the_limit_is_reached() -> None:
    partition = SharePartition(0)
    for count in range(LIMITS.in_flight):
        assert (partition.room(LIMITS), partition.may_take_more(LIMITS)) == (LIMITS.in_flight - count, True)
        partition.acquire("m", [LogBatch(count, count)], Wish(1), 0, LIMITS)
    assert (partition.room(LIMITS), partition.may_take_more(LIMITS)) == (0, False)


def test_the_last_record_that_there_is_room_for_brings_its_batch() -> None:
    partition = SharePartition(0)
    partition.acquire("m", [LogBatch(0, LIMITS.in_flight - 2)], Wish(500), 0, LIMITS)
    assert partition.room(LIMITS) == 1
    (given,) = partition.acquire("m", [LogBatch(LIMITS.in_flight - 1, LIMITS.in_flight + 1)], Wish(1), 0, LIMITS)
    assert (given.first, given.last) == (LIMITS.in_flight - 1, LIMITS.in_flight + 1)


def test_the_numbers_are_those_of_the_protocol_and_of_the_state_topic() -> None:
    """KIP-932, renewal of KIP-1222; states as in ShareSnapshotValue's delivery states."""
    stored = [StateBatch(offset, offset, state, 1) for offset, state in enumerate((0, 2, 4))]
    states = [RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED]
    assert [span.state for span in SharePartition(0, stored).spans] == states
    assert [(each.name, each.value) for each in AcknowledgeType] == [
        ("GAP", 0),
        ("ACCEPT", 1),
        ("RELEASE", 2),
        ("REJECT", 3),
        ("RENEW", 4),
    ]
    assert (RecordState.AVAILABLE, RecordState.ACQUIRED, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED) == (0, 1, 2, 4)


def test_a_state_of_many_runs_takes_no_new_records() -> None:
    stored = [StateBatch(offset, offset, 0, 1 + offset % 2) for offset in range(MOST_SPANS - 1)]
    limits = LIMITS._replace(in_flight=10 * MOST_SPANS)
    assert SharePartition(0, stored).room(limits) == limits.in_flight - MOST_SPANS + 1
    stored.append(StateBatch(MOST_SPANS - 1, MOST_SPANS - 1, 0, 1 + (MOST_SPANS - 1) % 2))
    assert SharePartition(0, stored).room(limits) == 0


def test_who_wants_no_record_gets_none() -> None:
    assert taken(Wish(0), LogBatch(0, 2))[0] == []
    assert taken(Wish(1), LogBatch(0, 0))[0] == [(0, 0)]


def test_an_acknowledgement_where_nothing_is_held_is_refused_in_kafkas_words() -> None:
    partition = SharePartition(0)
    accepted = [Acknowledgement(0, 0, [AcknowledgeType.ACCEPT])]
    with pytest.raises(RequestError, match="The request batch offsets are not found in the cache") as refused:
        partition.acknowledge("m", accepted, 0, LIMITS)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    partition.acquire("m", [LogBatch(0, 4)], Wish(5), 0, LIMITS)
    twice = [Acknowledgement(0, 2, [AcknowledgeType.ACCEPT]), Acknowledgement(2, 4, [AcknowledgeType.ACCEPT])]
    with pytest.raises(RequestError, match="Offset 2 is acknowledged twice") as refused:
        partition.acknowledge("m", twice, 0, LIMITS)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    assert not partition.has_unsent


def test_a_rejection_that_was_not_stored_is_not_what_the_dead_letter_tells() -> None:
    limits = ShareLimits(1, 100, 12, RecordState.ARCHIVING)
    partition = SharePartition(0)
    partition.acquire("m", [LogBatch(0, 0)], Wish(1), 0, limits)
    partition.acknowledge("m", [Acknowledgement(0, 0, [AcknowledgeType.REJECT])], 0, limits)
    partition.settle(partition.take_write(), is_committed=False)
    partition.release("m", limits)
    partition.settle(partition.take_write(), is_committed=True)
    (span,) = partition.dead_letters()
    assert not span.is_rejected


@pytest.mark.parametrize("kind", [kind for kind in AcknowledgeType if kind is not AcknowledgeType.RENEW])
def test_a_write_that_is_refused_leaves_each_record_as_it_was(kind: AcknowledgeType) -> None:
    partition = SharePartition(0)
    partition.acquire("m", [LogBatch(0, 3)], Wish(4), 0, LIMITS)
    before = list(partition.spans)
    partition.acknowledge("m", [Acknowledgement(1, 2, [kind])], 0, LIMITS)
    partition.settle(partition.take_write(), is_committed=False)
    assert list(partition.spans) == before


def given(partition: SharePartition, batch: LogBatch, wish: Wish, limits: ShareLimits) -> list[tuple[int, int, int]]:
    return [(one.first, one.last, one.deliveries) for one in partition.acquire("m", [batch], wish, 0, limits)]


@pytest.mark.parametrize(
    ("most", "pieces"), [(2, [(0, 1, 2)]), (3, [(0, 1, 2), (2, 2, 1)]), (4, [(0, 1, 2), (2, 3, 1)])]
)
def test_a_number_of_records_is_filled_from_several_runs_of_a_batch(
    most: int, pieces: list[tuple[int, int, int]]
) -> None:
    partition = SharePartition(0, [StateBatch(0, 1, 0, 1), StateBatch(2, 3, 0, 0)])
    assert given(partition, LogBatch(0, 3), Wish(most, is_exact=True), LIMITS) == pieces


def test_what_is_failing_waits_for_a_fetch_of_its_own_and_what_is_behind_it_waits_too() -> None:
    partition = SharePartition(0, [StateBatch(0, 0, 0, 1), StateBatch(1, 1, 0, 2), StateBatch(2, 2, 0, 1)])
    fetches = [given(partition, LogBatch(0, 2), Wish(10), LIMITS) for _ in range(4)]
    assert fetches == [[(0, 0, 2)], [(1, 1, 3)], [(2, 2, 2)], []]


def test_a_batch_that_fails_is_halved_wherever_it_lies() -> None:
    limits = LIMITS._replace(deliveries=6)
    partition = SharePartition(10, [StateBatch(10, 17, 0, 3)])
    assert given(partition, LogBatch(10, 17), Wish(100), limits) == [(10, 13, 4)]


def test_no_new_record_goes_out_with_what_is_failing() -> None:
    limits = LIMITS._replace(deliveries=6)
    partition = SharePartition(0, [StateBatch(0, 1, 0, 3), StateBatch(2, 7, RecordState.ACKNOWLEDGED, 1)])
    assert given(partition, LogBatch(0, 8), Wish(100), limits) == [(0, 1, 4)]
    assert given(partition, LogBatch(8, 8), Wish(100), limits) == [(8, 8, 1)]


def test_what_failed_another_number_of_times_waits_for_another_fetch() -> None:
    limits = LIMITS._replace(deliveries=6)
    stored = [StateBatch(0, 1, 0, 3), StateBatch(2, 2, 0, 4), StateBatch(3, 3, 0, 3), StateBatch(4, 7, 2, 1)]
    partition = SharePartition(0, stored)
    fetches = [given(partition, LogBatch(0, 7), Wish(100), limits) for _ in range(4)]
    assert fetches == [[(0, 1, 4)], [(2, 2, 5)], [(3, 3, 4)], []]


ACCEPT, RENEW = [AcknowledgeType.ACCEPT], [AcknowledgeType.RENEW]
MIXED = [AcknowledgeType.GAP, AcknowledgeType.ACCEPT, AcknowledgeType.REJECT]


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [(0, 0, ACCEPT)],
        [(0, 9, ACCEPT)],
        [(3, 5, MIXED)],
        [(0, 2, MIXED), (2, 2, ACCEPT), (3, 5, MIXED)],
        [(-1, 0, ACCEPT)],
    ],
)
def test_acknowledgements_that_can_be_meant(ranges: list[tuple[int, int, list[int]]]) -> None:
    check_acknowledgements([Acknowledgement(*each) for each in ranges], may_renew=False, is_renewal=False)


@pytest.mark.parametrize(
    "ranges",
    [
        [(1, 0, ACCEPT)],
        [(-2, 0, ACCEPT)],
        [(0, 5, ACCEPT), (4, 6, ACCEPT)],
        [(5, 6, ACCEPT), (0, 1, ACCEPT)],
        [(0, 1, MIXED)],
        [(0, 3, MIXED)],
        [(0, 0, [])],
        [(0, 0, [-1])],
        [(0, 2, [1, 1, 4])],
        [(0, 1, ACCEPT), (2, 2, [5])],
    ],
)
def test_acknowledgements_that_cannot_be_meant(ranges: list[tuple[int, int, list[int]]]) -> None:
    """As Apache Kafka's brokers look at them before anything else."""
    with pytest.raises(RequestError) as refused:
        check_acknowledgements([Acknowledgement(*each) for each in ranges], may_renew=False, is_renewal=False)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_request_that_renews_says_so() -> None:
    renewed, other = [Acknowledgement(0, 0, RENEW)], [Acknowledgement(0, 0, ACCEPT)]
    check_acknowledgements(renewed, may_renew=True, is_renewal=True)
    check_acknowledgements(other, may_renew=True, is_renewal=True)
    check_acknowledgements(other, may_renew=True, is_renewal=False)
    for acknowledgements, may_renew in ((renewed, True), ([Acknowledgement(0, 0, [5])], True), (renewed, False)):
        with pytest.raises(RequestError):
            check_acknowledgements(acknowledgements, may_renew=may_renew, is_renewal=False)
    with pytest.raises(RequestError):
        check_acknowledgements(renewed, may_renew=False, is_renewal=True)
