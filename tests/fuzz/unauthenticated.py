"""Damaged bytes for whatever reads before a client is known, and for the operator's files. `make fuzz` runs it.

    python -m tests.fuzz.unauthenticated [--seed 1] [--inputs 100000] [--kind hello ...]

Each input is made of a good one: bits flipped, cut off, lengths that lie, pieces of others or of a dictionary spliced
in, repeated; a few are noise. It goes straight to the reader, in this process. A run fails where

    anything but the failure that is meant comes out     somebody gets in
    one input takes more than LONGEST_MS of this thread's time
    the process grows by more than GROWTH_MIB after the first third of a kind's inputs

The same seed gives the same inputs, but for what keys make random (hello, records, jwt).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import hashlib
import inspect
import json
import os
import random
import socket
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import pack
from typing import Any, Final, NamedTuple, cast

from kavka.broker.authentication.failed_authentications import Failures
from kavka.broker.authentication.sasl_gate import GatePorts, Gates
from kavka.config.sasl import SaslListener
from kavka.model import BrokerId
from kavka.protocol.api import ApiKey, RequestHeader, encode_request_header
from kavka.protocol.codec import decode, encode
from kavka.protocol.connection import ConnectionContext, Outcome, Request, Response, ServerConnection
from kavka.protocol.frames import BufferPool
from kavka.protocol.messages import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from kavka.runtime.tls.certificate_authority import CertificateAuthority
from kavka.runtime.tls.tls_channel import SCRATCH_BYTES, TlsChannel, TlsSession
from kavka.runtime.tls.tls_handshakes import step
from kavka.security import der
from kavka.security.certificates import read_certificate
from kavka.security.digest_md5 import REALM, DigestClient, DigestServer, SaslFailed
from kavka.security.distinguished_name import name_text
from kavka.security.failed_login_delay import Guessing
from kavka.security.jaas import MalformedJaas, parse
from kavka.security.json_web_tokens import MalformedKeySet, TokenRules, read_key_set, verify
from kavka.security.key_stores import KeyStoreError, StoreSettings, _java_password, read_authorities, read_identity
from kavka.security.oauthbearer import Bearer, OAuthBearerServer, TokenRefused
from kavka.security.plain import PlainServer, client_token
from kavka.security.sasl import AuthenticationFailed, FailureReason, ServerExchange
from kavka.security.scram_credentials import ScramCredential, ScramMechanism, Shapes, credential_of, stand_in
from kavka.security.scram_exchange import Found, ScramServer
from kavka.security.secret import Secret
from kavka.security.tls_records import NotTls, require_hello, whole_records
from tests.kit.token_issuer import AUDIENCE, ISSUER, claims, encoded, first_message, key_set, token

LONGEST_MS: Final = 50.0
GROWTH_MIB: Final = 16.0
WORDS: Final = (
    b"\0", b"\x01", b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"n,,", b"y,,", b"a=admin,",
    b",r=", b"n=alice", b",tokenauth=true", b"auth=Bearer ", b"\x16\x03\x01", b"\x17\x03\x03",
    b"\x14\x03\x03\0\x01\x01", b'"', b"'", b"\\", b";", b"=", b"{", b"[" * 50, b"/*", b"none", b"1e999", b"9" * 40,
    b"\xed\xa0\x80", b"-----BEGIN ", b"\x30\x84", b"\x06\x03\x55\x04\x03", b".", b"..",
)  # fmt: skip
_DATA: Final = Path(__file__).resolve().parents[1] / "unit" / "security"


def damaged(rng: random.Random, good: Sequence[bytes]) -> bytes:
    """One of the good inputs, damaged once to four times."""
    data = bytearray(rng.choice(good))
    if rng.random() < 0.02:
        return rng.randbytes(rng.randint(0, 600))
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randint(0, len(data))
        match rng.randrange(8):
            case 0 | 1 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 2:
                del data[at:]
            case 3:
                del data[at : at + rng.choice((1, 1, 2, 4, 30))]
            case 4:
                data[at:at] = rng.choice(WORDS)
            case 5:
                size = rng.choice((1, 2, 4))
                data[at : at + size] = rng.choice((0, 1, (1 << 8 * size - 1) - 1, (1 << 8 * size) - 1)).to_bytes(size)
            case 6:
                other = rng.choice(good)
                begin = rng.randint(0, len(other))
                data[at:] = other[begin : begin + 2000]
            case _:
                data[at:at] = data[at : at + rng.choice((1, 4, 16, 200))] * rng.choice((1, 2, 50))
    return bytes(data[:20_000])


class Kind(NamedTuple):
    """A kind of input. `read` returns a word about what became of one; what it raises is a finding."""

    name: str
    good: Sequence[bytes]
    read: Callable[[bytes], str]


class GotIn(Exception):
    """Somebody who may not."""


# -- TLS


def _contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    signed = CertificateAuthority.new(time.time_ns() // 1_000_000).sign_broker(
        ["localhost"], time.time_ns() // 1_000_000
    )
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(signed.both)
        file.flush()
        server.load_cert_chain(file.name)
    server.options |= ssl.OP_NO_RENEGOTIATION
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return server, client


def hello() -> Kind:
    server, client = _contexts()
    older, one_version = _contexts()[1], _contexts()[1]
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    one_version.minimum_version = ssl.TLSVersion.TLSv1_3
    good = [TlsSession(each, server_side=False).step(b"")[1] for each in (client, older, one_version)]

    def read(data: bytes) -> str:
        try:
            require_hello(data, "SSL")
            end, _ = whole_records(data, len(data))
        except NotTls:
            return "no TLS"
        if not end:
            return "waits"
        outcome = step(TlsSession(server, server_side=True), data[:end])
        if outcome.is_over:
            raise GotIn("a handshake was over after its first bytes")
        return "refused" if outcome.failure is not None else "answered"

    return Kind("hello", [*good, b"GET / HTTP/1.1\r\n\r\n", pack(">ihhi", 10, 18, 3, 1)], read)


def records() -> Kind:
    """What comes on a connection whose handshake is over; each input is a session's next bytes."""
    server, client = _contexts()
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    scratch, target = bytearray(SCRATCH_BYTES), memoryview(bytearray(65536))
    open_ones: list[tuple[TlsChannel, TlsSession]] = []

    def opened() -> tuple[TlsChannel, TlsSession]:
        if not open_ones:
            one, other = TlsSession(server, server_side=True), TlsSession(client, server_side=False)
            to_one = other.step(b"")[1]
            is_over = False
            while not is_over:
                is_over, to_other = one.step(to_one)
                to_one = other.step(to_other)[1] if to_other else b""
            open_ones.append((TlsChannel(ours, one, scratch), other))
        return open_ones[0]

    def drain(one: socket.socket) -> None:
        try:
            while one.recv(65536):
                pass
        except BlockingIOError:
            return

    def read(data: bytes) -> str:
        channel, other = opened()
        marker, rest = data[:1], data[1:]
        if marker < b"\x80":
            other.tls.write(rest[:200] or b"x")
            whole = bytearray(other.outgoing.read())
            if marker[:1] > b"\x20":
                at = rest[0] % len(whole) if rest else 0
                whole[at] ^= 1 << (rest[1] % 8 if len(rest) > 1 else 0)
            data = bytes(whole) + (rest[200:] if marker > b"\x60" else b"")
        theirs.send(data or b"\0")
        try:
            for _ in range(8):
                channel.recv_into(target)
        except BlockingIOError:
            if len(channel.held) > 17 * 1024 + 2048:
                raise GotIn("more is held than a record has") from None
            if not channel.held:
                return "read"
            said = "waits"
        except OSError:
            said = "refused"
        else:
            said = "read"
        open_ones.clear()
        drain(ours)
        drain(theirs)
        return said

    seeds = [bytes([mark]) + b"hello, this is a request" * 4 for mark in (0, 0x10, 0x30, 0x50, 0x70)]
    raw = [
        b"\xff\x17\x03\x03\0\x20" + bytes(32),
        b"\xff\x15\x03\x03\0\x02\x01\0",
        b"\xff\x16\x03\x03\0\x04\x18\0\0\x01",
    ]
    return Kind("records", [*seeds, *(each[1:] for each in raw), b"\x90" + b"\x17\x03\x03\x48\x00"], read)


# -- frames and SASL messages


def _find(name: str) -> Found:
    credential = credential_of(ScramMechanism.SHA_256, b"salt", bytes(range(32)), 4096)
    if name == "alice":
        return Found(credential)
    return Found(stand_in(ScramMechanism.SHA_256, name, b"secret", Shapes()), is_known=False)


def _nobody(text: str) -> Bearer:
    raise TokenRefused(FailureReason.UNKNOWN_KEY)


def _exchange(name: str) -> ServerExchange:
    if name == "PLAIN":
        return PlainServer({"alice": Secret("a password that no input has")})
    if name == "OAUTHBEARER":
        return OAuthBearerServer(_nobody)
    return ScramServer(ScramMechanism.SHA_256, _find, "nonce")


class _Clock:
    """As much of a loop as gates ask for; its time stands still."""

    def __init__(self) -> None:
        self.create_future = asyncio.new_event_loop().create_future

    def time(self) -> float:
        return 100.0

    def call_soon_threadsafe(self, work: Callable[..., None], *arguments: Any) -> None:
        work(*arguments)

    def call_later(self, _delay_s: float, work: Callable[..., None], *arguments: Any) -> None:
        work(*arguments)


class _AtOnce:
    """What computes on another thread does it here."""

    def __await__(self) -> Any:
        yield from ()


def _frame(key: ApiKey, version: int, message: Any) -> bytes:
    content = encode_request_header(RequestHeader(key, version, 7, "fuzz")) + encode(message, version)
    return pack(">i", len(content)) + content


FIRST: Final = b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL"
FINAL: Final = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawLnonce,p=" + b"A" * 43 + b"="
PLAIN: Final = client_token("alice", "x")


def frames() -> Kind:
    """Whole streams of connections on a listener with SASL."""
    mechanisms = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
    failures = Failures(BrokerId(1), lambda decision: None, wall_ms=lambda: 7)
    ports = GatePorts(
        cast(Any, _Clock()), failures, lambda listener, name: _exchange(name), 0, 10_000, Guessing(0, 0), frozenset(),
        beside=lambda work: (work(), _AtOnce())[1],
    )  # fmt: skip
    gates = Gates({"SASL": SaslListener("SASL", mechanisms, {}, dict.fromkeys(mechanisms, 0))}, ports)

    def serve(request: Request) -> Outcome:
        if request.header.api_key != ApiKey.API_VERSIONS:
            raise GotIn("a request was served")
        version = request.header.api_version
        if 0 <= version <= 4:
            decode(ApiVersionsRequest, request.body, version)
        return Response((b"\0\0" if 0 <= version <= 4 else b"\0\x23",))

    def run(outcome: Outcome) -> Response | None:
        if isinstance(outcome, Response):
            return outcome
        assert inspect.iscoroutine(outcome)
        try:
            outcome.send(None)
        except StopIteration as ended:
            return cast(Response, ended.value)
        outcome.close()  # It waits, as failures do.
        return None

    def read(data: bytes) -> str:
        context = ConnectionContext("c", "10.0.0.1", 1, "SASL")
        context.gate = gates.new(context)
        connection = ServerConnection(context, BufferPool(), 1_000_000)
        shared = memoryview(bytearray(4096))
        said = "waits"
        while data and said != "refused":
            into = connection.reader.target(shared)
            part, data = data[: len(into)], data[len(into) :]
            into[: len(part)] = part
            requests = connection.received(shared, len(part), 1)
            while requests and said != "refused":
                answer = run(context.gate.handle(requests[0], serve))
                said = "refused" if answer is None or answer.mute_ms else "answered"
                connection.reader.release()
                requests = connection.more(1)
            if connection.violation is not None:
                context.gate.on_violation(connection.violation)
                said = "refused"
        if context.gate.is_open:
            raise GotIn("the gate is open")
        connection.close()
        return said

    versions = _frame(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("fuzz", "1"))
    good = [
        versions,
        *(
            (versions if version else b"")
            + _frame(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=name))
            + b"".join(
                _frame(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=said))
                if version
                else pack(">i", len(said)) + said
                for said in messages
            )
            for version in (0, 1)
            for name, messages in (
                ("PLAIN", [PLAIN]),
                ("SCRAM-SHA-256", [FIRST, FINAL]),
                ("OAUTHBEARER", [first_message("a.b.c"), b"\x01"]),
            )
        ),
    ]
    return Kind("frames", good, read)


def sasl() -> Kind:
    good = [PLAIN, FIRST, FIRST + b",tokenauth=true", first_message("a.b.c", authzid="alice", trace="x"), b"\x01"]

    def read(data: bytes) -> str:
        answers = 0
        for name, messages in (
            ("PLAIN", [data]),
            ("SCRAM-SHA-256", [data, FINAL]),
            ("SCRAM-SHA-256", [FIRST, data]),
            ("OAUTHBEARER", [data, data]),
        ):
            exchange = _exchange(name)
            try:
                for message in messages:
                    labour = getattr(exchange, "labour", None)
                    work = labour(message) if labour is not None else None
                    if work is not None:
                        work()
                    if exchange.step(message).user is not None:
                        raise GotIn(name)
                    answers += 1
            except AuthenticationFailed:
                continue
        return f"{answers} answers"

    return Kind("sasl", [*good, FINAL], read)


def digest() -> Kind:
    """DIGEST-MD5 of ZooKeeper, both sides."""
    users = {"alice": Secret("a password that no input has")}
    client = DigestClient("alice", Secret("x"), "cnonce")
    challenge = DigestServer(users, "nonce").challenge()
    good = [challenge, client.respond(challenge), b"rspauth=" + b"0" * 32, f'realm="{REALM}",nonce=""'.encode()]

    def read(data: bytes) -> str:
        said = "refused"
        for work in (
            lambda: DigestServer(users, "nonce").answer(data),
            lambda: DigestClient("alice", Secret("x"), "c").respond(data),
            lambda: client.finish(data),
        ):
            try:
                if isinstance(work(), bytes):
                    said = "answered"
                else:
                    raise GotIn("DIGEST-MD5")
            except SaslFailed:
                continue
        return said

    return Kind("digest", good, read)


# -- tokens and keys


def jwt() -> Kind:
    keys = read_key_set(key_set("RS256-1", "ES256-1", "EdDSA-1"))
    rules = TokenRules(ISSUER, frozenset({AUDIENCE}))
    signed = [token(), token(kid="ES256-1", algorithm="ES256"), token(kid="EdDSA-1", algorithm="EdDSA")]
    parts = [json.dumps({"alg": "none"}).encode(), json.dumps({"alg": "HS256", "kid": "../../etc/passwd"}).encode()]
    content = json.dumps(claims()).encode()
    own = {part for each in signed for part in each.split(".")[:2]}

    def read(data: bytes) -> str:
        text = data.decode("latin-1")
        if data[:1] == b"{":  # Damaged JSON, well encoded.
            head, _, body = data.partition(b"\n")
            text = f"{encoded(head)}.{encoded(body)}.{encoded(b'x' * 64)}"
        try:
            found = verify(text, keys, rules, int(time.time() * 1000))
        except TokenRefused as refused:
            return refused.reason.value
        # Of a signature's last character some bits count for nothing: the same token in other letters.
        if not set(text.split(".")[:2]) <= own or found.principal != "alice":
            raise GotIn(text)
        return "the same token"

    return Kind("jwt", [*(each.encode() for each in signed), *(part + b"\n" + content for part in parts)], read)


def keys() -> Kind:
    good = [key_set("RS256-1", "ES256-1"), key_set("EdDSA-1", "Ed448-1"), b'{"keys":[]}']

    def read(data: bytes) -> str:
        try:
            return f"{len(read_key_set(data).keys)} keys"
        except MalformedKeySet:
            return "refused"

    return Kind("keys", good, read)


# -- the operator's texts and files


def jaas() -> Kind:
    good = [
        b'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password=\'b\' user_a="\\101";',
        b'ScramLoginModule required username="a" password="b" tokenauth="true"; // c\n/* d */',
        b'OAuthBearerLoginModule required ssl.truststore.location="/x";',
    ]

    def read(data: bytes) -> str:
        try:
            return parse(data.decode("utf-8", "surrogateescape")).module
        except MalformedJaas:
            return "refused"

    return Kind("jaas", good, read)


def _stores() -> dict[str, Any]:
    return cast(dict[str, Any], json.loads((_DATA / "stores_by_keytool.json").read_text()))


def names() -> Kind:
    rows = json.loads((_DATA / "names_by_java.json").read_text())
    subjects = [bytes.fromhex(row[0]) for row in rows if row[0]]
    certificate = read_authorities(_binary("jks_trust"), StoreSettings("trust", "JKS", "f"))[0]

    def read(data: bytes) -> str:
        said = "refused"
        for work in (name_text, read_certificate):
            try:
                work(data)
                said = "read"
            except der.MalformedDer:
                continue
        return said

    return Kind("names", [*subjects, *[certificate] * len(subjects)], read)


def _binary(name: str) -> bytes:
    return base64.b64decode(_stores()[name])


def jks() -> Kind:
    good = [_binary("jks_key"), _binary("jks_trust")]
    trust = StoreSettings("trust", "JKS", "f")
    key = StoreSettings("key", "JKS", "f", "storepass", key_password="keypass")

    def read(data: bytes) -> str:
        # With a digest that fits, or all that is behind it would be left alone.
        data = b"\xfe\xed\xfe\xed" + data[4:-20]
        data += hashlib.sha1(_java_password("storepass") + b"Mighty Aphrodite" + data).digest()
        said = "refused"
        for work in (lambda: read_authorities(data, trust), lambda: read_identity(data, key)):
            try:
                work()
                said = "read"
            except KeyStoreError:
                continue
        return said

    return Kind("jks", good, read)


def credential() -> Kind:
    """What ZooKeeper keeps of a user."""
    good = [credential_of(mechanism, b"salt", bytes(32), 4096).encode().encode() for mechanism in ScramMechanism]

    def read(data: bytes) -> str:
        try:
            ScramCredential.decode(data.decode("utf-8", "replace"))
        except ValueError:
            return "refused"
        return "read"

    return Kind("credential", good, read)


KINDS: Final[Sequence[Callable[[], Kind]]] = (
    hello, records, frames, sasl, digest, jwt, keys, jaas, names, jks, credential,
)  # fmt: skip


class Report(NamedTuple):
    """What a run of one kind came to."""

    said: Counter[str]
    cpu_s: float
    longest_ms: float
    grown_mib: float
    findings: Sequence[str]


def _resident_mib() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def run(kind: Kind, inputs: int, seed: int) -> Report:
    """Reads so many damaged inputs."""
    rng = random.Random(f"{seed} {kind.name}")
    said: Counter[str] = Counter()
    findings: list[str] = []
    longest_ms, begun = 0.0, time.thread_time()
    settled_mib = 0.0
    for number in range(inputs):
        if number == inputs // 3:
            settled_mib = _resident_mib()
        data = damaged(rng, kind.good)
        before = time.thread_time()
        try:
            said[kind.read(data)] += 1
        except Exception as wrong:
            findings.append(f"{type(wrong).__name__}: {wrong} of {data[:300].hex()}")
        took_ms = (time.thread_time() - before) * 1000
        longest_ms = max(longest_ms, took_ms)
        if took_ms > LONGEST_MS:
            findings.append(f"{took_ms:.0f} ms for {data[:300].hex()}")
        if len(findings) > 20:
            break
    cpu_s, grown_mib = time.thread_time() - begun, _resident_mib() - settled_mib
    if grown_mib > GROWTH_MIB:
        findings.append(f"the process grew by {grown_mib:.1f} MiB")
    return Report(said, cpu_s, longest_ms, grown_mib, findings)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=100_000, help="of each kind")
    parser.add_argument("--kind", action="append", choices=[each.__name__ for each in KINDS])
    wanted = parser.parse_args(words)
    failed = False
    for make in KINDS:
        if wanted.kind and make.__name__ not in wanted.kind:
            continue
        report = run(make(), wanted.inputs, wanted.seed)
        outcomes = ", ".join(f"{word} {count}" for word, count in report.said.most_common(4))
        print(
            f"{make.__name__:<11} {sum(report.said.values()):>7} inputs  {report.cpu_s:6.1f} s  longest "
            f"{report.longest_ms:5.1f} ms  grew {report.grown_mib:4.1f} MiB  {outcomes}",
            flush=True,
        )
        for finding in report.findings:
            failed = True
            print("    ", finding, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
