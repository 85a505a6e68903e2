"""Groups of members of both protocols, beside Apache Kafka 4.3: the same requests, right and wrong, the same answers.

Where Kafka answers UNKNOWN_SERVER_ERROR, or does not answer at all, an exception was thrown there that nobody caught;
`ON_PURPOSE` has what kavka answers then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.apache_kafka import ApacheKafka
from tests.conformance.groups.group_script import OTHER, PARTITIONS, TOPIC, GroupScript, assignment, subscription
from tests.kit.kavka_process import KavkaProcess

pytestmark = pytest.mark.kafka

SETTINGS = {"group.consumer.assignment.interval.ms": "0", "group.initial.rebalance.delay.ms": "300"}
POLICY = "group.consumer.migration.policy"
HEAP = "-Xmx512M -Xms256M"
ALL = {TOPIC: range(PARTITIONS)}
Steps = Callable[[GroupScript], None]


def join_both(script: GroupScript, *names: str, metadata: dict[str, bytes] | None = None) -> None:
    """A new classic group of a, which leads, and b, before the assignment."""
    script.known("a", "b")
    script.join("a", *names, metadata=metadata, answered=False)
    script.taken_in(members=1)
    script.join("b", *names, metadata=metadata, answered=False)
    script.joined("a", "b")


def settled_pair(script: GroupScript, first: bytes, second: bytes, *names: str) -> None:
    """A classic group of a, which leads, and b, with these assignments."""
    join_both(script, *names)
    script.sync("a", {"a": first, "b": second}, name=names[0])
    script.sync("b", name=names[0])


HALF, OTHER_HALF = assignment({TOPIC: range(6)}), assignment({TOPIC: range(6, 12)})


# -- from one protocol to the other


def upgrade_and_back(script: GroupScript) -> None:
    script.classic("a")
    script.beat("n")
    script.describe()
    script.heartbeat("a")
    script.sync("a")
    script.join("a", "range", metadata=subscription(owned=ALL))
    script.sync("a")
    script.heartbeat("a")
    script.join("a", "range", metadata=subscription(owned={TOPIC: script.has["a"]}))
    script.sync("a")
    script.beat("n", owned=[])
    script.describe()
    script.heartbeat("a")
    script.beat("n", -1)
    script.describe()
    script.heartbeat("a")
    script.join("a", "range")
    script.sync("a", {"a": assignment(ALL)})
    script.heartbeat("a")
    script.describe()


def upgrade_before_the_assignment(script: GroupScript) -> None:
    join_both(script, "range")
    script.sync("b", answered=False)
    script.beat("n")
    script.synced("b")
    script.heartbeat("a")
    script.sync("a")
    script.join("a", "range")
    script.sync("a")
    script.describe()


def upgrade_while_another_generation_is_completed(script: GroupScript) -> None:
    """Cooperative consumers read on through it: what they have is theirs."""
    settled_pair(script, HALF, OTHER_HALF, "range")
    script.join("a", "range", metadata=subscription(owned={TOPIC: range(6)}), answered=False)
    script.taken_in(members=2)
    script.join("b", "range", metadata=subscription(owned={TOPIC: range(6, 12)}), answered=False)
    script.joined("a", "b")
    script.beat("n")
    script.describe()
    script.heartbeat("a")
    script.join("a", "range", metadata=subscription(owned={TOPIC: range(6)}))
    script.sync("a")
    script.join("a", "range", metadata=subscription(owned={TOPIC: script.has["a"]}))
    script.sync("a")
    script.beat("n", owned=[])
    script.describe()


def upgrade_amid_a_rebalance(script: GroupScript) -> None:
    settled_pair(script, HALF, OTHER_HALF, "range")
    script.join("a", "range", answered=False)
    script.taken_in(members=2)
    script.beat("n")
    script.joined("a")
    script.heartbeat("b")
    script.join("a", "range", metadata=subscription(owned={TOPIC: range(6)}))
    script.sync("a")
    script.join("a", "range", metadata=subscription(owned={TOPIC: script.has["a"]}))
    script.describe()


def refused_upgrades(script: GroupScript) -> None:
    for part in (b"\x00", b"\xff\xff", b"\x00\x00", b"\x00\x00\x00\x00\x00\x01\x00"):
        script.new_group()
        script.known("a")
        script.join("a", "range")
        script.sync("a", {"a": part})
        script.beat("n")
        script.heartbeat("a")
    for said in (b"", b"\x00", b"\x00\x00", b"\xff\xff", subscription(version=1)[:-2]):
        script.new_group()
        script.classic("a", metadata=said)
        script.beat("n")
        script.heartbeat("a")
    script.new_group()
    script.known("a")
    script.join("a", "range")
    script.sync("a", {"a": assignment(ALL, user_data=b"x")})
    script.beat("n")
    script.heartbeat("a")
    script.new_group()
    script.join("a", "x", protocol_type="connect")
    script.join("a", "x", protocol_type="connect")
    script.sync("a", {"a": b"z"}, name="x", protocol_type="connect")
    script.beat("n")
    script.describe()
    script.beat("n", 5)
    script.beat("n", -1)


def odd_bytes_that_are_subscriptions(script: GroupScript) -> None:
    for said in (
        b"\x00\x00\x00\x00\x00\x01\x00\x02\xff\xfe\x00\x00\x00\x00",
        b"\x7f\xff" + subscription()[2:],
        subscription(version=0),
        subscription(version=0) + b"of a later version",
        subscription(version=2, user_data=b"mine", generation=7),
        subscription(owned={"gone": [3], TOPIC: [-1, 99]}),
    ):
        script.new_group()
        script.beat("n")
        script.known("a")
        script.join("a", "range", metadata=said)
        script.sync("a")
        script.describe()
        script.new_group()
        script.classic("a", metadata=said)
        script.beat("n")
        script.describe()
    script.new_group()
    script.known("a")
    script.join("a", "range")
    script.sync("a", {"a": assignment(ALL, user_data=b"")})
    script.beat("n")


# -- classic members of a group of the newer protocol


def wrong_joins(script: GroupScript) -> None:
    script.beat("n")
    script.join("a")
    script.join("a", "range", protocol_type="connect")
    script.join("a", "range", protocol_type="")
    script.join("a", "range", session_ms=1)
    script.known("a")
    script.join("a", "range", "sticky")
    script.join("b", "other", member="made-up")
    script.join("b", "sticky", member="made-up-too")
    script.join("c", "range", member="made-up-as-well")
    script.join("d", "sticky", instance="i", member="made-up")
    script.join("d", "sticky", instance="i")
    script.join("d", "sticky", instance="i", member="made-up")
    script.join("d", "sticky", instance="i")
    script.describe()


def wrong_syncs_and_heartbeats(script: GroupScript) -> None:
    script.beat("n")
    script.known("a")
    script.join("a", "range", "sticky")
    script.sync("a", name="sticky")
    script.sync("a", protocol_type="connect")
    script.sync("a", generation=0)
    script.sync("a", generation=99)
    script.sync("a", version=4)
    script.sync("a")
    script.heartbeat("a", generation=99)
    script.heartbeat("n")
    script.sync("n")
    script.heartbeat("stranger")
    script.sync("stranger")
    script.join("n", "range")
    script.describe()
    script.beat("n")


def an_empty_instance_id(script: GroupScript) -> None:
    script.classic("a", instance="")
    script.heartbeat("a")
    script.beat("n")
    script.describe()
    script.join("a", "range", instance="")
    script.join("b", "range", instance="", member="")
    script.leave(("", ""))


# -- static members, who may come back speaking the other protocol


def static_member_alone(script: GroupScript) -> None:
    script.beat("c", instance="i")
    script.join("d", "range", instance="i")
    script.describe()
    script.sync("d")
    script.heartbeat("d")
    script.beat("c", instance="i")
    script.beat("e", instance="i")
    script.describe()
    script.heartbeat("d")
    script.sync("d")
    script.join("d", "range", instance="i")
    script.beat("e", instance="i")
    script.beat("f", 0, instance="i")
    script.beat("e", -1, instance="i")
    script.join("d", "range", instance="i", member="")


def static_member_under_its_own_id(script: GroupScript) -> None:
    script.beat("c", instance="i")
    script.join("c", "range", instance="i")
    script.describe()
    script.sync("c")
    script.heartbeat("c")
    script.new_group()
    script.beat("c", instance="i")
    script.join("d", "range", instance="k", member="")
    script.sync("d")
    script.beat("c", instance="i", owned=range(6))
    script.join("d", "range", instance="k")
    script.sync("d")
    script.join("c", "range", instance="i")
    script.describe()
    script.sync("c")
    script.heartbeat("c")
    script.heartbeat("d")


def static_member_among_others(script: GroupScript) -> None:
    script.beat("o")
    script.beat("c", instance="i")
    script.beat("o", owned=range(6))
    script.beat("c", instance="i")
    script.join("d", "range", instance="i")
    script.describe()
    script.sync("d")
    script.heartbeat("d")
    script.beat("c", instance="i")
    script.beat("o", -1)
    script.describe()


def static_member_that_had_left(script: GroupScript) -> None:
    script.beat("o")
    script.beat("c", instance="i")
    script.beat("c", -2, instance="i")
    script.join("d", "range", instance="i")
    script.describe()
    script.sync("d")
    script.join("d", "range", instance="i")
    script.sync("d")
    script.beat("o", -1)
    script.describe()


# -- a static member of a classic group that is restarted


def static_restart(script: GroupScript) -> None:
    """Its subscription holds what it last owned, and in which generation."""
    said = subscription(owned={TOPIC: [0, 1]}, generation=4)
    script.classic("a", "range", "cooperative-sticky", instance="i", metadata=said)
    for names in (("range", "cooperative-sticky"), ("range", "other"), ("range",)):
        script.join("a", *names, instance="i", member="", metadata=subscription(user_data=b"other", rack="r"))
        script.sync("a", name="range")
        script.heartbeat("a")
    script.join("a", "range", instance="i", member="", metadata=b"\x00")
    script.join("a", "range", instance="i", member="", version=7)
    script.heartbeat("a")


def static_restart_with_another_protocol(script: GroupScript) -> None:
    script.classic("a", "range", "cooperative-sticky", instance="i")
    script.join("a", "cooperative-sticky", instance="i", member="")
    script.sync("a", {"a": assignment(ALL)}, name="cooperative-sticky")
    script.join("a", "range", instance="i", member="")
    script.heartbeat("a")


def static_restart_before_the_assignment(script: GroupScript) -> None:
    script.join("a", "range", instance="i")
    script.join("a", "range", instance="i", member="")
    script.sync("a", {"a": assignment(ALL)})
    script.heartbeat("a")


# -- members that do not ask for what they have


def only_heartbeats(script: GroupScript) -> None:
    """The group is Stable since the leader's sync; its rebalance time-out later b is out."""
    script.known("a", "b")
    script.join("a", "range", rebalance_ms=3_000, answered=False)
    script.taken_in(members=1)
    script.join("b", "range", rebalance_ms=3_000, answered=False)
    script.joined("a", "b")
    script.sync("a", {"a": HALF, "b": OTHER_HALF})
    script.heartbeat("b")
    script.taken_in(members=1)
    script.heartbeat("a")
    script.heartbeat("b")
    script.join("a", "range")
    script.sync("a", {"a": assignment(ALL)})


def static_and_away_through_a_rebalance(script: GroupScript) -> None:
    """It stays in the generation that it did not join, for as long as it might still ask for its part."""
    script.join("s", "range", instance="i", rebalance_ms=2_000)
    script.sync("s", {"s": assignment(ALL)})
    script.known("c")
    script.join("c", "range", rebalance_ms=2_000)
    script.sync("c", {"c": HALF, "s": OTHER_HALF})
    script.heartbeat("s")
    script.taken_in(members=1)
    script.heartbeat("c")
    script.heartbeat("s")
    script.join("c", "range")
    script.describe()


# -- administrators take members out


def removed_by_instance(script: GroupScript) -> None:
    script.beat("o")
    script.beat("c", instance="i")
    script.leave(("", "i"))
    script.describe()
    script.beat("c", instance="i")
    script.beat("o", owned=range(PARTITIONS))


def removed_in_a_mixed_list(script: GroupScript) -> None:
    script.beat("o")
    script.beat("c", instance="i")
    script.beat("d", instance="j")
    script.beat("e")
    script.beat("f")
    script.join("k", "range", instance="k")
    script.leave(
        ("", "i"),
        ("", "nobody"),
        ("stranger", None),
        ("c", "j"),
        ("", None),
        ("o", None),
        ("k", "k"),
        ("", "i"),
        ("d", None),
        ("f", None),
    )
    script.describe()
    script.heartbeat("k")
    script.sync("k")
    script.beat("e", owned=[])


def removed_all(script: GroupScript) -> None:
    script.beat("o")
    script.beat("c", instance="i")
    script.leave(("", "i"), ("o", None))
    script.describe()
    script.leave(("", "i"))
    script.leave()
    script.new_group()
    script.leave(("", "i"), ("stranger", None))


def removed_of_the_newer_protocol(script: GroupScript) -> None:
    """What is left is a classic group."""
    script.beat("c", instance="i")
    script.known("a", "b")
    script.join("a", "range")
    script.join("b", "range")
    script.leave(("", "i"), ("b", None))
    script.describe()
    script.heartbeat("a")
    script.join("a", "range")
    script.sync("a", {"a": assignment(ALL)})


def removed_in_old_versions(script: GroupScript) -> None:
    script.beat("c")
    script.beat("d", instance="j")
    script.leave(("c", None), version=2)
    script.leave(("stranger", None), version=1)
    script.leave(("d", None), version=2)
    script.leave(("", None), version=2)
    script.describe()


def removed_while_away(script: GroupScript) -> None:
    script.beat("c", instance="i")
    script.beat("c", -2, instance="i")
    script.leave(("", "i"))
    script.describe()
    script.beat("e", instance="i")


def removed_from_a_classic_group(script: GroupScript) -> None:
    script.known("a", "b")
    script.join("b", "range", answered=False)
    script.taken_in(members=1)
    script.join("c", "range", instance="i", answered=False)
    script.joined("b", "c")
    script.leave(
        ("", "i"),
        ("", "nobody"),
        ("stranger", None),
        ("b", "i"),
        ("", None),
        ("a", "any"),
        ("b", None),
        ("b", None),
        ("c", "i"),
    )
    script.describe()


SCRIPTS: tuple[Steps, ...] = (
    upgrade_and_back,
    upgrade_before_the_assignment,
    upgrade_while_another_generation_is_completed,
    upgrade_amid_a_rebalance,
    refused_upgrades,
    odd_bytes_that_are_subscriptions,
    wrong_joins,
    wrong_syncs_and_heartbeats,
    an_empty_instance_id,
    static_member_alone,
    static_member_under_its_own_id,
    static_member_among_others,
    static_member_that_had_left,
    static_restart,
    static_restart_with_another_protocol,
    static_restart_before_the_assignment,
    only_heartbeats,
    static_and_away_through_a_rebalance,
    removed_by_instance,
    removed_in_a_mixed_list,
    removed_all,
    removed_of_the_newer_protocol,
    removed_in_old_versions,
    removed_while_away,
    removed_from_a_classic_group,
)


# -- where kavka answers otherwise


class OnPurpose(NamedTuple):
    """The last note of `steps` is `kafka` there, and `kavka` here: the words in it that matter."""

    steps: Steps
    kafka: str
    kavka: str
    why: str


def rolling_change_of_the_assignor(script: GroupScript) -> None:
    settled_pair(script, HALF, OTHER_HALF, "range", "cooperative-sticky")
    script.join("a", "cooperative-sticky", answered=False)
    script.taken_in(members=2)
    script.beat("n")


def partition_of_two(script: GroupScript) -> None:
    settled_pair(script, assignment(ALL), OTHER_HALF, "range")
    script.beat("n")


def partitions_that_do_not_exist(script: GroupScript) -> None:
    script.known("a")
    script.join("a", "range")
    script.sync("a", {"a": assignment({TOPIC: [-5, 0, 99]})})
    script.beat("n")


def assignment_with_an_endless_array(script: GroupScript) -> None:
    script.known("a")
    script.join("a", "range")
    script.sync("a", {"a": b"\x00\x00\x7f\x00\x00\x00"})
    script.beat("n")


def joins_with_garbage(script: GroupScript) -> None:
    script.beat("n")
    script.known("a")
    script.join("a", "range", metadata=b"")


def first_choice_is_garbage(script: GroupScript) -> None:
    said = {"odd": b"", "range": subscription("gone")}
    script.known("a", "b")
    script.join("a", "odd", "range", metadata=said, answered=False)
    script.taken_in(members=1)
    script.join("b", "range", metadata=said, answered=False)
    script.joined("a", "b")
    script.sync("a", {})
    script.sync("b")
    script.beat("n", subscribed_topic_names=[])
    script.sync("a", version=4)


def an_id_that_no_answer_could_carry(script: GroupScript) -> None:
    script.join("a", "range", instance="i" * 32_760)


def an_assignor_named_twice(script: GroupScript) -> None:
    script.beat("n")
    script.known("a")
    script.join("a", "range", "range")
    script.join("a", "range")


def pending_member_with_an_instance(script: GroupScript) -> None:
    script.known("a")
    script.join("a", "range", instance="i")


def restart_of_a_static_member_with_other_topics(script: GroupScript) -> None:
    script.classic("a", instance="i")
    script.join("a", "range", instance="i", member="", metadata=subscription(TOPIC, OTHER))
    script.notes.append(("generation", script.generations["a"]))


def static_member_with_other_topics(script: GroupScript) -> None:
    """It takes the group back, which must rebalance then."""
    script.beat("c", instance="i")
    script.join("d", "range", instance="i", metadata=subscription(TOPIC, OTHER))
    script.sync("d")


FAILS = "UNKNOWN_SERVER_ERROR"
ON_PURPOSE = (
    OnPurpose(rolling_change_of_the_assignor, FAILS, "NONE", "a member's first choice says what it reads"),
    OnPurpose(partition_of_two, FAILS, "custom assignor is in use", "the group stays as it is there, too"),
    OnPurpose(partitions_that_do_not_exist, FAILS, "NONE", "the next assignment has only those that exist"),
    OnPurpose(assignment_with_an_endless_array, FAILS, "is malformed", "it is"),
    OnPurpose(joins_with_garbage, FAILS, "INCONSISTENT_GROUP_PROTOCOL", "says what is wrong"),
    OnPurpose(first_choice_is_garbage, "no answer", "NONE", "only the version of its answer is asked for"),
    OnPurpose(an_id_that_no_answer_could_carry, FAILS, "INVALID_REQUEST", "it is the client's mistake"),
    OnPurpose(an_assignor_named_twice, "INCONSISTENT_GROUP_PROTOCOL", "NONE", "Kafka counts the member as two"),
    OnPurpose(pending_member_with_an_instance, FAILS, "UNKNOWN_MEMBER_ID", "it may begin anew"),
    OnPurpose(
        static_member_with_other_topics, "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "it was told generation 0"
    ),
    OnPurpose(
        restart_of_a_static_member_with_other_topics,
        "1",
        "2",
        "the group rebalances, so that somebody reads the new ones",
    ),
)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with ApacheKafka(tmp_path_factory.mktemp("groups") / "kraft", mode="kraft", settings=SETTINGS, heap=HEAP) as peer:
        yield peer.port


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory: Path = tmp_path_factory.mktemp("kavka") / "data"
    with KavkaProcess(directory, settings=SETTINGS) as broker:
        yield broker.port


def play(port: int, steps: Steps) -> list[tuple[object, ...]]:
    script = GroupScript(port)
    try:
        script.prepare()
        steps(script)
    finally:
        print(port, *script.notes, sep="\n")
        script.close()
    return script.notes


@pytest.mark.parametrize("steps", SCRIPTS, ids=lambda steps: steps.__name__)
def test_answers_are_those_of_kafka(kafka: int, ours: int, steps: Steps) -> None:
    assert play(ours, steps) == play(kafka, steps)


@pytest.mark.parametrize("row", ON_PURPOSE, ids=lambda row: row.steps.__name__)
def test_answers_that_differ_on_purpose(kafka: int, ours: int, row: OnPurpose) -> None:
    assert row.kafka in str(play(kafka, row.steps)[-1])
    assert row.kavka in str(play(ours, row.steps)[-1])


def what_the_policy_allows(script: GroupScript) -> None:
    script.classic("a")
    script.beat("n")
    script.describe()
    script.new_group()
    script.beat("n")
    script.known("a")
    script.join("a", "range")
    script.sync("a")
    script.beat("n", -1)
    script.describe()
    script.new_group()
    script.beat("n", instance="i")
    script.join("a", "range", instance="i")
    script.describe()
    script.new_group()
    script.classic("a")
    script.leave(("a", None))
    script.beat("n")
    script.beat("n", -1)
    script.join("a", "range", member="")
    # Kafka answers this join before it has written that the empty group is a classic one again.
    script.taken_in(members=0, state="Empty")
    script.describe()


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["disabled", "upgrade", "downgrade"])
def test_policies_of_migration_are_those_of_kafka(tmp_path: Path, policy: str) -> None:
    settings = SETTINGS | {POLICY: policy}
    with (
        ApacheKafka(tmp_path / "kraft", mode="kraft", settings=settings, heap=HEAP) as peer,
        KavkaProcess(tmp_path / "data", settings=settings) as broker,
    ):
        assert play(broker.port, what_the_policy_allows) == play(peer.port, what_the_policy_allows)
