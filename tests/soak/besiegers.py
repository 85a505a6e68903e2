"""Besiegers: all that may reach a secured listener and does not belong there, again and again, at the same time.

Decides what each of them sends; `be_besiegers` is the process in which they run, each on a thread of its own, from
addresses of 127.0.2.x and 127.0.3.x. Each assault is a connection or two. It tells what became of it in a word, and
raises GotIn where a broker took it for somebody. Must not know how the cluster was started or what is judged.
"""

from __future__ import annotations

import os
import random
import secrets
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

from kavka.protocol.messages import (
    ApiVersionsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kavka.security.plain import client_token
from kavka.security.scram_credentials import ScramMechanism
from kavka.security.scram_exchange import client_exchange
from tests.fuzz.unauthenticated import damaged
from tests.kit.broker_client import BrokerClient, Closed, batch, produce_of
from tests.kit.certificates import Authority
from tests.kit.keys_server import KeysServer
from tests.kit.token_issuer import claims, encoded, first_message, key_set, token

MECHANISM: Final = ScramMechanism.SHA_512
PATIENCE_S: Final = 3.0
"""How long one assault waits for an answer that does not come."""
ADDRESSES: Final = 500
PAUSE_S: Final = 0.02
MANNERS: Final = ("fails", "lies", "cut", "silent", "huge", "empty", "redirects", "drips")
"""How the endpoint of the issuer's keys answers, one after the other."""


class GotIn(Exception):
    """A broker took a besieger for somebody."""


class Target(NamedTuple):
    """The listeners, by broker, and what besiegers know: the authority, a user's name, and for `replayed` also the
    password, to have a true login to write down."""

    clients: Sequence[int]
    brokers: Sequence[int]
    plain: Sequence[int]
    ca: str
    directory: str
    user: str
    password: str


class Place:
    """From where, and to which broker, an assault goes."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self.random = random.Random(seed)
        self.context = ssl.create_default_context(cafile=target.ca)
        self.others = Authority("another authority")
        self._hello = _hello(self.context)

    @property
    def hello(self) -> bytes:
        return self._hello

    def bare(self, ports: Sequence[int]) -> BrokerClient:
        number = self.random.randrange(ADDRESSES)
        source = f"127.0.{2 + number // 250}.{1 + number % 250}"
        return BrokerClient(self.random.choice(ports), source=source, timeout_s=PATIENCE_S)

    @contextmanager
    def over_tls(self) -> Iterator[BrokerClient]:
        with self.bare(self.target.clients) as client:
            client.socket = self.context.wrap_socket(client.socket, server_hostname="localhost")
            yield client


def _hello(context: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def _end_of(client: BrokerClient) -> str:
    """What comes of a connection on which nothing good was said."""
    try:
        said = client.socket.recv(65536)
    except TimeoutError:
        return "waits"
    except (OSError, ssl.SSLError):
        return "closed"
    return "answered" if said else "closed"


VERSIONS: Final = ApiVersionsRequest(client_software_name="besieger", client_software_version="1")
METADATA: Final = MetadataRequest(topics=None, allow_auto_topic_creation=False)


def _refused(client: BrokerClient) -> str:
    """Sends what only somebody who has logged in may ask."""
    try:
        client.ask(METADATA, 9)
    except (Closed, OSError):
        return "closed"
    raise GotIn("Metadata was answered")


# -- TLS and what is none


def cut_and_lying_records(place: Place) -> str:
    lies = [place.hello, b"\x16\x03\x01\xff\xff" + bytes(300), b"\x17\x03\x03\x00\x20" + bytes(32), b"\x80\x2e\x01"]
    with place.bare([*place.target.clients, *place.target.brokers]) as client:
        client.socket.settimeout(0.2)
        with suppress(Closed):
            client.send_bytes(damaged(place.random, lies) or b"\x16")
        return _end_of(client)


def records_that_lie_after_the_handshake(place: Place) -> str:
    with place.over_tls() as client:
        lie = damaged(place.random, [b"\x17\x03\x03\x01\x00" + os.urandom(256), b"\x15\x03\x03\x00\x02\x01\x00"])
        with suppress(OSError):
            os.write(client.socket.fileno(), lie or b"\x17")
        client.socket.settimeout(0.2)
        return _end_of(client)


def http(place: Place) -> str:
    with place.bare([*place.target.clients, *place.target.brokers, *place.target.plain]) as client:
        with suppress(Closed):
            client.send_bytes(b"POST / HTTP/1.1\r\nHost: kafka\r\nContent-Length: 5\r\n\r\nhello")
        return _end_of(client)


def plaintext_on_tls(place: Place) -> str:
    with place.bare([*place.target.clients, *place.target.brokers]) as client:
        client.send(*place.random.choice(((METADATA, 9), (VERSIONS, 3), (SaslHandshakeRequest(mechanism="PLAIN"), 1))))
        if (said := _end_of(client)) == "answered":
            raise GotIn("an answer in clear")
        return said


def tls_on_plaintext(place: Place) -> str:
    with place.bare(place.target.plain) as client:
        client.send_bytes(place.hello)
        return _end_of(client)


def certificates_of_nobody(place: Place) -> str:
    """On the brokers' own listener: none, one of another authority, and an expired one of that."""
    context = ssl.create_default_context(cafile=place.target.ca)
    name = f"broker-{place.random.randrange(1000)}"
    if place.random.random() < 0.7:
        signed = place.others.sign(name, days=place.random.choice((30, -1)))
        file = signed.write(Path(place.target.directory) / "besieger.pem")
        context.load_cert_chain(file)
    with place.bare(place.target.brokers) as client:
        try:
            client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        except OSError:
            return "closed"
        return _refused(client)


# -- SASL


def out_of_order(place: Place) -> str:
    plain, scram = SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeRequest(mechanism=MECHANISM.value)
    proof = SaslAuthenticateRequest(auth_bytes=client_token(place.target.user, "x"))
    first = SaslAuthenticateRequest(auth_bytes=b"n,,n=admin,r=abc")
    write = produce_of("siege", bytes(batch(b"a besieger's")))
    steps = place.random.choice(
        (
            [(METADATA, 9)],
            [(VERSIONS, 3), (VERSIONS, 3), (METADATA, 9)],
            [(proof, 2)],
            [(plain, 1), (proof, 2)],
            [(scram, 1), (scram, 1), (first, 2)],
            [(scram, 1), (METADATA, 9)],
            [(scram, 1), (first, 2), (VERSIONS, 3), (METADATA, 9)],
            [(scram, 1), (first, 2), (first, 2), (write, 9)],
            [(VERSIONS, 3), (scram, 1), (first, 2), (write, 9), (write, 9)],
        )
    )
    with place.over_tls() as client:
        for request, version in steps:  # In one piece, more or less.
            client.send(request, version)
        for request, version in steps:
            answer = client.receive(request, version)
            # In the middle of a login Kafka answers another request with an error in that one's own form.
            if request is METADATA and answer.brokers:
                raise GotIn("Metadata was answered")
            if request is write and any(each.partition_responses for each in answer.responses):
                raise GotIn("Produce was answered")
        return _refused(client)


def oversized(place: Place) -> str:
    with place.over_tls() as client:
        size = place.random.choice((2**31 - 1, 0x16030100, 524_289, 100_000_000, -1, 500_000))
        with suppress(Closed):
            client.send_bytes(struct.pack(">i", size) + bytes(place.random.choice((0, 100, 60_000))))
        client.socket.settimeout(0.5)
        return _end_of(client)


def log_in(client: BrokerClient, user: str, password: str) -> list[bytes]:
    """What the client said in a whole exchange. Raises Closed, OSError where it was refused."""
    client.ask(SaslHandshakeRequest(mechanism=MECHANISM.value), 1)
    exchange = client_exchange(MECHANISM, user, password, secrets.token_hex(8))
    said = [next(exchange)]
    while True:
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=said[-1]), 2)
        if answer.error_code:
            raise OSError(answer.error_message)
        try:
            said.append(exchange.send(bytes(answer.auth_bytes)))
        except StopIteration:
            return said


def replayed(place: Place) -> str:
    """A true login that was read along, once more."""
    with place.over_tls() as client:
        said = log_in(client, place.target.user, place.target.password)
    for _ in range(5):
        with place.over_tls() as client:
            client.ask(SaslHandshakeRequest(mechanism=MECHANISM.value), 1)
            for message in said:
                answer = client.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
                if answer.error_code:
                    break
            else:
                raise GotIn("a login that was replayed")
            _refused(client)
    return "refused"


def guessing(place: Place) -> str:
    user = place.random.choice((place.target.user, "root", secrets.token_hex(200)))
    with place.over_tls() as client:
        try:
            log_in(client, user, place.random.choice(("", "admin", secrets.token_hex(4))))
        except (Closed, OSError):
            return "refused"
        raise GotIn(f"as {user} with a guess")


def tokens(place: Place) -> str:
    now = time.time()
    forged = place.random.choice(
        (
            f"{encoded({'alg': 'none'})}.{encoded(claims(sub=place.target.user))}.",
            token(claims(aud="others")),
            token(claims(now - 1000)),
            token(claims(iss="https://evil.example")),
            token(kid="RS256-unknown"),
            token(kid="RS256-2", header={"kid": "RS256-1"}),
            token(header={"alg": "HS256"}),
            token(header={"jku": "https://127.0.0.1:1/keys"}),
            "a.b.c",
        )
    )
    with place.over_tls() as client:
        client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        for message in (first_message(forged), b"\x01"):
            try:
                answer = client.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
            except Closed:
                return "closed"
            if answer.error_code == 0 and not answer.auth_bytes:
                raise GotIn(f"with the token {forged}")
        return _refused(client)


ASSAULTS: Final[Sequence[Callable[[Place], str]]] = (
    cut_and_lying_records,
    records_that_lie_after_the_handshake,
    http,
    plaintext_on_tls,
    tls_on_plaintext,
    certificates_of_nobody,
    out_of_order,
    oversized,
    replayed,
    guessing,
    guessing,
    tokens,
)


class Besiegers:
    """The threads. `said`: what became of the assaults, by name and word; `got_in`: what must not have been."""

    def __init__(self, target: Target) -> None:
        self.said: Counter[str] = Counter()
        self.got_in: list[str] = []
        self._target = target
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number, assault), daemon=True)
            for number, assault in enumerate(ASSAULTS)
            if target.plain or assault is not tls_on_plaintext
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int, assault: Callable[[Place], str]) -> None:
        place = Place(self._target, number)
        while not self._stopping.wait(PAUSE_S):
            try:
                said = assault(place)
            except GotIn as finding:
                with self._lock:
                    self.got_in.append(f"{assault.__name__}: {finding}")
                said = "got in"
            except (Closed, OSError) as ended:
                said = "no answer" if isinstance(ended, TimeoutError) else "closed"
            except Exception as broken:  # A thread that ended would besiege nobody.
                with self._lock:
                    self.got_in.append(f"{assault.__name__} broke: {broken!r}")
                return
            with self._lock:
                self.said[f"{assault.__name__}: {said}"] += 1

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(10 * PATIENCE_S)


def be_besiegers(target: Target, orders: Connection) -> None:
    """Begins and ends as it is told, until the other side is gone; answers each end with what became of it."""
    with suppress(EOFError, OSError):
        while True:
            orders.recv()
            besiegers = Besiegers(target)
            orders.recv()
            besiegers.stop()
            orders.send((besiegers.said, besiegers.got_in))


class Issuer:
    """The endpoint of the issuer's keys, well until `misbehave`; then it goes from one manner to the next."""

    def __init__(self, directory: Path) -> None:
        self.server = KeysServer(directory, key_set("RS256-1"))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.changes = 0

    def __enter__(self) -> Issuer:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.server.__exit__(None, None, None)

    def misbehave(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.server.manner = MANNERS[self.changes % len(MANNERS)]
            self.changes += 1
            self._stopping.wait(2.0)
