"""What earlier builds left on disk, killed and stopped in order, opens with this build: clients read the same.

The brokers' clocks stand at the time at which the fixture was made. Otherwise what only time takes would be gone:
producers' sequences after a day, transactional ids and offsets of groups after a week.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from kavka.errors import ErrorCode
from kavka.protocol.messages import InitProducerIdRequest
from tests.integration.cluster.cluster_client import ClusterClient
from tests.kit.process_cluster import ProcessCluster, eventually
from tests.kit.process_faults import NoProcessFaults
from tests.upgrade.contents import GROUPS, contents, decisions, replayed
from tests.upgrade.earlier_build import EVERY
from tests.upgrade.make_fixtures import FIXTURES, SEQUENCED_BATCHES, SETTINGS, send_sequenced, unpack

LATER_S = 30.0
"""The clock begins so long after the fixture was made."""
WHOLE_S = 60.0
SETTINGS_NOW = {**SETTINGS, "transaction.abort.timed.out.transaction.cleanup.interval.ms": "60000"}


class Opened(NamedTuple):
    """A fixture's cluster, run by this build, and what was there before."""

    client: ClusterClient
    before: dict[str, Any]

    @property
    def cluster(self) -> ProcessCluster:
        return self.client.cluster


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((build.name, state), id=f"{build.name}-{state}", marks=marks)
        for build in EVERY
        for state, marks in (("killed", ()), ("stopped", pytest.mark.thorough))
    ],
)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    build, state = request.param
    before = json.loads((FIXTURES / build / "contents.json").read_text())
    directory = tmp_path_factory.mktemp(state)
    unpack(FIXTURES / build / f"{state}.tar.xz", directory)
    try:
        cluster = ProcessCluster(directory, settings=SETTINGS_NOW, process_faults=True)
    except NoProcessFaults as missing:
        pytest.skip(str(missing))
    with cluster:
        for faults in cluster.faults.values():
            faults.set_clock(before["made_at_s"] + LATER_S - time.time())
        cluster.start()
        yield Opened(ClusterClient(cluster), before)


def test_clients_read_what_they_read_before(opened: Opened) -> None:
    """With it: a transaction that was committed and had no marker yet gets it, and one that was open stays unseen."""

    def same() -> bool:
        found = contents(opened.cluster)
        for name, before in opened.before["contents"].items():
            for key, value in before.items():
                assert found[name][key] == value, (name, key)
        return True

    eventually("clients read the same", same, timeout_s=WHOLE_S, every_s=0.2)


def test_every_replica_comes_back_and_no_epoch_goes_back(opened: Opened) -> None:
    for name, (_leader, leader_epoch, *_rest) in opened.before["states"].items():
        topic, _, partition = name.rpartition("-")
        state = opened.client.wait_for_isr(0, 1, 2, topic=topic, partition=int(partition))
        assert state.leader_epoch >= leader_epoch, name
    assert opened.cluster.controller_epoch() > opened.before["controller_epoch"]


def test_an_idempotent_producer_goes_on_where_it_was(opened: Opened) -> None:
    producer = tuple(opened.before["producer"])
    eventually("it has a leader", lambda: opened.cluster.state("sequenced").leader >= 0)
    last = SEQUENCED_BATCHES - 1
    end = SEQUENCED_BATCHES * 3

    def repeated() -> bool:
        code, offset = send_sequenced(opened.client, producer, last)
        assert (code, offset) == (ErrorCode.NONE, end - 3), code
        return True

    eventually("its last batch is known", repeated, timeout_s=WHOLE_S)
    code, _offset = send_sequenced(opened.client, producer, last + 5)
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send_sequenced(opened.client, producer, last + 1) == (ErrorCode.NONE, end)


def test_producer_ids_are_not_given_out_twice_and_transactional_ids_keep_theirs(opened: Opened) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    fresh = eventually("ids are given", lambda: _id_of(opened.client.ask(0, request, 4)))
    used = {one["before"].get("producer_id") for one in opened.before["decisions"] if one.get("before")}
    assert fresh > opened.before["producer"][0]
    assert fresh not in used
    producer = Producer({"bootstrap.servers": opened.cluster.bootstrap, "transactional.id": "done", "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("trimmed", b"of the next life")
    producer.commit_transaction(60)


def test_decisions_are_told_as_before(opened: Opened) -> None:
    """Those of the moment before a kill may not have reached the topic yet."""
    before = {one["id"]: one for one in opened.before["decisions"]}

    def told() -> bool:
        now = {one["id"]: one for one in decisions(opened.cluster.bootstrap)}
        missing = before.keys() - now.keys()
        assert len(missing) < len(before) / 2, sorted(missing)
        assert all(now[key] == before[key] for key in before.keys() & now.keys())
        return True

    eventually("decisions are told", told, timeout_s=WHOLE_S, every_s=0.5)


def test_groups_go_on_from_what_they_committed(opened: Opened) -> None:
    for group, protocol in zip(GROUPS, ("classic", "consumer"), strict=True):
        consumer = Consumer(
            {
                "bootstrap.servers": opened.cluster.bootstrap,
                "log_level": 0,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["plain"])
        first: dict[int, int] = {}
        deadline = time.monotonic() + WHOLE_S
        while len(first) < 2 and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.2):
                assert message.error() is None, message.error()
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                first.setdefault(partition, offset)
        consumer.close()
        assert first == {0: 10, 1: 11}, group


def _id_of(answer: Any) -> int:
    assert answer.error_code == 0, ErrorCode(answer.error_code)
    return int(answer.producer_id)


@pytest.mark.parametrize("build", [build.name for build in EVERY])
def test_recordings_are_replayed_to_the_same_decisions(build: str, tmp_path: Path) -> None:
    before = json.loads((FIXTURES / build / "contents.json").read_text())
    unpack(FIXTURES / build / "stopped.tar.xz", tmp_path)
    cluster = ProcessCluster(tmp_path)
    assert replayed(cluster) == before["replayed"]
