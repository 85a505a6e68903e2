"""SaslNetwork: a Network port whose connections log in by SASL before anything else is sent on them.

A flow over any other port, so that it works in the simulator, too. It must not know what the frames mean that pass it.

    connect - SaslHandshake 1 - SaslAuthenticate 1 ... - the frames of whoever asked for the connection

Where the other side ends sessions (KIP-368), the connection logs in again before its session ends: with the first frame
that is to be sent after RENEW of its time. Frames that come meanwhile wait until the login is over, because between its
messages nothing else may be sent; answers that are owed from before pass.

    I1  no frame is sent before the login has succeeded; a connection that could not log in is closed, and nobody has it
    I2  frames leave in the order in which they were given
    I3  no message contains the password
    I4  what a login needs (`prepare`: a token, a ticket) is got ready before it; where that fails, an open connection
        goes on with the session that it has, and tries again
    I5  steps of an exchange that may take long are carried out by `beside`; frames wait as they do for its answers

Source: Kafka's SaslClientAuthenticator, KafkaChannel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from struct import Struct
from typing import Final, Protocol, TypeAlias, TypeVar

from kavka.errors import ConnectionFailed, ErrorCode, ProtocolViolation
from kavka.network import Connection, Network
from kavka.protocol.api import ApiKey, RequestHeader, decode_response_header, encode_request_header
from kavka.protocol.codec import decode, encode_chunks
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kavka.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kavka.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kavka.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kavka.protocol.schema import Message

RENEW: Final = 0.85
"""The share of a session after which the connection logs in again, as Kafka's clients do (0.85 to 0.95)."""
LOGIN_TIMEOUT_S: Final = 10.0
"""How long a login may take; a broker that delays failures answers well before."""
PREPARE_AGAIN_S: Final = 10.0
"""After a login could not be prepared, requests go on in the old session for so long before the next try."""
CORRELATION_ID: Final = 0x7FFF_FFFF
"""That of all messages of a login: one is under way at a time, and no other request counts so far."""
_VERSION: Final = 1
_correlation_id: Final = Struct(">i").unpack_from

Parts = Sequence[bytes | bytearray | memoryview]
Answer = TypeVar("Answer", bound=Message)


class NewExchange(Protocol):
    """The client's side of a mechanism: a generator that yields its messages, is sent the broker's, and raises
    ValueError where it does not believe them."""

    def __call__(self, host: str, /) -> Generator[bytes, bytes, None]:
        """`host`: where the other side is. Only tickets are made for it."""
        ...


Prepare: TypeAlias = Callable[[], Awaitable[None]]
Beside: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]


class SaslNetwork:
    """`mechanism` and `exchange` say how to log in; `client_id` stands in the requests. `prepare` is awaited before
    each exchange; it raises ConnectionFailed. `beside` carries a step of an exchange to another thread; None: steps
    take no time."""

    def __init__(
        self,
        network: Network,
        mechanism: str,
        exchange: NewExchange,
        *,
        client_id: str,
        prepare: Prepare | None = None,
        beside: Beside | None = None,
    ) -> None:
        self._network = network
        self._mechanism = mechanism
        self._exchange = exchange
        self._client_id = client_id
        self._prepare = prepare
        self._beside = beside

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 256 * 1024 * 1024) -> Connection:
        """Connects and logs in. Raises ConnectionFailed."""
        if self._prepare is not None:
            await self._prepare()
        raw = await self._network.connect(host, port, max_frame_bytes=max_frame_bytes)
        connection = SaslConnection(
            raw,
            f"{host}:{port}",
            lambda: Login(self._mechanism, self._exchange(host), self._client_id),
            self._prepare,
            self._beside,
        )
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT_S):
                await connection.log_in()
        except TimeoutError as late:
            connection.close()
            raise ConnectionFailed(f"{host}:{port} did not let this broker log in within {LOGIN_TIMEOUT_S} s") from late
        except BaseException:
            connection.close()
            raise
        return connection


class Login:
    """One login: the frames to send, and what follows from the answers. Pure."""

    def __init__(self, mechanism: str, exchange: Generator[bytes, bytes, None], client_id: str) -> None:
        self._mechanism = mechanism
        self._exchange = exchange
        self._client_id = client_id
        self._is_greeted = False
        self.lifetime_ms = 0
        """How long the session lasts that the login began; 0 for ever."""

    def begin(self) -> Parts:
        """The first frame."""
        return self._frame(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=self._mechanism))

    def answered(self, frame: bytes) -> Parts | None:
        """The next frame; None: it is over. Raises ValueError with what went wrong."""
        if not self._is_greeted:
            self._is_greeted = True
            offer = _decode(ApiKey.SASL_HANDSHAKE, SaslHandshakeResponse, frame)
            if offer.error_code != ErrorCode.NONE:
                offered = ", ".join(offer.mechanisms) or "none"
                raise ValueError(
                    f"{self._mechanism} is not accepted there (error {offer.error_code}); it offers {offered}"
                )
            return self._token(next(self._exchange))
        said = _decode(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateResponse, frame)
        if said.error_code != ErrorCode.NONE:
            raise ValueError(said.error_message or f"error {said.error_code}")
        self.lifetime_ms = said.session_lifetime_ms
        try:
            return self._token(self._exchange.send(bytes(said.auth_bytes)))
        except StopIteration:
            return None

    def _token(self, token: bytes) -> Parts:
        return self._frame(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=token))

    def _frame(self, key: ApiKey, message: Message) -> Parts:
        header = encode_request_header(RequestHeader(key, _VERSION, CORRELATION_ID, self._client_id))
        return [header, *encode_chunks(message, _VERSION)]  # type: ignore[list-item]


def _decode(key: ApiKey, kind: type[Answer], frame: bytes) -> Answer:
    try:
        _, position = decode_response_header(key, _VERSION, frame)
        return decode(kind, memoryview(frame)[position:], _VERSION)
    except ProtocolViolation as violation:
        raise ValueError(f"the answer is malformed: {violation}") from violation


class SaslConnection:
    """One connection (the port's `Connection`)."""

    def __init__(
        self,
        connection: Connection,
        peer: str,
        new_login: Callable[[], Login],
        prepare: Prepare | None = None,
        beside: Beside | None = None,
    ) -> None:
        self._connection = connection
        self._peer = peer
        self._new_login = new_login
        self._prepare = prepare
        self._beside = beside
        self._preparing: asyncio.Task[None] | None = None
        self._login: Login | None = None
        self._held: list[Parts] = []
        self._renew_at: float | None = None
        self._loop = asyncio.get_running_loop()

    async def log_in(self) -> None:
        """The first login, while nobody else uses the connection. Raises ConnectionFailed."""
        self._begin()
        while self._login is not None:
            await self._connection.drain()
            await self._take(await self._connection.receive_frame())

    def send_frame(self, parts: Parts) -> None:
        """Queues one frame."""
        if not self._is_waiting and self._renew_at is not None and self._loop.time() >= self._renew_at:
            self._renew()
        if self._is_waiting:
            self._held.append(parts)
        else:
            self._connection.send_frame(parts)

    async def drain(self) -> None:
        await self._connection.drain()

    async def receive_frame(self) -> bytes:
        """The next frame that is none of a login's."""
        while True:
            frame = await self._connection.receive_frame()
            if self._login is None or len(frame) < 4 or _correlation_id(frame)[0] != CORRELATION_ID:
                return frame
            await self._take(frame)

    def close(self) -> None:
        if self._preparing is not None:
            self._preparing.cancel()
        self._connection.close()

    @property
    def _is_waiting(self) -> bool:
        """Whether a login is under way, or about to begin."""
        return self._login is not None or self._preparing is not None

    def _renew(self) -> None:
        if self._prepare is None:
            self._begin()
        else:
            self._preparing = self._loop.create_task(self._begin_prepared(self._prepare), name="login is prepared")

    async def _begin_prepared(self, prepare: Prepare) -> None:
        try:
            await prepare()
        except ConnectionFailed:
            self._preparing = None
            self._renew_at = self._loop.time() + PREPARE_AGAIN_S
            self._let_go()
        else:
            self._preparing = None
            self._begin()

    def _begin(self) -> None:
        self._login = self._new_login()
        self._connection.send_frame(self._login.begin())

    async def _take(self, frame: bytes) -> None:
        login = self._login
        assert login is not None
        try:
            parts = login.answered(frame) if self._beside is None else await _elsewhere(self._beside, login, frame)
        except ValueError as failure:
            self._connection.close()
            raise ConnectionFailed(f"{self._peer} did not let this broker log in: {failure}") from failure
        except TimeoutError as late:
            self._connection.close()
            raise ConnectionFailed(f"a login at {self._peer} took longer than {LOGIN_TIMEOUT_S} s") from late
        if parts is not None:
            self._connection.send_frame(parts)
            return
        self._login = None
        lifetime_s = login.lifetime_ms / 1000
        self._renew_at = self._loop.time() + lifetime_s * RENEW if lifetime_s else None
        self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, []
        for waiting in held:
            self._connection.send_frame(waiting)


async def _elsewhere(beside: Beside, login: Login, frame: bytes) -> Parts | None:
    """What is to be sent after an answer, by a step that may take long. Raises ValueError, TimeoutError."""
    found: list[Parts | None] = []
    async with asyncio.timeout(LOGIN_TIMEOUT_S):
        await beside(lambda: found.append(login.answered(frame)))
    return found[0]
