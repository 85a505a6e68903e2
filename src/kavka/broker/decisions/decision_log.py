"""DecisionLog: where this broker's decisions go: a line in its log, a ring on its disk, a record in the cluster.

Decides how many are kept where, and in which batches they are sent. Must not know what was decided or why.
`kavka.decisions` has the form of a record; the broker gives a `DecisionTopic`, the way to the topic
`__kavka_decisions`.

    ring    two files of half of kavka.decisions.ring.bytes each in the first log directory, a JSON object on a line;
            the older one is replaced when the newer is full. For the time when the cluster is down. Marks in it say up
            to where the topic has what it holds: what a stop or a kill left behind is written in the next life
            (carried_over.py)
    topic   keyed by subject, compacted after a week and deleted after kavka.decisions.retention.ms; for every broker's
            eyes, also after the one that decided is dead

    I1  `record` returns at once and never raises: no decision waits for its record
    I2  a record may be in the topic twice (if an answer was lost), but always with the same id
    I3  bounds: at most MAX_PENDING wait for the topic, and MAX_LINES_PER_SECOND are logged; the others are counted, and
        the count is logged
    I4  a mark stands in the ring behind the decision that it names, and is written only when the topic has that one
        and all before it: what is missing of the marks makes a record stand in the topic twice, and never lose it
    I5  a stop waits at most HAND_OVER_S for the topic
    I6  before what earlier lives left has been read, nothing is sent. If the disk refuses LOOK_BACK_TRIES times, this
        life goes on without, and writes no mark: a mark would take what is before it away from the next life (I4)

Source: none; Apache Kafka has its state-change log, on each broker for itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from kavka.decisions import (
    RING_FILES,
    Decision,
    DecisionKind,
    MalformedDecision,
    RecordDecision,
    RecordedDecision,
    decode_decision,
    encode_decision,
    forget,
    ring_mark,
)
from kavka.errors import ErrorCode, KavkaError, RequestError, StorageError
from kavka.filesystem import File, FileSystem
from kavka.logger import Logger
from kavka.model import NO_LEADER
from kavka.records.builder import BatchBuilder

logger = Logger(__name__)
_of_partitions = Logger("kavka.decisions.partitions")
_of_groups = Logger("kavka.decisions.groups")
_of_brokers = Logger("kavka.decisions.brokers")
_of_controller = Logger("kavka.decisions.controller")
"""Decisions have loggers of their own by what they concern, so that one kind of them can be followed or silenced."""

MAX_PENDING: Final = 10_000
"""Decisions that wait for the topic: 5 MB. The oldest go when there are more; the ring has them."""
MAX_BATCH: Final = 500
MAX_LINES_PER_SECOND: Final = 50
_DETAILS: Final = (
    DecisionKind.LEADERSHIP_TAKEN,
    DecisionKind.FOLLOWING,
    DecisionKind.LOG_DIRECTORY_OFFLINE,  # an error line of the log manager tells it
)
"""What every partition does when a topic is made or a broker starts: debug lines; Kafka has a log apart for them."""
FIRST_EPOCH: Final = 0
_FIRST_ROLES: Final = (DecisionKind.LEADERSHIP_TAKEN, DecisionKind.FOLLOWING)
"""Roles in a partition's first leader epoch are not kept at all: that its topic was created says who has them, and a
topic of ten thousand partitions would push everything else out of the ring."""
LINGER_S: Final = 0.05
LOOK_S: Final = 2.0
"""How often it is asked whether the topic is wanted by now."""
RETRY_S: Final = 0.5
MAX_RETRY_S: Final = 10.0
HAND_OVER_S: Final = 0.3
"""How long a stop waits for what the topic does not have yet. It takes a few milliseconds where the leader answers."""
HURRIED_RETRY_S: Final = 0.05
LOOK_BACK_TRIES: Final = 5
"""So often the ring of earlier lives is read, with pauses from RETRY_S on: 7.5 s in all, if the disk keeps failing."""
LOOK_BACK_LINES: Final = 200
"""So many lines of an earlier life are decoded at a time: 4 ms."""
_REFUSED_FOR_GOOD: Final = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_RECORD,
)
"""What the topic's own settings refuse however often it is asked: fewer records are tried, and of one it is given up,
which else would hold up all others for good. The ring has it."""


class DecisionTopic(Protocol):
    """The way to `__kavka_decisions`."""

    def is_enabled(self) -> bool:
        """False if the topic is never written, whatever the cluster is."""
        ...

    def is_wanted(self) -> bool:
        """Whether the topic is to be written now: it is switched on, and the cluster large enough."""
        ...

    def has_leader(self) -> bool:
        """Whether the topic is there, and a broker leads it that can be reached as far as is known here."""
        ...

    async def append(self, batch: bytes) -> None:
        """Appends one record batch, acks=all, creating the topic if need be.

        Raises `KavkaError` if it failed, or if the outcome is unknown.
        """
        ...


class Ring(NamedTuple):
    """Where the last decisions are kept on disk: two files in `directory`, which have `size_bytes` together."""

    filesystem: FileSystem
    directory: str
    size_bytes: int


class LineRing:
    """Lines of `what` in two files: the older one, `names[0]`, is replaced when the newer is full. `head` is a file's
    first line, and the first of what this life adds to a file that is there."""

    def __init__(self, ring: Ring, names: tuple[str, str], *, what: str, head: bytes = b"") -> None:
        self._filesystem = ring.filesystem
        self.directory = ring.directory
        self._names = names
        self._what = what
        self._has_failed = False
        self._file_bytes = ring.size_bytes // 2
        self._head = head + b"\n" if head else b""
        self._file: File | None = None

    def write(self, lines: Sequence[bytes]) -> None:
        """Does nothing any more after it has failed: the directory's own users find out and take it offline."""
        if self._has_failed or not lines:
            return
        try:
            self._append(lines)
        except StorageError as failure:
            self._has_failed = True
            logger.warning(f"ring of {self._what} not written", directory=self.directory, why=str(failure))

    def _append(self, lines: Sequence[bytes]) -> None:
        """Raises StorageError. The files are made with the first line."""
        data = b"".join(line + b"\n" for line in lines)
        older, newer = (f"{self.directory}/{name}" for name in self._names)
        begin = b""
        if self._file is None:
            self._file = self._filesystem.open(newer, create=True)
            # A line that the end of the last life cut off must not take the next one with it.
            begin = b"\n" + self._head if self._file.size() else self._head
        size = self._file.size()
        if size and size + len(begin) + len(data) > self._file_bytes:
            self._file.close()
            try:
                self._filesystem.rename(newer, older)
            except FileNotFoundError:
                pass  # Somebody took it away; the ring goes on without it.
            self._file = self._filesystem.open(newer, create=True)
            begin = self._head
        self._file.append(begin + data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Pending(NamedTuple):
    """A decision on its way to the topic; `data` is its JSON."""

    decision_id: str
    at_ms: int
    subject: str
    data: bytes


class DecisionLog:
    """Takes decisions from `record` on; `start` begins to carry them to the topic."""

    def __init__(
        self,
        topic: DecisionTopic,
        ring: Ring,
        *,
        id_prefix: str,
        quiet: Collection[DecisionKind] = (),
        on_decision: RecordDecision = forget,
    ) -> None:
        """`id_prefix` is another one for every life of every broker. The ring is made with the first decision. `quiet`
        are kinds that are no news on this broker: debug lines. `on_decision` hears of each as it comes."""
        self._quiet = quiet
        self._on_decision = on_decision
        self._topic = topic
        self._id_prefix = id_prefix
        self._sequence = 0
        self._is_enabled = topic.is_enabled()
        self._place = ring
        self._ring = LineRing(ring, RING_FILES, what="decisions", head=ring_mark() if self._is_enabled else b"")
        self._unwritten: list[bytes] = []
        self._pending: deque[_Pending] = deque(maxlen=MAX_PENDING)
        self._wake = asyncio.Event()
        self._has_looked_back = False
        self._failed_looks = 0
        self._batch_size = MAX_BATCH
        self._sending = asyncio.Lock()
        self._handing_over: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._flushing: asyncio.TimerHandle | None = None
        self._window_s = 0
        self._lines = 0
        self.recorded = 0
        self.dropped = 0
        """How many never reached the topic, because MAX_PENDING others waited or its settings refuse them."""

    # -- taking

    def record(self, decision: Decision) -> None:
        """A `RecordDecision` (I1)."""
        if not is_kept(decision):
            return
        self._sequence += 1
        self.recorded += 1
        self._on_decision(decision)
        decision_id = f"{self._id_prefix}-{self._sequence}"
        data = encode_decision(RecordedDecision(decision_id, decision))
        self._say(decision)
        if len(self._pending) == MAX_PENDING:
            self.dropped += 1
        self._pending.append(_Pending(decision_id, decision.at_ms, decision.subject, data))
        self._write_soon(data)

    def _write_soon(self, line: bytes) -> None:
        self._unwritten.append(line)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(LINGER_S, self._flush)

    def _say(self, decision: Decision) -> None:
        second = decision.at_ms // 1000
        if second != self._window_s:
            if self._lines > MAX_LINES_PER_SECOND:
                logger.info(
                    "further decisions not logged",
                    count=self._lines - MAX_LINES_PER_SECOND,
                    instead="kavka why shows all of them",
                )
            self._window_s, self._lines = second, 0
        speaker = _logger_of(decision)
        say = speaker.debug if decision.kind in _DETAILS or decision.kind in self._quiet else speaker.info
        self._lines += 1
        if self._lines <= MAX_LINES_PER_SECOND:
            say(decision.kind.value, subject=decision.subject, why=decision.why, **_changes(decision))

    # -- the ring

    def _flush(self) -> None:
        self._flushing = None
        lines, self._unwritten = self._unwritten, []
        self._wake.set()
        self._ring.write(lines)

    # -- the topic

    def start(self) -> None:
        self._running = asyncio.get_running_loop().create_task(self._carry())
        self._running.add_done_callback(_report_bug)

    async def hand_over(self) -> None:
        """Before a stop, while this broker still serves: the topic gets what waits, if that takes at most HAND_OVER_S.
        Returns at once where nothing waits or nobody leads the topic. The next life goes on with what is left."""
        if self._running is None or not self._pending or not (self._is_enabled and self._topic.has_leader()):
            return
        self._flush_now()
        # Left to itself afterwards, not cut off: an attempt under way may yet be answered before the end.
        self._handing_over = asyncio.get_running_loop().create_task(self._hurry())
        self._handing_over.add_done_callback(_report_bug)
        await asyncio.wait((self._handing_over,), timeout=HAND_OVER_S)
        if self._pending:
            logger.info("decisions left for the next start", count=len(self._pending))

    async def stop(self) -> None:
        """Decisions that still wait for the topic are only in the ring then, from where the next life writes them."""
        running = [task for task in (self._running, self._handing_over) if task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        self._flush_now()
        self._ring.close()

    def abort(self) -> None:
        """Stops at once; what was not written yet is lost, as in a kill."""
        for task in (self._running, self._handing_over):
            if task is not None:
                task.cancel()
        if self._flushing is not None:
            self._flushing.cancel()
        self._ring.close()

    def _flush_now(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flush()

    async def _carry(self) -> None:
        pause_s = RETRY_S
        while True:
            await self._wait_for_work()
            if not self._pending and (self._has_looked_back or not self._is_enabled):
                self._wake.clear()
                continue
            if not self._topic.is_wanted():
                await asyncio.sleep(LOOK_S)
                continue
            try:
                async with self._sending:
                    await self._send()
            except KavkaError as failure:
                logger.debug("decisions not written yet", count=len(self._pending), why=str(failure))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_RETRY_S)
                continue
            pause_s = RETRY_S

    async def _wait_for_work(self) -> None:
        """Until there is something to write; or a moment, after which what an earlier life left is looked for."""
        if self._has_looked_back or not self._is_enabled:
            await self._wake.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._wake.wait()

    async def _hurry(self) -> None:
        while self._pending:
            try:
                async with self._sending:
                    await self._send()
            except KavkaError:
                await asyncio.sleep(HURRIED_RETRY_S)

    async def _send(self) -> None:
        """Writes some of what waits to the topic, the oldest first. Raises KavkaError."""
        if not self._has_looked_back:
            await self._look_back()
            self._has_looked_back = True
        batch = [self._pending[index] for index in range(min(len(self._pending), self._batch_size))]
        if not batch:
            return
        try:
            await self._topic.append(_build(batch))
        except RequestError as refused:
            if refused.code not in _REFUSED_FOR_GOOD:
                raise
            if len(batch) > 1:
                self._batch_size = len(batch) // 2
                return
            logger.warning("decision not written", subject=batch[0].subject, why=refused.code.name, instead="the ring")
            self.dropped += 1
        self._batch_size = min(2 * self._batch_size, MAX_BATCH)
        # Some of the batch may have been pushed out at the left meanwhile.
        last = batch[-1].decision_id
        written = {recorded.decision_id for recorded in batch}
        while self._pending and self._pending[0].decision_id in written:
            if self._pending.popleft().decision_id == last:
                break
        if self._failed_looks < LOOK_BACK_TRIES:
            self._write_soon(ring_mark(last))

    async def _look_back(self) -> None:
        """What earlier lives left in the ring waits for the topic before what this one decided. Raises StorageError:
        it is to be tried again."""
        from kavka.broker.decisions.carried_over import left_behind  # late: most lives write nothing for others

        try:
            found = self._ring_lines()
        except StorageError as failure:
            self._failed_looks += 1
            logger.warning("ring of decisions not read", why=str(failure), tries=self._failed_looks)
            if self._failed_looks < LOOK_BACK_TRIES:
                raise
            return
        self._failed_looks = 0
        lines = left_behind(found, self._id_prefix)[-MAX_PENDING:]
        waiting = []
        for number, line in enumerate(lines, 1):
            if number % LOOK_BACK_LINES == 0:
                await asyncio.sleep(0)  # Requests are answered meanwhile.
            try:
                decision_id, decision = decode_decision(line)
                decision.subject.encode()
            except (MalformedDecision, UnicodeEncodeError):
                continue  # Cut off by a crash, damaged (half of a pair of surrogates is left), or of a later build.
            waiting.append(_Pending(decision_id, decision.at_ms, decision.subject, line))
        waiting = waiting[max(len(waiting) - (MAX_PENDING - len(self._pending)), 0) :]
        if waiting:
            logger.info("decisions of an earlier life are written to the topic now", count=len(waiting))
        self._pending.extendleft(reversed(waiting))

    def _ring_lines(self) -> list[bytes]:
        """Raises StorageError."""
        lines: list[bytes] = []
        for name in RING_FILES:
            path = f"{self._place.directory}/{name}"
            try:
                lines += self._place.filesystem.read(path).split(b"\n")
            except FileNotFoundError:
                continue
        return lines


def is_kept(decision: Decision) -> bool:
    """True if the decision is kept at all."""
    return decision.leader_epoch != FIRST_EPOCH or decision.kind not in _FIRST_ROLES


def _build(batch: Sequence[_Pending]) -> bytes:
    builder = BatchBuilder()
    for pending in batch:
        builder.append(pending.at_ms, pending.subject.encode(), pending.data)
    return builder.build()


def _logger_of(decision: Decision) -> Logger:
    if decision.partition is not None:
        return _of_partitions
    if decision.group is not None:
        return _of_groups
    return _of_brokers if decision.about_broker != NO_LEADER else _of_controller


def _changes(decision: Decision) -> dict[str, object]:
    """What changed, as keys of a log line."""
    changes: dict[str, object] = {}
    if decision.before:
        changes["before"] = dict(decision.before)
    if decision.after:
        changes["after"] = dict(decision.after)
    if decision.leader_epoch >= 0:
        changes["leader_epoch"] = decision.leader_epoch
    return changes


def _report_bug(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (bug := task.exception()) is not None:
        task.get_loop().call_exception_handler(
            {"message": "decisions are carried to the topic no more", "exception": bug, "task": task}
        )
