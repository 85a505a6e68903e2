"""One connection to one broker: which versions both sides speak, and requests in flight on it.

Decides the version of each request and which answer belongs to which request. Must not know partitions, retries or
other brokers. The caller gives it a `Connection` of the Network port.

Invariants
  I1  Every request ends: with its answer, with `RequestError(UNSUPPORTED_VERSION)` before anything was sent, or with
  `ConnectionFailed`. After the latter it is unknown whether the broker carried it out.
  I2  A connection that failed in any way is closed and stays closed; all that waited on it fails with it.
  I3  At most `max_pending_requests` wait for answers.
  I4  Where the broker ends sessions, the client logs in again on the same connection before the first request that
  comes after RENEW of the session. That request and all after it wait until the login is over, in their order, and
  the login waits for the answers that are owed, as long as their requests have time: the broker answers one after the
  other anyway. A token is fetched meanwhile, and requests go on until it is there or the session ends.

Source: Kafka's protocol guide; KIP-511 (ApiVersions: a broker that does not know the version asked for answers in
version 0, with the versions that it does know), KIP-482 (flexible headers), KIP-368 (sessions that end).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from kavka import __version__
from kavka.client.answers import error_name
from kavka.client.sasl import Exchange, exchange, new_nonce
from kavka.client.security import SaslSettings
from kavka.client.settings import ClientSettings
from kavka.errors import (
    ConnectionFailed,
    ErrorCode,
    FrameTooLarge,
    KavkaError,
    NotKafka,
    ProtocolViolation,
    RequestError,
)
from kavka.network import Connection, Network
from kavka.protocol.api import Api, ApiKey, api, decode_response_header
from kavka.protocol.codec import decode
from kavka.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kavka.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kavka.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kavka.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kavka.protocol.request_pipeline import RequestPipeline
from kavka.protocol.sasl_network import RENEW
from kavka.protocol.schema import Message

Answer = TypeVar("Answer", bound=Message)
Result = TypeVar("Result")

SOFTWARE_NAME = "kavka"
TOKEN_AGAIN_S: Final = 1.0
"""How long after a token could not be fetched it is tried again, while the session lasts."""


class VersionRange(NamedTuple):
    """Versions of one API, both ends included."""

    lowest: int
    highest: int


class BrokerConnection(RequestPipeline):
    """Requests to one broker, pipelined. Create it with `BrokerConnection.open`."""

    def __init__(self, connection: Connection, address: str, settings: ClientSettings) -> None:
        self.versions: dict[int, VersionRange] = {}
        """What the broker speaks, by API key."""
        self.finalized_features: dict[str, int] = {}
        self._settings = settings
        self._host = address.rpartition(":")[0]
        self._slots = asyncio.Semaphore(settings.max_pending_requests)
        self._door = asyncio.Lock()
        """Keeps the order of the requests that wait while a session is renewed."""
        self._renewal: asyncio.Task[None] | None = None
        self._is_held = False
        self._renew_at: float | None = None
        self._session_end = 0.0
        """By the loop's clock, in s; `_renew_at` None: the session lasts for ever."""
        self._all_answered = asyncio.Event()
        self._answers_due = 0.0
        """When the last answer that is owed is late, by the loop's clock."""
        super().__init__(connection, address, settings.client_id)

    @classmethod
    async def open(cls, network: Network, host: str, port: int, settings: ClientSettings) -> BrokerConnection:
        """Connects, asks for the broker's versions, and authenticates if the settings have `sasl`.

        Raises `ConnectionFailed`; `RequestError(SASL_AUTHENTICATION_FAILED)` for a wrong name or password.
        """
        address = f"{host}:{port}"
        try:
            async with asyncio.timeout(settings.connect_timeout_ms / 1000):
                raw = await network.connect(host, port, max_frame_bytes=settings.max_frame_bytes)
        except TimeoutError as failure:
            raise ConnectionFailed(
                f"{address} did not accept the connection within {settings.connect_timeout_ms} ms"
            ) from failure
        connection = cls(raw, address, settings)
        try:
            await connection._negotiate()
            if settings.sasl is not None:
                await connection._authenticate(settings.sasl, await connection._ready(settings.sasl))
        except BaseException:
            connection.close()
            raise
        return connection

    def version_of(self, key: ApiKey, *, highest: int | None = None) -> int:
        """The highest version that both sides support, at most `highest`.

        Raises `RequestError(UNSUPPORTED_VERSION)` if there is none.
        """
        known = api(key)
        theirs = self.versions.get(key)
        if theirs is None:
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION, f"the broker at {self.address} has no {known.name}")
        version = min(known.max_version, theirs.highest, known.max_version if highest is None else highest)
        if version < max(known.min_version, theirs.lowest):
            raise RequestError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{known.name}: the broker at {self.address} supports versions {theirs.lowest} to {theirs.highest}, "
                f"this client {known.min_version} to {known.max_version if highest is None else highest}",
            )
        return version

    async def request(
        self,
        key: ApiKey,
        message: Message | Callable[[int], Message],
        answer_type: type[Answer],
        *,
        highest: int | None = None,
        timeout_ms: int | None = None,
    ) -> Answer:
        """Sends `message` in the highest common version (at most `highest`) and waits for its answer.

        If versions use different fields for the same meaning, `message` is a function from a version to its message.

        Views of records in the answer refer to its own frame and stay valid. For the errors see I1.
        """
        version = self.version_of(key, highest=highest)
        if not isinstance(message, Message):
            message = message(version)
        frame = await self._exchange(api(key), version, message, timeout_ms or self._settings.request_timeout_ms)
        return await self._decoded(key, version, frame, answer_type)

    async def send_unanswered(self, key: ApiKey, message: Message, *, highest: int | None = None) -> None:
        """Sends a request that the broker does not answer: Produce with acks=0."""
        version = self.version_of(key, highest=highest)
        await self._session()
        self._send(key, version, message, None)
        await self._connection.drain()

    async def _negotiate(self) -> None:
        known = api(ApiKey.API_VERSIONS)
        version = known.max_version
        while True:
            message = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
            # A broker that hangs is connected to by its kernel, and is no broker yet.
            patience_ms = min(self._settings.request_timeout_ms, self._settings.connect_timeout_ms)
            frame = await self._ask(known, version, message, patience_ms)
            answer = self._decode_api_versions(frame, version)
            self.versions = {
                entry.api_key: VersionRange(entry.min_version, entry.max_version) for entry in answer.api_keys
            }
            if answer.error_code == ErrorCode.NONE:
                self.finalized_features = {
                    feature.name: feature.max_version_level for feature in answer.finalized_features
                }
                return
            theirs = self.versions.get(ApiKey.API_VERSIONS, VersionRange(0, 0))
            lower = min(theirs.highest, version - 1)
            if answer.error_code != ErrorCode.UNSUPPORTED_VERSION or lower < known.min_version:
                raise ConnectionFailed(
                    f"{self.address} answered ApiVersions {version} with {error_name(answer.error_code)}"
                )
            version = lower

    async def _authenticate(self, sasl: SaslSettings, token: str) -> None:
        """Proves who the client is. `token`: with OAUTHBEARER, one that is good."""
        name = sasl.mechanism.value
        try:
            answer = await self._log_in(
                ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=name), SaslHandshakeResponse
            )
        except RequestError as failure:
            raise RequestError(failure.code, f"{self.address} does not speak SASL: {failure}") from failure
        if answer.error_code != ErrorCode.NONE:
            offered = ", ".join(answer.mechanisms) or "none"
            raise RequestError(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{self.address} does not accept {name}; it offers {offered}"
            )
        messages = exchange(sasl, new_nonce(), token, self._host)
        out = await self._step(sasl, partial(next, messages, None))
        while out is not None:
            began = asyncio.get_running_loop().time()
            said = await self._log_in(
                ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=out), SaslAuthenticateResponse
            )
            if said.error_code != ErrorCode.NONE:
                why = said.error_message or error_name(said.error_code)
                if sasl.username:
                    refusal = f"{self.address} refused {name} as {sasl.username!r}: {why}"
                else:
                    refusal = f"{self.address} refused {name}: {why}"
                raise RequestError(ErrorCode.SASL_AUTHENTICATION_FAILED, refusal)
            out = await self._step(sasl, partial(_sent, messages, bytes(said.auth_bytes)))
        lifetime_s = said.session_lifetime_ms / 1000
        self._session_end = began + lifetime_s
        self._renew_at = began + lifetime_s * RENEW if lifetime_s else None

    async def _ready(self, sasl: SaslSettings) -> str:
        """With OAUTHBEARER, a token that is good now; with GSSAPI, nothing, once Kerberos' library has a ticket."""
        if sasl.tickets is not None:
            await self._beside(sasl.tickets.prepare)
        # Beside the loop, because an endpoint may be slow.
        return "" if sasl.tokens is None else await asyncio.to_thread(sasl.tokens.current)

    async def _step(self, sasl: SaslSettings, step: Callable[[], bytes | None]) -> bytes | None:
        """The next message of a login; None: it is over. With GSSAPI the KDC may be asked for it."""
        return step() if sasl.tickets is None else await self._beside(step)

    async def _beside(self, call: Callable[[], Result]) -> Result:
        """A call of Kerberos' library, which waits for a KDC that does not answer longer than this connection does."""
        from kavka.client.kerberos_threads import beside  # late: few clients have tickets

        try:
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1000):
                return await beside(call)
        except TimeoutError as late:
            raise ConnectionFailed(
                f"Kerberos gave no ticket for {self.address} within {self._settings.connect_timeout_ms} ms: no KDC of "
                "the realm answers; see krb5.conf"
            ) from late

    async def _log_in(self, key: ApiKey, message: Message, answer_type: type[Answer]) -> Answer:
        """A request of a login: it does not wait for the end of the login."""
        version = self.version_of(key)
        patience_ms = min(self._settings.request_timeout_ms, self._settings.connect_timeout_ms)
        frame = await self._ask(api(key), version, message, patience_ms)
        return await self._decoded(key, version, frame, answer_type)

    async def _session(self) -> None:
        """Waits until a request may be sent in a session that has not ended (I4). Whoever sends awaits nothing between
        this and `_send`."""
        sasl = self._settings.sasl
        if self._renew_at is None or sasl is None:
            return
        async with self._door:
            now = asyncio.get_running_loop().time()
            if self._renewal is None and self.is_open and now >= self._renew_at:
                self._is_held = sasl.tokens is None and sasl.tickets is None
                self._renewal = asyncio.create_task(self._renew(sasl), name=f"new session with {self.address}")
            if self._renewal is not None and (self._is_held or now >= self._session_end):
                # A task of its own: a caller who is cancelled must not leave a login behind that is half done.
                await asyncio.wait([self._renewal])

    async def _renew(self, sasl: SaslSettings) -> None:
        """Logs in again. Where that fails, so does the connection; the next one says why, if the login is refused."""
        loop = asyncio.get_running_loop()
        try:
            try:
                token = await self._ready(sasl)
            except (ConnectionFailed, RequestError):
                if loop.time() >= self._session_end:
                    raise
                self._renew_at = min(loop.time() + TOKEN_AGAIN_S, self._session_end)
                return
            self._is_held = True
            await self._settled()
            await self._authenticate(sasl, token)
        except KavkaError as failure:
            self._fail(ConnectionFailed(f"the session with {self.address} could not be renewed: {failure}"))
        except BaseException:
            self.close()
            raise
        finally:
            self._renewal = None
            self._is_held = False

    async def _settled(self) -> None:
        """Returns when no answer is owed. Whoever asked may be gone, and its time-out with it: this has the same."""
        try:
            async with asyncio.timeout_at(self._answers_due):
                while self._pending:
                    self._all_answered.clear()
                    await self._all_answered.wait()
        except TimeoutError as late:
            raise ConnectionFailed(f"{self.address} owes an answer for too long") from late

    def _on_settled(self) -> None:
        if not self._pending:
            self._all_answered.set()

    def _fail(self, failure: ConnectionFailed) -> None:
        super()._fail(failure)
        if self._renewal is not None and self._renewal is not asyncio.current_task():
            self._renewal.cancel()

    async def _decoded(self, key: ApiKey, version: int, frame: bytes, answer_type: type[Answer]) -> Answer:
        try:
            _, position = decode_response_header(key, version, frame)
            body = memoryview(frame)[position:]
            if 0 < self._settings.decode_in_thread_bytes <= len(body):
                return await asyncio.to_thread(decode, answer_type, body, version)
            return decode(answer_type, body, version)
        except ProtocolViolation as failure:
            self._fail(ConnectionFailed(f"{self.address} gave a malformed answer to {api(key).name} {version}"))
            raise ConnectionFailed(
                f"malformed {api(key).name} {version} answer of {self.address}: {failure}"
            ) from failure

    def _decode_api_versions(self, frame: bytes, version: int) -> ApiVersionsResponse:
        """The answer in the version asked for, or in version 0 where the broker does not know that one."""
        body = memoryview(frame)[4:]
        refused = len(body) >= 2 and int.from_bytes(body[:2], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
        try:
            return decode(ApiVersionsResponse, body, 0 if refused else version)
        except ProtocolViolation as failure:
            raise ConnectionFailed(f"{self.address} did not answer in Kafka's protocol: {failure}") from failure

    async def _exchange(self, known: Api, version: int, message: Message, timeout_ms: int) -> bytes:
        """Sends one request and waits for the frame of its answer."""
        async with self._slots:
            await self._session()
            return await self._ask(known, version, message, timeout_ms)

    async def _ask(self, known: Api, version: int, message: Message, timeout_ms: int) -> bytes:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()
        self._send(known.key, version, message, future)
        due = loop.time() + timeout_ms / 1000
        self._answers_due = max(self._answers_due, due)
        try:
            async with asyncio.timeout_at(due):
                await self._connection.drain()
                return await future
        except TimeoutError as failure:
            late = ConnectionFailed(f"{self.address} did not answer {known.name} within {timeout_ms} ms")
            self._fail(late)
            raise late from failure

    def _as_connection_failure(self, failure: KavkaError) -> ConnectionFailed:
        if isinstance(failure, FrameTooLarge):
            return _another_protocol(self.address, failure)
        return super()._as_connection_failure(failure)


def _sent(messages: Exchange, answer: bytes) -> bytes | None:
    """The next message after an answer; None: there is none."""
    try:
        return messages.send(answer)
    except StopIteration:
        return None


def _another_protocol(address: str, failure: FrameTooLarge) -> ConnectionFailed:
    """What the first four bytes of an answer say, taken for the length of a frame."""
    start = failure.length.to_bytes(4, "big")
    for bytes_, protocol in ((b"HTTP", "HTTP"), (b"SSH-", "SSH"), (b"\x15\x03", "TLS"), (b"\x16\x03", "TLS")):
        if start.startswith(bytes_):
            return NotKafka(f"{address} speaks {protocol}, not Kafka's protocol")
    return ConnectionFailed(f"{address}: {failure}")
