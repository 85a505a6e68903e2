"""RequestHandler: the requests of one session of ZooKeeper's wire protocol, carried out on an `EmbeddedZooKeeper`.

Decides which operation or query a request is and which answer its outcome becomes. It must not know bytes or sockets.

Versions        the ops of ZooKeeper 3.5 to 3.9 that `jute.OpCode` lists; read-only clients are served as all others
Not supported   reconfig (there is no ensemble), SASL but DIGEST-MD5, and super identities: answered with Unimplemented
                or AuthFailed

Invariants:
I1  What a request does to the tree is decided before the handler first waits, so requests that are started in order
    are carried out in order, and answered in order (local.py, I2).
I2  The zxid of an answer is that of the tree which the answer shows. A client comes back with the highest it saw, and
    misses a watch event if that was too high.

I3  Where logins are asked for, a client that nobody knows reads and writes nothing, and is told no path.

Source: ZooKeeper's FinalRequestProcessor, DigestAuthenticationProvider, AuthenticationHelper.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from kavka.errors import InvariantViolation
from kavka.security.digest_md5 import DigestServer, SaslFailed
from kavka.security.secret import Secret
from kavka.zookeeper.decide.access_control import Identity
from kavka.zookeeper.decide.jute import (
    AUTH_FAILED,
    LOGIN_REQUIRED,
    OK,
    RUNTIME_INCONSISTENCY,
    UNIMPLEMENTED,
    AclAnswer,
    AnswerRecord,
    AuthRequest,
    ChildrenAnswer,
    CreatedAnswer,
    CreateRequest,
    CreateTtlRequest,
    DataAnswer,
    ErrorAnswer,
    IdentitiesAnswer,
    MultiAnswer,
    MultiRequest,
    NumberAnswer,
    OpCode,
    PathAnswer,
    PathRequest,
    PathsAnswer,
    Request,
    RequestRecord,
    SetAclRequest,
    SetDataRequest,
    SetWatches2Request,
    SetWatchesRequest,
    StatAnswer,
    TokenAnswer,
    TokenRequest,
    VersionedPathRequest,
    WatchedPathRequest,
    WatchRequest,
)
from kavka.zookeeper.decide.watches import WatchKind
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.port import (
    BadArguments,
    Check,
    Create,
    Created,
    CreateMode,
    Delete,
    NoNode,
    Operation,
    OperationResult,
    Rejected,
    SetAcl,
    SetData,
    Stat,
    WatchMode,
)

_CREATES = frozenset({OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL})
_WRITES = _CREATES | {OpCode.DELETE, OpCode.SET_DATA, OpCode.SET_ACL, OpCode.CHECK}
_OP_OF_RESULT = {OpCode.CREATE_CONTAINER: OpCode.CREATE2, OpCode.CREATE_TTL: OpCode.CREATE2}
"""In a multi's results all creations with a stat have the same op."""
_BEFORE_LOGIN = frozenset({OpCode.SASL, OpCode.AUTH, OpCode.PING, OpCode.CLOSE_SESSION})
_KNOWN_BY = frozenset({"x509", "sasl"})
"""What proves who somebody is. With the scheme digest everybody may call himself what he wants."""
_TTL_MODES = frozenset({CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL})


T = TypeVar("T")


class Answer(NamedTuple):
    """`error` is 0 or one of ZooKeeper's codes; `last`: the connection ends behind it."""

    zxid: int
    error: int
    record: AnswerRecord | None = None
    last: bool = False


@dataclass(frozen=True, slots=True)
class Logins:
    """Who may log in with DIGEST-MD5; whoever has neither done so nor shown a certificate may do nothing else."""

    users: Mapping[str, Secret]
    new_nonce: Callable[[], str]
    on_failure: Callable[[str], None]


class RequestHandler:
    """Carries out the requests of one session. `identities` are who its client proved to be by connecting."""

    def __init__(
        self,
        server: EmbeddedZooKeeper,
        session_id: int,
        identities: Sequence[Identity],
        logins: Logins | None = None,
    ) -> None:
        self._logins = logins
        self._exchange: DigestServer | None = None
        self._server = server
        self._tree = server.database.tree
        self._session_id = session_id
        for identity in identities:
            self._tree.authenticate(session_id, identity)

    async def handle(self, request: Request) -> Answer:
        """Raises ConnectionLoss: the outcome is unknown, and the connection must end without a reply."""
        zxid = self._server.tree_zxid
        try:
            return await self._handle(request, zxid)
        except Rejected as rejected:
            return Answer(zxid, rejected.code)

    async def _handle(self, request: Request, zxid: int) -> Answer:
        record = request.record
        if record is None:
            await self._server.read(lambda: None)
            return Answer(zxid, UNIMPLEMENTED)
        op = OpCode(request.op)
        if self._logins is not None and op not in _BEFORE_LOGIN and not self._is_known():
            await self._server.read(lambda: None)
            self._logins.on_failure("a request before the login")
            return Answer(zxid, LOGIN_REQUIRED, last=True)
        if isinstance(record, TokenRequest):
            return await self._log_in(record.token or b"", zxid)
        if op is OpCode.MULTI:
            assert isinstance(record, MultiRequest)
            return await self._multi(record, zxid)
        if op in _WRITES:
            operation = await self._or_settled(lambda: operation_of(op, record))
            applied = await self._server.write(self._session_id, (operation,))
            written = applied.transaction.zxid if applied.transaction is not None else zxid
            return Answer(written, OK, _answer_of(op, applied.results[0]))
        if op is OpCode.CLOSE_SESSION:
            await self._or_settled(lambda: self._tree.identities(self._session_id))
            await self._server.close_session(self._session_id)
            return Answer(zxid + 1, OK, last=True)
        if isinstance(record, AuthRequest):
            return await self._authenticate(record, zxid)
        if isinstance(record, (SetWatchesRequest, SetWatches2Request)):
            await self._set_watches(record)
            return Answer(zxid, OK)
        return Answer(zxid, OK, await self._server.read(lambda: self._query(op, record)))

    async def _or_settled(self, decide: Callable[[], T]) -> T:
        """What may refuse without asking the server: the refusal waits for its turn, as every answer; all else goes on
        without a wait."""
        try:
            return decide()
        except Rejected:
            await self._server.read(lambda: None)
            raise

    # ---------------------------------------------------------------------------------------------------- writes

    async def _multi(self, request: MultiRequest, zxid: int) -> Answer:
        operations: list[Operation] = []
        try:
            for op, record in request.parts:
                operations.append(operation_of(op, record))
        except Rejected as rejected:
            await self._server.read(lambda: None)
            return Answer(zxid, OK, _failed_multi(len(request.parts), len(operations), rejected.code))
        try:
            applied = await self._server.write(self._session_id, operations)
        except Rejected as rejected:
            if rejected.operation_index < 0:
                raise  # It was none of the operations: the session has expired.
            return Answer(zxid, OK, _failed_multi(len(operations), rejected.operation_index, rejected.code))
        parts = [
            (_OP_OF_RESULT.get(op, op), _answer_of(op, result))
            for (op, _), result in zip(request.parts, applied.results, strict=True)
        ]
        written = applied.transaction.zxid if applied.transaction is not None else zxid
        return Answer(written, OK, MultiAnswer(tuple(parts)))

    # ----------------------------------------------------------------------------------------------------- reads

    def _query(self, op: OpCode, record: RequestRecord) -> AnswerRecord | None:
        tree, session_id = self._tree, self._session_id
        match op, record:
            case OpCode.GET_DATA, WatchedPathRequest(path, watch):
                return DataAnswer(*tree.get(path, session_id=session_id, watch=watch))
            case OpCode.EXISTS, WatchedPathRequest(path, watch):
                stat = tree.exists(path, session_id=session_id, watch=watch)
                if stat is None:
                    raise NoNode(path)
                return StatAnswer(stat)
            case OpCode.GET_CHILDREN2, WatchedPathRequest(path, watch):
                names, stat = tree.children(path, session_id=session_id, watch=watch)
                return ChildrenAnswer(tuple(names), stat)
            case OpCode.GET_CHILDREN, WatchedPathRequest(path, watch):
                return PathsAnswer(tuple(tree.children(path, session_id=session_id, watch=watch)[0]))
            case OpCode.GET_ACL, PathRequest(path):
                return AclAnswer(*tree.get_acl(path, session_id=session_id))
            case OpCode.SYNC, PathRequest(path):
                return PathAnswer(path)
            case OpCode.PING, _:
                return None
            case OpCode.MULTI_READ, MultiRequest(parts):
                return MultiAnswer(tuple([self._part(part_op, part) for part_op, part in parts]))
            case OpCode.GET_EPHEMERALS, PathRequest(path):
                return PathsAnswer(tuple(tree.ephemerals(session_id, prefix=path)))
            case OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest(path):
                tree.get(path, session_id=session_id)  # Who may not read the node may not count what is below it.
                return NumberAnswer(tree.descendant_count(path))
            case OpCode.ADD_WATCH, WatchRequest(path, kind):
                tree.add_watch(path, _member(WatchMode, kind, path), session_id=session_id)
                return NumberAnswer(OK)
            case OpCode.REMOVE_WATCHES, WatchRequest(path, kind):
                tree.remove_watches(path, session_id=session_id, kind=_member(WatchKind, kind, path))
                return None
            case OpCode.CHECK_WATCHES, WatchRequest(path, kind):
                tree.check_watches(path, session_id=session_id, kind=_member(WatchKind, kind, path))
                return None
            case OpCode.WHO_AM_I, _:
                identities = tree.identities(session_id)
                return IdentitiesAnswer(tuple([(each.scheme, each.id.partition(":")[0]) for each in identities]))
            case _:
                raise InvariantViolation(f"{op.name} with a {type(record).__name__}")

    def _part(self, op: OpCode, record: RequestRecord) -> tuple[OpCode | None, AnswerRecord | None]:
        try:
            return op, self._query(op, record)
        except Rejected as rejected:
            return None, ErrorAnswer(rejected.code)

    # --------------------------------------------------------------------------------------- watches, identities

    async def _set_watches(self, request: SetWatchesRequest | SetWatches2Request) -> None:
        if isinstance(request, SetWatches2Request):
            lasting = request
            await self._or_settled(lambda: self._add_watches(lasting))
        await self._server.restore_watches(
            self._session_id,
            seen_zxid=request.seen_zxid,
            data=request.data,
            exist=request.exist,
            child=request.child,
        )

    def _add_watches(self, request: SetWatches2Request) -> None:
        for path in request.persistent:
            self._tree.add_watch(path, WatchMode.PERSISTENT, session_id=self._session_id)
        for path in request.recursive:
            self._tree.add_watch(path, WatchMode.PERSISTENT_RECURSIVE, session_id=self._session_id)

    async def _authenticate(self, request: AuthRequest, zxid: int) -> Answer:
        identity = identity_of(request.scheme, request.credentials or b"")
        if identity is not None:
            known = identity
            await self._server.read(lambda: self._tree.authenticate(self._session_id, known))
        else:
            await self._server.read(lambda: None)
        accepted = identity is not None or request.scheme == "ip"  # By its address it was known already.
        return Answer(zxid, OK) if accepted else Answer(zxid, AUTH_FAILED, last=True)

    def _is_known(self) -> bool:
        return any(identity.scheme in _KNOWN_BY for identity in self._tree.identities(self._session_id))

    async def _log_in(self, token: bytes, zxid: int) -> Answer:
        logins = self._logins
        if logins is None:
            await self._server.read(lambda: None)
            return Answer(zxid, UNIMPLEMENTED)
        if not token:
            exchange = self._exchange = DigestServer(logins.users, logins.new_nonce())
            await self._server.read(lambda: None)
            return Answer(zxid, OK, TokenAnswer(exchange.challenge()))
        former, self._exchange = self._exchange, None
        try:
            if former is None:
                raise SaslFailed("a response without a challenge")
            user, proof = former.answer(token)
        except SaslFailed as failed:
            await self._server.read(lambda: None)
            logins.on_failure(str(failed))
            return Answer(zxid, AUTH_FAILED, last=True)
        await self._server.read(lambda: self._tree.authenticate(self._session_id, Identity("sasl", user)))
        return Answer(zxid, OK, TokenAnswer(proof))


def identity_of(scheme: str, credentials: bytes) -> Identity | None:
    """Who credentials prove somebody to be: digest takes user:password, and stands in lists as user:SHA-1."""
    if scheme != "digest":
        return None
    user = credentials.partition(b":")[0].decode(errors="replace")
    digest = base64.b64encode(hashlib.sha1(credentials, usedforsecurity=False).digest()).decode()
    return Identity("digest", f"{user}:{digest}")


def operation_of(op: OpCode, record: RequestRecord) -> Operation:
    """The operation that a request for a write stands for. Raises BadArguments for flags that mean nothing."""
    match record:
        case CreateRequest(path, data, acl, flags):
            mode: CreateMode = _member(CreateMode, flags, path)
            if mode in _TTL_MODES:
                raise BadArguments(path, f"{mode.name} in a {op.name}")
            return Create(path, data, mode, acl)
        case CreateTtlRequest(path, data, acl, flags, ttl_ms):
            mode = _member(CreateMode, flags, path)
            if mode not in _TTL_MODES:
                raise BadArguments(path, f"{mode.name} in a {op.name}")
            return Create(path, data, mode, acl, ttl_ms)
        case SetDataRequest(path, data, version):
            return SetData(path, data, version)
        case SetAclRequest(path, acl, version):
            return SetAcl(path, acl, version)
        case VersionedPathRequest(path, version):
            return Delete(path, version) if op is OpCode.DELETE else Check(path, version)
        case _:
            raise InvariantViolation(f"{op.name} with a {type(record).__name__}")


def _answer_of(op: OpCode, result: OperationResult) -> AnswerRecord | None:
    if isinstance(result, Created):
        return PathAnswer(result.path) if op is OpCode.CREATE else CreatedAnswer(result.path, result.stat)
    return StatAnswer(result) if isinstance(result, Stat) else None


def _failed_multi(count: int, failed: int, code: int) -> MultiAnswer:
    """Parts before the one that failed have no error of their own; those behind it were not tried."""
    codes: Sequence[int] = [OK] * failed + [code] + [RUNTIME_INCONSISTENCY] * (count - failed - 1)
    return MultiAnswer(tuple([(None, ErrorAnswer(each)) for each in codes]))


def _member(kind: Any, number: int, path: str) -> Any:
    """The member of an IntEnum. Raises BadArguments."""
    try:
        return kind(number)
    except ValueError:
        raise BadArguments(path, f"{number} is no {kind.__name__}") from None
