"""Users' credentials in ZooKeeper: Kafka's bytes, changes through several brokers, lost sessions, garbage."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.authentication.credential_store import CredentialStore
from kavka.controller.work.config_admin import ConfigAdmin
from kavka.runtime.disk import LocalFileSystem
from kavka.security.scram_credentials import ScramCredential, ScramMechanism, Shapes, stand_in
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.port import ConnectionLoss, SessionEvent, SessionState
from kavka.zookeeper.znode_paths import UNKNOWN_USERS_PATH
from kavka.zookeeper.znodes import ConfigEntity, MalformedZNode, UnknownUsers

SHA_256, SHA_512 = ScramMechanism
BY_KAFKA = (
    "salt=bWpkMHkxeGx2YXV5ZTFvYmM4cHNxOTM3cA==,"
    "stored_key=mKOyO1a8J5kUZUtOnBR6a5zT4oOHh8qMr4m5rhHkT6c=,"
    "server_key=D8ZMvC1m2SZJiNc8ESDLrQOGFqr8zZkkT9KQ4Rrbwyo=,iterations=8192"
)
PATHS = ("/config", "/config/changes", "/config/users")


class Brokers:
    """Brokers on one ZooKeeper."""

    def __init__(self, server: EmbeddedZooKeeper) -> None:
        self.server = server
        self.flows: list[asyncio.Task[None]] = []

    def spawn(self, flow: Coroutine[None, None, None]) -> None:
        self.flows.append(asyncio.get_running_loop().create_task(flow))

    async def new(self) -> tuple[LocalZooKeeper, CredentialStore]:
        zookeeper = await self.server.connect()
        store = CredentialStore(zookeeper, spawn=self.spawn, randbytes=random.Random(len(self.flows)).randbytes)
        await store.start()
        return zookeeper, store


def run(tmp_path: Path, scenario: Callable[[Brokers], Awaitable[None]]) -> None:
    async def main() -> None:
        database = Database.open(LocalFileSystem(), str(tmp_path), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: 0, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        session = await server.connect()
        for path in PATHS:
            await session.create(path)
        brokers = Brokers(server)
        try:
            await scenario(brokers)
        finally:
            for flow in brokers.flows:
                flow.cancel()
            await server.stop()

    asyncio.run(asyncio.wait_for(main(), 60))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event.
            await asyncio.sleep(0.01)


def test_what_kafka_wrote_is_read_and_a_change_is_taken_in_by_every_broker(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        _, one = await brokers.new()
        zookeeper, other = await brokers.new()
        assert not one.find(SHA_512, "al ice").is_known
        await ConfigAdmin(zookeeper).change("users/al%20ice", lambda before: {"SCRAM-SHA-512": BY_KAFKA})
        await until(lambda: one.find(SHA_512, "al ice").is_known and other.find(SHA_512, "al ice").is_known)
        assert one.find(SHA_512, "al ice").credential == ScramCredential.decode(BY_KAFKA)
        assert not one.find(SHA_256, "al ice").is_known
        data, _ = await zookeeper.get("/config/users/al%20ice")
        assert json.loads(data or b"") == {"version": 1, "config": {"SCRAM-SHA-512": BY_KAFKA}}
        await ConfigAdmin(zookeeper).change("users/al%20ice", lambda before: {})
        await until(lambda: not one.find(SHA_512, "al ice").is_known)

    run(tmp_path, scenario)


def test_credentials_that_were_there_before_are_read_at_the_start(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper = await brokers.server.connect()
        await zookeeper.create("/config/users/bob", ConfigEntity({"SCRAM-SHA-256": BY_KAFKA}).encode())
        await zookeeper.create("/config/users/bob/clients")
        await zookeeper.create("/config/users/bob/clients/c", ConfigEntity({"producer_byte_rate": "1"}).encode())
        _, store = await brokers.new()
        assert store.find(SHA_256, "bob").is_known

    run(tmp_path, scenario)


def test_an_unknown_user_is_answered_alike_by_every_broker_and_after_a_restart(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, one = await brokers.new()
        _, other = await brokers.new()
        assert one.find(SHA_512, "mallory") == other.find(SHA_512, "mallory")
        await ConfigAdmin(zookeeper).change("users/alice", lambda before: {"SCRAM-SHA-512": BY_KAFKA})
        await until(lambda: one.find(SHA_512, "mallory").credential.iterations == 8192)
        assert one.find(SHA_256, "mallory").credential.iterations == 4096

    run(tmp_path, scenario)


def test_a_lost_session_has_every_user_read_again(tmp_path: Path) -> None:
    """Also those whose change nodes are gone by then."""

    async def scenario(brokers: Brokers) -> None:
        zookeeper, store = await brokers.new()
        await zookeeper.create("/config/users/carol", ConfigEntity({"SCRAM-SHA-512": BY_KAFKA}).encode())
        await asyncio.sleep(0)
        assert not store.find(SHA_512, "carol").is_known
        store._on_event(SessionEvent(SessionState.CONNECTED))
        await until(lambda: store.find(SHA_512, "carol").is_known)

    run(tmp_path, scenario)


def test_a_credential_that_cannot_be_read_lets_nobody_in(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, store = await brokers.new()
        admin = ConfigAdmin(zookeeper)
        await admin.change("users/alice", lambda before: {"SCRAM-SHA-512": BY_KAFKA, "SCRAM-SHA-256": BY_KAFKA})
        await until(lambda: store.find(SHA_512, "alice").is_known)
        await admin.change("users/alice", lambda before: {"SCRAM-SHA-512": "garbage", "SCRAM-SHA-256": BY_KAFKA})
        await until(lambda: not store.find(SHA_512, "alice").is_known)
        assert store.find(SHA_256, "alice").is_known
        path = "/config/users/alice"
        await zookeeper.set(path, b"{garbage")
        await zookeeper.create("/config/changes/config_change_0000009999", b'{"version":2,"entity_path":"users/alice"}')
        await until(lambda: not store.find(SHA_256, "alice").is_known)

    run(tmp_path, scenario)


@pytest.mark.parametrize("secret", ["", "!", "AAAA"])
def test_a_secret_that_can_be_guessed_is_not_used(tmp_path: Path, secret: str) -> None:
    async def scenario(brokers: Brokers) -> None:
        session = await brokers.server.connect()
        await session.create(UNKNOWN_USERS_PATH, UnknownUsers(secret).encode())
        _, store = await brokers.new()
        guessed = [stand_in(SHA_256, "nobody", guess, Shapes()) for guess in (b"", b"\0\0\0")]
        assert store.find(SHA_256, "nobody").credential not in guessed

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "data",
    [
        json.dumps({"version": 1, "config": {"SCRAM-SHA-256": {"stored_key": "hidden"}}}),
        json.dumps({"version": 1, "config": "hidden"}),
        json.dumps("hidden"),
        '{"config": {"SCRAM-SHA-256": "hidden',
        '"\udcffhidden',
    ],
)
def test_what_is_wrong_with_a_users_znode_is_told_without_its_content(data: str) -> None:
    with pytest.raises(MalformedZNode) as malformed:
        ConfigEntity.decode("users/alice", data.encode(errors="surrogateescape"))
    shown = str(malformed.value)
    assert "/config/users/alice" in shown
    assert "hidden" not in shown


def test_what_stands_for_all_users_lets_nobody_in_and_takes_nobodys_credential(tmp_path: Path) -> None:
    """A user may be called "<default>": its znode is another one than that of the default user's quotas."""

    async def scenario(brokers: Brokers) -> None:
        credential = ConfigEntity({SHA_256.value: BY_KAFKA})
        zookeeper = await brokers.server.connect()
        await zookeeper.create("/config/users/<default>", credential.encode())
        _, store = await brokers.new()
        assert not store.find(SHA_256, "<default>").is_known
        admin = ConfigAdmin(zookeeper)
        await admin.change("users/%3Cdefault%3E", lambda _: credential.config)
        await until(lambda: store.find(SHA_256, "<default>").is_known)
        await admin.change("users/<default>", lambda _: {"producer_byte_rate": "1"})
        await admin.change("users/last", lambda _: credential.config)
        await until(lambda: store.find(SHA_256, "last").is_known)
        assert store.find(SHA_256, "<default>").is_known
        _, another = await brokers.new()
        assert another.find(SHA_256, "<default>").is_known

    run(tmp_path, scenario)


@pytest.mark.parametrize("at_the_start", [True, False])
def test_a_user_that_is_removed_while_all_are_read_is_not_there_afterwards(tmp_path: Path, at_the_start: bool) -> None:
    """With more than a thousand users the first were read long before the last."""

    async def scenario(brokers: Brokers) -> None:
        zookeeper = await brokers.server.connect()
        admin = ConfigAdmin(zookeeper)
        await admin.change("users/alice", lambda _: {SHA_512.value: BY_KAFKA})
        held, read, go_on = [at_the_start], asyncio.Event(), asyncio.Event()
        own = await brokers.server.connect()
        get_many = own.get_many

        async def slowly(paths: Sequence[str]) -> Any:
            found = await get_many(paths)
            if held[0] and list(paths) == ["/config/users/alice"]:
                held[0] = False
                read.set()
                await go_on.wait()
            return found

        own.get_many = slowly  # type: ignore[method-assign]
        store = CredentialStore(own, spawn=brokers.spawn, randbytes=random.Random(1).randbytes)
        starting = asyncio.get_running_loop().create_task(store.start())
        if not at_the_start:
            await starting
            held[0] = True
            store._on_event(SessionEvent(SessionState.CONNECTED))
        await read.wait()
        await admin.change("users/alice", lambda _: {}, removes_empty=True)
        for _ in range(100):
            await asyncio.sleep(0)
        go_on.set()
        await starting
        await until(lambda: not store.find(SHA_512, "alice").is_known)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not store.find(SHA_512, "alice").is_known
        await store.stop()

    run(tmp_path, scenario)


def test_the_secret_of_unknown_users_is_looked_for_again_when_zookeeper_did_not_answer(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper = await brokers.server.connect()
        create = zookeeper.create

        async def lost(*args: Any, **options: Any) -> Any:
            zookeeper.create = create  # type: ignore[method-assign]
            await create(*args, **options)
            raise ConnectionLoss("lost")

        zookeeper.create = lost  # type: ignore[method-assign]
        one = CredentialStore(zookeeper, spawn=brokers.spawn, randbytes=random.Random(1).randbytes)
        await one.start()
        _, other = await brokers.new()
        assert one.find(SHA_512, "mallory") == other.find(SHA_512, "mallory")
        await one.stop()

    run(tmp_path, scenario)
