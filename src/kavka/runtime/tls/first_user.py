"""The first user of a secured cluster: stored in ZooKeeper before any broker listens.

Decides when a password is written: where there is none of its mechanism, or where it is new. Must not decide who may
log in. It is written as brokers write it (broker.settings), but there is no broker yet that could be asked, and none to
be told of a change.

Source: Kafka's ConfigCommand --zookeeper, which does the same for its first users.
"""

from __future__ import annotations

import os

from kavka.security.scram_credentials import (
    DEFAULT_ITERATIONS,
    MECHANISMS,
    SALT_BITS,
    ScramCredential,
    credential_of,
    new_salt,
    salted,
)
from kavka.security.secret import Secret
from kavka.zookeeper.persistent_paths import make_persistent_paths
from kavka.zookeeper.port import ZooKeeper
from kavka.zookeeper.znode_paths import USERS_ENTITY, entity_config_path, sanitize
from kavka.zookeeper.znodes import ConfigEntity

SALT_BYTES = (SALT_BITS + 7) // 8


async def store_first_user(zookeeper: ZooKeeper, user: str, password: Secret, mechanism: str, *, is_new: bool) -> bool:
    """Whether a credential was written. Raises ZooKeeperError, MalformedZNode."""
    entity = f"{USERS_ENTITY}/{sanitize(user)}"
    path = entity_config_path(entity)
    await make_persistent_paths(zookeeper)
    found = (await zookeeper.get_many([path]))[0]
    settings = {} if found is None else dict(ConfigEntity.decode(entity, found[0]).config)
    if mechanism in settings and not is_new:
        return False
    settings[mechanism] = _credential(password, mechanism).encode()
    data = ConfigEntity(settings).encode()
    if found is None:
        await zookeeper.create(path, data)
    else:
        await zookeeper.set(path, data)
    return True


def _credential(password: Secret, mechanism: str) -> ScramCredential:
    found = MECHANISMS[mechanism]
    salt = new_salt(int.from_bytes(os.urandom(SALT_BYTES)) >> (SALT_BYTES * 8 - SALT_BITS))
    made = salted(found, password.reveal(), salt, DEFAULT_ITERATIONS)
    return credential_of(found, salt, made, DEFAULT_ITERATIONS)
