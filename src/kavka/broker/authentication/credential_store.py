"""CredentialStore: the users' SCRAM credentials in ZooKeeper, as Kafka keeps them: read and followed.

Keeps what was last read, and answers from it without waiting. Only brokers with a listener that authenticates by SCRAM
have one. Must not decide who may log in: that is `kavka.security.scram_exchange`. Changes are written by
`settings.dynamic_configs`, as those of other settings, and told by the same change nodes.

    /config/users/<name>   {"version":1,"config":{"SCRAM-SHA-512":"salt=..,stored_key=..,server_key=..,iterations=.."}}
    /kavka_unknown_users   kavka's own: the secret of the salts by which unknown users are answered

    I1  changes are listened to before anything is read, so that none falls in between
    I2  after a lost session every user is read again: change nodes may have gone meanwhile
    I3  a credential that cannot be read lets nobody in, and is told of without being shown
    I4  what is kept of the default user, which stands for all, lets nobody in: a user may be called as it is
    I5  one reading or change at a time: a user that was removed while all were read is not there afterwards
    I6  a known name takes as much time as an unknown one: what would stand in for it is made for both

Source: kafka.security.CredentialProvider, UserConfigHandler, DynamicConfigManager.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine, Mapping
from typing import Final

from kavka.controller.work.config_admin import ConfigAdmin, ConfigChanges
from kavka.errors import ZooKeeperError
from kavka.logger import Logger
from kavka.security.scram_credentials import MIN_ITERATIONS, ScramCredential, ScramMechanism, Shapes, stand_in
from kavka.security.scram_exchange import Found
from kavka.zookeeper.port import Event, NodeExists, OutcomeUnknown, SessionEvent, SessionState, ZooKeeper
from kavka.zookeeper.znode_paths import DEFAULT_ENTITY, UNKNOWN_USERS_PATH, USERS_ENTITY, desanitize
from kavka.zookeeper.znodes import ConfigEntity, MalformedZNode, UnknownUsers

logger = Logger(__name__)

RETRY_S: Final = 1.0
"""How long after ZooKeeper could not be asked it is asked again."""
SECRET_BYTES: Final = 32

Credentials = Mapping[ScramMechanism, ScramCredential]


class CredentialStore:
    """`spawn` runs the flow that reads again after a lost session; `randbytes` makes a secret where there is none."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        *,
        spawn: Callable[[Coroutine[None, None, None]], None],
        randbytes: Callable[[int], bytes],
    ) -> None:
        self._zookeeper = zookeeper
        self._admin = ConfigAdmin(zookeeper)
        self._spawn = spawn
        self._randbytes = randbytes
        self._users: dict[str, Credentials] = {}
        self._secret = b""
        self._shapes = dict.fromkeys(ScramMechanism, Shapes())
        self._lost = False
        self._unsubscribe: Callable[[], None] = lambda: None
        self._changes = ConfigChanges(zookeeper, self._apply, read_all=self._read_all, on_failure=self._on_unread)

    def find(self, mechanism: ScramMechanism, user: str) -> Found:
        """The user's credential, or one that stands in for it (I6)."""
        nobodys = stand_in(mechanism, user, self._secret, self._shapes[mechanism])
        credential = self._users.get(user, {}).get(mechanism)
        if credential is None:
            return Found(nobodys, is_known=False)
        is_usable = credential.iterations >= MIN_ITERATIONS
        return Found(credential if is_usable else nobodys, is_usable=is_usable)

    async def start(self) -> None:
        """Reads all users, and follows them from then on. Raises ZooKeeperError."""
        self._unsubscribe = self._zookeeper.subscribe(self._on_event)
        await self._changes.start()
        self._secret = await self._read_secret()
        async with self._changes.lock:
            await self._read_all()

    async def stop(self) -> None:
        self._unsubscribe()
        await self._changes.stop()

    def abort(self) -> None:
        self._unsubscribe()
        self._changes.abort()

    def _on_event(self, event: Event) -> None:
        if event == SessionEvent(SessionState.CONNECTED):
            self._begin_reading_again()

    def _on_unread(self, path: str, failure: ZooKeeperError) -> None:
        """Nobody knows whose credentials changed: those that cannot be read now let nobody in (I3)."""
        logger.warning("change of users' credentials not read", path=path, why=str(failure))
        self._begin_reading_again()

    def _begin_reading_again(self) -> None:
        if not self._lost:
            self._lost = True
            self._spawn(self._read_again())

    async def _read_again(self) -> None:
        while True:
            try:
                async with self._changes.lock:
                    self._lost = False
                    await self._read_all()
                return
            except ZooKeeperError as failure:
                self._lost = True
                logger.warning("users' credentials not read", why=str(failure))
                await asyncio.sleep(RETRY_S)

    async def _read_all(self) -> None:
        found = await self._admin.read_all(USERS_ENTITY)
        users = {
            desanitize(name): _credentials(desanitize(name), entity)
            for name, entity in found.items()
            if name != DEFAULT_ENTITY
        }
        self._users = {name: credentials for name, credentials in users.items() if credentials}
        self._count()

    async def _apply(self, entity_path: str, entity: ConfigEntity) -> None:
        kind, _, name = entity_path.partition("/")
        if kind != USERS_ENTITY or "/" in name or name == DEFAULT_ENTITY:
            return
        user = desanitize(name)
        credentials = _credentials(user, entity)
        if credentials:
            self._users[user] = credentials
        else:
            self._users.pop(user, None)
        self._count()

    def _count(self) -> None:
        """How users' credentials look: unknown users are answered alike."""
        for mechanism in ScramMechanism:
            self._shapes[mechanism] = Shapes(own[mechanism] for own in self._users.values() if mechanism in own)

    async def _read_secret(self) -> bytes:
        while True:
            node = (await self._zookeeper.get_many([UNKNOWN_USERS_PATH]))[0]
            if node is not None:
                try:
                    known = b64decode(UnknownUsers.decode(node[0]).secret, validate=True)
                except (MalformedZNode, ValueError):
                    known = b""
                # A new one is good for this broker alone, and better than one that can be guessed.
                return known if len(known) >= SECRET_BYTES else self._randbytes(SECRET_BYTES)
            secret = b64encode(self._randbytes(SECRET_BYTES)).decode()
            try:
                await self._zookeeper.create(UNKNOWN_USERS_PATH, UnknownUsers(secret).encode())
            except (NodeExists, OutcomeUnknown):
                continue


def _credentials(user: str, entity: ConfigEntity) -> Credentials:
    found = {}
    for mechanism in ScramMechanism:
        text = entity.config.get(mechanism.value)
        if text is None:
            continue
        try:
            found[mechanism] = ScramCredential.decode(text)
        except ValueError as malformed:
            logger.error("credential not read", user=user, mechanism=mechanism.value, why=str(malformed))
    return found
