"""TokenStore: delegation tokens in ZooKeeper, as Kafka 3.9 keeps them: read, followed and changed.

Keeps what was last read, and answers from it without waiting. Any broker may write, of either brand; a change node
tells the others. Must not decide who may do what with a token: that is `kavka.security.delegation_tokens`.

    /delegation_token/tokens/<id>                   a token (`zookeeper.delegation_token_znode`)
    /delegation_token/token_changes/token_change_N  the id of one that was changed

    I1  a token that cannot be read lets nobody in and is not shown; it is told of, and stays where it is
    I2  a change is decided on what stands in ZooKeeper, and written only if that still stands there
    I3  a change is in force here before it is answered
    I4  a token whose write has an unknown outcome is told to nobody before it was read back

How changes are followed: `zookeeper.change_nodes`.

Source: Kafka's DelegationTokenManagerZk, DelegationTokenCache. Kafka overwrites
whatever stands there, and decides on what it last read.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, NamedTuple

from kavka.errors import ErrorCode, RequestError
from kavka.logger import Logger
from kavka.security.delegation_tokens import (
    MAX_OWNERS_BYTES,
    MAX_TOKENS_OF_OWNER,
    Lifetimes,
    Token,
    TokenKey,
    Wish,
    ended,
    new_token,
    renewed,
)
from kavka.security.principals import Principal
from kavka.zookeeper.change_nodes import ChangeFollower
from kavka.zookeeper.delegation_token_znode import TokenNode
from kavka.zookeeper.old_changes import OldChanges
from kavka.zookeeper.port import (
    BadVersion,
    Create,
    CreateMode,
    Delete,
    NodeExists,
    NoNode,
    OutcomeUnknown,
    RequestTooLarge,
    SetData,
    ZooKeeper,
)
from kavka.zookeeper.znode_paths import (
    TOKEN_CHANGE_PREFIX,
    TOKEN_CHANGES_PATH,
    TOKEN_PERSISTENT_PATHS,
    TOKENS_PATH,
    token_path,
)
from kavka.zookeeper.znodes import MalformedZNode, encode_uuid, random_uuid

logger = Logger(__name__)

MAX_ATTEMPTS: Final = 10
"""How often a change is made anew because another one came first, or because nobody knows whether it was written."""


class Changed(NamedTuple):
    """A token before and after a change; None: it was, or is, not there."""

    before: Token | None
    after: Token | None


class _Known(NamedTuple):
    token: Token
    hmac: bytes
    names_bytes: int


class _Own(NamedTuple):
    """How much one owner has: tokens, and the memory of the names in them."""

    tokens: int = 0
    names_bytes: int = 0


class TokenStore:
    """`spawn` runs the flow that follows changes; `randbytes` draws ids that nobody may guess."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        key: TokenKey,
        limits: Lifetimes,
        *,
        wall_ms: Callable[[], int],
        spawn: Callable[[Coroutine[None, None, None]], None],
        randbytes: Callable[[int], bytes],
    ) -> None:
        self.key = key
        self._zookeeper = zookeeper
        self._limits = limits
        self._wall_ms = wall_ms
        self._spawn = spawn
        self._randbytes = randbytes
        self._known: dict[str, _Known] = {}
        self._ids_by_hmac: dict[bytes, str] = {}
        """By the HMAC's hash: how long a search in here takes tells nothing of an HMAC."""
        self._owners: dict[Principal, _Own] = {}
        """Counted along: an owner's tokens may name millions of renewers, and each new one asks for the sum."""
        self._follower = ChangeFollower(
            zookeeper,
            (TOKEN_CHANGES_PATH,),
            _changed,
            read_all=self._read_all,
            take_in=self._take_in,
        )
        self._old_changes = OldChanges(zookeeper, (TOKEN_CHANGES_PATH,), wall_ms=wall_ms, spawn=spawn)

    # -- what is known

    def find(self, token_id: str) -> Token | None:
        known = self._known.get(token_id)
        return None if known is None else known.token

    def all(self) -> list[tuple[Token, bytes]]:
        """Every token with its HMAC."""
        return [(known.token, known.hmac) for known in self._known.values()]

    def _find_by(self, token_hmac: bytes) -> Token:
        """Raises RequestError: DELEGATION_TOKEN_NOT_FOUND."""
        known = self._known.get(self._ids_by_hmac.get(_hash(token_hmac), ""))
        if known is None or not hmac.compare_digest(known.hmac, token_hmac):
            raise RequestError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return known.token

    def _put(self, token_id: str, token: Token | None) -> None:
        former = self._known.pop(token_id, None)
        if former is not None:
            self._ids_by_hmac.pop(_hash(former.hmac), None)
            self._count(former.token.owner, -1, -former.names_bytes)
        if token is None:
            return
        made = self.key.hmac(token_id) if former is None else former.hmac
        known = self._known[token_id] = _Known(token, made, token.names_bytes)
        self._ids_by_hmac[_hash(made)] = token_id
        self._count(token.owner, 1, known.names_bytes)

    def _count(self, owner: Principal, tokens: int, names_bytes: int) -> None:
        before = self._owners.pop(owner, _Own())
        if before.tokens + tokens:
            self._owners[owner] = _Own(before.tokens + tokens, before.names_bytes + names_bytes)

    # -- changing

    async def create(self, wish: Wish) -> tuple[Token, bytes]:
        """A new token, and its HMAC. Raises RequestError, ZooKeeperError."""
        own = self._owners.get(wish.owner, _Own())
        if own.tokens >= MAX_TOKENS_OF_OWNER or own.names_bytes >= MAX_OWNERS_BYTES:
            raise RequestError(ErrorCode.POLICY_VIOLATION)
        token_id = encode_uuid(random_uuid(self._randbytes(16)))
        token = new_token(token_id, wish, self._wall_ms(), self._limits)

        def decide(now: Token | None) -> Token:
            if now is not None:
                raise RequestError(ErrorCode.REQUEST_TIMED_OUT, f"{token_path(token_id)} was changed while it was made")
            return token

        await self._change(token_id, decide)
        return token, self.key.hmac(token_id)

    async def renew(self, token_hmac: bytes, by: Principal, period_ms: int) -> Changed:
        """Raises RequestError, ZooKeeperError."""
        now_ms = self._wall_ms()
        return await self._change_known(token_hmac, lambda token: renewed(token, by, period_ms, now_ms, self._limits))

    async def expire(self, token_hmac: bytes, by: Principal, period_ms: int) -> Changed:
        """Raises RequestError, ZooKeeperError."""
        now_ms = self._wall_ms()
        return await self._change_known(token_hmac, lambda token: ended(token, by, period_ms, now_ms))

    async def remove_expired(self) -> list[Token]:
        """Removes the tokens whose time is over; returns them. Raises ZooKeeperError."""
        removed = []
        for token, _hmac in self.all():
            if not token.is_expired(self._wall_ms()):
                continue

            def decide(now: Token | None) -> Token | None:
                return now if now is None or not now.is_expired(self._wall_ms()) else None

            changed = await self._change(token.token_id, decide)
            if changed.before is not None and changed.after is None:
                removed.append(changed.before)
        return removed

    async def _change_known(self, token_hmac: bytes, decide: Callable[[Token], Token | None]) -> Changed:
        """Changes the token with this HMAC. Raises as `_change`, and RequestError: DELEGATION_TOKEN_NOT_FOUND."""

        def decide_known(token: Token | None) -> Token | None:
            if token is None:
                raise RequestError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            return decide(token)

        return await self._change(self._find_by(token_hmac).token_id, decide_known)

    async def _change(self, token_id: str, decide: Callable[[Token | None], Token | None]) -> Changed:
        """Replaces a token by what `decide` makes of it, and has the others told. Raises what `decide` raises,
        RequestError, ZooKeeperError.

        After an unknown outcome, what stands there is read: if it is what was to be written, it was written.
        """
        path = token_path(token_id)
        written: Changed | None = None
        async with self._follower.lock:
            for _ in range(MAX_ATTEMPTS):
                before, version = await self._read(token_id)
                if written is not None and before == written.after:
                    break
                after = decide(before)
                if after == before:
                    written = Changed(before, after)
                    break
                write: Create | SetData | Delete
                if after is None:
                    write = Delete(path, version)
                elif before is None:
                    write = Create(path, _encode(after))
                else:
                    write = SetData(path, _encode(after), version)
                try:
                    # With its change node: either both are there, or none is.
                    await self._zookeeper.multi([write, _change_node(token_id)])
                except RequestTooLarge as too_large:
                    raise RequestError(ErrorCode.INVALID_REQUEST, str(too_large)) from too_large
                except (BadVersion, NodeExists, NoNode):
                    continue  # Somebody else was faster: what is there now is read, and the change made of it.
                except OutcomeUnknown:
                    written = Changed(before, after)
                    continue
                written = Changed(before, after)
                break
            else:
                raise RequestError(ErrorCode.REQUEST_TIMED_OUT, f"{path}: not written in {MAX_ATTEMPTS} attempts")
            self._put(token_id, written.after)
        self._old_changes.begin()
        return written

    # -- reading

    async def start(self) -> None:
        """Reads all tokens, and follows them from then on. Raises ZooKeeperError."""
        await self._follower.start(TOKEN_PERSISTENT_PATHS)
        self._spawn(self._follower.follow())

    def stop(self) -> None:
        """Follows them no more."""
        self._follower.stop()

    async def _read_all(self) -> None:
        ids = await self._zookeeper.children(TOKENS_PATH)
        nodes = await self._zookeeper.get_many([token_path(token_id) for token_id in ids])
        found = {
            token_id: None if node is None else _decode(token_id, node[0])
            for token_id, node in zip(ids, nodes, strict=True)
        }
        for token_id in self._known.keys() - found.keys():
            self._put(token_id, None)
        for token_id, token in found.items():
            self._put(token_id, token)

    async def _take_in(self, ids: Sequence[str]) -> None:
        found = {token_id: (await self._read(token_id))[0] for token_id in ids if token_id and "/" not in token_id}
        for token_id, token in found.items():
            self._put(token_id, token)

    async def _read(self, token_id: str) -> tuple[Token | None, int]:
        """A token as it stands in ZooKeeper, and its znode's version."""
        node = (await self._zookeeper.get_many([token_path(token_id)]))[0]
        return (None, -1) if node is None else (_decode(token_id, node[0]), node[1].version)


def _hash(token_hmac: bytes) -> bytes:
    return hashlib.sha256(token_hmac).digest()


def _change_node(token_id: str) -> Create:
    return Create(TOKEN_CHANGE_PREFIX, token_id.encode(), CreateMode.PERSISTENT_SEQUENTIAL)


def _changed(path: str, data: bytes | None) -> str:
    """The id that a change node names. Raises MalformedZNode."""
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as garbage:
        raise MalformedZNode(path, str(garbage)) from garbage


def _encode(token: Token) -> bytes:
    return TokenNode(
        token.token_id,
        str(token.owner),
        str(token.requester),
        tuple(str(renewer) for renewer in token.renewers),
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
    ).encode()


def _decode(token_id: str, data: bytes | None) -> Token | None:
    """None: there is nothing that could be read (I1)."""
    try:
        node = TokenNode.decode(token_path(token_id), data)
        if node.token_id != token_id:
            raise ValueError(f"it says that it is {node.token_id!r}")
        " ".join((node.owner, node.requester, *node.renewers)).encode()  # JSON can name half a character.
        return Token(
            token_id,
            Principal.parse(node.owner),
            Principal.parse(node.requester),
            tuple(Principal.parse(renewer) for renewer in node.renewers),
            node.issued_ms,
            node.expires_ms,
            node.max_ms,
        )
    except (MalformedZNode, ValueError) as garbage:
        logger.error(
            "delegation token not read: nobody can use it",
            token=token_id,
            why=str(garbage),
            next_step=f"delete the znode {token_path(token_id)}",
        )
        return None
