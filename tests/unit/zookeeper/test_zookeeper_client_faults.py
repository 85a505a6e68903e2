"""Clients over a network whose faults are drawn from a seed: what a flow may build on holds whatever happens.

Half a minute of faults, then a whole network. Writers count up with version checks, watchers read again only when their
one-shot watch says so, an owner keeps an ephemeral node; sessions may expire.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from kavka.zookeeper.client import ZooKeeperClient
from kavka.zookeeper.port import (
    ConnectionLoss,
    CreateMode,
    Event,
    NodeExists,
    SessionEvent,
    SessionExpired,
    SessionState,
    WatchEvent,
)
from tests.unit.zookeeper.memory_ensemble import HOSTS, SESSION_MS, MemoryEnsemble, run

SEEDS = range(24)
PATHS = [f"/counter-{number}" for number in range(4)]
FAULTS_S = 30.0


class Session:
    """A client that renews its session, and wakes those who wait for an event of a path."""

    def __init__(self, client: ZooKeeperClient) -> None:
        self.client = client
        self.expired = 0
        self._woken: dict[str, asyncio.Event] = {path: asyncio.Event() for path in PATHS}
        client.subscribe(self._on_event)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, WatchEvent):
            self._woken[event.path].set()
        elif event == SessionEvent(SessionState.EXPIRED):
            self.expired += 1
            for woken in self._woken.values():
                woken.set()

    async def told(self, path: str) -> None:
        await self._woken[path].wait()

    def about_to_read(self, path: str) -> None:
        self._woken[path].clear()

    async def renew(self) -> None:
        while True:
            try:
                await self.client.renew()
                return
            except ConnectionLoss:
                continue


async def count_up(session: Session, path: str, rng: random.Random, stopping: asyncio.Event) -> int:
    """Returns how often it counted; every outcome that is unknown is looked up."""
    count = 0
    while not stopping.is_set():
        try:
            await session.client.set(path, b"%d" % (count + 1), version=count)
            count += 1
        except ConnectionLoss:
            count = await look_up(session, path, count)
        except SessionExpired:
            await session.renew()
        await asyncio.sleep(rng.expovariate(10))
    return count


async def look_up(session: Session, path: str, count: int) -> int:
    while True:
        try:
            await session.client.sync(path)
            data, stat = await session.client.get(path)
        except SessionExpired:
            await session.renew()
            continue
        assert data == b"%d" % stat.version
        assert stat.version in (count, count + 1), "carried out once or not at all"
        return stat.version


async def watch(session: Session, path: str, seen: dict[str, int]) -> None:
    """Reads when its watch says so, and only then."""
    while True:
        session.about_to_read(path)
        try:
            data, _ = await session.client.get(path, watch=True)
        except SessionExpired:
            await session.renew()
            continue
        assert int(data or b"") >= seen.get(path, 0), "a session does not go back in time, nor does the next one"
        seen[path] = int(data or b"")
        await session.told(path)


async def own(session: Session) -> None:
    """Keeps an ephemeral node."""
    while True:
        try:
            stat = await session.client.exists("/owned")
            if stat is None or stat.ephemeral_owner != session.client.session_id:
                await session.client.create("/owned", mode=CreateMode.EPHEMERAL)
        except (NodeExists, ConnectionLoss):
            pass
        except SessionExpired:
            await session.renew()
        await asyncio.sleep(0.5)


async def break_things(ensemble: MemoryEnsemble, rng: random.Random) -> None:
    loop = asyncio.get_running_loop()
    end_s = loop.time() + FAULTS_S
    while loop.time() < end_s:
        await asyncio.sleep(rng.expovariate(1.5))
        fault = rng.choice(["cut one", "cut all", "down", "silent", "hold and release", "hold and cut", "whole"])
        some = {host for host in HOSTS if rng.random() < 0.5}
        if fault == "cut one" and ensemble.links:
            rng.choice(ensemble.links).cut()
        elif fault == "cut all":
            ensemble.cut()
        elif fault == "down":
            ensemble.down = some
        elif fault == "silent":
            ensemble.silent = some
        elif fault.startswith("hold"):
            ensemble.holding = True
            await asyncio.sleep(rng.uniform(0, 0.7 * SESSION_MS / 1000))
            if fault == "hold and cut":
                ensemble.cut()
            ensemble.release()
        elif fault == "whole":
            ensemble.down, ensemble.silent = set(), set()
    ensemble.down, ensemble.silent = set(), set()


expired_sessions: list[int] = []


@pytest.mark.parametrize("seed", SEEDS)
def test_no_change_is_missed_no_write_is_done_twice_and_nobody_waits_for_ever(seed: int) -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        rng = random.Random(seed)
        sessions = [
            Session(await ensemble.client(rng=random.Random(rng.random()), max_in_flight=rng.choice([1, 2, 10])))
            for _ in range(3)
        ]
        for path in PATHS:
            await sessions[0].client.create(path, b"0")
        stopping, seen = asyncio.Event(), dict[str, int]()
        counting = [
            asyncio.ensure_future(count_up(sessions[number % 2], path, random.Random(rng.random()), stopping))
            for number, path in enumerate(PATHS)
        ]
        others = [asyncio.ensure_future(watch(sessions[2], path, seen)) for path in PATHS]
        others.append(asyncio.ensure_future(own(sessions[1])))
        await break_things(ensemble, rng)
        await asyncio.sleep(3 * SESSION_MS / 1000)
        stopping.set()
        counts = await asyncio.gather(*counting)
        await asyncio.sleep(2)
        assert not any(task.done() for task in others), [task.exception() for task in others if task.done()]
        for path, count in zip(PATHS, counts, strict=True):
            assert count > 20
            assert (await sessions[0].client.get(path))[0] == b"%d" % count
        assert seen == dict(zip(PATHS, counts, strict=True)), "every watcher has read the last value"
        owned = await sessions[1].client.exists("/owned")
        assert owned is not None
        assert owned.ephemeral_owner == sessions[1].client.session_id
        for task in others:
            task.cancel()
        for session in sessions:
            await session.client.close()
        expired_sessions.append(sum(session.expired for session in sessions))

    run(scenario)


def test_the_seeds_above_are_hard_enough() -> None:
    """Some of them expire sessions, most do not: both are looked at."""
    if len(expired_sessions) < len(SEEDS):
        pytest.skip("not all seeds were run")
    assert 0 < sum(count > 0 for count in expired_sessions) < len(SEEDS)
