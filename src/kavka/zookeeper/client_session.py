"""ClientSession: one session with a ZooKeeper server or ensemble, kept over as many connections as it takes.

Decides which server to talk to and when to leave it, in which order requests leave, what the end of a connection means
for each request, and what the session's listeners are told. It must not know what a request says (client.py), nor
chroots; bytes and time come from the Network port and the running loop, chance from the given random.Random.

    phase          input                                 next           effect
    NEW, EXPIRED   open                                  OPENING        servers are tried for a new session
    OPENING        a server accepts                      CONNECTED      told: connected
    OPENING        nobody in the connection's time-out   EXPIRED        open raises ConnectionFailed
    CONNECTED      the connection ends, or is silent     DISCONNECTED   told: disconnected; requests: see `OnLoss`
                   for 2/3 of the session's time-out*
    CONNECTED      an answer says: expired               EXPIRED        told: expired; requests: SessionExpired
    DISCONNECTED   a server takes the session back       CONNECTED      told: connected; watches are left again first
    DISCONNECTED   a server says: expired                EXPIRED        told: expired; requests: SessionExpired
    any            close                                 CLOSED         the server is told where there is a connection

* Where this process stood still meanwhile, what the server said is still to be read, and nobody pinged it. Then it is
pinged, and has 1/6 of the time-out to answer, once. Otherwise a broker that had no processor for a while would leave a
good connection, with its session near the end.

While it is DISCONNECTED nobody here can know whether the session lives: only a server's word ends it, and requests
that were not sent wait for that word. So a write that never left is carried out late or rejected, not unknown.

Invariants:
I1  Requests leave in the order in which they were asked, at most `max_in_flight` without an answer, and answers are
    given out in that order. A request whose connection ended stands again before those that were not sent yet.
I2  Answers and events reach the event loop's ready queue in the order in which they came: a session runs on with an
    answer before or after an event exactly as the server decided it.
I3  No event of a one-shot watch is lost with a connection: the zxid from which the next server looks for missed
    changes is that of the last answer on a connection whose watches were all restored. Events do not raise it: one
    transaction may raise several, and the connection may end between them.
I4  A session never goes to a server that has seen less than the session has, nor does the one that follows it.
I5  Pings keep the session alive: after 1/3 of its time-out without a request one is sent.

Source: ZooKeeper's ClientCnxn (times, order of servers, setWatches), StaticHostProvider.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final, Protocol, TypeAlias, assert_never

from kavka.errors import ConnectionFailed, InvariantViolation, KavkaError, ProtocolViolation
from kavka.logger import Logger
from kavka.network import Connection, Network
from kavka.security.digest_md5 import SaslFailed
from kavka.zookeeper.decide.client_watches import ClientWatches
from kavka.zookeeper.decide.connect_string import ZooKeeperAddress
from kavka.zookeeper.decide.jute import (
    OK,
    PASSWORD_BYTES,
    PING_XID,
    SET_WATCHES_XID,
    WATCH_XID,
    AnswerRecord,
    ConnectAnswer,
    ConnectRequest,
    EmptyRequest,
    OpCode,
    ReplyHeader,
    Request,
    RequestRecord,
    TokenAnswer,
    TokenRequest,
    decode_connect_answer,
    decode_event,
    decode_reply,
    decode_reply_header,
    encode_connect_request,
    encode_request,
)
from kavka.zookeeper.port import (
    MAX_REQUEST_BYTES,
    BadArguments,
    BadVersion,
    ConnectionLoss,
    Event,
    EventType,
    InvalidAcl,
    Listener,
    NoAuth,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    NoWatcher,
    OutcomeUnknown,
    Rejected,
    RequestTooLarge,
    SessionEvent,
    SessionExpired,
    SessionState,
    Unimplemented,
    WatchEvent,
)

logger = Logger(__name__)

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""A longer frame ends the connection. ZooKeeper bounds requests, not answers: the children of a large node take more
than jute.maxbuffer."""
MAX_WAITING_REQUESTS: Final = 100_000
"""More requests than that, asked and not sent, are refused with ConnectionLoss."""
FIRST_PAUSE_MS: Final = 50
LAST_PAUSE_MS: Final = 1_000
"""After a round of all servers in vain there is a pause, twice as long after each round; at last ZooKeeper's own."""
STOOD_STILL: Final = 1 / 20
"""A timer that fires so late, as a share of the session's time-out, tells that this process stood still."""
CLOSE_MS: Final = 5_000
"""How long `close` waits for the server's word. After that the session ends by its time-out."""
_NO_PASSWORD: Final = bytes(PASSWORD_BYTES)
_SESSION_MOVED: Final = -118
_LOGIN_XID: Final = 0
_MAX_XID: Final = 2**31 - 1
_XID = struct.Struct(">i")

_REJECTIONS: Final[dict[int, type[Rejected]]] = {
    kind.code: kind
    for kind in (
        BadArguments,
        BadVersion,
        InvalidAcl,
        NoAuth,
        NoChildrenForEphemerals,
        NodeExists,
        NoNode,
        NotEmpty,
        NoWatcher,
        SessionExpired,
        Unimplemented,
    )
}


class Phase(Enum):
    """See the table above."""

    NEW = "new"
    OPENING = "opening"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    EXPIRED = "expired"
    CLOSED = "closed"


_MOVES: Final[dict[Phase, frozenset[Phase]]] = {
    Phase.NEW: frozenset({Phase.OPENING, Phase.CLOSED}),
    Phase.OPENING: frozenset({Phase.CONNECTED, Phase.EXPIRED, Phase.CLOSED}),
    Phase.CONNECTED: frozenset({Phase.DISCONNECTED, Phase.EXPIRED, Phase.CLOSED}),
    Phase.DISCONNECTED: frozenset({Phase.CONNECTED, Phase.EXPIRED, Phase.CLOSED}),
    Phase.EXPIRED: frozenset({Phase.OPENING, Phase.CLOSED}),
    Phase.CLOSED: frozenset(),
}


class OnLoss(Enum):
    """What the end of the connection means for a request that was sent and not answered."""

    REPEAT = "repeat"
    """A read: it is asked again on the next connection."""
    UNKNOWN = "unknown"
    """A write: ConnectionLoss."""
    DONE = "done"
    """What concerned the connection only, and has gone with it: the removal of watches, the session's end."""


OnAnswer: TypeAlias = Callable[[int, AnswerRecord | None], None]
"""Called with an answer's error code and record before the next frame is looked at."""


@dataclass(slots=True)
class _Call:
    """A request on its way. `body` is what follows the xid; `answered` is None where nobody waits: `restoring` ones."""

    op: OpCode
    body: bytes
    path: str
    on_loss: OnLoss
    answered: asyncio.Future[AnswerRecord | None] | None
    on_answer: OnAnswer | None = None
    xid: int = 0

    @property
    def restoring(self) -> bool:
        return self.answered is None

    @property
    def given_up(self) -> bool:
        return self.answered is not None and self.answered.done()

    def fail(self, error: KavkaError) -> None:
        if self.answered is not None and not self.answered.done():
            self.answered.set_exception(error)
            if self.op is OpCode.CLOSE_SESSION:
                self.answered.exception()  # Whoever says goodbye does not ask how it went.

    def finish(self, record: AnswerRecord | None) -> None:
        if self.answered is not None and not self.answered.done():
            self.answered.set_result(record)


class ZooKeeperLogin(Protocol):
    """Who a client is, by SASL."""

    @property
    def username(self) -> str:
        """For messages."""
        ...

    async def log_in(self, host: str, ask: Callable[[bytes], Awaitable[bytes]]) -> None:
        """One exchange with the server at `host`; `ask` sends a token, and gives the server's. Raises SaslFailed,
        ConnectionFailed."""
        ...


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """`session_timeout_ms` is what the client asks for (zookeeper.session.timeout.ms); servers have their own bounds.

    `connection_timeout_ms` is how long a new session may take to begin (zookeeper.connection.timeout.ms),
    `max_in_flight` how many requests may be without an answer (zookeeper.max.in.flight.requests).
    """

    session_timeout_ms: int
    connection_timeout_ms: int
    max_in_flight: int
    login: ZooKeeperLogin | None = None
    """Who the client is, by SASL; None: nobody, or who its certificate says."""

    def __post_init__(self) -> None:
        if min(self.session_timeout_ms, self.connection_timeout_ms, self.max_in_flight) < 1:
            raise ValueError(f"a ZooKeeper client's settings must be positive: {self}")


class ClientSession:
    """Made by `ZooKeeperClient.connect`. `listener` hears of everything, in order."""

    def __init__(
        self,
        network: Network,
        servers: tuple[ZooKeeperAddress, ...],
        settings: ClientSettings,
        rng: random.Random,
        listener: Listener,
    ) -> None:
        self.phase = Phase.NEW
        self.session_id = 0
        self.watches = ClientWatches()
        self._network = network
        self._settings = settings
        self._rng = rng
        self._listener = listener
        self._servers = list(servers)
        rng.shuffle(self._servers)
        self._next_server = 0
        self._password = _NO_PASSWORD
        self._timeout_ms = settings.session_timeout_ms
        # The last answer's zxid, for I4; and the one of I3.
        self._seen_zxid = 0
        self._watched_zxid = 0
        self._last_xid = 0
        self._waiting: deque[_Call] = deque()
        self._in_flight: deque[_Call] = deque()
        self._restoring = 0
        self._task: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[None] | None = None
        self._connection: Connection | None = None
        self._failed_attempts = 0
        self._last_failure = "none was tried"
        self._heard_s = self._sent_s = self._look_s = 0.0
        self._looks_again = False
        self._gave_up_after_s: float | None = None
        self._told_login = ""
        self._timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------------------------------------- life

    async def open(self) -> None:
        """Begins a new session. Raises ConnectionFailed: no server began one in time; and SessionExpired: it was closed
        meanwhile."""
        self._move(Phase.OPENING)
        self.session_id, self._password = 0, _NO_PASSWORD
        self._timeout_ms = self._settings.session_timeout_ms
        loop = asyncio.get_running_loop()
        self._opened = loop.create_future()
        self._task = loop.create_task(self._run())
        self._task.add_done_callback(self._on_task_done)
        time_ms = self._settings.connection_timeout_ms
        try:
            async with asyncio.timeout(time_ms / 1000):
                await self._opened
        except TimeoutError as error:
            servers = ",".join(map(str, self._servers))
            raise ConnectionFailed(
                f"none of the ZooKeeper servers {servers} began a session in {time_ms} ms: {self._last_failure}"
            ) from error
        finally:
            if self.phase is Phase.OPENING:
                await self._end_task()
                self._move(Phase.EXPIRED)

    async def close(self) -> None:
        """Ends the session; its ephemeral nodes go at once if there is a connection, else with the time-out. Requests
        that were sent are answered, others fail with SessionExpired. Closing twice does nothing."""
        if self.phase is Phase.CLOSED:
            return
        connection = self._connection
        self._move(Phase.CLOSED)
        self._refuse(self._waiting, "the session was closed")
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(SessionExpired(detail="the session was closed"))
        if connection is not None:
            goodbye = self._call(OpCode.CLOSE_SESSION, EmptyRequest(), "", OnLoss.DONE)
            if self._transmit(goodbye, connection) and goodbye.answered is not None:
                await asyncio.wait([goodbye.answered], timeout=CLOSE_MS / 1000)
        await self._end_task()
        self._settle("the session was closed", repeatable=False)

    # ---------------------------------------------------------------------------------------------- requests

    async def ask(
        self, op: OpCode, record: RequestRecord, path: str, on_loss: OnLoss, on_answer: OnAnswer | None = None
    ) -> AnswerRecord | None:
        """The answer's record. `path` is named in errors. Raises Rejected, OutcomeUnknown."""
        return await self.send(op, record, path, on_loss, on_answer)

    def send(
        self, op: OpCode, record: RequestRecord, path: str, on_loss: OnLoss, on_answer: OnAnswer | None = None
    ) -> asyncio.Future[AnswerRecord | None]:
        """As `ask`, without waiting for the answer. Raises what is known at once."""
        if self.phase is not Phase.CONNECTED and self.phase is not Phase.DISCONNECTED:
            raise SessionExpired(path, f"the session is {self.phase.value}")
        if len(self._waiting) >= MAX_WAITING_REQUESTS:
            self._waiting = deque([call for call in self._waiting if not call.given_up])
            if len(self._waiting) >= MAX_WAITING_REQUESTS:
                raise ConnectionLoss(f"{op.name} {path}: {len(self._waiting)} requests wait for ZooKeeper already")
        call = self._call(op, record, path, on_loss, on_answer)
        assert call.answered is not None
        self._waiting.append(call)
        self._pump()
        return call.answered

    def _call(
        self, op: OpCode, record: RequestRecord, path: str, on_loss: OnLoss, on_answer: OnAnswer | None = None
    ) -> _Call:
        payload = encode_request(Request(0, op, record))
        if len(payload) > MAX_REQUEST_BYTES:
            raise RequestTooLarge(path, f"{len(payload)} bytes, at most {MAX_REQUEST_BYTES}")
        answered: asyncio.Future[AnswerRecord | None] = asyncio.get_running_loop().create_future()
        return _Call(op, payload[_XID.size :], path, on_loss, answered, on_answer)

    def _pump(self) -> None:
        """Sends what may be sent."""
        connection = self._connection
        while connection is not None and self._waiting and len(self._in_flight) < self._settings.max_in_flight:
            call = self._waiting.popleft()
            if not call.given_up and not self._transmit(call, connection):
                # The connection has ended, which its reader will hear too; this call was not sent.
                self._waiting.appendleft(call)
                return

    def _transmit(self, call: _Call, connection: Connection) -> bool:
        """Whether the connection took it."""
        if call.restoring:
            call.xid = SET_WATCHES_XID
        else:
            self._last_xid = self._last_xid % _MAX_XID + 1
            call.xid = self._last_xid
        try:
            connection.send_frame([_XID.pack(call.xid), call.body])
        except KavkaError:
            return False
        self._in_flight.append(call)
        self._sent_s = asyncio.get_running_loop().time()
        return True

    # --------------------------------------------------------------------------------------------- connections

    async def _run(self) -> None:
        """Keeps the session until it is expired."""
        while True:
            attached = await self._attach()
            if attached is None:
                return
            failure = await self._serve(attached)
            if self.phase is not Phase.CONNECTED:
                self._settle(str(failure), repeatable=False)  # Closed: nobody will ask again.
                return
            self._on_lost(failure)

    async def _attach(self) -> Connection | None:
        """A connection to a server that has taken the session; None where one says that it is expired."""
        while True:
            if self._failed_attempts and not self._failed_attempts % len(self._servers):
                await asyncio.sleep(self._pause_s())
            server = self._servers[self._next_server]
            self._next_server = (self._next_server + 1) % len(self._servers)
            self._failed_attempts += 1  # Until the server has said something behind its greeting.
            try:
                connection, greeting = await self._greet(server)
            except (KavkaError, TimeoutError) as failure:
                why = str(failure) or "no answer in time"
                self._last_failure = f"{server}: {why}"
                logger.debug("ZooKeeper server does not serve", server=str(server), why=why)
                continue
            if greeting.timeout_ms <= 0:
                connection.close()
                self._on_expired(f"{server} says so")
                return None
            self._on_greeted(server, greeting)
            return connection

    async def _greet(self, server: ZooKeeperAddress) -> tuple[Connection, ConnectAnswer]:
        """Asks one server to begin the session, or to go on with it. Raises KavkaError, TimeoutError."""
        # All servers are to be tried in time.
        time_ms = self._timeout_ms
        if self.phase is Phase.OPENING:
            time_ms = min(time_ms, self._settings.connection_timeout_ms)
        async with asyncio.timeout(time_ms / len(self._servers) / 1000):
            connection = await self._network.connect(server.host, server.port, max_frame_bytes=MAX_ANSWER_BYTES)
            try:
                request = ConnectRequest(
                    0,
                    self._seen_zxid,
                    self._settings.session_timeout_ms,
                    self.session_id,
                    self._password,
                    read_only=False,
                )
                connection.send_frame([encode_connect_request(request)])
                answer = decode_connect_answer(await connection.receive_frame())
                if answer.timeout_ms > 0 and self._settings.login is not None:
                    await self._log_in(connection, server.host, self._settings.login)
                return connection, answer
            except BaseException:
                connection.close()
                raise

    async def _log_in(self, connection: Connection, host: str, login: ZooKeeperLogin) -> None:
        """Before anything else is asked on the connection. Raises KavkaError."""
        try:
            await login.log_in(host, partial(self._exchange, connection))
        except (SaslFailed, ConnectionFailed) as failed:
            why = f"the login of user {login.username} failed: {failed}"
            if why != self._told_login:  # Once, not for each attempt.
                logger.warning("ZooKeeper login failed", why=why)
                self._told_login = why
            raise ConnectionFailed(why) from failed
        self._told_login = ""

    async def _exchange(self, connection: Connection, token: bytes) -> bytes:
        request = Request(_LOGIN_XID, OpCode.SASL, TokenRequest(token))
        connection.send_frame([encode_request(request)])
        header, answer = decode_reply(await connection.receive_frame(), OpCode.SASL)
        if header.xid != _LOGIN_XID:
            raise ProtocolViolation(f"an answer to request {header.xid} during the login")
        if header.error != OK or not isinstance(answer, TokenAnswer):
            raise ConnectionFailed(f"the server refuses it (error {header.error})")
        return answer.token or b""

    def _pause_s(self) -> float:
        doublings = min(self._failed_attempts // len(self._servers) - 1, 10)
        pause_ms = min(LAST_PAUSE_MS, FIRST_PAUSE_MS << doublings)
        return pause_ms * self._rng.uniform(0.5, 1.0) / 1000

    async def _serve(self, connection: Connection) -> KavkaError:
        """Answers and events of one connection, until it ends; returns why."""
        loop = asyncio.get_running_loop()
        self._connection = connection
        self._heard_s = self._sent_s = self._look_s = loop.time()
        self._gave_up_after_s = None
        self._looks_again = False
        self._restore_watches()
        self._pump()
        self._on_timer()
        try:
            while True:
                payload = await connection.receive_frame()
                self._heard_s = loop.time()
                self._looks_again = False
                self._failed_attempts = 0
                self._on_frame(payload)
                if self.phase is Phase.EXPIRED:
                    return SessionExpired()
                self._pump()
        except KavkaError as failure:
            silence_s = self._gave_up_after_s
            return failure if silence_s is None else ConnectionFailed(f"silent for {silence_s:.3f} s")
        finally:
            self._connection = None
            if self._timer is not None:
                self._timer.cancel()
            connection.close()

    def _restore_watches(self) -> None:
        restoring = []
        for op, record in self.watches.restoring(self._watched_zxid):
            body = encode_request(Request(0, op, record))[_XID.size :]
            restoring.append(_Call(op, body, "", OnLoss.DONE, None))
        self._waiting.extendleft(reversed(restoring))
        self._restoring = len(restoring)

    def _on_timer(self) -> None:
        """Pings, and gives a connection up that is silent."""
        loop = asyncio.get_running_loop()
        connection, now_s = self._connection, loop.time()
        if connection is None:
            return
        silent_at_s = self._heard_s + self._timeout_ms * 2 / 3000
        stood_still = not self._looks_again and now_s - self._look_s >= self._timeout_ms * STOOD_STILL / 1000
        if stood_still:
            self._looks_again = True
            silent_at_s = max(silent_at_s, now_s + self._timeout_ms / 6000)
        elif now_s >= silent_at_s:
            self._gave_up_after_s = now_s - self._heard_s
            connection.close()  # Its reader hears of it.
            return
        if stood_still or now_s >= self._sent_s + self._timeout_ms / 3000:
            self._sent_s = now_s
            with suppress(KavkaError):
                connection.send_frame([encode_request(Request(PING_XID, OpCode.PING, EmptyRequest()))])
        self._look_s = min(silent_at_s, self._sent_s + self._timeout_ms / 3000)
        self._timer = loop.call_at(self._look_s, self._on_timer)

    # -------------------------------------------------------------------------------------------------- frames

    def _on_frame(self, payload: bytes) -> None:
        """Raises KavkaError where the connection must end."""
        header = decode_reply_header(payload)
        if header.xid == WATCH_XID:
            self._on_event(payload, header.zxid)
        elif header.xid != PING_XID:
            self._on_reply(header, payload)

    def _on_event(self, payload: bytes, zxid: int) -> None:
        event = decode_event(payload)
        try:
            kind = EventType(event.kind)
        except ValueError:
            return  # The removal of a watch, which its answer tells too.
        self.watches.told(kind, event.path)
        self._tell(WatchEvent(kind, event.path, zxid))

    def _on_reply(self, header: ReplyHeader, payload: bytes) -> None:
        call = self._in_flight[0] if self._in_flight else None
        if call is None or call.xid != header.xid:
            raise ProtocolViolation(f"an answer to request {header.xid}, expected {call.xid if call else 'none'}")
        if header.error == _SESSION_MOVED:
            raise ConnectionFailed("the session went on on another connection")
        _, record = decode_reply(payload, call.op)
        if call.restoring and header.error not in (OK, SessionExpired.code):
            raise ProtocolViolation(f"{call.op.name} refused with {header.error}: watches cannot be restored here")
        self._in_flight.popleft()
        self._restoring -= call.restoring
        if header.zxid > self._seen_zxid:
            self._seen_zxid = header.zxid
        if not self._restoring:
            self._watched_zxid = self._seen_zxid
        if call.on_answer is not None:
            call.on_answer(header.error, record)
        if header.error == OK:
            call.finish(record)
        else:
            call.fail(error_of(header.error, call.path))
        if header.error == SessionExpired.code and self.phase is not Phase.CLOSED:
            self._on_expired("an answer says so")

    # ------------------------------------------------------------------------------------------------- changes

    def _on_greeted(self, server: ZooKeeperAddress, greeting: ConnectAnswer) -> None:
        new = greeting.session_id != self.session_id
        self.session_id = greeting.session_id
        self._password = greeting.password or _NO_PASSWORD
        self._timeout_ms = greeting.timeout_ms
        self._move(Phase.CONNECTED)
        logger.info(
            "ZooKeeper session began" if new else "ZooKeeper session went on",
            server=str(server),
            session_id=hex(self.session_id),
            timeout_ms=self._timeout_ms,
            watches=len(self.watches),
        )
        self._tell(SessionEvent(SessionState.CONNECTED))
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)

    def _on_lost(self, failure: KavkaError) -> None:
        """The connection is gone; the session may be alive."""
        self._move(Phase.DISCONNECTED)
        why = str(failure)
        logger.warning("ZooKeeper connection lost", session_id=hex(self.session_id), why=why)
        self._tell(SessionEvent(SessionState.DISCONNECTED))
        # What cannot be read would come again on every connection: it is not asked again.
        repeated = self._settle(why, repeatable=not isinstance(failure, ProtocolViolation))
        self._waiting = deque([*repeated, *(call for call in self._waiting if not call.restoring)])
        self._restoring = 0

    def _settle(self, why: str, *, repeatable: bool) -> list[_Call]:
        """The requests in flight get no answer any more; returns those to be asked again."""
        in_flight, self._in_flight = self._in_flight, deque()
        repeated: list[_Call] = []
        for call in in_flight:
            if call.on_loss is OnLoss.DONE:
                if call.on_answer is not None:
                    call.on_answer(OK, None)
                call.finish(None)
            elif call.on_loss is OnLoss.UNKNOWN or not repeatable:
                call.fail(ConnectionLoss(f"{call.op.name} {call.path}: {why}"))
            elif call.on_loss is OnLoss.REPEAT:
                repeated.append(call)
            else:
                assert_never(call.on_loss)
        return repeated

    def _on_expired(self, why: str) -> None:
        self._move(Phase.EXPIRED)
        logger.warning("ZooKeeper session expired", session_id=hex(self.session_id), why=why)
        self.watches.clear()
        self._restoring = 0
        self._tell(SessionEvent(SessionState.EXPIRED))
        self._refuse(self._in_flight, f"session {self.session_id:#x}")
        self._refuse(self._waiting, f"session {self.session_id:#x}")

    def _tell(self, event: Event) -> None:
        """Behind the answers that came before it, which are in the loop's queue already (I2)."""
        asyncio.get_running_loop().call_soon(self._listener, event)

    def _refuse(self, calls: deque[_Call], detail: str) -> None:
        while calls:
            call = calls.popleft()
            call.fail(SessionExpired(call.path, detail))

    def _move(self, phase: Phase) -> None:
        if phase not in _MOVES[self.phase]:
            raise InvariantViolation(f"a ZooKeeper session that is {self.phase.value} cannot become {phase.value}")
        self.phase = phase

    async def _end_task(self) -> None:
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """The task must not end with an exception: nobody waits for ever then, and the host hears of it, and halts."""
        if task.cancelled() or (bug := task.exception()) is None:
            return
        for call in (*self._settle(str(bug), repeatable=False), *self._waiting):
            call.fail(ConnectionLoss(f"{call.op.name} {call.path}: the session failed by a bug: {bug}"))
        task.get_loop().call_exception_handler(
            {"message": "the ZooKeeper session failed by a bug", "exception": bug, "task": task}
        )


def error_of(code: int, path: str) -> Rejected | OutcomeUnknown:
    """The exception for an answer's error code."""
    kind = _REJECTIONS.get(code)
    if kind is not None:
        return kind(path)
    return OutcomeUnknown(f"{path}: ZooKeeper's error {code}")
