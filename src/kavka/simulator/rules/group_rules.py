"""Rules of consumer groups, watched on the wire and in the log of `__consumer_offsets`.

Decides whether coordinators kept their promises. The truth is what is committed in the log: the observer reads it as
high watermarks rise, with transactions resolved, and compares coordinators with it.

    G1   in one generation no partition is given to two members
    G2   generations only rise; a commit of a generation that had ended before the request is refused
    G3   an acknowledged commit is in the log, below the high watermark; an offset fetched from who leads the group's
         partition is the last one acknowledged before the question, or a later one
    G4   nothing below a committed offset was never given to a member
    G5   a rebalance ends within the rebalance and session time-outs, where its coordinator can write
    G6   left alone, a group is stable and every partition has an owner

A coordinator that does not know yet that it was replaced may answer an OffsetFetch with old offsets. Kafka's does, too,
so its answers are not checked. Its commits are: none of them can be committed.

Source: docs/design/rules.md; KIP-848's TLA+ models for G1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.client.assignor import decode_assignment
from kavka.coordinator.groups.classic.decide.membership import GroupState
from kavka.coordinator.groups.decide.records import GroupRecord, OffsetRecord, decode_record
from kavka.coordinator.shared.decide.partitions import partition_for
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.records.control import ControlType, read_marker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kavka.model import Offset
    from kavka.records.batch import RecordBatch
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.host.wire import Exchange
    from kavka.simulator.rules.replica_view import View

TOPIC: Final = "__consumer_offsets"
GRACE_MS: Final = 8_000
"""G5's bound over the two time-outs: the write of the group's record, timers that come late on a drifting clock."""
FIRST_FETCH_OF_SEVERAL: Final = 8
"""From this version on OffsetFetch asks for several groups."""
_Key = tuple[str, TopicPartition]


class _Asked(NamedTuple):
    """What was true when a request came."""

    generation: int
    known: dict[TopicPartition, int]
    """Of each partition: how many commits the log had (OffsetCommit), or the last one acknowledged (OffsetFetch)."""


class GroupRules:
    """What is known of all groups. A `Watcher` of the wire; it also gets what is committed."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._commits: dict[_Key, list[Offset | None]] = {}
        """Every committed offset, in the order of the log; None if it was deleted."""
        self._acknowledged: dict[_Key, int] = {}
        """Index of the last one that a member was told of, -1 for none."""
        self._generations: dict[str, int] = {}
        self._owners: dict[tuple[str, int], dict[TopicPartition, str]] = {}
        self._pending: dict[tuple[int, int], list[RecordBatch]] = {}
        """Batches of open transactions, by partition and producer id."""
        self._asked: dict[Exchange, _Asked] = {}
        self._since: dict[tuple[int, str], tuple[object, int]] = {}
        self.delivered: dict[_Key, dict[Offset, None]] = {}
        self.commits_acknowledged = 0

    # -- the log

    def on_committed(self, partition: TopicPartition, batches: Iterable[RecordBatch]) -> None:
        """These batches of one of the topic's partitions came to lie below the true high watermark."""
        for batch in batches:
            header = batch.header
            key = (partition.partition, header.producer_id)
            if header.is_control:
                marker = read_marker(batch)
                held = self._pending.pop(key, [])
                if marker is not None and marker.control_type is ControlType.COMMIT:
                    for each in held:
                        self._take(each)
            elif header.is_transactional:
                self._pending.setdefault(key, []).append(batch)
            else:
                self._take(batch)

    def _take(self, batch: RecordBatch) -> None:
        for record in batch.records():
            if record.key is None:
                continue
            decoded = decode_record(bytes(record.key), None if record.value is None else bytes(record.value))
            if isinstance(decoded, OffsetRecord):
                committed = TopicPartition(decoded.topic, decoded.partition)
                offset = None if decoded.committed is None else decoded.committed.offset
                self._commits.setdefault((decoded.group_id, committed), []).append(offset)
            elif isinstance(decoded, GroupRecord):
                self._on_group(decoded)

    def _on_group(self, record: GroupRecord) -> None:
        group, value = record
        if value is None:
            self._generations.pop(group, None)
            for key in [key for key in self._owners if key[0] == group]:
                del self._owners[key]
            return
        before = self._generations.get(group, -1)
        self._view.require("G2", value.generation >= before, f"{group}: generation {value.generation} after {before}")
        self._generations[group] = value.generation

    # -- the wire

    def on_request(self, exchange: Exchange) -> None:
        request = exchange.request
        if exchange.key is ApiKey.OFFSET_COMMIT:
            known = {
                partition: len(self._commits.get((request.group_id, partition), ())) for partition in _named(request)
            }
            self._asked[exchange] = _Asked(self._generations.get(request.group_id, -1), known)
        elif (
            exchange.key is ApiKey.OFFSET_FETCH
            and exchange.version < FIRST_FETCH_OF_SEVERAL
            and request.topics is not None
            and self.leads(exchange.broker, request.group_id)
        ):
            asked = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
            known = {partition: self._acknowledged.get((request.group_id, partition), -1) for partition in asked}
            self._asked[exchange] = _Asked(-1, known)

    def on_answer(self, exchange: Exchange) -> None:
        asked = self._asked.pop(exchange, None)
        match exchange.key:
            case ApiKey.OFFSET_COMMIT if asked is not None:
                self._on_commit(exchange, asked)
            case ApiKey.OFFSET_FETCH if asked is not None and exchange.answer.error_code == ErrorCode.NONE:
                if self.leads(exchange.broker, exchange.request.group_id):
                    self._on_fetch(exchange, asked)
            case ApiKey.SYNC_GROUP if exchange.answer.error_code == ErrorCode.NONE:
                self._on_sync(exchange)
            case _:
                pass

    def _on_commit(self, exchange: Exchange, asked: _Asked) -> None:
        request = exchange.request
        group, generation = request.group_id, request.generation_id_or_member_epoch
        offsets = {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for topic in request.topics
            for each in topic.partitions
        }
        for topic in exchange.answer.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if each.error_code != ErrorCode.NONE or self.is_excused(group):
                    continue
                if 0 <= generation < asked.generation:
                    text = f"{group}: a commit of generation {generation} was taken, {asked.generation} was there"
                    self._view.require("G2", holds=False, text=text)
                self._on_acknowledged((group, partition), offsets[partition], asked.known[partition])

    def _on_acknowledged(self, key: _Key, offset: Offset, known: int) -> None:
        commits = self._commits.get(key, [])
        for index in range(known, len(commits)):
            if commits[index] == offset:
                self._acknowledged[key] = max(index, self._acknowledged.get(key, -1))
                self.commits_acknowledged += 1
                return
        text = f"{key}: {offset} was acknowledged; committed since it was asked for is {commits[known:]}"
        self._view.require("G3", holds=False, text=text)

    def _on_fetch(self, exchange: Exchange, asked: _Asked) -> None:
        group = exchange.request.group_id
        if self.is_excused(group):
            return
        for topic in exchange.answer.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if each.error_code != ErrorCode.NONE:
                    continue
                last = asked.known[partition]
                found = each.committed_offset if each.committed_offset >= 0 else None
                allowed: list[Offset | None] = self._commits.get((group, partition), [])[max(last, 0) :]
                if last < 0:
                    allowed = [None, *allowed]
                if found not in allowed:
                    text = f"{group}: {partition} fetched as {found} from {exchange.broker.node}, not one of {allowed}"
                    self._view.require("G3", holds=False, text=text)

    def _on_sync(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.protocol_type not in (None, "consumer") or not exchange.answer.assignment:
            return
        if self.is_excused(request.group_id):
            return  # The record of the generation may be lost, and the generation begin again.
        owners = self._owners.setdefault((request.group_id, request.generation_id), {})
        for partition in decode_assignment(bytes(exchange.answer.assignment)):
            owner = owners.setdefault(partition, request.member_id)
            if owner != request.member_id:
                text = f"{request.group_id}: {partition} of {owner} and {request.member_id} in {request.generation_id}"
                self._view.require("G1", holds=False, text=text)

    # -- who coordinates

    def _home(self, group: str) -> TopicPartition | None:
        count = sum(partition.topic == TOPIC for partition in self._view.stored)
        return TopicPartition(TOPIC, partition_for(group, count)) if count else None

    def leads(self, broker: SimulatedBroker, group: str) -> bool:
        """True if the broker leads the group's partition, and knows it."""
        home = self._home(group)
        if home is None:
            return False
        stored = self._view.stored[home].state
        seen = self._view.replicas.get(home, {}).get(broker.broker_id)
        return (
            stored.leader == broker.broker_id
            and seen is not None
            and seen.look is not None
            and seen.look.is_leader
            and seen.look.state.leader_epoch == stored.leader_epoch
        )

    def is_excused(self, group: str) -> bool:
        """True where records of the group's partition may have been lost."""
        home = self._home(group)
        return home is None or self._view.allows_loss(home)

    # -- time

    def check_rebalances(self, brokers: Iterable[SimulatedBroker], groups: Iterable[str], min_in_sync: int) -> None:
        """G5. Call it about every second."""
        now_ms = self._view.now_ms
        for broker in brokers:
            for group in groups:
                key = (broker.broker_id, group)
                rebalance = self._rebalance(broker, group, min_in_sync)
                if rebalance is None:
                    self._since.pop(key, None)
                    continue
                phase, bound_ms = rebalance
                since = self._since.get(key)
                if since is None or since[0] != phase:
                    self._since[key] = (phase, now_ms)
                elif now_ms - since[1] > bound_ms:
                    text = f"{group} at {broker.node} is in {phase} since {since[1]} ms"
                    self._view.require("G5", holds=False, text=text)

    def _rebalance(self, broker: SimulatedBroker, group: str, min_in_sync: int) -> tuple[object, int] | None:
        """(what phase of which rebalance, how long it may take), where one is under way that can end."""
        if broker.broker is None or broker.is_paused or not self.leads(broker, group):
            return None
        home = self._home(group)
        if home is None or len(self._view.stored[home].state.isr) < min_in_sync:
            return None
        try:
            found = broker.broker.groups.describe_group(group)
        except RequestError:
            return None
        if found is None or found.state not in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
            return None
        bounds = [member.rebalance_timeout_ms + member.session_timeout_ms for member in found.members.values()]
        return (broker.life, found.generation, found.state), max(bounds, default=0) + GRACE_MS

    # -- at the end

    def positions(self, group: str) -> dict[TopicPartition, Offset]:
        """What the group has committed, below high watermarks."""
        return {
            partition: commits[-1]
            for (name, partition), commits in self._commits.items()
            if name == group and commits[-1] is not None
        }

    def check_at_least_once(self, values: Mapping[TopicPartition, Mapping[Offset, bytes]]) -> None:
        """G4, against what a reader found in the end."""
        for key, commits in self._commits.items():
            group, partition = key
            last = commits[-1]
            if key not in self.delivered:
                continue  # No group of members.
            if last is None or partition not in values or self._view.allows_loss(partition) or self.is_excused(group):
                continue
            given = self.delivered.get(key, {})
            missed = [offset for offset in values[partition] if offset < last and offset not in given]
            self._view.require("G4", not missed, f"{group} has {last} of {partition}, but never saw {missed[:5]}")


def _named(request: object) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, each.partition_index)
        for topic in request.topics  # type: ignore[attr-defined]  # an OffsetCommitRequest
        for each in topic.partitions
    ]
