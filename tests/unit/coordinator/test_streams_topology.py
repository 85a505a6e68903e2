"""What the topology of a Kafka Streams application needs: numbers of tasks and partitions, topics to create, flaws."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from kavka.coordinator.groups.streams.decide.hash_order import in_hash_order
from kavka.coordinator.groups.streams.decide.topology import (
    MOST_TASKS,
    Configured,
    CopartitionGroup,
    StatusCode,
    Subtopology,
    Topology,
    configure,
    topology_of,
)
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.streams_group_heartbeat_request import Subtopology as RequestedSubtopology
from tests.kit.group_surroundings import HandMadeTopics
from tests.kit.streams_case import COUNTS, internal, part, topology


def found(application: Topology, **counts: int) -> Configured:
    return configure(application, HandMadeTopics(**counts))


def refusal(application: Topology, **counts: int) -> str:
    with pytest.raises(RequestError) as refused:
        found(application, **counts)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    return refused.value.message


def test_a_part_has_as_many_tasks_as_its_largest_source_has_partitions() -> None:
    configured = found(topology(part("0", "small", "large")), small=2, large=5)
    assert configured.subtopologies is not None
    assert configured.subtopologies["0"].task_count == 5
    assert configured.is_ready


def test_source_topics_that_are_missing_are_named() -> None:
    configured = found(topology(part("0", "t", "b", "a"), part("1", "c", "d")), t=1)
    assert configured.subtopologies is None
    assert configured.status is not None
    assert configured.status.code is StatusCode.MISSING_SOURCE_TOPICS
    assert configured.status.detail == "Source topics a, b, c and 1 additional topics are missing."


def test_an_internal_topic_is_created_with_what_the_application_says() -> None:
    changelog = internal("store", replicas=3, **{"cleanup.policy": "compact"})
    configured = found(topology(part("0", "t", changelogs=[changelog])), t=6)
    assert configured.missing == {"store": changelog._replace(partition_count=6)}
    assert configured.status is not None
    assert configured.status.code is StatusCode.MISSING_INTERNAL_TOPICS


def test_a_repartition_topic_has_the_most_partitions_of_what_is_written_into_it() -> None:
    """Also where that is a repartition topic itself."""
    application = topology(
        part("0", "t", "u", sinks=["first"]),
        part("1", repartitions=[internal("first")], sinks=["second"]),
        part("2", repartitions=[internal("second")]),
    )
    configured = found(application, t=2, u=3)
    assert {name: topic.partition_count for name, topic in configured.missing.items()} == {"first": 3, "second": 3}
    assert configured.subtopologies is not None
    assert [each.task_count for each in configured.subtopologies.values()] == [3, 3, 3]


def test_a_topic_that_is_there_and_that_a_part_writes_to_has_as_many_tasks_as_partitions() -> None:
    """Not as many as it would be given if it were to be created."""
    application = topology(part("0", "large", sinks=["small"]), part("1", "small"))
    configured = found(application, large=5, small=2)
    assert configured.subtopologies is not None
    assert configured.subtopologies["1"].task_count == 2


def test_topics_that_are_there_must_have_the_expected_number_of_partitions() -> None:
    names = [topic.name for topic in COUNTS.subtopologies["1"].changelogs]
    configured = found(COUNTS, t=4, **{names[0]: 5})
    assert configured.status is not None
    assert configured.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert configured.status.detail == (
        f"Existing topic {names[0]} has different number of partitions: expected 4, found 5"
    )


def joined(sources: Sequence[str], fixed: int) -> Topology:
    """A part that reads `sources` together with a repartition topic."""
    places = CopartitionGroup(tuple(range(len(sources))), (), (0,))
    return topology(
        part("0", *sources, repartitions=[internal("r", fixed)], together=[places]), part("1", "t", sinks=["r"])
    )


def test_a_repartition_topic_has_as_many_partitions_as_what_is_read_with_it() -> None:
    configured = found(joined(["u"], 0), t=9, u=4)
    assert configured.missing["r"].partition_count == 4
    configured = found(joined(["u"], 3), t=9, u=4)
    assert configured.status is not None
    assert configured.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert configured.status.detail == (
        "Number of partitions [3] of repartition topic [r] doesn't match number of partitions [4] of the source topic."
    )


def test_topics_that_are_read_together_have_the_same_number_of_partitions() -> None:
    configured = found(joined(["u", "v"], 0), t=9, u=4, v=5)
    assert configured.status is not None
    assert configured.status.detail == "Following topics do not have the same number of partitions: [{u=4, v=5}]"


@pytest.mark.parametrize(
    ("application", "why"),
    [
        (topology(part("0", "t"), epoch=-1), "Topology epoch must be non-negative."),
        (topology(part("0", "t"), part("1")), "No source topics found for subtopology 1"),
        (topology(part("0", "t", changelogs=[internal("c", 3)])), "Changelog topic c must have an undefined"),
        (topology(part("0", "t", repartitions=[internal("r", -1)])), "negative partition count"),
        (topology(part("0", "t", repartitions=[internal("r")])), "never used as a sink topic"),
        (topology(part("0", repartitions=[internal("r")], sinks=["r"])), "loops in the topology"),
        (topology(part("0", "t", together=[CopartitionGroup((1,), (), ())])), "names no topic of its"),
        (topology(part("0", "t", together=[CopartitionGroup((-1,), (), ())])), "names no topic of its"),
        (topology(part("0", "t", together=[CopartitionGroup((), (), (0,))])), "names no topic of its"),
        (topology(part("0", "t", together=[CopartitionGroup((), (), (-1,))])), "names no topic of its"),
    ],
)
def test_a_topology_that_cannot_be_meant_is_refused(application: Topology, why: str) -> None:
    assert why in refusal(application, t=4)


def test_a_part_that_is_there_twice_is_refused() -> None:
    with pytest.raises(RequestError, match="is there twice"):
        topology_of(0, [RequestedSubtopology(subtopology_id="0"), RequestedSubtopology(subtopology_id="0")])


def test_an_application_with_too_many_tasks_gets_none() -> None:
    """The bound is for all parts together."""
    parts = [part(f"{number:03}", "t") for number in range(100)]
    assert found(topology(*parts), t=MOST_TASKS // 100).is_ready
    refused = found(topology(*parts, part("one more", "u")), t=MOST_TASKS // 100, u=1)
    assert refused.subtopologies is None
    assert refused.status is not None
    assert refused.status.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert "20001 tasks" in refused.status.detail


def test_a_repartition_topic_of_a_billion_partitions_is_not_asked_for() -> None:
    application = topology(part("0", "t", sinks=["r"]), part("1", repartitions=[internal("r", 2**30)]))
    assert found(application, t=1).missing == {}


def chain(length: int) -> Topology:
    """Parts that read from each other, the last one first."""
    readers = [
        part(f"{number}", repartitions=[internal(f"r{number}")], sinks=[f"r{number - 1}"] if number else [])
        for number in range(length)
    ]
    return topology(*readers, part("first", "t", sinks=[f"r{length - 1}"]))


def test_a_long_topology_takes_time_by_its_length_and_not_by_the_square_of_it() -> None:
    """A broker does nothing else meanwhile: with squares each took many seconds."""
    begin = time.process_time()
    configured = found(chain(5_000), t=3)
    assert {topic.partition_count for topic in configured.missing.values()} == {3}
    fixed = [internal(f"r{number}", 2) for number in range(5_000)]
    groups = [CopartitionGroup((), (), (place,)) for place in range(len(fixed))]
    names = [topic.name for topic in fixed]
    assert len(found(topology(part("0", "t", sinks=names, repartitions=fixed, together=groups)), t=1).missing) == 5_000
    several = [internal(f"r{number}") for number in range(12_000)]
    from_one = part("0", "t", sinks=[topic.name for topic in several])
    assert len(found(topology(from_one, part("1", repartitions=several)), t=1).missing) == 12_000
    assert time.process_time() - begin < 5


def in_rounds(application: Topology, **counts: int) -> dict[str, int] | None:
    """Partitions of repartition topics, as Kafka comes to them: part after part, round after round."""
    known = {
        topic.name: topic.partition_count
        for each in application.subtopologies.values()
        for topic in each.repartition_sources
        if topic.partition_count
    }
    is_moving = True
    while is_moving:
        is_moving = False
        for each in application.subtopologies.values():
            for sink in each.repartition_sinks:
                sources = [known[topic.name] for topic in each.repartition_sources if topic.name in known]
                sources += [counts[name] for name in each.source_topics]
                if sink not in known and sources:
                    known[sink] = max(sources)
                    is_moving = True
    wanted = [
        name for each in application.subtopologies.values() for name in (*each.repartition_sinks, *each.sources())
    ]
    return known if all(name in known or name in counts for name in wanted) else None


def test_what_reads_a_topic_is_found_without_a_look_at_every_part() -> None:
    """A commit of 20,000 partitions with an older epoch asked 20,000 parts for each of them."""
    application = topology(*(part(str(number), f"t{number}", "shared") for number in range(10_000)))
    begin = time.process_time()
    assert [application.subtopology_of(f"t{number}") for number in range(10_000)] == list(application.subtopologies)
    assert application.subtopology_of("shared") == "4957", "of several, the last in the order of Java"
    assert application.subtopology_of("unknown") is None
    assert time.process_time() - begin < 2


def test_parts_are_gone_over_in_the_order_of_a_hash_map() -> None:
    """What Java 21 has, of keys that came from the largest down."""
    thirteen, thirty = (in_hash_order(str(number) for number in range(count - 1, -1, -1)) for count in (13, 30))
    assert thirteen == ["11", "12", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
    assert thirty == [*map(str, (*range(22, 30), *range(10, 20), *range(10), 20, 21))]
    twelve = in_hash_order(map(str, range(12)))
    assert twelve == ["0", "11", *map(str, range(1, 11))], "of three quarters as many keys as buckets"
    several = ["orders", "payments", "customers", "shipments", "invoices", "returns"]
    assert in_hash_order(several) == ["invoices", "payments", "orders", "returns", "customers", "shipments"]
    words = ["clicks", "über", "views", "Aa", "BB", "\U0001f600", "0"]
    assert in_hash_order(words) == ["Aa", "BB", "0", "über", "\U0001f600", "clicks", "views"]


def test_the_order_in_which_a_member_tells_its_parts_changes_nothing() -> None:
    """Part 1 is known in part by t before part 0 is; Apache Kafka 4.3 gives b the 7 partitions of a all the same."""
    parts = [
        part("2", repartitions=[internal("b")]),
        part("1", "t", repartitions=[internal("a")], sinks=["b"]),
        part("0", "u", sinks=["a"]),
    ]
    for told in (parts, parts[::-1]):
        missing = found(topology(*told), t=3, u=7).missing
        assert {name: each.partition_count for name, each in missing.items()} == {"a": 7, "b": 7}


def test_repartition_topics_have_the_numbers_that_rounds_over_all_parts_lead_to() -> None:
    outcomes = set()
    for seed in range(1_000):
        drawn = random.Random(seed)
        names = [f"r{number}" for number in range(drawn.randint(1, 6))]
        fixed = {name: drawn.choice((0, 0, 0, drawn.randint(1, 9))) for name in names}
        parts = [
            part(
                f"{number}",
                *drawn.sample(["t", "u"], drawn.choice((0, 0, 1, 2))),
                sinks=drawn.sample(names, drawn.randint(0, len(names))),
                repartitions=[
                    internal(name, fixed[name])
                    for name in drawn.sample(names, min(len(names), drawn.choice((0, 1, 2))))
                ],
            )
            for number in range(drawn.randint(1, 6))
        ]
        application = topology(*(each for each in parts if each.source_topics or each.repartition_sources))
        expected = in_rounds(application, t=3, u=7)
        outcomes.add(expected is None)
        if expected is None:
            assert "Failed to compute number of partitions" in refusal(application, t=3, u=7)
        else:
            read = {name for each in application.subtopologies.values() for name in each.sources()}
            there = {name: topic.partition_count for name, topic in found(application, t=3, u=7).missing.items()}
            assert there == {name: count for name, count in expected.items() if name in read}, seed
    assert outcomes == {True, False}


# -- what Kafka makes of many topologies


def answers_of_kafka() -> list[tuple[str, str]]:
    """kafka_topologies.txt: what Kafka is asked, and what it answers."""
    lines = Path(__file__).with_name("kafka_topologies.txt").read_text().splitlines()
    told = [line for line in lines if not line.startswith("#")]
    return list(zip(told[::2], map(str.strip, told[1::2]), strict=True))


def listed(text: str, separator: str = ",") -> list[str]:
    return text.split(separator) if text else []


def part_of(asked: str) -> Subtopology:
    name, sources, sinks, repartitions, changelogs, groups = asked.split("|")
    made = [each.split(":") for each in listed(repartitions)]
    places = [tuple(tuple(map(int, listed(each))) for each in group.split("+")) for group in listed(groups, "/")]
    return part(
        name,
        *listed(sources),
        sinks=listed(sinks),
        repartitions=[internal(topic, int(count)) for topic, count in made],
        changelogs=[internal(topic) for topic in listed(changelogs)],
        together=[CopartitionGroup(first, (), second) for first, second in places],
    )


@pytest.mark.parametrize(("asked", "answer"), answers_of_kafka())
def test_topologies_are_configured_as_by_kafka(asked: str, answer: str) -> None:
    """Of several topics a sentence of Kafka's names the first of a hash set: that is not compared."""
    status, sentence, tasks, created = answer.split(";")
    topics, *parts = asked.split(";")
    application = topology(*map(part_of, parts))
    there = {name: int(count) for name, count in (each.split(":") for each in listed(topics))}
    if status == "StreamsInvalidTopologyException":
        assert refusal(application, **there) == sentence
        return
    configured = found(application, **there)
    assert ("" if configured.status is None else configured.status.code.name) == status
    counted = {name: each.task_count for name, each in (configured.subtopologies or {}).items()}
    assert counted == {name: int(count) for name, count in (each.split(":") for each in listed(tasks))}
    assert [f"{name}:{topic.partition_count}" for name, topic in configured.missing.items()] == listed(created)
    if status == "MISSING_SOURCE_TOPICS":
        assert configured.status is not None
        assert configured.status.detail == sentence
