"""The access control lists of Kafka's znodes where `zookeeper.set.acl` is on.

Decides who may do what to which path: whoever created a node may do everything, and everybody may read it, but not what
holds secrets. Must not know who the creator is: ZooKeeper does.

Source: Kafka's ZkData.defaultAcls. kavka's own node with a secret is added.
"""

from __future__ import annotations

from typing import Final

from kavka.zookeeper.port import OPEN_ACL, Acl, AclList, Permission
from kavka.zookeeper.znode_paths import UNKNOWN_USERS_PATH

CREATOR_ALL: Final = Acl(Permission.ALL, "auth", "")
"""ZooKeeper puts whoever asks in its place, and refuses the list of one who has not said who it is."""
WORLD_READ: Final = Acl(Permission.READ, "world", "anyone")
_OPEN: Final = "/consumers"
SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens", UNKNOWN_USERS_PATH)
"""Credentials, passwords of key stores, delegation tokens, and what salts are made from: below a cluster's chroot."""


def open_acl(_path: str) -> AclList:
    """What a new node has where zookeeper.set.acl is off."""
    return OPEN_ACL


def secure_acl(path: str) -> AclList:
    """The list of a new node at `path`, which is below the chroot."""
    if path == _OPEN:
        return OPEN_ACL
    return (CREATOR_ALL,) if path.startswith(SENSITIVE) else (CREATOR_ALL, WORLD_READ)
