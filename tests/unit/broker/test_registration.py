"""A broker's znode: one per id, held by the present session."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kavka.broker.membership.incarnation import (
    NEVER_ACTED_ON,
    Incarnation,
    former_incarnations,
    has_unreported_loss,
    lost_nothing,
    present_incarnation,
    remember,
    sessions_from,
)
from kavka.broker.membership.registration import generate_broker_id, register
from kavka.errors import ConfigError
from kavka.model import BrokerId
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.persistent_paths import make_persistent_paths
from kavka.zookeeper.port import CreateMode
from kavka.zookeeper.znode_paths import CONTROLLER_PATH, broker_path
from kavka.zookeeper.znodes import BrokerEndpoint, BrokerRegistration

REGISTRATION = BrokerRegistration(BrokerId(1), (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "here", 9092),), 0, None)


def runs(path: Path, scenario: Callable[[EmbeddedZooKeeper], Awaitable[None]]) -> None:
    async def run() -> None:
        database = Database.open(LocalFileSystem(), str(path), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: 0, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        await make_persistent_paths(await server.connect())
        try:
            await scenario(server)
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.setting("reserved.broker.max.id", "broker.id.generation.enable")
def test_generated_ids_are_above_the_reserved_ones_and_never_given_twice(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        sessions = [await server.connect(), await server.connect()]
        ids = [await generate_broker_id(session, 1000) for session in (*sessions, *sessions)]
        assert ids == [1001, 1002, 1003, 1004]

    runs(tmp_path, scenario)


def test_each_registration_has_a_higher_epoch_than_the_one_before(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        session = await server.connect()
        first = await register(session, REGISTRATION, session_timeout_ms=100)
        assert await register(session, REGISTRATION, session_timeout_ms=100) == first
        await server.expire(session.session_id)
        await session.renew()
        assert await register(session, REGISTRATION, session_timeout_ms=100) > first

    runs(tmp_path, scenario)


def test_a_killed_brokers_znode_is_waited_for(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        killed = await server.connect()
        first = await register(killed, REGISTRATION, session_timeout_ms=100)
        again = await server.connect()
        registering = asyncio.ensure_future(register(again, REGISTRATION, session_timeout_ms=20_000))
        await asyncio.sleep(0.05)
        assert not registering.done()
        await server.expire(killed.session_id)
        assert await registering > first

    runs(tmp_path, scenario)


def test_a_second_live_broker_with_the_same_id_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.broker.membership.registration.EXPIRY_SLACK_MS", 0)

    async def scenario(server: EmbeddedZooKeeper) -> None:
        first = await server.connect()
        await register(first, REGISTRATION, session_timeout_ms=100)
        with pytest.raises(ConfigError, match=r"broker\.id 1 is taken"):
            await register(await server.connect(), REGISTRATION, session_timeout_ms=100)
        stat = await first.exists(broker_path(BrokerId(1)))
        assert stat is not None
        assert stat.ephemeral_owner == first.session_id

    runs(tmp_path, scenario)


def test_the_znode_of_ones_own_former_session_is_removed(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        former = await server.connect()
        first = await register(former, REGISTRATION, session_timeout_ms=100)
        present = await server.connect()
        second = await register(present, REGISTRATION, session_timeout_ms=60_000, former_sessions=[former.session_id])
        assert second > first
        stat = await present.exists(broker_path(BrokerId(1)))
        assert stat is not None
        assert stat.ephemeral_owner == present.session_id

    runs(tmp_path, scenario)


def test_the_znode_of_the_process_that_had_the_log_directories_is_removed_and_its_seat_vacated(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        killed = await server.connect()
        first = await register(killed, REGISTRATION, session_timeout_ms=100)
        await killed.create(CONTROLLER_PATH, b"{}", mode=CreateMode.EPHEMERAL)
        again = await server.connect()
        second = await register(again, REGISTRATION, session_timeout_ms=60_000, killed_sessions=[killed.session_id])
        assert second > first
        assert await again.exists(CONTROLLER_PATH) is None

    runs(tmp_path, scenario)


@pytest.mark.parametrize("what", ["another address", "another session"])
def test_who_may_be_alive_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr("kavka.broker.membership.registration.EXPIRY_SLACK_MS", 0)

    async def scenario(server: EmbeddedZooKeeper) -> None:
        alive, seat = await server.connect(), await server.connect()
        elsewhere = (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 9092),)
        registered = replace(REGISTRATION, endpoints=elsewhere) if what == "another address" else REGISTRATION
        await register(alive, registered, session_timeout_ms=100)
        await seat.create(CONTROLLER_PATH, b"{}", mode=CreateMode.EPHEMERAL)
        predecessor = alive.session_id if what == "another address" else 7
        with pytest.raises(ConfigError, match="is taken"):
            await register(await server.connect(), REGISTRATION, session_timeout_ms=100, killed_sessions=[predecessor])
        assert await alive.exists(broker_path(BrokerId(1))) is not None
        assert await alive.exists(CONTROLLER_PATH) is not None

    runs(tmp_path, scenario)


def test_anothers_seat_is_left_to_it(tmp_path: Path) -> None:
    async def scenario(server: EmbeddedZooKeeper) -> None:
        killed, controller = await server.connect(), await server.connect()
        await register(killed, REGISTRATION, session_timeout_ms=100)
        await controller.create(CONTROLLER_PATH, b"{}", mode=CreateMode.EPHEMERAL)
        again = await server.connect()
        await register(again, REGISTRATION, session_timeout_ms=60_000, killed_sessions=[killed.session_id])
        assert await again.exists(CONTROLLER_PATH) is not None

    runs(tmp_path, scenario)


def life(session_id: int, place: str, broker_epoch: int = 5, *, may_lack: bool = False) -> Incarnation:
    return Incarnation(session_id, place, broker_epoch, may_lack)


def test_the_session_is_found_again_where_it_was_written_down(tmp_path: Path) -> None:
    disk, homes = LocalFileSystem(), [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "c")]
    for home in homes[:2]:
        disk.make_directory(home)
    assert former_incarnations(disk, homes) == [None, None, None]
    written = life(0xA1FD0FA70E0000, "system/1")
    remember(disk, homes, written)
    assert former_incarnations(disk, homes) == [written, written, None]
    assert sessions_from(former_incarnations(disk, homes), "system/1") == [0xA1FD0FA70E0000]
    for garbage in ("garbage", "a1 system/1", "a1 system/1 5 perhaps", "a1 system/1 x whole", ""):
        (tmp_path / "a" / ".kavka_session").write_text(garbage)
        assert former_incarnations(disk, homes) == [None, written, None]


def test_a_session_of_another_place_may_be_alive() -> None:
    """The directory was copied: the process that has the original listens on the same port of another container."""
    assert sessions_from([life(7, "system/1")], "system/1") == [7]
    assert sessions_from([life(7, "system/1")], "system/2") == []
    assert sessions_from([life(7, "system/1")], "") == []
    assert sessions_from([life(7, "")], "") == []
    assert sessions_from([life(7, "")], "system/1") == []


def test_a_place_that_is_not_known_is_written_down_as_such(tmp_path: Path) -> None:
    remember(LocalFileSystem(), [str(tmp_path)], life(7, ""))
    assert former_incarnations(LocalFileSystem(), [str(tmp_path)]) == [life(7, "")]


@pytest.mark.parametrize(
    ("lives", "place", "expected", "why"),
    [
        ([life(7, "boot-1/4")], "boot-1/4", True, "killed: the system has what it wrote"),
        ([life(7, "boot-1/4")], "boot-1/5", True, "in another container of the same system"),
        ([life(7, "boot-1/4")], "boot-2/4", False, "the system was started anew"),
        ([life(7, "boot-1/4"), None], "boot-1/4", False, "one of the directories is empty, or another one"),
        ([life(7, "boot-1/4"), life(7, "boot-0/4")], "boot-1/4", False, "one of them lay elsewhere"),
        ([life(7, "")], "", False, "nothing is known"),
        ([], "boot-1/4", False, "nothing is known"),
    ],
)
def test_what_was_written_is_lost_only_with_the_system(
    lives: list[Incarnation | None], place: str, expected: bool, why: str
) -> None:
    assert lost_nothing(lives, place) is expected, why


def test_a_loss_is_told_until_it_was_acted_on() -> None:
    assert not has_unreported_loss([None, life(7, "boot-1/4", 5)], NEVER_ACTED_ON)
    lacking = [life(7, "boot-1/4", 5, may_lack=True)]
    assert has_unreported_loss(lacking, NEVER_ACTED_ON)
    assert has_unreported_loss(lacking, 4)
    assert not has_unreported_loss(lacking, 5)
    failed = [life(7, "boot-1/4", NEVER_ACTED_ON, may_lack=True)]
    assert has_unreported_loss(failed, NEVER_ACTED_ON)
    assert has_unreported_loss(failed, 5)


def test_a_directory_that_failed_is_told_of_after_another_registration_too() -> None:
    """A session that expires makes the broker write its life down again; what the disk may lack is not less then."""
    again = present_incarnation(8, "boot-1/4", 9, is_unclean=False, has_failed_directory=True)
    assert has_unreported_loss([again], 9)
    assert has_unreported_loss([again], NEVER_ACTED_ON)
    assert present_incarnation(8, "boot-1/4", 9, is_unclean=True, has_failed_directory=False) == life(
        8, "boot-1/4", 9, may_lack=True
    )
    assert present_incarnation(8, "boot-1/4", 9, is_unclean=False, has_failed_directory=False) == life(8, "boot-1/4", 9)
