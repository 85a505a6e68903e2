"""RequestTraces: which requests are kept, what is known of them, and the bounds of what is kept and told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kavka.broker.decisions import request_traces
from kavka.broker.decisions.decision_log import Ring
from kavka.broker.decisions.produce_waits import ProduceWait, SeenFollower, Wait
from kavka.broker.decisions.request_traces import MAX_PER_SECOND, RequestTraces, TracePorts
from kavka.decisions import Decision, DecisionKind
from kavka.model import BrokerId
from kavka.protocol.api import ApiKey, RequestHeader
from kavka.protocol.codec import encode_chunks
from kavka.protocol.connection import CLOSE_CONNECTION, UNREAD, Answered, ConnectionContext, Response
from kavka.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kavka.runtime.disk import LocalFileSystem
from kavka.traces import RING_FILES, RequestTrace, Stage, decode_trace, verdict

MS = 1_000_000
CONTEXT = ConnectionContext("c-1", "10.0.0.7", 5000, "PLAINTEXT")


class Surroundings:
    """A broker's clocks and its record of decisions."""

    def __init__(self, directory: Path, ring_bytes: int) -> None:
        self.directory = directory
        self.now_ms = 1_700_000_000_000
        self.slow_ms = 100
        self.told: list[Decision] = []
        self.stalled = (0, "")
        self.traces = RequestTraces(
            TracePorts(
                BrokerId(2),
                wall_ms=lambda: self.now_ms,
                clock_ns=lambda: self.now_ms * MS,
                slow_ms=lambda: self.slow_ms,
                topic_name=lambda _id: None,
                record=self.told.append,
                stalled=lambda _since_ns: self.stalled,
            ),
            Ring(LocalFileSystem(), str(directory), ring_bytes),
            id_prefix="2-77",
        )

    def answered(
        self,
        api_key: ApiKey = ApiKey.PRODUCE,
        *,
        local_ms: int = 0,
        remote_ms: int = 0,
        response: Response = CLOSE_CONNECTION,
        trace: object = None,
    ) -> Answered:
        header = RequestHeader(api_key, 9, 7, "app")
        began_ns = (self.now_ms - local_ms - remote_ms) * MS
        return Answered(header, CONTEXT, response, trace, began_ns, 0, local_ms * MS, remote_ms * MS)  # type: ignore[arg-type]

    async def kept(self) -> list[RequestTrace]:
        await self.traces.stop()
        lines = []
        for name in RING_FILES:
            if (file := self.directory / name).exists():
                lines += file.read_bytes().splitlines()
        return [decode_trace(line) for line in lines]


def run(
    directory: Path, scenario: Callable[[Surroundings], Awaitable[None] | None], *, ring_bytes: int = 1 << 20
) -> list[RequestTrace]:
    async def work() -> list[RequestTrace]:
        surroundings = Surroundings(directory, ring_bytes)
        waiting = scenario(surroundings)
        if waiting is not None:
            await waiting
        return await surroundings.kept()

    return asyncio.run(work())


def produced(topic: str, partition: int, base_offset: int) -> Response:
    answer = PartitionProduceResponse(index=partition, error_code=0, base_offset=base_offset)
    message = ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[answer])])
    return Response(encode_chunks(message, 9))


@pytest.mark.setting("kavka.slow.request.ms")
def test_a_request_over_the_limit_is_kept_and_told_and_one_below_is_not(tmp_path: Path) -> None:
    def scenario(broker: Surroundings) -> None:
        broker.traces.keep(broker.answered(local_ms=99), 0, None)
        assert broker.told == []
        broker.traces.keep(broker.answered(local_ms=101, response=produced("orders", 3, 42)), 0, None)
        (told,) = broker.told
        assert told.kind is DecisionKind.REQUEST_SLOW
        assert told.about_broker == 2
        assert told.evidence["topic"], told.evidence["offset"] == ("orders", 42)
        broker.slow_ms = -1
        broker.traces.keep(broker.answered(local_ms=5_000), 0, None)

    (kept,) = run(tmp_path, scenario)
    assert kept.stages.local == 101_000
    assert [(each.topic, each.partition, each.first_offset) for each in kept.partitions] == [("orders", 3, 42)]


@pytest.mark.parametrize("api_key", [ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.SHARE_FETCH])
def test_what_waits_by_design_is_not_slow(tmp_path: Path, api_key: ApiKey) -> None:
    def scenario(broker: Surroundings) -> None:
        broker.traces.keep(broker.answered(api_key, remote_ms=60_000), 0, None)
        broker.traces.keep(broker.answered(ApiKey.LIST_OFFSETS, remote_ms=60_000)._replace(header=UNREAD), 0, None)
        broker.traces.keep(broker.answered(api_key, remote_ms=60_000), 200 * MS, None)

    (kept,) = run(tmp_path, scenario)
    assert kept.stages.response_send == 200_000


def test_a_slow_produce_knows_how_far_its_followers_were(tmp_path: Path) -> None:
    def scenario(broker: Surroundings) -> None:
        wait = ProduceWait(
            [Wait("orders", 3, 42, 45)],
            [SeenFollower(3, "orders", 3, 10, True, True), SeenFollower(1, "orders", 3, 1_900, True, True)],
            0,
        )
        broker.traces.keep(broker.answered(remote_ms=2_000, response=produced("orders", 3, 42)), 0, wait)

    (kept,) = run(tmp_path, scenario)
    assert kept.partitions[0].end_offset == 45
    assert [(step.broker_id, step.fetched_us) for step in kept.followers] == [(3, 1_990_000), (1, 100_000)]
    assert (verdict(kept).stage, verdict(kept).broker_id) == (Stage.REMOTE, 3)


def test_a_loop_that_stood_still_is_the_brokers_own_whoever_came_last(tmp_path: Path) -> None:
    def scenario(broker: Surroundings) -> None:
        broker.stalled = (1_500 * MS, "kavka.log.segment.append")
        wait = ProduceWait([], [SeenFollower(3, "orders", 3, 10, True, True)], 0)
        broker.traces.keep(broker.answered(remote_ms=2_000, response=produced("orders", 3, 42)), 0, wait)

    (kept,) = run(tmp_path, scenario)
    found = verdict(kept)
    assert (found.stage, found.broker_id) == (Stage.REMOTE, 2)
    assert "stood still for 1500 ms meanwhile, in kavka.log.segment.append" in found.why


def test_a_delay_by_a_quota_is_a_stage_of_the_request(tmp_path: Path) -> None:
    def scenario(broker: Surroundings) -> None:
        answer = produced("orders", 3, 42)._replace(mute_ms=700)
        broker.traces.keep(broker.answered(local_ms=1, response=answer), 0, None)

    (kept,) = run(tmp_path, scenario)
    assert verdict(kept).stage is Stage.THROTTLE


def test_a_sampled_request_tells_each_step_once(tmp_path: Path) -> None:
    def scenario(broker: Surroundings) -> None:
        began_ns = broker.now_ms * MS
        sampled = broker.traces.begin(began_ns)
        sampled.appended("orders", 3, 42, 45)
        for after_ms, follower in ((1, 1), (2, 3), (3, 1)):
            broker.now_ms += after_ms
            sampled.followed("orders", 3, follower)
        missing = SeenFollower(4, "orders", 3, 5, reached=False, in_sync=False)
        sampled.committed(ProduceWait([], [SeenFollower(1, "orders", 3, 0, True, True), missing], 0))
        broker.traces.keep(broker.answered(trace=sampled), 0, None)
        assert broker.told == []

    (kept,) = run(tmp_path, scenario)
    assert kept.sampled
    steps = [(step.broker_id, step.fetched_us, step.reached) for step in kept.followers]
    assert steps == [(1, 1_000, True), (3, 3_000, True), (4, 1_000, False)]
    assert (kept.partitions[0].end_offset, kept.committed_us) == (45, 6_000)


def test_the_first_of_a_minute_is_told_and_counts_those_before_it(tmp_path: Path) -> None:
    def scenario(broker: Surroundings) -> None:
        for _ in range(5):
            broker.traces.keep(broker.answered(local_ms=200), 0, None)
            broker.now_ms += 1_000
        assert len(broker.told) == 1
        broker.traces.keep(broker.answered(local_ms=1, remote_ms=200), 0, None)  # another stage
        assert len(broker.told) == 2
        broker.now_ms += 60_000
        broker.traces.keep(broker.answered(local_ms=200), 0, None)
        assert [told.evidence["unrecorded_before"] for told in broker.told] == [0, 0, 4]

    run(tmp_path, scenario)


def test_so_many_are_kept_in_a_second_and_the_rest_is_counted(tmp_path: Path) -> None:
    def scenario(broker: Surroundings) -> None:
        for _ in range(MAX_PER_SECOND + 7):
            broker.traces.keep(broker.answered(local_ms=200), 0, None)
        assert broker.traces.dropped == 7
        broker.now_ms += 1_000
        broker.traces.keep(broker.answered(local_ms=200), 0, None)

    assert len(run(tmp_path, scenario)) == MAX_PER_SECOND + 1


@pytest.mark.setting("kavka.request.traces.ring.bytes")
def test_the_ring_keeps_its_size(tmp_path: Path) -> None:
    async def scenario(broker: Surroundings) -> None:
        for _ in range(200):
            broker.traces.keep(broker.answered(local_ms=200), 0, None)
            broker.now_ms += 1_000
            if broker.now_ms % 10_000 == 0:
                await asyncio.sleep(request_traces.LINGER_S)
                await asyncio.sleep(0.02)

    kept = run(tmp_path, scenario, ring_bytes=16_384)
    assert 20 < len(kept) < 60
    assert sum((tmp_path / name).stat().st_size for name in RING_FILES) <= 16_384


def test_kinds_of_slow_requests_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_traces, "MAX_KINDS", 2)

    def scenario(broker: Surroundings) -> None:
        for api_key in (ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.LIST_OFFSETS):
            broker.traces.keep(broker.answered(api_key, local_ms=200), 0, None)
        assert len(broker.traces._told) <= 2

    run(tmp_path, scenario)


def test_what_comes_after_the_end_is_dropped(tmp_path: Path) -> None:
    async def scenario(broker: Surroundings) -> None:
        await broker.traces.stop()
        broker.traces.keep(broker.answered(local_ms=200), 0, None)

    assert run(tmp_path, scenario) == []
