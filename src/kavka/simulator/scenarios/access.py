"""Scenarios of access control (S52 to S55): who may do what, while it changes.

Everybody is User:ANONYMOUS; hosts are names of nodes. Rules R23 and R24 are checked on the way.

Source: docs/design/known-bugs.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from kavka.client.acl_admin import AclAdmin
from kavka.client.cluster import Cluster
from kavka.errors import ErrorCode, KavkaError, RequestError
from kavka.model import BrokerId
from kavka.security.acls import Binding, Entry, EntryFilter, Filter, Operation, Permission
from kavka.security.resource_patterns import CLUSTER_NAME as CLUSTER
from kavka.security.resource_patterns import Pattern, PatternFilter, PatternType, ResourceType
from kavka.simulator.scenarios.play import PARTITION, ZOOKEEPER, A, B, C, D, Play
from kavka.simulator.scenarios.registry import scenario

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
CHANGES = "/kafka-acl-changes"
KINDS = (PatternType.LITERAL, PatternType.PREFIXED)
PRINCIPALS = ("User:ANONYMOUS", "User:*", "User:ANONYMOUS", "User:*", "User:other", "Group:*")
TURNS = 60


class _Lists(Protocol):
    """The lists of one broker."""

    def find(self, wanted: Filter) -> list[Binding]: ...

    def stale_ms(self) -> int: ...

    async def create(self, bindings: Sequence[Binding]) -> list[RequestError | None]: ...


def _binding(
    operation: Operation, *, host: str = "*", permission: Permission = Permission.ALLOW, name: str = PARTITION.topic
) -> Binding:
    return Binding(Pattern(ResourceType.TOPIC, name), Entry("User:ANONYMOUS", host, operation, permission))


def _of_cluster(operation: Operation, host: str = "*") -> Binding:
    entry = Entry("User:ANONYMOUS", host, operation, Permission.ALLOW)
    return Binding(Pattern(ResourceType.CLUSTER, CLUSTER), entry)


def _lists(play: Play, broker_id: BrokerId) -> _Lists:
    broker = play.world.brokers[broker_id].broker
    assert broker is not None
    assert broker.authorization is not None
    assert broker.authorization.acls is not None
    return broker.authorization.acls


def _change(play: Play, work: Callable[[AclAdmin], Awaitable[object]]) -> None:
    async def run(cluster: Cluster) -> None:
        await work(AclAdmin(cluster))

    play.world.run_in_client("admin", run)


def _all_have_the_lists_of_zookeeper(play: Play) -> None:
    """R24, a second after the last change."""
    play.run_for(1.0)
    for broker_id in (A, B, C, D):
        acls = _lists(play, broker_id)
        play.require(acls.stale_ms() == 0, f"broker {broker_id} has not read the lists for {acls.stale_ms()} ms")
        play.world.observer.access.require_same_lists(play.world.brokers[broker_id])


@scenario("S52: a right is removed while a fetch waits")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS)
    play.write_ok()
    read = _binding(Operation.READ, host=play.client_node)
    _change(play, lambda admin: admin.add([read, _binding(Operation.WRITE), _binding(Operation.DESCRIBE)]))
    _all_have_the_lists_of_zookeeper(play)
    found = play.fetch(0)
    play.require(len(found.values) == 1, f"with the right there is {found}")
    waiting = play.begin_fetch(1, to=A, wait_ms=900)
    play.run_for(0.2)
    play.require(not waiting.done(), "the fetch waits")
    gone = Filter(PatternFilter(), EntryFilter(host=play.client_node))
    _change(play, lambda admin: admin.remove([gone]))
    play.until(lambda: not _lists(play, A).find(gone), "A knows")
    play.write_ok()
    play.until(waiting.done, "an answer")
    answered = waiting.result()
    play.require(not answered.values, "it got records without a right")
    play.require(answered.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"it was told {answered.error}")
    play.require(play.fetch(0).error is ErrorCode.TOPIC_AUTHORIZATION_FAILED, "a right is remembered that is gone")
    _change(play, lambda admin: admin.add([_binding(Operation.ALL)]))
    _all_have_the_lists_of_zookeeper(play)
    play.finish()


@scenario("S53: a change node is gone before a broker that had lost its session could read it")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS)
    _change(play, lambda admin: admin.add([_binding(Operation.ALL)]))
    _all_have_the_lists_of_zookeeper(play)
    play.write_ok()
    play.cut(B, ZOOKEEPER)
    denied = [_binding(Operation.ALL, host="nobody", permission=Permission.DENY), _binding(Operation.ALL, name="other")]
    _change(play, lambda admin: admin.add(denied))
    play.run_for(6.0)  # The session is over.
    play.delete_below(CHANGES)
    play.heal(B, ZOOKEEPER)
    play.until(lambda: len(_lists(play, B).find(Filter())) == 3, "B has read the lists", within_s=60)
    _all_have_the_lists_of_zookeeper(play)
    play.finish()


@scenario("S54: two brokers write one list at once, and one does not hear whether it did")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS)
    _change(play, lambda admin: admin.add([_binding(Operation.ALL)]))
    _all_have_the_lists_of_zookeeper(play)
    names = ["one", "two", "three", "four"]
    bindings = {name: _binding(Operation.READ, host=name) for name in names}
    outcomes: dict[str, object] = {}
    tasks = []
    for index, name in enumerate(names):
        writer = (A, B)[index % 2]
        loop = play.world.brokers[writer].loop
        assert loop is not None
        tasks.append(loop.create_task(_create(_lists(play, writer), [bindings[name]], outcomes, name)))
    play.run_for(0.000_3 * seed)
    # A's answer is lost, or its request as well.
    play.cut(ZOOKEEPER, A, both=seed % 2 == 0)
    play.run_for(1.0)
    play.heal(ZOOKEEPER, A)
    play.until(lambda: all(task.done() for task in tasks), "all are answered", within_s=90)
    play.until(lambda: _lists(play, A).stale_ms() == 0, "A has read the lists", within_s=60)
    _all_have_the_lists_of_zookeeper(play)
    kept = set(_lists(play, C).find(Filter()))
    for name in names:
        play.require(outcomes[name] is not None or bindings[name] in kept, f"{name} was written, and is not there")
    play.require({bindings["two"], bindings["four"]} <= kept, "who was heard has its entries")
    play.finish()


@scenario("S55: rights of one client come and go, of every kind")
def _(seed: int) -> None:
    play = Play(seed, settings=SETTINGS)
    play.write_ok()
    random = play.world.scheduler.new_random()
    brokers = [f"broker-{each}" for each in (A, B, C, D)]
    kept = [_of_cluster(Operation.ALTER), *(_of_cluster(Operation.CLUSTER_ACTION, host=each) for each in brokers)]
    _change(play, lambda admin: admin.add([*kept, _of_cluster(Operation.DESCRIBE)]))
    topic = PARTITION.topic
    patterns = [Pattern(ResourceType.TOPIC, name, kind) for name in (topic, topic[:2], "*") for kind in KINDS]
    patterns += [Pattern(ResourceType.TOPIC, topic[2:], PatternType.PREFIXED), Pattern(ResourceType.CLUSTER, CLUSTER)]
    there: list[Binding] = []
    for _turn in range(TURNS):
        pattern = random.choice(patterns)
        host = random.choice([play.client_node, "*", "nobody"])
        of_cluster = pattern.resource_type is ResourceType.CLUSTER
        if of_cluster and host == "*":
            host = play.client_node
        operation = Operation.CLUSTER_ACTION if of_cluster else random.choice([Operation.READ, Operation.ALL])
        permission = random.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY])
        binding = Binding(pattern, Entry(random.choice(PRINCIPALS), host, operation, permission))
        if len(there) > random.randrange(12):
            taken = there.pop(random.randrange(len(there)))
            wanted = Filter(PatternFilter(*taken.pattern), EntryFilter(*taken.entry))
            _change(play, lambda admin, wanted=wanted: admin.remove([wanted]))  # type: ignore[misc]
        else:
            there.append(binding)
            _change(play, lambda admin, binding=binding: admin.add([binding]))  # type: ignore[misc]
        # Rule R23 says what each may be answered.
        play.fetch(0)
        play.fetch_as_replica(0)
        play.answer_of(play.begin_write(acks=1))
    for taken in there:
        wanted = Filter(PatternFilter(*taken.pattern), EntryFilter(*taken.entry))
        _change(play, lambda admin, wanted=wanted: admin.remove([wanted]))  # type: ignore[misc]
    everything = Filter()
    _change(play, lambda admin: admin.remove([everything]))
    _all_have_the_lists_of_zookeeper(play)
    play.finish()


async def _create(acls: _Lists, bindings: Sequence[Binding], outcomes: dict[str, object], name: str) -> None:
    try:
        (outcomes[name],) = await acls.create(bindings)
    except KavkaError as failure:
        outcomes[name] = failure
