"""SASL exchanges, right and wrong, on raw sockets: what a broker answers. Runs against kavka and Apache Kafka alike.

An answer is told as (error code, message or mechanisms, whether it has a token, how long the session lasts); the end of
the connection as "closed".
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any

from kavka.errors import ErrorCode
from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey, RequestHeader, api, decode_response_header, encode_request_header
from kavka.protocol.codec import decode, encode_chunks
from kavka.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kavka.protocol.messages.metadata_request import MetadataRequest
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kavka.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kavka.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kavka.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kavka.protocol.schema import Message
from kavka.security.plain import client_token
from kavka.security.scram_credentials import ScramMechanism, salted
from kavka.security.scram_exchange import client_exchange

LISTENER = "SASL_PLAINTEXT"
PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin-secret" user_admin="admin-secret" user_alice="alice-secret" user_bob="b;o=b";'
)
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SESSION_MS = 3000
PATIENCE_S = 60.0


def settings(port: int, plaintext_port: int) -> dict[str, str]:
    """Of a broker with a listener that authenticates and one that does not."""
    own = f"listener.name.{LISTENER.lower()}"
    listeners = f"PLAINTEXT://127.0.0.1:{plaintext_port},{LISTENER}://127.0.0.1:{port}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:{LISTENER}",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{own}.plain.sasl.jaas.config": PLAIN_LOGIN,
        f"{own}.scram-sha-256.sasl.jaas.config": SCRAM_LOGIN,
        f"{own}.scram-sha-512.sasl.jaas.config": SCRAM_LOGIN,
        f"{own}.scram-sha-512.connections.max.reauth.ms": str(SESSION_MS),
        f"{own}.plain.connections.max.reauth.ms": str(SESSION_MS),
        "sasl.server.max.receive.size": "20000",
        "connection.failed.authentication.delay.ms": "50",
    }


class Wire:
    """One connection, on which anything may be sent."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._next = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> str:
        with suppress(OSError):  # Its end is read.
            self._socket.sendall(data)
        return "sent"

    def raw(self, token: bytes) -> str:
        return self.send(struct.pack(">i", len(token)) + token)

    def request(self, key: ApiKey, version: int, message: Message) -> bytes:
        """The bytes of a request."""
        self._next += 1
        header = encode_request_header(RequestHeader(key, version, self._next, "script"))
        body = b"".join(bytes(chunk) for chunk in encode_chunks(message, version))  # type: ignore[arg-type]
        return struct.pack(">i", len(header) + len(body)) + header + body

    def receive(self) -> bytes | None:
        """The next frame; None: the connection has ended."""
        head = self._read(4)
        if head is None:
            return None
        return self._read(struct.unpack(">i", head)[0])

    def _read(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                more = self._socket.recv(size - len(data))
            except ConnectionError:
                return None
            if not more:
                return None
            data += more
        return data

    def ask(self, key: ApiKey, version: int, message: Message) -> Any:
        """The answer to a request, or "closed"."""
        self.send(self.request(key, version, message))
        return self.answer(key, version)

    def answer(self, key: ApiKey, version: int) -> Any:
        frame = self.receive()
        if frame is None:
            return "closed"
        _, position = decode_response_header(key, version, frame)
        return decode(api(key).response_type, memoryview(frame)[position:], version)

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        said = self.ask(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))
        if isinstance(said, SaslHandshakeResponse):
            return ErrorCode(said.error_code).name, sorted(said.mechanisms)
        return said

    def token(self, token: bytes, version: int = 1) -> Any:
        return told(self.ask(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token)))

    def scram(self, mechanism: ScramMechanism, user: str, password: str) -> Any:
        """A whole exchange after the handshake; what the last answer was."""
        exchange: Generator[bytes, bytes, None] = client_exchange(mechanism, user, password, "fyko+d2lbbFgONRv9qkxdawL")
        said: Any = None
        token = next(exchange)
        while True:
            said = self.ask(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=token))
            if not isinstance(said, SaslAuthenticateResponse) or said.error_code:
                return told(said)
            try:
                token = exchange.send(bytes(said.auth_bytes))
            except StopIteration:
                return told(said)

    def is_served(self) -> Any:
        """Whether a Metadata request is answered."""
        said = self.ask(ApiKey.METADATA, 4, MetadataRequest(topics=[]))
        return said if said == "closed" else "served"

    def ended(self) -> str:
        frame = self.receive()
        return "closed" if frame is None else f"answered with {len(frame)} bytes"


def told(said: Any) -> Any:
    if not isinstance(said, SaslAuthenticateResponse):
        return said
    return ErrorCode(said.error_code).name, said.error_message, bool(said.auth_bytes), said.session_lifetime_ms


def versions(wire: Wire, version: int = 3) -> Any:
    message = m.ApiVersionsRequest(client_software_name="script", client_software_version="1")
    said = wire.ask(ApiKey.API_VERSIONS, version, message)
    return said if said == "closed" else (ErrorCode(said.error_code).name, bool(said.api_keys))


Case = Callable[[Wire], Any]


def _opened(wire: Wire) -> list[Any]:
    return [wire.handshake("PLAIN"), wire.token(client_token("alice", "alice-secret"))]


def _reauthenticated_as_bob(wire: Wire) -> list[Any]:
    return [*_opened(wire), wire.handshake("PLAIN"), wire.token(client_token("bob", "b;o=b")), wire.ended()]


def _reauthenticated(wire: Wire) -> list[Any]:
    again = [wire.handshake("PLAIN"), wire.token(client_token("alice", "alice-secret"))]
    return [*_opened(wire), *again, wire.is_served()]


def _reauthenticated_twice_at_once(wire: Wire) -> list[Any]:
    return [*_reauthenticated(wire), wire.handshake("PLAIN"), wire.is_served()]


def _reauthenticated_late(wire: Wire) -> list[Any]:
    first = _opened(wire)
    time.sleep(SESSION_MS / 1000 + 0.3)
    return [*first, wire.handshake("PLAIN"), wire.token(client_token("alice", "alice-secret")), wire.is_served()]


def _session_over(wire: Wire, *, wait_only: bool = False) -> list[Any]:
    first = _opened(wire)
    time.sleep(SESSION_MS / 1000 + 0.3)
    return first if wait_only else [*first, wire.is_served()]


def _reauthenticated_with_wrong_password(wire: Wire) -> list[Any]:
    return [*_opened(wire), wire.handshake("PLAIN"), wire.token(client_token("alice", "x")), wire.ended()]


def _reauthenticated_with_other_mechanism(wire: Wire) -> list[Any]:
    return [*_opened(wire), wire.handshake("SCRAM-SHA-256"), wire.token(b"n,,n=alice,r=abc"), wire.ended()]


def _reauthenticated_with_unknown_mechanism(wire: Wire) -> list[Any]:
    return [*_opened(wire), wire.handshake("NONSENSE"), wire.ended()]


def _request_while_reauthenticating(wire: Wire) -> list[Any]:
    return [*_opened(wire), wire.handshake("PLAIN"), versions(wire, 0), wire.ended()]


def _bare_token(wire: Wire, token: bytes) -> list[Any]:
    said = [wire.handshake("PLAIN", 0)]
    wire.raw(token)
    return said


def _bare(wire: Wire) -> list[Any]:
    said = _bare_token(wire, client_token("alice", "alice-secret"))
    return [*said, wire.receive(), wire.is_served()]


def _bare_wrong(wire: Wire) -> list[Any]:
    return [*_bare_token(wire, client_token("alice", "x")), wire.ended()]


def _bare_scram(wire: Wire) -> list[Any]:
    said: list[Any] = [wire.handshake("SCRAM-SHA-256", 0)]
    exchange = client_exchange(ScramMechanism.SHA_256, "carol", "carol-secret", "abc")
    token = next(exchange)
    while True:
        wire.raw(token)
        answer = wire.receive()
        if answer is None:
            return [*said, "closed"]
        try:
            token = exchange.send(answer)
        except StopIteration:
            return [*said, wire.is_served()]


def _oversized(wire: Wire) -> list[Any]:
    wire.send(struct.pack(">i", 20_001) + bytes(64))
    return [wire.ended()]


def _oversized_token(wire: Wire) -> list[Any]:
    said = [wire.handshake("PLAIN")]
    wire.send(struct.pack(">i", 20_001) + bytes(64))
    return [*said, wire.ended()]


def _pipelined(wire: Wire) -> list[Any]:
    """Everything in one piece: the request after the login is served, as the user that has just logged in."""
    parts = [
        wire.request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")),
        wire.request(
            ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=client_token("alice", "alice-secret"))
        ),
        wire.request(ApiKey.METADATA, 4, MetadataRequest(topics=[])),
    ]
    wire.send(b"".join(parts))
    handshake = wire.answer(ApiKey.SASL_HANDSHAKE, 1)
    answer = told(wire.answer(ApiKey.SASL_AUTHENTICATE, 1))
    served = wire.answer(ApiKey.METADATA, 4)
    return [handshake.error_code, answer, served if served == "closed" else "served"]


def _pipelined_wrong(wire: Wire) -> list[Any]:
    parts = [
        wire.request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")),
        wire.request(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=client_token("alice", "x"))),
        wire.request(ApiKey.METADATA, 4, MetadataRequest(topics=[])),
    ]
    wire.send(b"".join(parts))
    handshake = wire.answer(ApiKey.SASL_HANDSHAKE, 1)
    return [handshake.error_code, told(wire.answer(ApiKey.SASL_AUTHENTICATE, 1)), wire.ended()]


def _first_of_scram(wire: Wire, token: bytes) -> list[Any]:
    return [wire.handshake("SCRAM-SHA-256"), wire.token(token), wire.ended()]


CASES: dict[str, Case] = {
    "PLAIN": lambda wire: [versions(wire), *_opened(wire), wire.is_served()],
    "PLAIN in version 0 of SaslAuthenticate": lambda wire: [
        wire.handshake("PLAIN"),
        wire.token(client_token("alice", "alice-secret"), 0),
        wire.is_served(),
    ],
    "PLAIN in version 2 of SaslAuthenticate": lambda wire: [
        wire.handshake("PLAIN"),
        wire.token(client_token("bob", "b;o=b"), 2),
        wire.is_served(),
    ],
    "own authzid": lambda wire: [
        wire.handshake("PLAIN"),
        wire.token(b"alice" + client_token("alice", "alice-secret")),
    ],
    "another authzid": lambda wire: [
        wire.handshake("PLAIN"),
        wire.token(b"admin" + client_token("alice", "alice-secret")),
        wire.ended(),
    ],
    "wrong password": lambda wire: [wire.handshake("PLAIN"), wire.token(client_token("alice", "x")), wire.ended()],
    "unknown user": lambda wire: [wire.handshake("PLAIN"), wire.token(client_token("mallory", "x")), wire.ended()],
    "no user": lambda wire: [wire.handshake("PLAIN"), wire.token(b"\0\0x"), wire.ended()],
    "no password": lambda wire: [wire.handshake("PLAIN"), wire.token(b"\0alice\0"), wire.ended()],
    "no PLAIN message": lambda wire: [wire.handshake("PLAIN"), wire.token(b"garbage"), wire.ended()],
    "too many parts": lambda wire: [wire.handshake("PLAIN"), wire.token(b"\0a\0b\0c"), wire.ended()],
    "empty token": lambda wire: [wire.handshake("PLAIN"), wire.token(b""), wire.ended()],
    "SCRAM-SHA-256": lambda wire: [
        wire.handshake("SCRAM-SHA-256"),
        wire.scram(ScramMechanism.SHA_256, "carol", "carol-secret"),
        wire.is_served(),
    ],
    "SCRAM-SHA-512": lambda wire: [
        versions(wire),
        wire.handshake("SCRAM-SHA-512"),
        wire.scram(ScramMechanism.SHA_512, "carol", "carol-secret"),
        wire.is_served(),
    ],
    "SCRAM, wrong password": lambda wire: [
        wire.handshake("SCRAM-SHA-256"),
        wire.scram(ScramMechanism.SHA_256, "carol", "x"),
        wire.ended(),
    ],
    "SCRAM, unknown user": lambda wire: [
        wire.handshake("SCRAM-SHA-256"),
        wire.scram(ScramMechanism.SHA_256, "mallory", "x"),
        wire.ended(),
    ],
    "SCRAM, another authzid": lambda wire: _first_of_scram(wire, b"n,a=admin,n=carol,r=abc"),
    "SCRAM, garbage": lambda wire: _first_of_scram(wire, b"garbage"),
    "SCRAM, channel binding": lambda wire: _first_of_scram(wire, b"p=tls-unique,,n=carol,r=abc"),
    "SCRAM, unknown token": lambda wire: _first_of_scram(wire, b"n,,n=carol,r=abc,tokenauth=true"),
    "unknown mechanism": lambda wire: [wire.handshake("NONSENSE"), wire.ended()],
    "mechanism in small letters": lambda wire: [wire.handshake("plain"), wire.ended()],
    "mechanism that is not enabled": lambda wire: [wire.handshake("GSSAPI"), wire.ended()],
    "unknown mechanism in version 0": lambda wire: [wire.handshake("NONSENSE", 0), wire.ended()],
    "Metadata before anything": lambda wire: [wire.is_served()],
    "Metadata after ApiVersions": lambda wire: [versions(wire), wire.is_served()],
    "SaslAuthenticate before the handshake": lambda wire: [wire.token(client_token("alice", "alice-secret"))],
    "ApiVersions twice": lambda wire: [versions(wire), versions(wire)],
    "ApiVersions in an unknown version": lambda wire: [versions(wire, 3), wire.handshake("PLAIN")],
    "ApiVersions in the exchange": lambda wire: [wire.handshake("PLAIN"), versions(wire, 0), wire.ended()],
    "handshake in the exchange": lambda wire: [wire.handshake("PLAIN"), wire.handshake("PLAIN"), wire.ended()],
    "garbage": lambda wire: [wire.raw(b"\xff" * 40), wire.ended()],
    "a short frame": lambda wire: [wire.raw(b"\0"), wire.ended()],
    "an empty frame": lambda wire: [wire.raw(b""), wire.ended()],
    "garbage in the exchange": lambda wire: [wire.handshake("PLAIN"), wire.raw(b"\xff" * 40), wire.ended()],
    "oversized": _oversized,
    "oversized token": _oversized_token,
    "negative length": lambda wire: [wire.send(struct.pack(">i", -1)), wire.ended()],
    "bare tokens": _bare,
    "bare tokens, wrong password": _bare_wrong,
    "bare tokens, SCRAM": _bare_scram,
    "pipelined": _pipelined,
    "pipelined, wrong password": _pipelined_wrong,
    "SaslAuthenticate afterwards": lambda wire: [
        *_opened(wire),
        wire.token(client_token("alice", "alice-secret")),
        wire.is_served(),
    ],
    "re-authentication": _reauthenticated,
    "re-authentication twice at once": _reauthenticated_twice_at_once,
    "re-authentication after the session": _reauthenticated_late,
    "a request after the session": _session_over,
    "a token after the session": lambda wire: [*_session_over(wire, wait_only=True), wire.token(b"x")],
    "re-authentication as somebody else": _reauthenticated_as_bob,
    "re-authentication with a wrong password": _reauthenticated_with_wrong_password,
    "re-authentication with another mechanism": _reauthenticated_with_other_mechanism,
    "re-authentication with an unknown mechanism": _reauthenticated_with_unknown_mechanism,
    "a request while re-authenticating": _request_while_reauthenticating,
    "re-authentication without an end of the session": lambda wire: [
        wire.handshake("SCRAM-SHA-256"),
        wire.scram(ScramMechanism.SHA_256, "carol", "carol-secret"),
        wire.handshake("SCRAM-SHA-256"),
        wire.is_served(),
    ],
}

UNSECURED: dict[str, Case] = {
    "handshake on a listener without SASL": lambda wire: [wire.handshake("PLAIN"), wire.is_served()],
    "token on a listener without SASL": lambda wire: [wire.token(b"x"), wire.is_served()],
}


def add_user(
    plaintext_port: int,
    user: str,
    password: str,
    *,
    mechanisms: Iterable[ScramMechanism] = ScramMechanism,
    iterations: int = 4096,
    salt: bytes = b"abcdef",
) -> dict[str, int]:
    """Gives a user a credential of each of these SCRAM mechanisms, through the broker, which must be the controller."""
    upsertions = [
        ScramCredentialUpsertion(
            name=user,
            mechanism=mechanism.number,
            iterations=iterations,
            salt=salt,
            salted_password=salted(mechanism, password, salt, iterations),
        )
        for mechanism in mechanisms
    ]
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions)
    with Wire(plaintext_port) as wire:
        answer = wire.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    return {result.user: result.error_code for result in answer.results}


def remove_user(plaintext_port: int, user: str) -> dict[str, int]:
    """Takes both credentials away."""
    deletions = [ScramCredentialDeletion(name=user, mechanism=mechanism.number) for mechanism in ScramMechanism]
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[])
    with Wire(plaintext_port) as wire:
        answer = wire.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    return {result.user: result.error_code for result in answer.results}


def wait_for_user(port: int, user: str, password: str) -> None:
    """Until the broker has taken in a credential that was written a moment ago."""
    _wait_for_login(port, user, password, gets_in=True)


def wait_until_out(port: int, user: str, password: str) -> None:
    """Until the broker has taken in that the credential is gone."""
    _wait_for_login(port, user, password, gets_in=False)


def _wait_for_login(port: int, user: str, password: str, *, gets_in: bool) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with Wire(port) as wire:
            wire.handshake("SCRAM-SHA-512")
            if (wire.scram(ScramMechanism.SHA_512, user, password)[0] == "NONE") is gets_in:
                return
        time.sleep(0.01)
    raise AssertionError(f"{user} {'cannot' if gets_in else 'can still'} log in after {PATIENCE_S} s")


def run(port: int, plaintext_port: int) -> dict[str, Any]:
    """What is answered, by case. Adds the user carol."""
    for mechanism in ScramMechanism:  # Kafka's controller in KRaft mode takes one of a user in a request.
        assert add_user(plaintext_port, "carol", "carol-secret", mechanisms=[mechanism]) == {"carol": 0}
    wait_for_user(port, "carol", "carol-secret")
    found = {}
    for cases, where in ((CASES, port), (UNSECURED, plaintext_port)):
        for name, case in cases.items():
            with Wire(where) as wire:
                found[name] = case(wire)
    return found
