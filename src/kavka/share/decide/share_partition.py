"""SharePartition: what one share group has done with the records of one partition, and what it may do next.

Decides which records a member gets, whether an acknowledgement counts, what becomes of records whose lock is over
(`acquisition_lock`), and what is to be written so that another leader can go on. Must not know the log, the
coordinator, timers or requests.

    from          by                                             to            written
    (not read)    acquire                                        ACQUIRED(1)   no
    AVAILABLE(n)  acquire                                        ACQUIRED(n+1) no
    ACQUIRED      accept                                         ACKNOWLEDGED  yes
    ACQUIRED      release; its session or its lock is over       AVAILABLE, or given up at the limit of deliveries; yes
    ACQUIRED      reject                                         given up      yes
    ACQUIRED      gap                                            ARCHIVED      yes
    ACQUIRED      renew                                          ACQUIRED, with a new deadline; no
    AVAILABLE     the log has no record there; it was aborted    ARCHIVED      with the next write, or one of its own
    ARCHIVING     its dead letter is written, or cannot be       ARCHIVED      yes

Given up is ARCHIVED, or ARCHIVING in a group with a dead-letter topic. So it is stored that a dead letter is due before
one is written, and the member has its answer; another leader writes it if this one cannot.

    I1  at most one member holds an offset, and nobody else changes it
    I2  a change that is being written is neither given out nor undone before its outcome is known: it then holds
        (committed), or was never made (rejected). Whether an unknown one is committed, the caller finds out
    I3  ACKNOWLEDGED and ARCHIVED are never left
    I4  the start offset passes nothing that may still be delivered
    I5  nothing is given out for the first time while as many records are in flight as the limit says. A whole batch may
        exceed it, but not double it: cut, it would be sent whole to each of those who get a piece of it
    I6  an acknowledgement is judged whole: all of it counts, or none
    I7  nothing is given out for the first time while there are MOST_SPANS runs of states
    I8  ARCHIVING is left by `archive` alone, and a refused write does not undo that: the dead letter is there

Source: KIP-932, KIP-1191; Kafka's SharePartition. Kafka keeps the state before a write in order to roll back to it, and
does not always look at it (KAFKA-18084, KAFKA-19476); I2 has no such second state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from kavka.errors import ErrorCode, RequestError
from kavka.model import Offset, StateBatch
from kavka.share.decide.acquired_records import Acquired, LogBatch, Wish, isolation_from, piece_size, told
from kavka.share.decide.acquisition_lock import first_lock_end_ms, last_lock_end_ms, lock_end_ms, locks_over
from kavka.share.decide.spans import TERMINAL, RecordState, Span, Spans


class AcknowledgeType(IntEnum):
    """The protocol's numbers."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Acknowledgement(NamedTuple):
    """`kinds` has one type for all offsets from `first` to `last`, or one for each."""

    first: Offset
    last: Offset
    kinds: Sequence[int]


class ShareLimits(NamedTuple):
    """What holds for the group: deliveries of a record, the length of a lock, records in flight in one partition, and
    what becomes of records that are given up: ARCHIVED, or ARCHIVING where dead letters are written."""

    deliveries: int
    lock_ms: int
    in_flight: int
    given_up: RecordState = RecordState.ARCHIVED


class Write(NamedTuple):
    """What is to be written: all changes up to number `last_change`. `complete`: how many offsets from `start_offset`
    on need no delivery any more."""

    last_change: int
    start_offset: Offset
    batches: Sequence[StateBatch]
    complete: int


_MOST_TOLD = 2**15 - 1
"""Up to where deliveries are counted: the protocol has 16 bits for them."""
MOST_SPANS = 10_000
"""A member that holds one record, and accepts and rejects what lies behind it by turns, makes a run of each. With those
of what is in flight they stay within what a state may have (`coordinator.share_state.decide.shard.MOST_BATCHES`)."""
_NOTHING = 0
"""The number of a change that changes nothing which would have to be written."""


class SharePartition:
    """The state from `start` on; `batches` is what was stored. Offsets between them were never delivered."""

    def __init__(self, start: Offset, batches: Sequence[StateBatch] = ()) -> None:
        self.spans = Spans(start)
        self._last_change = _NOTHING
        self._last_sent = _NOTHING
        self._sent_start = start
        """The start in the last write, or in what was loaded."""
        self.may_have_dead_letters = False
        """Whether it is worth asking for `dead_letters`: never true in a group that had none."""
        for batch in sorted(batches):
            first = max(batch.first_offset, self.spans.end)
            if batch.last_offset < first:
                continue
            if first > self.spans.end:
                self.spans.append(Span(self.spans.end, first - 1, RecordState.AVAILABLE))
            state = RecordState(batch.state)
            if state is RecordState.ACQUIRED:  # It is never stored; a lock would have no holder here.
                state = RecordState.AVAILABLE
            self.spans.append(Span(first, batch.last_offset, state, batch.deliveries))
            self.may_have_dead_letters |= state is RecordState.ARCHIVING
        self._trim()

    # -- questions

    @property
    def start(self) -> Offset:
        """The first offset that may still be delivered."""
        return self.spans.start

    @property
    def end(self) -> Offset:
        """One past the last offset that was delivered."""
        return self.spans.end

    @property
    def in_flight(self) -> int:
        """Offsets between start and end that need a delivery, or an acknowledgement."""
        return sum(span.size for span in self.spans if span.state not in TERMINAL)

    @property
    def next_fetch_offset(self) -> Offset:
        """Where to read what can be given out next."""
        return next((span.first for span in self.spans if span.is_free), self.end)

    @property
    def has_unsent(self) -> bool:
        """Whether there is something to write that is in no write yet: a change, or a start that has passed what is not
        delivered, while nothing is in flight whose acknowledgement would tell of it."""
        return self._last_change > self._last_sent or (self.start == self.end and self.start > self._sent_start)

    def next_is_failing(self, limits: ShareLimits) -> bool:
        """Whether what can be given out next was delivered so often that it goes out alone."""
        free = next((span for span in self.spans if span.is_free), None)
        return free is not None and free.deliveries >= isolation_from(limits.deliveries)

    def may_take_more(self, limits: ShareLimits) -> bool:
        """Whether somebody could be given something, if the log has it."""
        return self.next_fetch_offset < self.end or self.room(limits) > 0

    def room(self, limits: ShareLimits) -> int:
        """How many records may be given out for the first time (I5, I7)."""
        return limits.in_flight - self.in_flight if len(self.spans) < MOST_SPANS else 0

    def next_deadline_ms(self) -> int | None:
        """When the first lock ends. None if there is none."""
        return first_lock_end_ms(self.spans)

    def last_deadline_ms(self) -> int | None:
        """When the last one does."""
        return last_lock_end_ms(self.spans)

    # -- giving out

    def acquire(
        self, member: str, batches: Sequence[LogBatch], wish: Wish, now_ms: int, limits: ShareLimits
    ) -> list[Acquired]:
        """What the member is given of the batches, which were read from `next_fetch_offset` on."""
        position = self.next_fetch_offset
        taking = _Taking(self, member, wish, now_ms, limits)
        for batch in batches:
            first = max(batch.first, position)
            if batch.last < first:
                continue
            if taking.is_over:
                break
            self._pass_over(position, first - 1)
            if batch.is_aborted:
                self._pass_over(first, batch.last)
            else:
                taking.take(first, batch)
            position = batch.last + 1
        self._trim()
        return told(taking.pieces, wish.batch_size)

    def _pass_over(self, first: Offset, last: Offset) -> None:
        """There is nothing to deliver at these offsets."""
        for span in self.spans.within(first, last):
            if span.is_free:
                self.spans.change(span.first, span.last, _archived)
        if last >= self.end:
            self.spans.append(Span(self.end, last, RecordState.ARCHIVED))

    def archive_below(self, offset: Offset) -> None:
        """The log begins at `offset` now."""
        self.spans.drop_below(offset)
        self._trim()

    # -- taking back

    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: int, limits: ShareLimits
    ) -> int:
        """What a member says of records that it holds. Returns the number of the change, 0 where nothing is to be
        written. Raises `RequestError` (INVALID_REQUEST, INVALID_RECORD_STATE); then nothing has changed (I6).

        The ranges are in order, and have no more than an end in common; `check_acknowledgements` has seen to it.
        """
        runs = [run for each in acknowledgements for run in _runs(each, self.start)]
        for first, last, _kind in runs:
            self._check_held(member, first, last)
        for before, after in pairwise(runs):
            if after[0] <= before[1] and before[2] is not AcknowledgeType.RENEW:
                raise RequestError(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"Offset {after[0]} is acknowledged twice; after the first time it is held no longer.",
                )
        change = self._last_change + 1
        is_written = False
        for first, last, kind in runs:
            if kind is AcknowledgeType.RENEW:
                self.spans.change(
                    first, last, lambda span: span._replace(deadline_ms=lock_end_ms(now_ms, limits.lock_ms))
                )
                continue
            is_written = True
            self.spans.change(first, last, partial(_leaving, kind=kind, change=change, limits=limits))
        if not is_written:
            return _NOTHING
        self._last_change = change
        self.may_have_dead_letters |= limits.given_up is RecordState.ARCHIVING
        return change

    def _check_held(self, member: str, first: Offset, last: Offset) -> None:
        if not len(self.spans):
            raise RequestError(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        if last >= self.end:
            which = "first" if first >= self.end else "last"
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"Batch record not found. The {which} offset in request is past acquired records.",
            )
        for span in self.spans.within(first, last):
            if not span.is_held:
                raise RequestError(
                    ErrorCode.INVALID_RECORD_STATE,
                    "The batch cannot be acknowledged. The batch is not in the acquired state.",
                )
            if span.member != member:
                raise RequestError(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")

    def release(self, member: str, limits: ShareLimits) -> int:
        """The member's session is over. Returns the number of the change, 0 where it held nothing."""
        return self._release([span for span in self.spans if span.is_held and span.member == member], limits)

    def expire(self, now_ms: int, limits: ShareLimits) -> int:
        """Locks that are over are. Returns the number of the change, 0 where none is."""
        return self._release(locks_over(self.spans, now_ms), limits)

    def _release(self, spans: Sequence[Span], limits: ShareLimits) -> int:
        if not spans:
            return _NOTHING
        self._last_change += 1
        self.may_have_dead_letters |= limits.given_up is RecordState.ARCHIVING
        release = partial(_leaving, kind=AcknowledgeType.RELEASE, change=self._last_change, limits=limits)
        for span in spans:
            self.spans.change(span.first, span.last, release)
        return self._last_change

    def left_by(self, change: int) -> list[Span]:
        """What leaves its members by this change, while that is not written yet."""
        return [span for span in self.spans if span.becomes is not None and span.change == change]

    # -- dead letters

    def dead_letters(self) -> list[Span]:
        """The records whose dead letters are to be written: it is stored that they are due, and nothing of them is
        being written."""
        due = [span for span in self.spans if span.state is RecordState.ARCHIVING and span.becomes is None]
        if not due:
            self.may_have_dead_letters = any(RecordState.ARCHIVING in (span.state, span.becomes) for span in self.spans)
        return due

    def archive(self, first: Offset, last: Offset) -> int:
        """The dead letters of these offsets are written, or never will be. Returns the number of the change, 0 where
        nothing is to be written: the log may have deleted the records meanwhile."""
        due = [
            span
            for span in self.spans.within(first, last)
            if span.state is RecordState.ARCHIVING and span.becomes is None
        ]
        if not due:
            return _NOTHING
        self._last_change += 1
        change = self._last_change
        for span in due:
            self.spans.change(
                span.first, span.last, lambda left: left._replace(becomes=RecordState.ARCHIVED, change=change)
            )
        return change

    # -- writing

    def take_write(self) -> Write:
        """All that was decided and is in no write yet. One write is under way at a time."""
        batches = [
            StateBatch(span.first, span.last, span.becomes, span.deliveries)
            for span in self.spans
            if span.becomes is not None and span.change > self._last_sent
        ]
        self._last_sent = self._last_change
        start = next((span.first for span in self.spans if span.will_be not in TERMINAL), self.end)
        self._sent_start = start
        complete = sum(span.size for span in self.spans if span.first >= start and span.will_be in TERMINAL)
        return Write(self._last_change, start, batches, complete)

    def settle(self, write: Write, *, is_committed: bool) -> None:
        """The outcome of a write is known (I2). What is archived is to be written again if it was refused (I8)."""
        again = self._last_change + 1

        def settled(span: Span) -> Span:
            if span.becomes is None or span.change > write.last_change:
                return span
            if is_committed:
                is_rejected = span.is_rejected and span.becomes is RecordState.ARCHIVING
                return Span(span.first, span.last, span.becomes, span.deliveries, is_rejected=is_rejected)
            if span.state is RecordState.ARCHIVING:
                self._last_change = again
                return span._replace(change=again)
            return span._replace(becomes=None, change=_NOTHING, is_rejected=False)

        self.spans.change_all(settled)
        self._trim()

    def _trim(self) -> None:
        """The start passes what will never be delivered again (I4)."""
        self.spans.drop_below(
            next(
                (span.first for span in self.spans if span.state not in TERMINAL or span.becomes is not None), self.end
            )
        )


class _Taking:
    """What a member is being given by one `acquire`."""

    def __init__(self, partition: SharePartition, member: str, wish: Wish, now_ms: int, limits: ShareLimits) -> None:
        self._spans = partition.spans
        self._member = member
        self._wish = wish
        self._deadline_ms = lock_end_ms(now_ms, limits.lock_ms)
        self._limits = limits
        self._room = partition.room(limits)
        self._taken = 0
        self._failing: tuple[int, int] | None = None
        """Of records that failed often: their deliveries, and how many more of them may go out together."""
        self.pieces: list[Acquired] = []
        self.is_over = wish.max_records <= 0

    def take(self, first: Offset, batch: LogBatch) -> None:
        """Takes of one batch, from `first` on, what may be had."""
        last = batch.last
        for span in self._spans.within(first, last):
            if span.is_free and not self.is_over:
                self._take_again(span, batch)
        end = self._spans.end
        self.is_over = self.is_over or (self._failing is not None and last >= end)
        if not self.is_over and last >= end:
            size = self._size_of_new(last - end + 1)
            if size > 0:
                self._spans.append(Span(end, end + size - 1, RecordState.ACQUIRED, 1, self._member, self._deadline_ms))
                self._room -= size
                self._add(Acquired(end, end + size - 1, 1))
            self.is_over = self.is_over or end + size <= last
        self.is_over = self.is_over or self._taken >= self._wish.max_records

    def _size_of_new(self, wanted: int) -> int:
        """How many of the rest of a batch, of which nothing was given out before (I5)."""
        is_whole = not self._wish.is_exact and self._room > 0 and wanted <= self._room + self._limits.in_flight
        return wanted if is_whole else min(wanted, self._room, self._left)

    @property
    def _left(self) -> int:
        return self._wish.max_records - self._taken if self._wish.is_exact else 2**31

    def _take_again(self, span: Span, batch: LogBatch) -> None:
        size = min(span.size, self._left)
        if self._failing is None and span.deliveries >= isolation_from(self._limits.deliveries):
            if self.pieces:
                self.is_over = True
                return
            self._failing = span.deliveries, self._piece_size(span, batch)
        if self._failing is not None:
            deliveries, may = self._failing
            if span.deliveries != deliveries:
                self.is_over = True
                return
            size = min(size, may)
            self._failing = deliveries, may - size
            self.is_over = size == may
        last = span.first + size - 1
        deliveries = min(span.deliveries + 1, _MOST_TOLD)
        self._spans.change(
            span.first,
            last,
            lambda given: given._replace(
                state=RecordState.ACQUIRED,
                deliveries=deliveries,
                member=self._member,
                deadline_ms=self._deadline_ms,
            ),
        )
        self._add(Acquired(span.first, last, deliveries))

    def _piece_size(self, span: Span, batch: LogBatch) -> int:
        """What failed together is a batch, or several: as many records as one fetch may have got, if they are small."""
        run = min(self._spans.run_of(span.first).size, self._wish.max_records)
        together = max(batch.last - batch.first + 1, run)
        return piece_size(together, span.deliveries, self._limits.deliveries)

    def _add(self, piece: Acquired) -> None:
        self.pieces.append(piece)
        self._taken += piece.last - piece.first + 1
        if self._left <= 0:
            self.is_over = True


def check_acknowledgements(acknowledgements: Sequence[Acknowledgement], *, may_renew: bool, is_renewal: bool) -> None:
    """Whether they can be meant. Raises `RequestError` (INVALID_REQUEST). `may_renew`: the request's version knows
    renewals; `is_renewal`: it says that it has some.

    A batch may begin with the last offset of the one before it, the first at -1: as in Kafka, the state of the record
    says then what that is worth (`SharePartition.acknowledge`).
    """
    highest = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
    end = -1
    for first, last, kinds in acknowledgements:
        is_sized = len(kinds) == 1 or len(kinds) == last - first + 1
        if first > last or first < end or not is_sized or not all(0 <= kind <= highest for kind in kinds):
            raise RequestError(ErrorCode.INVALID_REQUEST)
        if AcknowledgeType.RENEW in kinds and not is_renewal:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        end = last


def _runs(each: Acknowledgement, start: Offset) -> Iterator[tuple[Offset, Offset, AcknowledgeType]]:
    """Runs of one type, without what is below the start: that is archived, and is skipped without an error."""
    if len(each.kinds) == 1:
        if each.last >= start:
            yield max(each.first, start), each.last, AcknowledgeType(each.kinds[0])
        return
    begin = max(each.first, start)
    while begin <= each.last:
        kind, last = each.kinds[begin - each.first], begin
        while last < each.last and each.kinds[last + 1 - each.first] == kind:
            last += 1
        yield begin, last, AcknowledgeType(kind)
        begin = last + 1


def _leaving(span: Span, *, kind: AcknowledgeType, change: int, limits: ShareLimits) -> Span:
    match kind:
        case AcknowledgeType.ACCEPT:
            becomes = RecordState.ACKNOWLEDGED
        case AcknowledgeType.RELEASE if span.deliveries < limits.deliveries:
            becomes = RecordState.AVAILABLE
        case AcknowledgeType.GAP:
            becomes = RecordState.ARCHIVED
        case _:
            becomes = limits.given_up
    return span._replace(becomes=becomes, change=change, is_rejected=kind is AcknowledgeType.REJECT)


def _archived(span: Span) -> Span:
    return Span(span.first, span.last, RecordState.ARCHIVED, span.deliveries)
