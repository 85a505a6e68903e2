"""AccessList: access control lists as Kafka keeps them in ZooKeeper. Only brokers with an authorizer read them.

It knows the forms, not what they mean, and no I/O: as `znodes` does it, whose rules hold here, too.

Source: Kafka's AclAuthorizer and ZkData of 3.9, and what a running Apache Kafka 3.9.2 wrote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kavka.zookeeper.znode_paths import EXTENDED_ACL_CHANGES_PATH
from kavka.zookeeper.znodes import MalformedZNode, ZNodeObject, encode_json, text_of


@dataclass(frozen=True, slots=True)
class AccessEntry:
    """One access control entry; words as Kafka writes them: "Allow", "Read", "User:alice", host "*"."""

    principal: str
    permission_type: str
    host: str
    operation: str


@dataclass(frozen=True, slots=True)
class AccessList:
    """/kafka-acl/<type>/<name> and /kafka-acl-extended/prefixed/<type>/<name>."""

    entries: tuple[AccessEntry, ...]

    def encode(self) -> bytes:
        return encode_json(
            {
                "acls": [
                    {
                        "principal": entry.principal,
                        "permissionType": entry.permission_type,
                        "host": entry.host,
                        "operation": entry.operation,
                    }
                    for entry in self.entries
                ],
                "version": 1,
            }
        )

    @staticmethod
    def decode(path: str, data: bytes | None) -> AccessList:
        if not data:
            return AccessList(())
        znode = ZNodeObject(path, data)
        if znode.integer("version") != 1:
            raise znode.malformed(f"version {znode.integer('version')}; 1 is known")
        entries = [znode.child("acls", entry) for entry in znode.sequence("acls")]
        return AccessList(
            tuple(
                AccessEntry(
                    entry.text("principal"), entry.text("permissionType"), entry.text("host"), entry.text("operation")
                )
                for entry in entries
            )
        )


@dataclass(frozen=True, slots=True)
class AccessListChange:
    """/kafka-acl-changes/acl_changes_N (text TYPE:name) or /kafka-acl-extended-changes/acl_changes_N (JSON).

    `resource_type` is in capitals: TOPIC, GROUP, TRANSACTIONAL_ID, ...
    """

    resource_type: str
    name: str
    prefixed: bool

    def encode(self) -> bytes:
        if not self.prefixed:
            return f"{self.resource_type}:{self.name}".encode()
        return encode_json(
            {"version": 1, "resourceType": self.resource_type, "name": self.name, "patternType": "PREFIXED"}
        )

    @staticmethod
    def decode(path: str, data: bytes | None) -> AccessListChange:
        if path.startswith(EXTENDED_ACL_CHANGES_PATH):
            znode = ZNodeObject(path, data)
            return AccessListChange(znode.text("resourceType"), znode.text("name"), prefixed=True)
        kind, separator, name = text_of(path, data).partition(":")
        if not separator or not re.fullmatch(r"[A-Za-z_]+", kind):
            raise MalformedZNode(path, f"not of the form TYPE:name: {kind!r}")
        return AccessListChange(kind.upper(), name, prefixed=False)
