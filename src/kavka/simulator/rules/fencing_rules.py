"""Rules about fencing: a request for another leader epoch or another life of a broker is refused, with the right error.

Decides, from what a broker knew when the request came, what its answer must not be.

    R14  Fetch, ListOffsets, OffsetForLeaderEpoch: another leader epoch than the receiver's is refused, a lower one as
         FENCED_LEADER_EPOCH or with an error without records, a higher one as UNKNOWN_LEADER_EPOCH or the like
    R14  LeaderAndIsr, StopReplica, UpdateMetadata: a lower controller epoch, or a lower broker epoch of the receiver,
         is refused as a whole; a lower leader epoch changes nothing
    R14  AlterPartition: what a leader of an earlier epoch proposes is not stored

Source: KIP-320, KIP-380, KIP-570; docs/design/rules.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kavka.errors import ErrorCode
from kavka.model import TopicPartition
from kavka.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kavka.model import LeaderEpoch
    from kavka.simulator.host.wire import Exchange
    from kavka.simulator.rules.replica_view import View


class _OtherEpoch(NamedTuple):
    """A partition was asked for in another leader epoch than the broker's."""

    partition: TopicPartition
    asked: LeaderEpoch
    known: LeaderEpoch


class _Stale(NamedTuple):
    """The request as a whole must be refused."""

    why: str


class FencingRules:
    """Watches the wire."""

    def __init__(self, view: View) -> None:
        self._view = view

    def on_request(self, exchange: Exchange) -> None:
        """Notes what must be refused."""
        hosted = exchange.broker.broker
        if hosted is None:
            return
        match exchange.key:
            case ApiKey.FETCH | ApiKey.LIST_OFFSETS | ApiKey.OFFSET_FOR_LEADER_EPOCH:
                for partition, asked in self._asked(exchange):
                    found = hosted.replicas.partition(*partition)
                    if asked >= 0 and found is not None and asked != found.leader_epoch:
                        exchange.expected.append(_OtherEpoch(partition, asked, found.leader_epoch))
            case ApiKey.LEADER_AND_ISR | ApiKey.STOP_REPLICA | ApiKey.UPDATE_METADATA:
                request, known = exchange.request, hosted.state_changes.controller_epoch
                if request.controller_epoch < known:
                    exchange.expected.append(_Stale(f"controller epoch {request.controller_epoch}, {known} is known"))
                if 0 <= request.broker_epoch < hosted.broker_epoch:
                    why = f"broker epoch {request.broker_epoch}, it is {hosted.broker_epoch}"
                    exchange.expected.append(_Stale(why))
                if exchange.key is ApiKey.LEADER_AND_ISR:
                    exchange.expected += self._old_orders(exchange)
            case ApiKey.ALTER_PARTITION:
                exchange.expected += self._old_proposals(exchange)

    def on_answer(self, exchange: Exchange) -> None:
        """R14: checks that it was refused."""
        if not exchange.expected:
            return
        error = getattr(exchange.answer, "error_code", 0)
        if error:
            return
        codes: dict[TopicPartition, int] | None = None
        for refusal in exchange.expected:
            if isinstance(refusal, _Stale):
                self._fail(exchange, refusal.why)
            elif isinstance(refusal, _OtherEpoch):
                codes = self._codes(exchange) if codes is None else codes
                self._check(exchange, refusal, codes.get(refusal.partition, 0))

    def _check(self, exchange: Exchange, refusal: _OtherEpoch, code: int) -> None:
        partition, asked, known = refusal
        present = self._present(exchange, partition, known)
        if not code and (asked < known or asked > present):
            self._fail(exchange, f"{partition} in epoch {asked}, it is in {known}: answered")
        elif code == ErrorCode.FENCED_LEADER_EPOCH and asked >= present:
            self._fail(exchange, f"{partition} in epoch {asked}, it is in {present}: called fenced")
        elif code == ErrorCode.UNKNOWN_LEADER_EPOCH and asked < known:
            self._fail(exchange, f"{partition} in epoch {asked}, it is in {known}: called unknown")

    def _present(self, exchange: Exchange, partition: TopicPartition, known: LeaderEpoch) -> LeaderEpoch:
        """The epoch that an answer goes by now. A controller's is the stored one, whatever its own replica knows."""
        if exchange.key is ApiKey.ALTER_PARTITION:
            stored = self._view.stored.get(partition)
            return known if stored is None else stored.state.leader_epoch
        hosted = exchange.broker.broker
        found = hosted.replicas.partition(*partition) if hosted is not None else None
        return known if found is None else found.leader_epoch

    def _fail(self, exchange: Exchange, why: str) -> None:
        self._view.require("R14", holds=False, text=f"{exchange.broker.node}, {exchange.key.name}: {why}")

    # -- what requests and answers say

    def _asked(self, exchange: Exchange) -> Iterator[tuple[TopicPartition, LeaderEpoch]]:
        for topic in exchange.request.topics:
            name = self._name(topic)
            for each in topic.partitions:
                index = each.partition_index if exchange.key is ApiKey.LIST_OFFSETS else each.partition
                yield TopicPartition(name, index), each.current_leader_epoch

    def _old_orders(self, exchange: Exchange) -> Iterator[_OtherEpoch]:
        hosted = exchange.broker.broker
        for topic in exchange.request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                found = hosted.replicas.partition(*partition) if hosted is not None else None
                if found is not None and found.topic_id == topic.topic_id and state.leader_epoch < found.leader_epoch:
                    yield _OtherEpoch(partition, state.leader_epoch, found.leader_epoch)

    def _old_proposals(self, exchange: Exchange) -> Iterator[_OtherEpoch]:
        for topic in exchange.request.topics:
            name = self._name(topic)
            for proposed in topic.partitions:
                partition = TopicPartition(name, proposed.partition_index)
                stored = self._view.stored.get(partition)
                if stored is not None and proposed.leader_epoch < stored.state.leader_epoch:
                    yield _OtherEpoch(partition, proposed.leader_epoch, stored.state.leader_epoch)

    def _codes(self, exchange: Exchange) -> dict[TopicPartition, int]:
        answer = exchange.answer
        topics = answer.responses if exchange.key is ApiKey.FETCH else answer.topics
        codes: dict[TopicPartition, int] = {}
        for topic in topics:
            name = self._name(topic)
            parts = topic.partition_errors if exchange.key is ApiKey.LEADER_AND_ISR else topic.partitions
            for each in parts:
                index = each.partition if exchange.key is ApiKey.OFFSET_FOR_LEADER_EPOCH else each.partition_index
                codes[TopicPartition(name, index)] = each.error_code
        return codes

    def _name(self, topic: Any) -> str:
        """A topic's name, which messages have under several names, or as an id."""
        topic_id = getattr(topic, "topic_id", None)
        if topic_id is not None and topic_id.int:
            return self._view.topic_name(topic_id)
        for field in ("topic", "name", "topic_name"):
            value = getattr(topic, field, None)
            if value:
                return str(value)
        return ""
