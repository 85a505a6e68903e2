"""Random walks of one group with members of both protocols who say anything that the codec lets through.

Nobody is honest here: bytes, lists, ids, epochs and generations are drawn, often from what somebody was told before.
Whatever they are, a request is answered or refused, no rule of ours is broken (an exception that is no refusal would
halt the broker or close the connection), no timer fails or fires for ever, who waits is answered in the end, no
partition has two owners among the members of a group of the newer protocol (G1), and a new coordinator reads the group
that the one before had.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from kavka.coordinator.groups.classic.decide.consumer_protocol import encode_assignment
from kavka.coordinator.groups.classic.decide.membership import (
    GroupLimits,
    GroupState,
    JoinAnswer,
    JoinProtocol,
    JoinRequest,
    Leaver,
    SyncRequest,
)
from kavka.coordinator.groups.consumer.decide.heartbeat import ConsumerHeartbeat
from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest, OffsetToCommit
from kavka.errors import ErrorCode, RequestError
from tests.kit.group_case import subscription
from tests.kit.group_surroundings import HandMadeTopics, OffsetsLog, group_surroundings
from tests.kit.virtual_time import in_virtual_time

GROUP = "g"
SESSION_MS, REBALANCE_MS = 10_000, 20_000
USER_DATA = encode_assignment({"t": [0]}, 1)[:-4] + b"\x00\x00\x00\x01x"


class Walk:
    """What was told to anybody is remembered, and used by anybody."""

    def __init__(self, policy: tuple[bool, bool], max_size: int, interval_ms: int, *, log_takes_time: bool) -> None:
        self.policy = policy
        self.max_size = max_size
        self.interval_ms = interval_ms
        self.topics = HandMadeTopics(t=3, u=2)
        self.log = OffsetsLog(delay_s=0.002 if log_takes_time else None, keeps_failed=True)
        self.random = random.Random(1)
        """One for all coordinators: ids that are made do not come twice."""
        self.ids = ["", "made-up"]
        self.epochs = [-2, -1, 0, 1, 2**31 - 1]
        self.latest: dict[str, int] = {}
        """The epoch or generation that each id was told last."""
        self.upgrades = self.downgrades = 0
        self.actions: list[tuple[Any, ...]] = []
        self.waiting: set[asyncio.Task[Any]] = set()
        self.failures: list[BaseException] = []
        self.epoch = self.generation = 0

    async def new_coordinator(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: self._on_failure(context))

        def wall_ms() -> int:
            return 1_700_000_000_000 + int(loop.time() * 1000)

        limits = GroupLimits(SESSION_MS, 1_800_000, 50, self.max_size)
        around = group_surroundings(
            self.topics,
            wall_ms=wall_ms,
            session_timeout_ms=SESSION_MS,
            max_size=self.max_size,
            assignment_interval_ms=self.interval_ms,
            upgrade_allowed=self.policy[0],
            downgrade_allowed=self.policy[1],
        )
        self.groups = GroupCoordinator(
            loop, self.log, around._replace(classic_limits=limits, random=self.random), offset_metadata_max_bytes=16
        )
        self.groups.set_partition_count(1)
        await self.groups.load(0, leader_epoch=0)

    def _on_failure(self, context: dict[str, Any]) -> None:
        """A timer, or a task that nobody waits for, has failed."""
        self.failures.append(context.get("exception") or AssertionError(context["message"]))

    def id(self, place: int) -> str:
        return self.ids[place % len(self.ids)]

    def epoch_at(self, place: int | None, who: int) -> int:
        """The one that `who` was told last, or any that anybody was told."""
        return self.latest.get(self.id(who), 0) if place is None else self.epochs[place % len(self.epochs)]

    def told(self, member_id: str, epoch: int) -> None:
        self.latest[member_id] = epoch
        if member_id not in self.ids:
            self.ids.append(member_id)
            del self.ids[2:-5]
        if epoch not in self.epochs:
            self.epochs.append(epoch)

    async def ask(self, request: Coroutine[Any, Any, None]) -> None:
        """Sends it, and waits a moment for its answer: it may be held."""
        task = asyncio.ensure_future(request)
        self.waiting.add(task)
        task.add_done_callback(self._on_done)
        # Where the log takes no time the next request comes a few steps later, amid this one.
        for _ in range(self.random.randrange(6)):
            await asyncio.sleep(0)
        if self.log.delay_s is not None:
            # Mostly until it is written, else amid that: the next request waits for its turn.
            await asyncio.sleep(self.random.choice((0.01, 0.01, 0.001)))

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self.waiting.discard(task)
        failure = task.exception()
        if failure is not None and not isinstance(failure, RequestError):
            self.failures.append(failure)

    # -- what may be asked

    async def join(self, request: JoinRequest) -> None:
        answer: JoinAnswer = await self.groups.join(GROUP, request)
        if answer.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.told(answer.member_id, answer.generation)

    async def sync(self, who: int, instance: str | None, generation: int, name: str | None, part: bytes | None) -> None:
        parts = {each: encode_assignment({"t": [number]}, 1) for number, each in enumerate(self.ids[2:])}
        if part is not None:
            parts = dict.fromkeys(self.ids, part) if who % 2 else {self.id(who): part}
        await self.groups.sync(GROUP, SyncRequest(self.id(who), instance, generation, None, name, parts))

    async def heartbeat(self, who: int, instance: str | None, generation: int) -> None:
        self.groups.heartbeat(GROUP, self.id(who), instance, generation)

    async def beat(self, request: ConsumerHeartbeat) -> None:
        answer = await self.groups.consumer_heartbeat(request)
        self.told(answer.member_id, answer.member_epoch)

    async def commit(self, who: int, epoch: int, *, in_transaction: bool) -> None:
        offsets = [OffsetToCommit("t", 0, 1, -1, "")]
        if in_transaction:
            await self.groups.offsets.commit_transactional(
                CommitRequest(GROUP, self.id(who), None, epoch, offsets), 9, 0
            )
        else:
            await self.groups.offsets.commit(CommitRequest(GROUP, self.id(who), None, epoch, offsets))

    async def act(self, action: tuple[Any, ...]) -> None:
        match action:
            case ("join", who, instance, names, said, kind, known):
                protocols = [JoinProtocol(name, said) for name in names]
                request = JoinRequest(
                    self.id(who), instance, "client", "/h", SESSION_MS, REBALANCE_MS, kind, protocols, known
                )
                await self.ask(self.join(request))
            case ("sync", who, instance, place, name, part):
                await self.ask(self.sync(who, instance, self.epoch_at(place, who), name, part))
            case ("heartbeat", who, instance, place):
                await self.ask(self.heartbeat(who, instance, self.epoch_at(place, who)))
            case ("beat", who, place, instance, topics, regex, assignor, owned):
                topic = self.topics.topic("t")
                assert topic is not None
                request = ConsumerHeartbeat(
                    GROUP,
                    self.id(who),
                    self.epoch_at(place, who),
                    instance,
                    None,
                    REBALANCE_MS,
                    topics,
                    regex,
                    assignor,
                    None if owned is None else {topic.topic_id: frozenset(owned)} if owned else {},
                    "client",
                    "/h",
                )
                await self.ask(self.beat(request))
            case ("together", count, names, part):
                await self.together(count, names, part)
            case ("at once", kinds):
                await self.at_once(kinds)
            case ("leave", leavers):
                await self.ask(self.leave([Leaver(self.id(who), instance) for who, instance in leavers]))
            case ("commit", who, place, in_transaction):
                await self.ask(self.commit(who, self.epoch_at(place, who), in_transaction=in_transaction))
            case ("end transaction", committed):
                self.groups.offsets.on_marker(0)(9, 0, committed)
            case ("delete",):
                await self.ask(self.groups.delete_group(GROUP))
            case ("expire",):
                await self.ask(self.groups.offsets.expire(0))
            case ("wait", seconds):
                await asyncio.sleep(seconds)
            case ("grow", name, count):
                known = self.topics.topic(name)
                self.topics.put(name, count + (0 if known is None else known.partition_count))
            case ("fail", error):
                self.log.error = error
            case ("restart",):
                await asyncio.sleep(0.01)
                before = self.picture()
                self.groups.unload(0)
                await self.new_coordinator()
                if before is not None:
                    assert self.picture() == before

    async def together(self, count: int, names: Sequence[str], part: bytes | None) -> None:
        """New classic members come, all join, and sync."""
        protocols = [JoinProtocol(name, subscription("t")) for name in names]
        joins = [JoinRequest("", None, "client", "/h", SESSION_MS, REBALANCE_MS, "consumer", protocols, True)] * count
        for request in joins:
            await self.ask(self.join(request))
        # The latest ids: those of the others are joined again with, too.
        for place in range(2, len(self.ids)):
            await self.ask(self.join(joins[0]._replace(member_id=self.id(place), require_known_member_id=False)))
        await asyncio.sleep(0.2)
        for place in range(2, len(self.ids)):
            await self.ask(self.sync(place, None, self.epoch_at(None, place), None, part))

    async def at_once(self, kinds: Sequence[str]) -> None:
        """All go, and then members of either protocol come at once: each waits for its turn in the empty group."""
        everybody = set(self.ids)
        for group in (self.groups.describe_group(GROUP), self.groups.describe_consumer_group(GROUP)):
            everybody.update(() if group is None else group.members)
        await self.ask(self.leave([Leaver(each) for each in everybody if each]))
        await asyncio.sleep(0.2)
        protocols = [JoinProtocol("range", subscription("t"))]
        join = JoinRequest("", None, "client", "/h", SESSION_MS, REBALANCE_MS, "consumer", protocols, False)
        for number, kind in enumerate(kinds):
            name = f"comes-{number}"
            beat = ConsumerHeartbeat(GROUP, name, 0, None, None, REBALANCE_MS, ["t"], None, None, {}, "client", "/h")
            task = asyncio.ensure_future(self.join(join) if kind == "classic" else self.beat(beat))
            self.waiting.add(task)
            task.add_done_callback(self._on_done)
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)

    async def leave(self, leavers: Sequence[Leaver]) -> None:
        errors = await self.groups.leave(GROUP, leavers)
        assert len(errors) == len(leavers)

    # -- what must hold

    def picture(self) -> object:
        """The group as its log has it; None where it is a classic one that is not at rest."""
        consumers = self.groups.describe_consumer_group(GROUP)
        if consumers is not None:
            return (
                (consumers.epoch, consumers.assignment_epoch, consumers.metadata_hash),
                dict(sorted(consumers.members.items())),
                dict(sorted(consumers.target.items())),
                consumers.regexes,
            )
        classic = self.groups.describe_group(GROUP)
        if classic is None or classic.state is not GroupState.STABLE:
            return None
        return classic.generation, classic.protocol, {one.member_id: one.assignment for one in classic.members.values()}

    def kind(self) -> str:
        if self.groups.describe_consumer_group(GROUP) is not None:
            return "consumer"
        classic = self.groups.describe_group(GROUP)
        return "none" if classic is None or not classic.members else "classic"

    def check(self) -> None:
        if self.failures:
            raise self.failures[0]
        classic, consumers = self.groups.describe_group(GROUP), self.groups.describe_consumer_group(GROUP)
        assert classic is None or consumers is None or classic.state is GroupState.DEAD
        if consumers is None:
            return
        assert consumers.assignment_epoch <= consumers.epoch
        assert set(consumers.deadlines) <= set(consumers.members), "a deadline of nobody"
        owners: dict[object, str] = {}
        for member in consumers.members.values():
            for held in (member.assigned, member.revoking):
                for topic_id, partitions in held.items():
                    for partition in partitions:
                        assert (topic_id, partition) not in owners, "a partition has two owners"
                        owners[topic_id, partition] = member.member_id


SAID = (
    subscription("t"),
    subscription("t", "u"),
    subscription("gone"),
    subscription("t", owned={"t": [0, 1], "u": [0]}, generation=3),
    subscription("t", owned={"t": [-1, 99], "gone": [0]}),
    subscription(),
)
GIVEN = (
    encode_assignment({"t": [0, 1, 2], "u": [0, 1]}, 1),
    encode_assignment({"t": [-2, 99], "gone": [1]}, 3),
    USER_DATA,
    b"",
)
GOOD_NAMES = (("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",), ("odd", "sticky"))
ODD_NAMES = ((), ("",), ("range", "range"), ("odd",), ("", "odd", "range"))
POLICIES = ((True, True), (True, True), (True, True), (True, False), (False, True), (False, False))


class Draws:
    """Actions, sensible ones more often than others, from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.policy = self.one_of(*POLICIES)
        self.max_size = self.one_of(2, 100, 100)
        self.interval_ms = self.one_of(0, 1_000)
        self.log_takes_time = self.one_of(True, True, False)

    def one_of(self, *choices: Any) -> Any:
        return choices[self._random.randrange(len(choices))]

    def bytes_or(self, choices: Sequence[bytes]) -> bytes:
        return (
            self._random.randbytes(self._random.randrange(12))
            if not self._random.randrange(5)
            else self.one_of(*choices)
        )

    def place(self) -> int:
        return self._random.randrange(10)

    def epoch(self) -> int | None:
        return self.one_of(None, None, None, self.place())

    def instance(self) -> str | None:
        return self.one_of(None, None, None, None, "i", "j")

    def action(self) -> tuple[Any, ...]:
        names, said, kind = self.one_of(*GOOD_NAMES), SAID[0], "consumer"
        topics, regex, assignor, owned = self.one_of(["t"], None), None, None, self.one_of([], [0, 1], None)
        if not self._random.randrange(3):
            names, said = self.one_of(*GOOD_NAMES, *ODD_NAMES), self.bytes_or(SAID)
            kind = self.one_of("consumer", "consumer", "connect", "")
            topics = self.one_of(None, [], ["t"], ["t", "u"], ["gone", "gone"])
            regex = self.one_of(None, "", "t|u", "(", "g.*")
            assignor = self.one_of(None, "range", "uniform", "other")
            owned = self.one_of(None, [], [0, 1, 2], [-7, 2**31 - 1])
        given = self.one_of(None, None, None, self.bytes_or(GIVEN))
        match self._random.randrange(24):
            case 0 | 1 | 2 | 3:
                return "join", self.place(), self.instance(), names, said, kind, self.one_of(True, False)
            case 4 | 5:
                return "together", self.one_of(1, 1, 2, 3), self.one_of(*GOOD_NAMES), given
            case 6 | 7:
                return "sync", self.place(), self.instance(), self.epoch(), self.one_of(None, None, "range", ""), given
            case 8:
                return "heartbeat", self.place(), self.instance(), self.epoch()
            case 9 | 10 | 11 | 12:
                return "beat", self.place(), 2, self.instance(), topics or ["t"], regex, assignor, []
            case 13 | 14:
                return "beat", self.place(), self.epoch(), self.instance(), topics, regex, assignor, owned
            case 15:
                return "beat", self.place(), self.one_of(0, 1), self.instance(), None, None, None, None
            case 16 | 17:
                return "leave", [(self.place(), self.instance()) for _ in range(self._random.randrange(4))]
            case 18:
                return "commit", self.place(), self.epoch(), self.one_of(True, False)
            case 19:
                return self.one_of(("end transaction", True), ("end transaction", False), ("delete",), ("expire",))
            case 20:
                kinds = [self.one_of("classic", "newer") for _ in range(self.one_of(2, 3))]
                return self.one_of(("restart",), ("wait", 0.1), ("at once", kinds))
            case 21:
                return "wait", self.one_of(0.1, 1, 1, 12, 25)
            case 22:
                return self.one_of(("grow", "t", 1), ("grow", "u", 2), ("grow", "gone", 1), ("wait", 1))
            case _:
                return "fail", self.one_of(ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT)


async def play(walk: Walk, draws: Draws, count: int) -> None:
    await walk.new_coordinator()
    kind = "none"
    for _ in range(count):
        walk.actions.append(draws.action())
        await walk.act(walk.actions[-1])
        walk.check()
        before, kind = kind, walk.kind()
        walk.upgrades += (before, kind) == ("classic", "consumer")
        walk.downgrades += (before, kind) == ("consumer", "classic")
    walk.log.error = ErrorCode.NONE
    await asyncio.sleep(10 * (SESSION_MS + REBALANCE_MS) / 1000)
    walk.check()
    assert not walk.waiting, "a request is held for ever"
    assert walk.kind() != "classic", "who is silent is gone"
    consumers = walk.groups.describe_consumer_group(GROUP)
    assert consumers is None or not consumers.members, "who is silent is gone"
    walk.groups.shut_down()


SEEDS = 60
ACTIONS = 200


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_members_of_both_protocols_say_is_answered(seed: int) -> None:
    draws = Draws(seed)
    walk = Walk(draws.policy, draws.max_size, draws.interval_ms, log_takes_time=draws.log_takes_time)
    try:
        in_virtual_time(lambda: play(walk, draws, ACTIONS))
    except BaseException:
        print(seed, *walk.actions, sep="\n")
        raise


def test_the_walks_change_the_protocol_of_the_group() -> None:
    """They would prove little if they did not."""
    upgrades = downgrades = 0
    for seed in range(SEEDS):
        draws = Draws(seed)
        walk = Walk(draws.policy, draws.max_size, draws.interval_ms, log_takes_time=draws.log_takes_time)
        in_virtual_time(lambda walk=walk, draws=draws: play(walk, draws, ACTIONS))
        upgrades, downgrades = upgrades + walk.upgrades, downgrades + walk.downgrades
    assert upgrades > 20
    assert downgrades > 10
