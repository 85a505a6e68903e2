"""Trace: what happened in a simulated run, in order: one event a line, in fixed columns.

Decides what is worth an event and which are forgotten first. Sources: the observer's looks at replicas and znodes, the
nodes' own fates (killed, paused, cut off), and the brokers' decisions with their reasons. Must not know what was right
or wrong (the observer says that), nor how a trace is shown (`page`).

    I1  recording changes nothing in a run: no chance is drawn, no clock is read but the scheduler's
    I2  `digest` is of every event ever recorded, kept or not: two runs of a seed have one digest
    I3  bounds: MAX_MOVES moves of offsets and MAX_NEWS other events are kept, the latest; `forgotten` counts the rest

    column      what
    time        virtual seconds since the start
    node        broker-1, zookeeper, network, simulator
    event       what happened; of a decision its kind, as in docs/decisions.md
    partition   topic-number; empty if the event is about a node
    epoch       leader epoch
    isr         in-sync replicas: as stored, or as a leader holds them
    leo, hw     log end offset and high watermark of the node's replica
    text        whom else it is about, or why it was decided
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.model import NO_EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kavka.decisions import Decision
    from kavka.model import LeaderEpoch, Offset, TopicPartition
    from kavka.zookeeper.znodes import PartitionState

MAX_MOVES: Final = 100_000
"""Offsets that moved, in a few simulated hours of the swarm's load: 30 MB."""
MAX_NEWS: Final = 100_000
NO_OFFSET: Final = -1
ZOOKEEPER: Final = "zookeeper"
SIMULATOR: Final = "simulator"
COLUMNS: Final = (
    f"{'time':>12}  {'node':<11} {'event':<22} {'partition':<14} {'epoch':>5}  {'isr':<12} {'leo':>8} {'hw':>8}  text"
)


class Event(NamedTuple):
    """One event. `number` counts all of a run from 1."""

    number: int
    at_ms: int
    node: str
    kind: str
    partition: str = ""
    leader_epoch: LeaderEpoch = NO_EPOCH
    isr: tuple[int, ...] = ()
    log_end_offset: Offset = NO_OFFSET
    high_watermark: Offset = NO_OFFSET
    text: str = ""
    decision: Decision | None = None

    @property
    def line(self) -> str:
        """As in a trace file; control characters of the text are blanks."""
        epoch = "" if self.leader_epoch < 0 else str(self.leader_epoch)
        isr = ",".join(map(str, self.isr))
        leo, hw = ("" if offset < 0 else str(offset) for offset in (self.log_end_offset, self.high_watermark))
        text = "".join(each if each.isprintable() else " " for each in self.text)
        return (
            f"{self.at_ms / 1_000:12.3f}  {self.node:<11} {self.kind:<22} {self.partition:<14} {epoch:>5}  {isr:<12} "
            f"{leo:>8} {hw:>8}  {text}"
        ).rstrip()


class ReplicaLook(NamedTuple):
    """A replica as the observer sees it. `isr` is what its broker holds it to be."""

    is_leader: bool
    leader_epoch: LeaderEpoch
    isr: tuple[int, ...]
    log_end_offset: Offset
    high_watermark: Offset


class Trace:
    """The events of one run. The world that begins gives virtual time and its figures: `attach`."""

    def __init__(self) -> None:
        self._now_ms: Callable[[], int] = lambda: 0
        self._figures: Callable[[], Mapping[str, object]] = dict
        self._moves: deque[Event] = deque(maxlen=MAX_MOVES)
        self._news: deque[Event] = deque(maxlen=MAX_NEWS)
        self._looks: dict[tuple[str, TopicPartition], ReplicaLook] = {}
        self._isrs: dict[TopicPartition, tuple[int, ...]] = {}
        self._digest = sha256()
        self.recorded = 0
        self.counts: Counter[str] = Counter()
        """How many events of each kind were recorded, kept or not."""
        self.isr_shrinks = 0
        """How often an ISR was stored that somebody had left."""
        self.isr_expansions = 0

    def attach(self, now_ms: Callable[[], int], figures: Callable[[], Mapping[str, object]]) -> None:
        """From here on it is about this world."""
        self._now_ms, self._figures = now_ms, figures

    @property
    def now_ms(self) -> int:
        """Virtual time."""
        return self._now_ms()

    @property
    def figures(self) -> Mapping[str, object]:
        """The world's figures now (`World.summary`)."""
        return self._figures()

    # -- what is kept

    def events(self) -> Iterator[Event]:
        """What is kept, in order."""
        return heapq.merge(self._news, self._moves)

    @property
    def forgotten(self) -> int:
        return self.recorded - len(self._moves) - len(self._news)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()[:16]

    def lines(self) -> Iterator[str]:
        """The trace as a file has it."""
        yield f"# {COLUMNS}"
        if self.forgotten:
            yield f"# {self.forgotten} events, the earliest, are not kept"
        for event in self.events():
            yield f"  {event.line}"

    def last(self, count: int, *, moves: bool = True) -> list[Event]:
        """The latest events, in order. Without `moves` those of offsets that only moved on are passed over."""
        news = list(self._news)[-count:]
        if not moves:
            return news
        return list(heapq.merge(news, list(self._moves)[-count:]))[-count:]

    # -- what happens

    def on_node(self, node: str, kind: str, text: str = "") -> None:
        """Something happened to a node or a link."""
        self._add(node, kind, text=text)

    def on_broker_began(self, node: str, text: str) -> None:
        """The broker has started again: its replicas are checked from the beginning."""
        for key in [key for key in self._looks if key[0] == node]:
            del self._looks[key]
        self._add(node, "started", text=text)

    def on_stored(self, partition: TopicPartition, state: PartitionState, version: int) -> None:
        """A partition's state znode was written."""
        before, isr = self._isrs.get(partition, ()), tuple(state.isr)
        self._isrs[partition] = isr
        left = [each for each in before if each not in isr]
        came = [each for each in isr if each not in before] if before else []
        said = [f"leader {state.leader}" if state.leader >= 0 else "no leader", f"version {version}"]
        for who, verb in ((left, "left"), (came, "joined")):
            if who:
                said.append(f"{', '.join(map(str, who))} {verb} the isr")
        self.isr_shrinks += bool(left)
        self.isr_expansions += bool(came)
        self._add(
            ZOOKEEPER,
            "state stored",
            partition=str(partition),
            leader_epoch=state.leader_epoch,
            isr=isr,
            text="; ".join(said),
        )

    def on_topic_removed(self, topic: str) -> None:
        """A topic's znodes are gone: another one may get its name."""
        of_it = [partition for partition in self._isrs if partition.topic == topic]
        for partition in of_it:
            del self._isrs[partition]
        for key in [key for key in self._looks if key[1].topic == topic]:
            del self._looks[key]
        self._add(ZOOKEEPER, "topic removed", text=topic)

    def on_replica(self, node: str, partition: TopicPartition, look: ReplicaLook) -> None:
        """A replica is not what it was: it leads or follows another epoch, or its offsets moved."""
        before = self._looks.get((node, partition))
        if before == look:
            return
        self._looks[node, partition] = look
        kind = _change(before, look)
        text = ""
        if kind == "log cut back" and before is not None:
            text = f"from {before.log_end_offset} to {look.log_end_offset}"
        self._add(
            node,
            kind,
            partition=str(partition),
            leader_epoch=look.leader_epoch,
            isr=look.isr if look.is_leader else (),
            log_end_offset=look.log_end_offset,
            high_watermark=look.high_watermark,
            text=text,
        )

    def on_decision(self, node: str, decision: Decision) -> None:
        """A broker says what it decided, and why."""
        isr = decision.after.get("isr")
        says_whom = decision.partition is not None or decision.why.startswith(decision.subject)
        self._add(
            node,
            decision.kind.value,
            partition=str(decision.partition) if decision.partition is not None else "",
            leader_epoch=decision.leader_epoch,
            isr=tuple(each for each in isr if isinstance(each, int)) if isinstance(isr, tuple | list) else (),
            text=decision.why if says_whom else f"{decision.subject}: {decision.why}",
            decision=decision,
        )

    def _add(  # noqa: PLR0913 - the fields of an Event, of which there are millions: no other value is made first
        self,
        node: str,
        kind: str,
        *,
        partition: str = "",
        leader_epoch: LeaderEpoch = NO_EPOCH,
        isr: Sequence[int] = (),
        log_end_offset: Offset = NO_OFFSET,
        high_watermark: Offset = NO_OFFSET,
        text: str = "",
        decision: Decision | None = None,
    ) -> None:
        self.recorded += 1
        self.counts[kind] += 1
        event = Event(
            self.recorded,
            self.now_ms,
            node,
            kind,
            partition,
            leader_epoch,
            tuple(isr),
            log_end_offset,
            high_watermark,
            text,
            decision,
        )
        (self._moves if kind in MOVES else self._news).append(event)
        self._digest.update(event.line.encode())
        self._digest.update(b"\n")


MOVES: Final = ("appended", "committed", "offsets moved")
"""Kinds of events that make up most of a trace."""


def _change(before: ReplicaLook | None, look: ReplicaLook) -> str:
    if before is None or (before.is_leader, before.leader_epoch) != (look.is_leader, look.leader_epoch):
        return "leads" if look.is_leader else "follows"
    if look.log_end_offset < before.log_end_offset:
        return "log cut back"
    if look.is_leader and look.isr != before.isr:
        return "isr held"
    if look.high_watermark == before.high_watermark:
        return "appended"
    return "committed" if look.log_end_offset == before.log_end_offset else "offsets moved"


_current: ContextVar[Trace | None] = ContextVar("trace of this run", default=None)


@contextmanager
def recording() -> Iterator[Trace]:
    """The world that is made within records into this trace, wherever it is made: a scenario makes its own."""
    trace = Trace()
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


def current_trace() -> Trace | None:
    """Where a new world records. None if nothing is recorded."""
    return _current.get()
