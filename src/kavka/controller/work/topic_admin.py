"""TopicAdmin: creates, grows and deletes topics at a client's wish.

A flow: it asks `topic_plans` for the plan, writes it in the controller's term and has the brokers carry it out. It must
not decide what is allowed. The answer comes when the brokers that take connections have obeyed, or after MAX_WAIT_MS.

A write that failed half-way or whose answer was lost is looked up: if the topic's znode is the planned one, what is
missing below it is completed; if it is not, nothing was done.

Source: Kafka's ZkAdminManager and TopicDeletionManager.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from kavka.controller.decide.context import KnownState, KnownTopic
from kavka.controller.decide.reasons import topic_decision
from kavka.controller.decide.topic_plans import (
    MAX_PARTITIONS_PER_REQUEST,
    PartitionsPlan,
    PartitionsRequest,
    Refusal,
    TopicRequest,
    TopicRules,
    partitions_operations,
    plan_partitions,
    plan_topic,
    topic_operations,
    within_limit,
)
from kavka.controller.orders.delivery import Delivery
from kavka.controller.orders.orders import ClusterChange, PartitionOrder
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.work.leaders import Leaders
from kavka.controller.work.topic_deletion import TopicDeletions
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode, ZooKeeperError
from kavka.model import TopicPartition
from kavka.zookeeper.port import Create, NodeExists, OutcomeUnknown
from kavka.zookeeper.znode_paths import delete_topic_path, topic_config_path, topic_path
from kavka.zookeeper.znodes import PartitionState, TopicAssignment

W = TypeVar("W")

MAX_WAIT_MS: Final = 5_000
WAIT_PER_PARTITION_MS: Final = 2
"""How long an answer waits for the other brokers at the most, and how much longer for each partition: making a log
takes a tenth of that. What was asked for is written by then, however slow a broker is to carry it out."""


class TopicOutcome(NamedTuple):
    """What became of a wish. The numbers are those of the topic as it is, or would be, where `code` is NONE."""

    name: str
    code: ErrorCode
    message: str | None = None
    topic_id: uuid.UUID | None = None
    partition_count: int = -1
    replication_factor: int = -1


_NO_IDS: Mapping[str, uuid.UUID] = {}
May = Callable[[int], bool]
"""Whether so many partitions may be made or deleted now."""
Granted = tuple[TopicOutcome, list[PartitionOrder]]


class TopicAdmin:
    """What clients ask of the controller about topics; one request at a time."""

    def __init__(
        self,
        term: ControllerTerm,
        leaders: Leaders,
        deletions: TopicDeletions,
        rules: TopicRules,
        rng: random.Random,
        *,
        carried_out_here: Callable[[], Awaitable[None]],
    ) -> None:
        """`carried_out_here` returns when this broker has carried out all that it ordered as the controller so far."""
        self._term = term
        self._leaders = leaders
        self._deletions = deletions
        self._context = term.context
        self._zookeeper = term.zookeeper
        self._rules = rules
        self._rng = rng
        self._carried_out_here = carried_out_here

    # --------------------------------------------------------------------------------------------------- creation

    async def create_topics(
        self,
        wishes: Sequence[TopicRequest],
        *,
        validate_only: bool = False,
        timeout_ms: int = MAX_WAIT_MS,
        may: May | None = None,
    ) -> list[TopicOutcome]:
        """Creates the topics, each for itself; outcomes in the order of the wishes, a topic named twice is refused.

        The answer waits until the brokers that take connections have carried it out, for the others no longer than
        MAX_WAIT_MS and a little for each partition. Where this broker has not in `timeout_ms`, a topic that is written
        is REQUEST_TIMED_OUT: it is there, and clients may not find it yet. `may` is asked with each topic's number of
        partitions before it is written; what may not be is THROTTLING_QUOTA_EXCEEDED. Raises NotController.
        """
        limited = within_limit(wishes, self._rules)
        create = partial(self._create_topic, may=may)
        return await self._each([wish.name for wish in wishes], limited, create, validate_only, timeout_ms)

    async def _create_topic(self, wish: TopicRequest | Refusal, validate_only: bool, *, may: May | None) -> Granted:
        if isinstance(wish, Refusal):
            return TopicOutcome("", wish.code, wish.message), []
        plan = plan_topic(wish, self._context, self._rules, self._rng)
        if isinstance(plan, Refusal):
            return TopicOutcome(wish.name, plan.code, plan.message), []
        if validate_only:
            return _outcome(plan.assignment), []
        if may is not None and not may(len(plan.assignment.partitions)):
            return TopicOutcome(wish.name, ErrorCode.THROTTLING_QUOTA_EXCEEDED), []
        path, config_path = topic_path(wish.name), topic_config_path(wish.name)
        try:
            try:
                await self._term.write(topic_operations(plan, config_exists=False))
            except NodeExists as rejected:
                if rejected.path != config_path:
                    raise
                await self._term.write(topic_operations(plan, config_exists=True))
        except ZooKeeperError as failure:
            orders = await self._complete(plan.assignment)
            if orders is not None:
                return _outcome(plan.assignment), orders
            if isinstance(failure, NodeExists) and failure.path == path:
                message = f"Topic '{wish.name}' already exists."
                return TopicOutcome(wish.name, ErrorCode.TOPIC_ALREADY_EXISTS, message), []
            raise
        added = self._context.set_topic(KnownTopic(plan.assignment, version=0))
        self._note(DecisionKind.TOPIC_CREATED, plan.assignment, added)
        return _outcome(plan.assignment), self._take(added, plan.states)

    # ----------------------------------------------------------------------------------------------------- growth

    async def create_partitions(
        self,
        wishes: Sequence[PartitionsRequest],
        *,
        validate_only: bool = False,
        timeout_ms: int = MAX_WAIT_MS,
        may: May | None = None,
    ) -> list[TopicOutcome]:
        """Adds partitions to topics, each for itself and no more than MAX_PARTITIONS_PER_REQUEST in all; outcomes and
        waiting as for `create_topics`.

        Raises NotController.
        """
        left = MAX_PARTITIONS_PER_REQUEST

        async def create(wish: PartitionsRequest, validate_only: bool) -> Granted:
            nonlocal left
            plan = plan_partitions(wish, self._context, most=left)
            if isinstance(plan, Refusal):
                return TopicOutcome(wish.topic, plan.code, plan.message), []
            left -= len(plan.added)
            return (_outcome(plan.assignment), []) if validate_only else await self._grow(plan, may=may)

        return await self._each([wish.topic for wish in wishes], wishes, create, validate_only, timeout_ms)

    async def _grow(self, plan: PartitionsPlan, *, may: May | None) -> Granted:
        if may is not None and not may(len(plan.states)):
            return TopicOutcome(plan.assignment.topic, ErrorCode.THROTTLING_QUOTA_EXCEEDED), []
        try:
            await self._term.write(partitions_operations(plan))
        except ZooKeeperError:
            orders = await self._complete(plan.assignment)
            if orders is None:
                raise
            return _outcome(plan.assignment), orders
        added = self._context.set_topic(KnownTopic(plan.assignment, plan.known.version + 1))
        self._note(DecisionKind.PARTITIONS_ADDED, plan.assignment, added)
        return _outcome(plan.assignment), self._take(added, plan.states)

    # --------------------------------------------------------------------------------------------------- deletion

    async def delete_topics(
        self,
        names: Sequence[str],
        *,
        topic_ids: Mapping[str, uuid.UUID] = _NO_IDS,
        timeout_ms: int = MAX_WAIT_MS,
        may: May | None = None,
    ) -> list[TopicOutcome]:
        """Deletes the topics, each for itself; outcomes in the order of the names. Raises NotController.

        `topic_ids`: the ids of those topics that were asked for by id. One that was made anew under its name meanwhile
        has another id, and stays.

        The wish is written to /admin/delete_topics first, so that a controller that starts later completes it. The
        answer waits until this broker knows the topics no more (REQUEST_TIMED_OUT where that takes longer than
        `timeout_ms`), and in bounds until they are gone everywhere: a broker that is down may hold one up for long.
        """
        loop = asyncio.get_running_loop()
        known = filter(None, map(self._context.topics.get, names))
        longest_ms = MAX_WAIT_MS + WAIT_PER_PARTITION_MS * sum(len(topic.assignment.partitions) for topic in known)
        ends_at = loop.time() + min(timeout_ms, longest_ms) / 1000
        wishes = [(name, topic_ids.get(name)) for name in names]
        outcomes = await self._each(names, wishes, partial(self._delete_topic, may=may), False, timeout_ms)
        for outcome in outcomes:
            if outcome.code is ErrorCode.NONE:
                remaining_ms = int((ends_at - loop.time()) * 1000)
                await self._deletions.wait_deleted(outcome.name, max(remaining_ms, 0))
        return outcomes

    async def _delete_topic(
        self, wish: tuple[str, uuid.UUID | None], _validate_only: bool, *, may: May | None
    ) -> Granted:
        name, topic_id = wish
        if not self._deletions.are_enabled:
            return TopicOutcome(name, ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled."), []
        known = self._context.topics.get(name)
        if topic_id is not None and (known is None or known.topic_id != topic_id):
            return TopicOutcome(name, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."), []
        if known is None or name in self._context.topics_to_delete:
            # As in Kafka one that is being deleted is not known any more, however long a dead broker holds it up.
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return TopicOutcome(name, code, "This server does not host this topic-partition."), []
        if may is not None and not may(len(known.assignment.partitions)):
            return TopicOutcome(name, ErrorCode.THROTTLING_QUOTA_EXCEEDED), []
        try:
            await self._term.write([Create(delete_topic_path(name))])
        except NodeExists:
            pass  # An earlier wish was not completed.
        await self._deletions.begin([name])
        return TopicOutcome(name, ErrorCode.NONE, topic_id=known.topic_id), []

    # --------------------------------------------------------------------------------------------------- in common

    async def _each(
        self,
        names: Sequence[str],
        wishes: Sequence[W],
        grant: Callable[[W, bool], Awaitable[Granted]],
        validate_only: bool,
        timeout_ms: int,
    ) -> list[TopicOutcome]:
        """One wish after another, then one order to the brokers for all."""
        delivery = Delivery()
        outcomes: list[TopicOutcome] = []
        orders: list[PartitionOrder] = []
        times_named = Counter(names)
        async with self._term.turn:
            try:
                for name, wish in zip(names, wishes, strict=True):
                    if times_named[name] > 1:
                        message = "Found multiple entries for this topic."
                        outcomes.append(TopicOutcome(name, ErrorCode.INVALID_REQUEST, message))
                        continue
                    try:
                        outcome, more = await grant(wish, validate_only)
                    except OutcomeUnknown as unknown:
                        outcome, more = TopicOutcome(name, ErrorCode.REQUEST_TIMED_OUT, str(unknown)), []
                    except ZooKeeperError as failure:
                        outcome, more = TopicOutcome(name, ErrorCode.UNKNOWN_SERVER_ERROR, str(failure)), []
                    outcomes.append(outcome._replace(name=name))
                    orders += more
            finally:
                delivery = await self._term.order(ClusterChange(partitions=tuple(orders)))
        if validate_only or await self._wait(delivery, len(orders), timeout_ms):
            return outcomes
        return [
            outcome._replace(code=ErrorCode.REQUEST_TIMED_OUT) if outcome.code is ErrorCode.NONE else outcome
            for outcome in outcomes
        ]

    async def _wait(self, delivery: Delivery, partitions: int, timeout_ms: int) -> bool:
        """Whether this broker has carried the orders out in `timeout_ms`; the others are waited for as well, in bounds.

        A request with a timeout of 0 is answered REQUEST_TIMED_OUT, as by Apache Kafka.
        """
        if timeout_ms <= 0:
            return False
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_ms / 1000
        await delivery.wait(min(timeout_ms, MAX_WAIT_MS + WAIT_PER_PARTITION_MS * partitions))
        try:
            async with asyncio.timeout_at(ends_at):
                await self._carried_out_here()
        except TimeoutError:
            return False
        return True

    def _take(self, added: Sequence[TopicPartition], states: Mapping[int, PartitionState]) -> list[PartitionOrder]:
        """The states were just created with the partitions: orders for them."""
        written = [partition for partition in added if partition.partition in states]
        for partition in written:
            self._context.states[partition] = KnownState(states[partition.partition], version=0)
        return self._leaders.adopt(written, is_new=True)

    def _note(self, kind: DecisionKind, assignment: TopicAssignment, added: Sequence[TopicPartition]) -> None:
        self._term.record(topic_decision(self._term.stamp(), kind, assignment, added))

    async def _complete(self, planned: TopicAssignment) -> list[PartitionOrder] | None:
        """After a failed write: if the topic's znode is as planned, completes what is below it; else None."""
        found = (await self._zookeeper.get_many([topic_path(planned.topic)]))[0]
        if found is None or TopicAssignment.decode(planned.topic, found[0]) != planned:
            return None
        added = self._context.set_topic(KnownTopic(planned, found[1].version))
        return await self._leaders.initialise(added)


def _outcome(assignment: TopicAssignment) -> TopicOutcome:
    return TopicOutcome(
        assignment.topic,
        ErrorCode.NONE,
        topic_id=assignment.topic_id,
        partition_count=len(assignment.partitions),
        replication_factor=len(assignment.partitions[0]),
    )
