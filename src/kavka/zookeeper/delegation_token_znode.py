"""TokenNode: a delegation token as Kafka keeps it in ZooKeeper. Its HMAC, which is its password, is not in it.

It knows the form, not what it means, and no I/O: as `znodes` does it, whose rules hold here, too.

    /delegation_token/tokens/<id>    {"issueTimestamp":..,"renewers":["User%3Abob"],"tokenRequester":"User%3Aalice",
                                      "tokenId":"..","owner":"User%3Aalice","expiryTimestamp":..,"maxTimestamp":..,
                                      "version":3}
    /delegation_token/token_changes/token_change_N    the id of a token that was changed, as it is

Source: Kafka's DelegationTokenManagerZk, and what a running Apache Kafka 3.9.2 wrote.
"""

from __future__ import annotations

from dataclasses import dataclass

from kavka.zookeeper.znode_paths import desanitize, sanitize
from kavka.zookeeper.znodes import ZNodeObject, encode_json


@dataclass(frozen=True, slots=True)
class TokenNode:
    """/delegation_token/tokens/<id>. Principals are texts, "User:alice"; times are milliseconds since 1970. Before
    version 3 a token has no requester: its owner asked for it."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def encode(self) -> bytes:
        return encode_json(
            {
                "issueTimestamp": self.issued_ms,
                "renewers": [sanitize(renewer) for renewer in self.renewers],
                "tokenRequester": sanitize(self.requester),
                "tokenId": self.token_id,
                "owner": sanitize(self.owner),
                "expiryTimestamp": self.expires_ms,
                "maxTimestamp": self.max_ms,
                "version": 3,
            }
        )

    @staticmethod
    def decode(path: str, data: bytes | None) -> TokenNode:
        znode = ZNodeObject(path, data)
        version = znode.integer("version")
        if not 1 <= version <= 3:
            raise znode.malformed(f"version {version}; 1 to 3 are known")
        owner = desanitize(znode.text("owner"))
        return TokenNode(
            znode.text("tokenId"),
            owner,
            desanitize(znode.text("tokenRequester")) if version >= 3 else owner,
            tuple(desanitize(renewer) for renewer in znode.texts("renewers")),
            znode.long("issueTimestamp"),
            znode.long("expiryTimestamp"),
            znode.long("maxTimestamp"),
        )
