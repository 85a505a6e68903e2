"""The administrator's password of `kavka up --secure`: in ZooKeeper before anybody listens, however a start ended."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from kavka.cli.run.start import Start
from kavka.cli.run.start_secure import SecuredStart, security_directory
from kavka.runtime.disk import LocalFileSystem
from kavka.runtime.tls.security_directory import ADMIN, MECHANISM, SecurityDirectory
from kavka.security.scram_credentials import MECHANISMS, ScramCredential, credential_of, salted
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.port import ZooKeeper
from kavka.zookeeper.znodes import ConfigEntity


def run(tmp_path: Path, scenario: Callable[[ZooKeeper], Awaitable[None]]) -> None:
    async def main() -> None:
        database = Database.open(LocalFileSystem(), str(tmp_path / "zk"), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: 1, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        await scenario(await server.connect())
        await server.stop()

    asyncio.run(asyncio.wait_for(main(), 60))


def plan(tmp_path: Path, *, mtls: bool = False) -> Start:
    return Start(data=str(tmp_path / "data"), secure=True, mtls=mtls)


def directory(tmp_path: Path) -> SecurityDirectory:
    return SecurityDirectory(security_directory(plan(tmp_path)))


async def stored(tmp_path: Path, zookeeper: ZooKeeper, *, mtls: bool = False) -> None:
    """A start as far as it goes before brokers listen."""
    secured = SecuredStart(plan(tmp_path, mtls=mtls), 1)
    secured.prepare()
    await secured.store_user(zookeeper)


async def lets_in(tmp_path: Path, zookeeper: ZooKeeper) -> bool:
    """Whether the password of the file is the one that ZooKeeper knows."""
    node = (await zookeeper.get_many([f"/config/users/{ADMIN}"]))[0]
    assert node is not None
    found = ScramCredential.decode(ConfigEntity.decode(ADMIN, node[0]).config[MECHANISM])
    mechanism = MECHANISMS[MECHANISM]
    made = salted(mechanism, directory(tmp_path).password.reveal(), found.salt, found.iterations)
    return credential_of(mechanism, found.salt, made, found.iterations) == found


def test_a_start_that_was_killed_behind_the_password_leaves_its_user_in(tmp_path: Path) -> None:
    async def scenario(zookeeper: ZooKeeper) -> None:
        await stored(tmp_path, zookeeper)
        (directory(tmp_path).path / "admin.password.new").touch()  # The kill came before it was removed.
        await stored(tmp_path, zookeeper)
        assert await lets_in(tmp_path, zookeeper)
        assert not directory(tmp_path).password_is_new

    run(tmp_path, scenario)


def test_a_start_with_certificates_does_not_take_a_new_password_for_stored(tmp_path: Path) -> None:
    async def scenario(zookeeper: ZooKeeper) -> None:
        await stored(tmp_path, zookeeper)
        (directory(tmp_path).path / "admin.password").unlink()  # For another one.
        await stored(tmp_path, zookeeper, mtls=True)
        await stored(tmp_path, zookeeper)
        assert await lets_in(tmp_path, zookeeper)

    run(tmp_path, scenario)
