"""`kavka replay` as it is typed: figures, trace, page, a difference, and mistakes."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from kavka.broker.metadata.metadata_cache import BrokerMetadata, MetadataCache
from kavka.cli.app import run
from kavka.config.broker import BrokerConfig
from kavka.flight.format import FLIGHT_FILES
from kavka.flight.recorder import FlightRecorder
from kavka.log.unified_log import UnifiedLog
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.replay.metadata_log import MetadataLog
from kavka.replication.decide.lag_policy import TimeLagPolicy
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.runtime.disk import LocalFileSystem

ORDERS = TopicPartition("orders", 0)
REPLICAS = (BrokerId(1), BrokerId(2), BrokerId(3))
BEGAN_MS = 1_790_000_000_000


class Output(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def kavka(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Output]:
    def replay(*words: str) -> Output:
        with monkeypatch.context() as streams:
            streams.setattr(sys, "stdout", sys.stdout)  # run() may put another in its place
            status = run(["replay", *words])
            sys.stdout.flush()
        return Output(status, *capfd.readouterr())

    return replay


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Broker 1 led `orders-0`; broker 3 fetched no more, and was thrown out after ten seconds."""
    directory = tmp_path / "data" / "broker-1" / "logs"
    directory.mkdir(parents=True)
    asyncio.run(_record(directory))
    return tmp_path / "data"


async def _record(directory: Path) -> None:
    now_ms = 0
    config = BrokerConfig.from_properties(
        {"broker.id": "1", "log.dirs": str(directory), "replica.lag.time.max.ms": "10000"}
    )
    recorder = FlightRecorder(
        LocalFileSystem(),
        config,
        wall_ms=lambda: BEGAN_MS + now_ms,
        clock_ms=lambda: BEGAN_MS + now_ms,
        record=lambda decision: recorder.on_decision(decision),
    )
    recorder.start()
    log = MetadataLog()

    partition = recorder.new_partition(
        ORDERS,
        uuid.UUID(int=1),
        cast("UnifiedLog", log),
        local_broker_id=REPLICAS[0],
        min_insync_replicas=2,
        rules=PartitionRules(TimeLagPolicy(10_000)),
    )
    recorder.on_live_brokers(REPLICAS)
    partition.become_leader(LeaderAndIsr(REPLICAS[0], 1, REPLICAS, 4), REPLICAS, now_ms=BEGAN_MS)
    for now_ms in range(100, 15_100, 100):
        log.log_end_offset += 5
        for follower in REPLICAS[1:] if now_ms < 3_000 else REPLICAS[1:2]:
            end = log.log_end_offset
            partition.record_follower_fetch(follower, -1, end, leader_end_offset=end, now_ms=BEGAN_MS + now_ms)
    proposal = partition.propose_shrink(BEGAN_MS + now_ms)
    assert proposal is not None
    stored = LeaderAndIsr(REPLICAS[0], 1, proposal.isr, 5)
    partition.on_isr_committed(proposal, stored, now_ms=BEGAN_MS + now_ms + 4)
    recorder.stop()


def test_it_tells_when_and_why_an_isr_changed_and_that_nothing_differs(
    kavka: Callable[..., Output], place: Path
) -> None:
    found = kavka(str(place))

    assert found.status == 0
    assert "isr shrunk: broker 3 last caught up" in found.out
    (differences,) = (line for line in found.out.splitlines() if line.startswith("differences"))
    assert differences.split() == ["differences", "0"]


async def _record_one_that_leaves(directory: Path) -> None:
    """A follower outside of the ISR catches up, and is not proposed: its broker is about to stop. Later it may join."""
    config = BrokerConfig.from_properties({"broker.id": "1", "log.dirs": str(directory)})
    recorder = FlightRecorder(
        LocalFileSystem(),
        config,
        wall_ms=lambda: BEGAN_MS,
        clock_ms=lambda: BEGAN_MS,
        record=lambda decision: recorder.on_decision(decision),
    )
    recorder.start()
    leader, follower = REPLICAS[:2]
    metadata = MetadataCache("cluster")
    partition = recorder.new_partition(
        ORDERS,
        uuid.UUID(int=1),
        cast("UnifiedLog", MetadataLog()),
        local_broker_id=leader,
        min_insync_replicas=1,
        rules=PartitionRules(TimeLagPolicy(30_000), metadata),
    )
    proposals = []
    for now_ms, leaving in ((1, [follower]), (2, [])):
        metadata.set_brokers(BrokerMetadata(each, {}, is_shutting_down=each in leaving) for each in (leader, follower))
        recorder.on_live_brokers((leader, follower), leaving)
        if now_ms == 1:
            partition.become_leader(LeaderAndIsr(leader, 1, (leader,), 4), (leader, follower), now_ms=BEGAN_MS)
        found = partition.record_follower_fetch(follower, -1, 0, leader_end_offset=0, now_ms=BEGAN_MS + now_ms)
        proposals.append(found.proposal)
    assert [proposal is not None for proposal in proposals] == [False, True]
    recorder.stop()


def test_who_was_about_to_stop_is_so_again(kavka: Callable[..., Output], tmp_path: Path) -> None:
    directory = tmp_path / "leaving"
    directory.mkdir()
    asyncio.run(_record_one_that_leaves(directory))
    assert json.loads(kavka(str(directory), "--json").out)["differences"] == []


def test_as_json_it_is_one_object(kavka: Callable[..., Output], place: Path) -> None:
    told = json.loads(kavka(str(place), "--json").out)

    assert told["brokers"] == [1]
    assert told["differences"] == told["unreadable"] == []
    assert (told["isr_changes"], told["isr_shrinks"], told["partitions"]) == (1, 1, 1)
    assert told["again"] == f"kavka replay {place}"


def test_trace_and_page_are_those_of_a_simulated_run(kavka: Callable[..., Output], place: Path, tmp_path: Path) -> None:
    trace, page = tmp_path / "trace.txt", tmp_path / "page.html"

    assert kavka(str(place), "--trace", str(trace), "--page", str(page)).status == 0

    lines = trace.read_text().splitlines()
    assert any("state stored" in line and "3 left the isr" in line for line in lines)
    assert any("broker-2" in line and " 75 " in line for line in lines), "a follower's log end, as its leader saw it"
    assert "A cluster as it was recorded on" in page.read_text()


def test_other_code_makes_a_difference_and_the_exit_status_says_so(
    kavka: Callable[..., Output], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimeLagPolicy, "is_in_sync", lambda *_: True)

    found = kavka(str(place))

    assert found.status == 1
    assert "orders-0, broker 1: a proposal of an ISR: recorded one; replayed none" in found.out


def test_one_partition_and_one_moment(kavka: Callable[..., Output], place: Path) -> None:
    assert json.loads(kavka(str(place), "--partition", "orders-0", "--json").out)["isr_changes"] == 1
    assert json.loads(kavka(str(place), "--partition", "orders", "--json").out)["isr_changes"] == 1
    assert "nothing was recorded about orders-1" in kavka(str(place), "--partition", "orders-1").err
    near = json.loads(kavka(str(place), "--around", str(BEGAN_MS), "--json").out)
    assert near["trace_events"] > 10
    assert kavka(str(place), "--around", str(BEGAN_MS + 86_400_000)).status != 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("{place}/nowhere",), "cannot be read"),
        (("{place}", "--around", "noon"), "--around noon is not a time"),
        (("{place}", "--page", "{place}/nowhere/page.html"), "cannot be written"),
        (("{empty}",), "no flight recording"),
    ],
)
def test_mistakes_are_told_with_what_to_do(
    kavka: Callable[..., Output], place: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    found = kavka(*(word.format(place=place, empty=empty) for word in words))

    assert found.status != 0
    assert said in found.err


def test_what_cannot_be_read_is_named(kavka: Callable[..., Output], place: Path) -> None:
    ring = place / "broker-1" / "logs" / FLIGHT_FILES[1]
    ring.write_bytes(ring.read_bytes() + b"kfr1 and no more")

    found = kavka(str(place))

    assert found.status == 0
    assert f"{ring}: 16 bytes at" in found.err
