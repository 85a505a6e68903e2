"""Rules of share groups, watched on the wire, in the spans of leaders, and in the log of `__share_group_state`.

Decides whether records were given, held, acknowledged and given again as they may be. After each step of a broker it
compares the spans of the share-partitions that the broker leads with what they were, offset by offset; each difference
is a move, and each move needs a reason: a request that was on the wire, a session that ended, a lock that was over, a
write that is in the state's log.

    SH1   what a member holds no other member is given in the same leader epoch, and nobody is told of a record that
          was not acquired
    SH2   what is acknowledged or archived in the state's log no leader gives out that loaded later (also `share_log`)
    SH3   every committed record from the group's start on was accepted by who held it, or is archived for a reason
          that is true of it
    SH4   the start offset passes nothing that may still be delivered; who comes after an administrator has set it is
          given records from there (also `share_log`)
    SH5   a record is archived for its deliveries only at the limit, and no count exceeds the number of its deliveries
    SH6   a lock lasts as long as the setting says, unless it is renewed, acknowledged or its session ends; with its
          session it ends at once, and a session with its connection
    SH7   who does not hold a record changes nothing of it
    SH8   a request with a wrong session epoch changes nothing
    SH9   a change counts as made only if it is in the state's log in the leader's own epoch (also `share_log`)
    SH10  what a coordinator remembers is what its log says, whole and pruned (`share_log`)
    SH11  nothing above the high watermark is given out; of a group that reads committed records nothing of an open or
          aborted transaction
    SH12  sessions never exceed their limit, nor records in flight theirs by more than a batch that does not double it
    SH13  left alone with honest members, everything is done: the group's start is the end of each log
    SH14  a record that was given up is archived once its dead letter is committed, or was tried and given up (also
          `share_log`)
    SH15  left alone, every partition has a member
    SH16  a broker goes by settings of the group that were asked for; left alone, by those that are stored
          (`share_readable`)
    SH17  no state of a topic that is there is deleted but by an administrator, who has not been told yet that it is
          (`share_deletions`); left alone, there is none of a topic that is gone

Source: docs/design/rules.md; KIP-932.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.share.decide.share_partition import AcknowledgeType
from kavka.share.decide.spans import TERMINAL, RecordState, Span
from kavka.simulator.rules.share_deletions import KEYS as DELETING
from kavka.simulator.rules.share_deletions import ShareDeletions
from kavka.simulator.rules.share_log import DEAD_LETTERS, TOPIC, Kept, ShareLog
from kavka.simulator.rules.share_readable import (
    DELIVERIES,
    ISOLATION,
    LOCK,
    Readable,
    Wishes,
    as_texts,
    stored_settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kavka.broker.share.group_settings import ShareSettings
    from kavka.broker.share.led_share_partitions import LedShare
    from kavka.broker.share.room import ShareRoom
    from kavka.model import Offset
    from kavka.protocol.connection import ConnectionContext
    from kavka.records.batch import RecordBatch
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.host.wire import Exchange
    from kavka.simulator.host.zookeeper import SimulatedZooKeeper
    from kavka.simulator.rules.replica_view import View

BEAT_STEPS: Final = 500
"""So many steps of a broker's own after a lock was over, its timer has had its turn."""
MOST_ASKED: Final = 400
"""Requests that are remembered of one group on one broker: those that were never answered are forgotten then."""
ROUNDING_MS: Final = 2
_WHERE: Final = ("__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset")
"""The headers of a dead letter that say which record it is of, in their order."""


class ShareBounds(NamedTuple):
    """What the cluster's settings say; a group may set `lock_ms` and `deliveries` itself."""

    lock_ms: int
    deliveries: int
    in_flight: int
    sessions: int


@dataclass
class _Asked:
    """What a member said of its records in one request."""

    group_id: str
    member_id: str
    said: dict[tuple[Any, int], list[tuple[Offset, Offset, list[int]]]]
    times_set: dict[ShareKey, int]
    """How often the states had been set anew when it was asked."""
    is_used: bool = False
    """Whether something changed that nothing but this explains."""

    def kind(self, key: ShareKey, offset: Offset) -> int | None:
        if self.group_id != key.group_id:
            return None
        for first, last, kinds in self.said.get((key.topic_id, key.partition), ()):
            if first <= offset <= last:
                return kinds[0] if len(kinds) == 1 else kinds[offset - first]
        return None


@dataclass
class _Led:
    """A share-partition that a broker leads, as it was seen last."""

    led: LedShare
    start: Offset
    spans: list[Span]
    given: dict[Offset, tuple[str, int]] = field(default_factory=dict)
    """Of each offset: who was given it last, and for the how manieth time."""
    overdue: int = 0
    """After how many steps one after the other a lock was over."""


class ShareRules:
    """What is known of all share groups. A `Watcher` of the wire; nothing is looked at before `begin`."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.log = ShareLog(view)
        self.readable = Readable()
        self.bounds: ShareBounds | None = None
        self._begun_with: dict[str, str] = {}
        self.wishes = Wishes({})
        self._led: dict[tuple[int, int], dict[ShareKey, _Led]] = {}
        """By broker and life."""
        self._asked: dict[tuple[int, int], list[_Asked]] = {}
        self._of_exchange: dict[Exchange, _Asked] = {}
        self._epochs: dict[tuple[int, int, str, str], int] = {}
        """The epoch that the next request of a session must have, by broker, life, group and member."""
        self._connections: dict[tuple[int, int, str, str], ConnectionContext] = {}
        self.deliveries: Counter[tuple[ShareKey, Offset]] = Counter()
        self._done: dict[tuple[ShareKey, Offset], int] = {}
        """What who held it has accepted, whether it was told so or not, or was archived for a reason; and in which
        state epoch."""
        self._set: dict[ShareKey, int] = {}
        """How often administrators have set states anew, as far as that was looked at."""
        self._begun: dict[tuple[int, int, str, str], dict[ShareKey, int]] = {}
        """How often states had been set anew when a session was asked for."""
        self.dead_letters: Counter[tuple[str, int, Offset]] = Counter()
        """Committed ones, by the topic, partition and offset of the record."""
        self._given_up: dict[tuple[int, int], int] = {}
        """How many batches of dead letters a broker had given up when it was looked at last, by broker and life."""
        self.told = 0
        """Records whose acceptance was acknowledged."""
        self.moves: Counter[str] = Counter()
        self._is_giving_up = False
        """In the step that is looked at."""
        self.deletions = ShareDeletions()
        self._to_go: set[str] = set()
        """Topics of which administrators have asked that they be deleted."""
        self._in_force: ShareSettings | None = None
        """What the broker that is looked at goes by."""

    def begin(self, bounds: ShareBounds) -> None:
        """There are share groups from now on."""
        self.bounds = bounds
        self._begun_with = {
            ISOLATION: "read_uncommitted",
            DELIVERIES: str(bounds.deliveries),
            LOCK: str(bounds.lock_ms),
        }
        self.wishes = Wishes(self._begun_with)

    # -- the log

    def on_committed(self, batches: Iterable[RecordBatch]) -> None:
        """These batches of the states' topic came to lie below the true high watermark."""
        if self.bounds is not None:
            before = list(self.log.kept)
            self.log.on_committed(batches)
            for key in before:
                is_right = key in self.log.kept or self.deletions.may_go(key.group_id) or not self._is_to_stay(key)
                self._view.require("SH17", is_right, f"{key} is deleted, and its topic is there")
            for key, kept in self.log.kept.items():
                times = self.log.times_set(key)
                if times > self._set.get(key, 0):
                    self._on_set(key, times, kept)
                for offset, (_state, count) in kept.live().items():
                    text = f"{key}: {offset} counts {count} deliveries, there were {self.deliveries[key, offset]}"
                    self._view.require("SH5", count <= self.deliveries[key, offset], text)

    def _on_set(self, key: ShareKey, times: int, kept: Kept) -> None:
        """An administrator has set the state anew: what lies from its start on is to be done once more."""
        self._set[key] = times
        self.moves["set anew"] += 1
        for done, epoch in list(self._done.items()):
            if done[0] == key and done[1] >= kept.start and (epoch < kept.state_epoch or kept.start < 0):
                del self._done[done]

    def on_dead_letters(self, batches: Iterable[RecordBatch]) -> None:
        """These batches of the group's dead-letter topic came to lie below the true high watermark."""
        for batch in batches:
            for record in batch.records():
                told = [text for name, text in record.headers if text and name in _WHERE]
                topic, index, offset = told
                self.dead_letters[topic.decode(), int(index), int(offset)] += 1
                self.moves["dead letter written"] += 1

    def on_positions_set(self, group_id: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """SH4: an administrator was told that the group begins there now."""
        for partition, offset in offsets.items():
            topic_id = self._view.topic_id(partition.topic)
            if topic_id is None:
                continue
            key = ShareKey(group_id, topic_id, partition.partition)
            began = self.log.began_at(key)
            text = f"{key} was set to {offset}; by its log it began at {sorted(began)}"
            self._view.require("SH4", offset in began or self._is_excused(key), text)

    def on_topic_to_go(self, topic: str) -> None:
        """An administrator has the topic deleted from now on, or never."""
        self._to_go.add(topic)

    def _is_to_stay(self, key: ShareKey) -> bool:
        """Whether the state is of a topic that is there, and nobody wants deleted."""
        name = self._view.topic_name(key.topic_id)
        return bool(name) and name not in self._to_go

    def left_over(self, brokers: Iterable[SimulatedBroker]) -> list[str]:
        """SH17: what is still known of topics that are gone, in words."""
        there = set(self._view.topic_ids.values())
        found = [f"state {key} is of a topic that is gone" for key in self.log.kept if key.topic_id not in there]
        for broker in brokers:
            groups = None if broker.broker is None else broker.broker.inner.groups.made
            gone = set() if groups is None else groups.shares.topic_ids(groups.shards()) - there
            found += [f"a share group at {broker.node} knows topic {topic_id}, which is gone" for topic_id in gone]
        return found

    # -- the wire

    def on_request(self, exchange: Exchange) -> None:
        if exchange.key in DELETING:
            self.deletions.on_request(exchange)
        if self.bounds is None or exchange.key not in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE):
            return
        request = exchange.request
        said = {
            (topic.topic_id, part.partition_index): [
                (batch.first_offset, batch.last_offset, list(batch.acknowledge_types))
                for batch in part.acknowledgement_batches
            ]
            for topic in request.topics
            for part in topic.partitions
        }
        group_id, member_id = request.group_id or "", request.member_id or ""
        times_set = {key: self.log.times_set(key) for key in self.log.kept if key.group_id == group_id}
        if request.share_session_epoch == 0:
            self._begun[exchange.broker.broker_id, exchange.broker.life, group_id, member_id] = times_set
        asked = self._of_exchange[exchange] = _Asked(group_id, member_id, said, times_set)
        remembered = self._asked.setdefault((exchange.broker.broker_id, exchange.broker.life), [])
        remembered.append(asked)
        del remembered[:-MOST_ASKED]

    def on_answer(self, exchange: Exchange) -> None:
        if exchange.key in DELETING:
            self.deletions.on_answer(exchange)
        asked = self._of_exchange.pop(exchange, None)
        if asked is None:
            return
        broker, request, answer = exchange.broker, exchange.request, exchange.answer
        remembered = self._asked.get((broker.broker_id, broker.life), [])
        if asked in remembered:
            remembered.remove(asked)
        session = (broker.broker_id, broker.life, asked.group_id, asked.member_id)
        if answer.error_code != ErrorCode.NONE:
            text = f"{broker.node}: {ErrorCode(answer.error_code).name}, and yet it counted: {asked}"
            self._view.require("SH8", not asked.is_used, text)
            return
        self._on_session(session, request.share_session_epoch, exchange)
        if exchange.key is ApiKey.SHARE_FETCH:
            self._on_given(exchange, asked)
        for topic in answer.responses:
            for part in topic.partitions:
                error = part.acknowledge_error_code if exchange.key is ApiKey.SHARE_FETCH else part.error_code
                if error == ErrorCode.NONE:
                    self._on_told(asked, ShareKey(asked.group_id, topic.topic_id, part.partition_index))

    def _on_session(self, session: tuple[int, int, str, str], epoch: int, exchange: Exchange) -> None:
        if epoch == 0:
            self._connections[session] = exchange.context
        else:
            expected = self._epochs.get(session)
            text = f"{session}: epoch {epoch} was taken, {expected} was expected"
            self._view.require("SH8", epoch == -1 or expected is None or epoch == expected, text)
        if epoch < 0:
            self._epochs.pop(session, None)
        else:
            self._epochs[session] = epoch + 1

    def _on_given(self, exchange: Exchange, asked: _Asked) -> None:
        """A member is told what it has acquired."""
        looked = self._led.get((exchange.broker.broker_id, exchange.broker.life), {})
        for topic in exchange.answer.responses:
            for part in topic.partitions:
                key = ShareKey(asked.group_id, topic.topic_id, part.partition_index)
                known = looked.get(key)
                for first, last, count in _ranges(part):
                    given = {} if known is None else known.given
                    wrong = [offset for offset in range(first, last + 1) if given.get(offset) is None]
                    text = f"{key}: {asked.member_id} is told of {wrong} at {exchange.broker.node}, which nobody has"
                    self._view.require("SH1", not wrong, text)
                    self._view.note(f"given {part.partition_index} {first} {last} {count}")

    def _on_told(self, asked: _Asked, key: ShareKey) -> None:
        kept = self.log.kept.get(key)
        for first, last, kinds in asked.said.get((key.topic_id, key.partition), ()):
            for offset in range(first, last + 1):
                kind = kinds[0] if len(kinds) == 1 else kinds[offset - first]
                if kind != AcknowledgeType.ACCEPT or kept is None:
                    continue
                if asked.times_set.get(key) != self.log.times_set(key):
                    continue  # It was done, and is to be done once more.
                self.told += 1
                if offset < kept.start:
                    continue
                state = kept.states.get(offset, (-1, 0))[0]
                text = f"{key}: {asked.member_id} was told that {offset} is done, stored is {state}"
                self._view.require("SH3", state == RecordState.ACKNOWLEDGED, text)

    # -- after a step

    def check(self, broker: SimulatedBroker) -> None:
        """Checks what the broker's step may have changed."""
        hosted = broker.hosted
        room = None if hosted is None else hosted.inner.share.made
        if room is None or self.bounds is None:
            return
        home = (broker.broker_id, broker.life)
        looked = self._led.get(home)
        if looked is None:
            looked = self._led[home] = {}
        self._check_sessions(broker, room)
        given_up = sum(room.leaders.counts.dead_letter_failures.values())
        self._is_giving_up = given_up > self._given_up.get(home, 0)
        self._given_up[home] = given_up
        for led in room.leaders.led():
            known = looked.get(led.key)
            if known is None or known.led is not led:
                known = looked[led.key] = self._on_loaded(led)
            elif known.spans != (spans := list(led.records.spans)) or known.start != led.records.start:
                self._in_force = room.leaders.settings(led.key.group_id)
                unasked = self.wishes.unasked(self._in_force)
                self._view.require("SH16", not unasked, f"{broker.node} {unasked}")
                self._on_change(broker, known, spans)
            self._check_locks(broker, known, room)

    def _check_sessions(self, broker: SimulatedBroker, room: ShareRoom) -> None:
        assert self.bounds is not None
        if len(room.sessions) > self.bounds.sessions:
            self._view.broken("SH12", f"{len(room.sessions)} sessions")
        for session in room.sessions:
            context = self._connections.get((broker.broker_id, broker.life, session.group_id, session.member_id))
            if context is not None and context.has_ended and session.epoch != 1:
                self._view.broken("SH6", f"{broker.node}: the session of {session.member_id} outlives its connection")

    def _on_loaded(self, led: LedShare) -> _Led:
        """SH2, SH4: what is done by the state's log is not given out by who reads it. A process that stood still after
        it had read may not know yet that another one leads; what it gives out, it cannot store."""
        kept, spans = self.log.kept.get(led.key), list(led.records.spans)
        if kept is not None and kept.state_epoch == led.state_epoch and kept.leader_epoch <= led.leader_epoch:
            low, name = led.hosted.log.log_start_offset, led.key
            begin = min(max(kept.start, low), led.hosted.log.log_end_offset)
            text = f"{name}: {led.records.start} is where it begins in epoch {led.leader_epoch}, stored is {kept.start}"
            self._view.require("SH4", kept.start < 0 or led.records.start >= begin, text)
            due = {offset for offset, told in kept.live().items() if told[0] == RecordState.ARCHIVING}
            found = {offset for span in spans for offset in range(span.first, span.last + 1) if _is_due(span)}
            lost = {offset for offset in due - found if begin <= offset < led.hosted.log.log_end_offset}
            text = f"{name}: the dead letters of {sorted(lost)} are due, and nobody knows in epoch {led.leader_epoch}"
            self._view.require("SH14", not lost or self._is_excused(led.key), text)
        self.moves["loaded"] += 1
        return _Led(led, led.records.start, spans)

    def _check_locks(self, broker: SimulatedBroker, known: _Led, room: ShareRoom) -> None:
        assert self.bounds is not None
        held = [span for span in known.spans if span.is_held]
        if not held:
            known.overdue = 0
            return
        for span in held:
            if not room.sessions.has(known.led.key.group_id, span.member):
                self._view.broken("SH6", f"{known.led.key}: {span} is held without a session")
        now_ms = 0.0 if broker.loop is None else 1_000 * broker.loop.time()
        is_over = any(span.deadline_ms + ROUNDING_MS < now_ms for span in held)
        known.overdue = known.overdue + 1 if is_over else 0
        if known.overdue >= BEAT_STEPS:
            self._view.broken("SH6", f"{known.led.key} at {broker.node}: locks outlast their time: {held}")

    def _on_change(self, broker: SimulatedBroker, known: _Led, spans: list[Span]) -> None:
        before, after = _by_offset(known.spans), _by_offset(spans)
        led = known.led
        for offset in sorted(before.keys() | after.keys()):
            was, now = before.get(offset), after.get(offset)
            if was is None or now is None or was[2:] != now[2:]:
                self._on_move(broker, known, offset, was, now)
        seen = known.spans[-1].last + 1 if known.spans else known.start
        for offset in range(max(seen, led.hosted.log.log_start_offset), led.records.start):
            self._on_gap(
                led, offset, f"{led.key} at {broker.node}, offset {offset}: passed, and it was never given out"
            )
        known.spans, known.start = spans, led.records.start
        assert self.bounds is not None
        in_flight = led.records.in_flight
        text = f"{led.key}: {in_flight} records in flight"
        self._view.require("SH12", in_flight <= 2 * self.bounds.in_flight, text)

    def _on_move(
        self, broker: SimulatedBroker, known: _Led, offset: Offset, was: Span | None, now: Span | None
    ) -> None:
        """One offset is in another state than before."""
        led = known.led
        name = f"{led.key} at {broker.node}, offset {offset}: {was} to {now}"
        if now is None:
            self._on_passed(known, offset, was, name)
        elif now.is_held:
            self._on_held(broker, known, offset, was, now)
        elif was is not None and _is_due(was) and now.becomes is RecordState.ARCHIVED:
            self._on_buried(led, offset, name)
        elif now.becomes is not None:
            is_same = was is not None and was.becomes is not None and was[:7] == now[:7]
            self._view.require("SH7", is_same or (was is not None and was.is_held), name)
            if was is not None and was.is_held:
                self._on_leaving(broker, led, offset, was, now, name)
        elif was is not None and was.becomes is not None:
            self._view.require("SH9", now.state is was.becomes and now.deliveries == was.deliveries, name)
            self._on_settled(led, offset, was, name)
        else:
            # There is nothing to deliver.
            is_gap = now.state is RecordState.ARCHIVED and (was is None or was.is_free)
            is_new = was is None and now.is_free
            self._view.require("SH2", is_gap or is_new, name)
            if is_gap:
                self._on_gap(led, offset, name)

    def _on_gap(self, led: LedShare, offset: Offset, name: str) -> None:
        """SH3: its leader takes it for nothing that could be delivered. Logs here have no holes: it is aborted."""
        assert self._in_force is not None
        partition = led.hosted.topic_partition
        is_aborted = self._in_force.reads_committed and self.readable.is_aborted(partition, offset)
        self._view.require("SH3", is_aborted or self._view.allows_loss(partition), f"{name}, which is not aborted")
        self._on_done(led, offset)
        self.moves["aborted"] += 1

    def _on_passed(self, known: _Led, offset: Offset, was: Span | None, name: str) -> None:
        """The start is beyond it."""
        led = known.led
        if was is None or offset < led.hosted.log.log_start_offset:
            return
        if was.becomes in TERMINAL:
            self._on_settled(led, offset, was, name)
        elif was.is_free:
            self._on_gap(led, offset, name)
        else:
            self._view.require("SH4", was.state in TERMINAL, name)

    def _on_held(self, broker: SimulatedBroker, known: _Led, offset: Offset, was: Span | None, now: Span) -> None:
        """Somebody has acquired it, or has it again or longer."""
        assert self._in_force is not None
        led = known.led
        name = f"{led.key} at {broker.node}, offset {offset}: {was} to {now}"
        now_ms = 0 if broker.loop is None else int(1_000 * broker.loop.time())
        is_fresh = abs(now.deadline_ms - now_ms - self._in_force.limits.lock_ms) <= ROUNDING_MS
        if was is not None and was.state is RecordState.ACQUIRED:
            self._view.require("SH1", was.member == now.member, name)
            self._view.require("SH5", was.deliveries == now.deliveries, name)
            if was.is_held:  # Else a write was refused, and it has what it had.
                asked = self._reason(broker, led.key, offset, now.member, AcknowledgeType.RENEW)
                self._view.require("SH6", is_fresh and asked, name)
                self.moves["renewed"] += 1
            return
        self._view.require("SH1", was is None or was.is_free, name)
        self._view.require("SH5", now.deliveries == (0 if was is None else was.deliveries) + 1, name)
        self._view.require("SH6", is_fresh, f"{name}, at {now_ms} ms of its clock")
        partition = led.hosted.topic_partition
        bound = self._view.true_high_watermark.get(partition, 0)
        self._view.require("SH11", offset < bound or self._view.allows_loss(partition), f"{name}, true HW {bound}")
        if self._in_force.reads_committed and not self._view.allows_loss(partition):
            is_open, is_aborted = (ask(partition, offset) for ask in (self.readable.is_open, self.readable.is_aborted))
            text = f"{name}, which is {'aborted' if is_aborted else 'behind the start of an open transaction'}"
            self._view.require("SH11", not is_open and not is_aborted, text)
            self.moves["given committed"] += 1
        kept = self.log.kept.get(led.key)
        if kept is not None and kept.leader_epoch <= led.leader_epoch and kept.state_epoch == led.state_epoch:
            stored = kept.states.get(offset, (RecordState.AVAILABLE, 0))[0]
            is_live = offset >= kept.start and stored not in TERMINAL
            self._view.require("SH2", is_live, f"{name}; stored is {stored}, from {kept.start} on")
        begun = self._begun.get((broker.broker_id, broker.life, led.key.group_id, now.member), {})
        if kept is not None and begun.get(led.key) == self.log.times_set(led.key) > 0:
            text = f"{name}, of state epoch {led.state_epoch}; it was set anew in {kept.state_epoch} before"
            self._view.require("SH4", led.state_epoch >= kept.state_epoch, text)
        self.deliveries[led.key, offset] += 1
        known.given[offset] = (now.member, now.deliveries)
        self.moves["given" if now.deliveries == 1 else "given again"] += 1

    def _on_leaving(
        self, broker: SimulatedBroker, led: LedShare, offset: Offset, was: Span, now: Span, name: str
    ) -> None:
        """Its holder gives it back, by a word or without one."""
        assert self._in_force is not None
        most = self._in_force.limits.deliveries
        self._view.require("SH5", was.deliveries == now.deliveries, name)
        match now.becomes:
            case RecordState.ACKNOWLEDGED:
                is_right = self._reason(broker, led.key, offset, was.member, AcknowledgeType.ACCEPT)
                self._view.require("SH7", is_right, name)
                self._on_done(led, offset)
                self.moves["accepted"] += 1
                return
            case RecordState.ARCHIVED:
                is_gap = self._reason(broker, led.key, offset, was.member, AcknowledgeType.GAP)
                self._view.require("SH14", is_gap, f"{name}, without a dead letter")
                self._on_done(led, offset)
                return
            case RecordState.ARCHIVING:
                if self._reason(broker, led.key, offset, was.member, AcknowledgeType.REJECT):
                    self._on_done(led, offset)
                    self.moves["rejected"] += 1
                    return
                self._view.require("SH5", was.deliveries >= most, name)
                self._on_done(led, offset)
                self.moves["archived at the limit"] += 1
            case _:
                self._view.require("SH5", was.deliveries < most, name)
        if self._reason(broker, led.key, offset, was.member, AcknowledgeType.RELEASE):
            self.moves["released"] += 1
            return
        hosted = broker.hosted
        room = None if hosted is None else hosted.inner.share.made
        has_session = room is not None and room.sessions.has(led.key.group_id, was.member)
        now_ms = 0.0 if broker.loop is None else 1_000 * broker.loop.time()
        is_over = was.deadline_ms <= now_ms + ROUNDING_MS
        is_renewed = room is not None and has_session and self._begins_anew(broker, led.key.group_id, was.member)
        self._view.require("SH6", is_over or not has_session or is_renewed, f"{name}, at {now_ms} ms of its clock")
        self.moves["lock over" if is_over else "session over"] += 1

    def _on_done(self, led: LedShare, offset: Offset) -> None:
        """It need not be delivered any more, unless the state was set anew meanwhile."""
        kept = self.log.kept.get(led.key)
        if kept is None or kept.state_epoch <= led.state_epoch:
            self._done[led.key, offset] = led.state_epoch

    def _on_buried(self, led: LedShare, offset: Offset, name: str) -> None:
        """SH14: its leader is done with its dead letter."""
        topic, index = led.hosted.topic_partition
        is_there = self.dead_letters[topic, index, offset] > 0
        has_record = not self.readable.is_marker(led.hosted.topic_partition, offset)
        is_lost = self._view.allows_loss(TopicPartition(DEAD_LETTERS, 0))
        is_right = is_there or not has_record or self._is_giving_up or is_lost
        self._view.require("SH14", is_right, f"{name}, without a dead letter")
        self.moves["buried" if is_there else "given up"] += 1

    def _begins_anew(self, broker: SimulatedBroker, group_id: str, member_id: str) -> bool:
        """Whether the member has asked for another session, which ends the one before."""
        home = (broker.broker_id, broker.life)
        return any(
            exchange.broker is broker
            and home == (exchange.broker.broker_id, exchange.broker.life)
            and (asked.group_id, asked.member_id) == (group_id, member_id)
            and exchange.request.share_session_epoch == 0
            for exchange, asked in self._of_exchange.items()
        )

    def _reason(
        self, broker: SimulatedBroker, key: ShareKey, offset: Offset, member: str, kind: AcknowledgeType
    ) -> bool:
        """Whether the member says this of the record in a request that is under way."""
        for asked in self._asked.get((broker.broker_id, broker.life), ()):
            if asked.member_id == member and asked.kind(key, offset) == kind:
                asked.is_used = True
                return True
        return False

    def _on_settled(self, led: LedShare, offset: Offset, was: Span, name: str) -> None:
        """SH9: it holds now, so it is in the log."""
        assert was.becomes is not None
        is_written = self.log.is_said(led.key, offset, (int(was.becomes), was.deliveries), led.leader_epoch)
        self._view.require("SH9", is_written or self._is_excused(led.key), f"{name}, which nobody has stored")

    def _is_excused(self, key: ShareKey) -> bool:
        """Whether the states may be lost, or are of another state epoch by now."""
        return any(self._view.allows_loss(partition) for partition in self._view.stored if partition.topic == TOPIC)

    # -- at the end

    def missing(
        self, group_id: str, expected: Mapping[TopicPartition, Offset], log_starts: Mapping[TopicPartition, Offset]
    ) -> list[str]:
        """SH13: what is not done yet of these partitions, which end there. Of a log that was emptied nothing is left to
        do, and its leader stores the new start with the next record, as in Kafka."""
        found = []
        for partition, end in expected.items():
            topic_id = self._view.topic_id(partition.topic)
            key = None if topic_id is None else ShareKey(group_id, topic_id, partition.partition)
            kept = None if key is None else self.log.kept.get(key)
            if kept is None or max(kept.start, log_starts.get(partition, 0)) < end:
                start = None if kept is None else kept.start
                found.append(f"share group {group_id}: {partition} is done up to {start}, it ends at {end}")
        return found

    def unsettled(self, group_id: str, brokers: Iterable[SimulatedBroker], zookeeper: SimulatedZooKeeper) -> list[str]:
        """SH16: which brokers do not go by the group's stored settings, in words."""
        wanted = stored_settings(zookeeper, group_id, self._begun_with)
        found = []
        for broker in brokers:
            room = None if broker.hosted is None else broker.hosted.inner.share.made
            present = wanted if room is None else as_texts(room.leaders.settings(group_id))
            if present != wanted:
                found.append(f"share group {group_id}: {broker.node} goes by {present}, stored is {wanted}")
        return found

    def check_nothing_lost(
        self,
        group_id: str,
        values: Mapping[TopicPartition, Mapping[Offset, bytes]],
        log_starts: Mapping[TopicPartition, Offset],
    ) -> None:
        """SH3, against what a reader found in the end, for a group that began at the beginning, or where an
        administrator has set it. That may be the first that is known of its state, before any leader has read it."""
        for partition, found in values.items():
            topic_id = self._view.topic_id(partition.topic)
            key = ShareKey(group_id, topic_id, partition.partition) if topic_id is not None else None
            kept = None if key is None else self.log.kept.get(key)
            if key is None or kept is None or self._is_excused(key) or self._view.allows_loss(partition):
                continue
            for offset in found:
                if offset < max(log_starts.get(partition, 0), kept.begin) or offset >= kept.start:
                    continue
                is_done = (key, offset) in self._done
                state = kept.states.get(offset)
                self._view.require("SH3", is_done, f"{key}: {offset} was never done, stored is {state}")

    def check_states(self, brokers: Iterable[SimulatedBroker]) -> None:
        """SH10, of each state at its coordinator. All is quiet."""
        for broker in brokers:
            room = None if broker.broker is None else broker.broker.inner.share_states.made
            if room is None:
                continue
            for key in self.log.kept:
                home = TopicPartition(TOPIC, room.partition_for(str(key)))
                stored, seen = self._view.stored.get(home), self._view.replicas.get(home, {}).get(broker.broker_id)
                if stored is None or seen is None or stored.state.leader != broker.broker_id:
                    continue
                try:
                    state = room.summary(key)
                except RequestError:
                    continue
                bound = seen.partition.log.high_watermark
                self.log.require_same(key, state, seen.batches(seen.partition.log.log_start_offset, bound))


def _by_offset(spans: Iterable[Span]) -> dict[Offset, Span]:
    return {offset: span for span in spans for offset in range(span.first, span.last + 1)}


def _ranges(part: Any) -> Iterator[tuple[Offset, Offset, int]]:
    for acquired in part.acquired_records:
        yield acquired.first_offset, acquired.last_offset, acquired.delivery_count


def _is_due(span: Span) -> bool:
    """Whether its dead letters are to be written."""
    return span.state is RecordState.ARCHIVING and span.becomes is None
