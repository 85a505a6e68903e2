"""Standby tasks of streams groups (KIP-1071) with Kafka Streams 4.3, unmodified: whoever keeps a copy of a state takes
the task over when its owner is killed, and goes on from the copy instead of the whole changelog.

    C1  the task goes to who had the copy: it is suspended, promoted by the thread that had it, or taken over by another
        one of the same process
    C2  what is read of the changelog then begins behind the copy
    C3  each count comes out once, in order

On one broker of Apache Kafka 4.3, too, which shows that this is what must be seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from kavka.protocol.messages import incremental_alter_configs_request as configs
from kavka.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from tests.apache_kafka import ApacheKafka
from tests.conformance.clients.test_streams import CHUNK, PARTITIONS, TOTAL, Reader, all_counts, running
from tests.conformance.clients.test_streams_protocol import (
    APPLICATION,
    INPUT,
    QUICK,
    Application,
    assert_exact,
    make_topics,
    producing,
    program,
)
from tests.kit.broker_client import BrokerClient
from tests.kit.process_cluster import ProcessCluster, eventually

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

__all__ = ["program"]

GROUP_RESOURCE = 32
HALF = TOTAL // 2 // CHUNK * CHUNK
STATEFUL = "1"
"""The subtopology that counts; 0 gives words their keys."""


@pytest.fixture(params=["kavka", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "kafka":
        with ApacheKafka(tmp_path / "kafka", mode="kraft", settings=QUICK, heap="-Xmx768M -Xms256M") as broker:
            yield broker.bootstrap
        return
    with ProcessCluster(tmp_path / "kavka", defaults=QUICK) as cluster:
        cluster.start()
        yield cluster.bootstrap


class Asking:
    """Any broker of these, for the group's coordinator may be any."""

    def __init__(self, bootstrap: str) -> None:
        self._addresses = [(host, int(port)) for host, port in (each.split(":") for each in bootstrap.split(","))]

    def want_standbys(self, count: int) -> None:
        change = configs.AlterableConfig(name="streams.num.standby.replicas", config_operation=0, value=str(count))
        resource = configs.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=APPLICATION, configs=[change]
        )

        def is_set() -> bool:
            for host, port in self._addresses:
                with BrokerClient(port, host=host) as client:
                    answer = client.ask(configs.IncrementalAlterConfigsRequest(resources=[resource]), 1)
                if answer.responses[0].error_code == 0:
                    return True
            return False

        eventually("the group is to have standby tasks", is_set)

    def tasks(self) -> Mapping[str, tuple[set[int], set[int]]]:
        """By process: the partitions of active and of standby tasks that count."""
        found: dict[str, tuple[set[int], set[int]]] = {}
        for host, port in self._addresses:
            with BrokerClient(port, host=host) as client:
                group = client.ask(StreamsGroupDescribeRequest(group_ids=[APPLICATION]), 0).groups[0]
            if group.error_code:
                continue
            for member in group.members:
                active, standby = found.setdefault(member.process_id, (set(), set()))
                for kept, parts in (
                    (active, member.assignment.active_tasks),
                    (standby, member.assignment.standby_tasks),
                ):
                    kept.update(each for part in parts if part.subtopology_id == STATEFUL for each in part.partitions)
            break
        return found


def told(log: Path, pattern: str) -> dict[int, list[int]]:
    """By partition of the store: the numbers that lines of this kind end with."""
    found: dict[int, list[int]] = {}
    for partition, number in re.findall(rf"^{pattern} counts-(\d+) (\d+)$", log.read_text(), re.MULTILINE):
        found.setdefault(int(partition), []).append(int(number))
    return found


def test_a_standby_takes_over_from_where_its_copy_ended(program: list[str], bootstrap: str, tmp_path: Path) -> None:
    make_topics(bootstrap, INPUT, "out")
    asking = Asking(bootstrap)
    asking.want_standbys(1)
    produce, app = producing(bootstrap), Application(program, bootstrap, tmp_path)
    with closing(Reader(bootstrap, "out")) as reader, ExitStack() as ends:
        running_ones = {
            name: ends.enter_context(running(app.command(name, "out", "streams"), app.log(name)))
            for name in ("one", "two")
        }
        every = set(range(PARTITIONS))

        def both_keep_copies() -> bool:
            parts = list(asking.tasks().values())
            return len(parts) == 2 and all(active and standby == every - active for active, standby in parts)

        eventually("each instance has copies of what the other counts", both_keep_copies, timeout_s=120)
        for start in range(0, HALF, CHUNK):
            produce(range(start, start + CHUNK))
        reader.read_until(HALF, application=running_ones["two"], log=app.log("two"))

        def copied(name: str) -> dict[int, int]:
            return {partition: max(offsets) for partition, offsets in told(app.log(name), "standby copied").items()}

        def are_copied() -> bool:
            return sum(map(sum, (copied(name).values() for name in running_ones))) >= HALF

        eventually("the copies have all that was counted", are_copied, timeout_s=60)
        # There are more partitions than words' hashes: an instance may have copies of nothing but empty states.
        left = max(running_ones, key=lambda name: sum(copied(name).values()))
        (killed,) = running_ones.keys() - {left}
        copies = copied(left)
        running_ones[killed].kill()
        running_ones[killed].wait()
        eventually("all tasks are at one process", lambda: len(asking.tasks()) == 1, timeout_s=60)
        for start in range(HALF, TOTAL, CHUNK):
            produce(range(start, min(start + CHUNK, TOTAL)))
        reader.read_until(TOTAL, application=running_ones[left], log=app.log(left))
        (kept,) = asking.tasks().values()
        assert kept == (every, set()), "there is no other process that could keep a copy"
        suspended = told(app.log(left), "standby (?:promoted|migrated)")
        restored = told(app.log(left), "restore from")
        assert suspended.keys() >= copies.keys(), "what had a copy (C1)"
        for partition, offset in copies.items():
            assert suspended[partition][-1] >= offset, "nothing of the copy is lost"
            assert min(restored[partition]) > offset, "the rest alone is read (C2)"
        running_ones[left].terminate()
        running_ones[left].wait(60)
    assert_exact(all_counts(bootstrap, "out"))
