"""What becomes of decisions and their topic at a stop and the next start: others can tell what a broker decided just
before, while it is away, or once it is back; a topic that has no bound gets one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from kavka.broker.decisions import decision_log
from kavka.client.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, ResourceType
from kavka.client.decisions import read_decisions
from kavka.decisions import (
    DECISIONS_TOPIC,
    RING_FILES,
    Decision,
    DecisionKind,
    RecordedDecision,
    encode_decision,
)
from kavka.model import BrokerId
from tests.integration.cluster_in_process.in_process_cluster import PATIENCE_S, InProcessCluster

AT_MS = 1_700_000_000_000


def decided(broker_id: int, number: int) -> Decision:
    broker = BrokerId(broker_id)
    return Decision(DecisionKind.FENCED, AT_MS + number, broker, f"reason {number}", about_broker=broker)


async def told(cluster: InProcessCluster) -> list[str]:
    """What the topic tells of these reasons, in order of time; each once."""
    async with cluster.client() as client:
        return [
            each.decision.why
            for each in await read_decisions(client, AT_MS)
            if each.decision.kind is DecisionKind.FENCED and each.decision.why.startswith("reason")
        ]


async def until_told(cluster: InProcessCluster, expected: list[str]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await told(cluster) != expected:  # noqa: ASYNC110 - nothing tells when a topic has a record
            await asyncio.sleep(0.1)


def test_the_others_tell_what_a_broker_decided_just_before_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with InProcessCluster(tmp_path) as cluster:
            await cluster.wait_until_all_know([1, 2, 3])
            await cluster.until(
                lambda: all(cluster.broker(each).metadata.topic(DECISIONS_TOPIC) is not None for each in (1, 2, 3)),
                "all know the topic of decisions",
            )
            await cluster.wait_for_isr(DECISIONS_TOPIC, 0, [1, 2, 3])
            # The leader itself, so that it must be told to the next one.
            leader = await cluster.leader(DECISIONS_TOPIC)
            monkeypatch.setattr(decision_log, "LINGER_S", 60)  # Nothing but the stop sends it.
            cluster.broker(leader).record(decided(leader, 1))
            await cluster.stop(leader)
            monkeypatch.undo()
            await until_told(cluster, ["reason 1"])  # Its record has to be committed under the next leader.

            # As after a kill -9 that came when its ring had the next one, and the topic had not.
            with (tmp_path / f"broker-{leader}" / RING_FILES[1]).open("ab") as ring:
                ring.write(encode_decision(RecordedDecision(f"{leader}-77-1", decided(leader, 2))) + b"\n")
            await cluster.start(leader)
            await until_told(cluster, ["reason 1", "reason 2"])
            assert cluster.halted == {}

    asyncio.run(asyncio.wait_for(scenario(), 280))


def change(name: str, value: str | None) -> ConfigChange:
    return ConfigChange(name, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)


def test_a_topic_of_decisions_without_a_bound_in_bytes_gets_one_and_keeps_one_that_was_set(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = {"kavka.decisions.topic.enable": "true"}
        async with InProcessCluster(tmp_path, count=1, settings=settings) as cluster:

            def overrides() -> Mapping[str, str]:
                return cluster.broker(1).configs.overrides(DECISIONS_TOPIC)

            async def start_again_with(**changes: str | None) -> None:
                resource = ConfigResource(ResourceType.TOPIC, DECISIONS_TOPIC)
                async with cluster.client() as client:
                    wanted = [change(name.replace("_", "."), value) for name, value in changes.items()]
                    await Admin(client).alter_configs({resource: wanted})
                await cluster.stop(1)
                await cluster.start(1)
                broker = cluster.broker(1)
                number = len(await told(cluster)) + 1
                broker.record(decided(1, number))
                await until_told(cluster, [f"reason {each}" for each in range(1, number + 1)])

            await cluster.until(lambda: "retention.bytes" in overrides(), "the topic is made")
            assert overrides()["retention.bytes"] == str(256 << 20)
            # As an earlier build made it.
            await start_again_with(retention_bytes=None, segment_bytes=None)
            assert (overrides()["retention.bytes"], overrides()["segment.bytes"]) == (str(256 << 20), str(32 << 20))
            await start_again_with(retention_bytes="-1")
            assert overrides()["retention.bytes"] == "-1"
            await start_again_with(retention_bytes="5000000")
            assert overrides()["retention.bytes"] == "5000000"

    asyncio.run(asyncio.wait_for(scenario(), 280))
