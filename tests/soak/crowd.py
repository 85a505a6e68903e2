"""A crowd: connections that never say who they are, as many as one machine can make, against one broker.

    make crowd
    python -m tests.soak.crowd [--connections 10000] [--seconds 30] [--addresses 250] [--kind "TLS, silent"]

For each kind of silence a broker of its own is started, and a process opens the connections and opens those anew that
the broker closes, for `seconds`; after a pause once more. Meanwhile a client from another address connects again and
again: TCP, TLS, a login with PLAIN, Metadata. The last two kinds leave the broker fewer descriptors than there are
connections.

Printed for each kind: memory and descriptors of the broker before, with the crowd, and after each of the two; how long
the good client took; what is kept for each connection. A run fails where

    the good client failed, or took more than `--longest` seconds    a connection kept more than MOST_KIB on average
    (of the last kind, if it was never in)
    memory grew from the first crowd to the second                   descriptors stayed that were not there before
    the broker ended, or logged an error

Memory that Python once had it does not give back to the system where single objects lie in between: so it is the second
crowd that tells whether something is kept. The crowd shares the machine with the broker: times are those of a broker
that is short of processor time, too. On a machine where others work as well they say nothing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import selectors
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

from kavka.protocol.messages import ApiVersionsRequest, MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from kavka.security.plain import client_token
from tests.kit.broker_client import BrokerClient
from tests.kit.certificates import Authority
from tests.kit.kavka_process import KavkaProcess, answers_metadata, cpu_seconds, resident_bytes
from tests.kit.ports import free_port

HOST: Final = "127.0.0.1"
GOOD_ADDRESS: Final = "127.0.9.9"
SERVED: Final = "broker"
USER, PASSWORD = "alice", "alices-password"
OPENED_AT_ONCE: Final = 100
OPENED_A_SECOND: Final = 2_000
CROWDS: Final = 2
RECOVERY_S: Final = 60.0
FEW_FILES: Final = 4_096
BACKLOG: Final = 1_024
"""socket.listen.backlog.size. Kafka's default is 50: where 2,000 connections a second come in, the system then drops
the first packet of most, of the good client's, too, and each tries again after a second, then three, then seven."""

MOST_KIB: Final = 20.0
MOST_KIB_OPEN: Final = 24.0
"""Of a connection on average; the second where its TLS is open. A handshake takes 42; at most 1,000 are under way."""
JUDGED_FROM: Final = 5_000
"""Connections at once. What fewer take is mostly what the first of them have made once."""
MOST_GROWN_MIB: Final = 24.0
"""What memory may grow by from the first crowd to the second."""
MOST_FILES_LEFT: Final = 8
"""Descriptors that were not there before: files of the topics in which brokers keep what they decided."""
LONGEST_S: Final = 3.0


class Kind(NamedTuple):
    """What the members of a crowd send. `listener`: where they come in. `is_beyond`: those who find no place come again
    at once with more hellos than the machine has processor time for; how soon the good client is in is printed, and not
    judged."""

    name: str
    listener: str
    finishes_tls: bool = False
    files: int = 0
    is_beyond: bool = False


KINDS: Final = (
    Kind("plaintext, silent", "PLAINTEXT"),
    Kind("SASL, silent", "SASL_PLAINTEXT"),
    Kind("SASL, mechanism chosen", "SASL_PLAINTEXT"),
    Kind("TLS, silent", "SASL_SSL"),
    Kind("TLS, 100 bytes of a hello", "SASL_SSL"),
    Kind("TLS, hello sent", "SASL_SSL"),
    Kind("TLS, logged in to nothing", "SASL_SSL", finishes_tls=True),
    Kind("SASL, silent, few files", "SASL_PLAINTEXT", files=FEW_FILES),
    Kind("TLS, hello sent, few files", "SASL_SSL", files=FEW_FILES, is_beyond=True),
)


class Seen(NamedTuple):
    """The broker at one moment."""

    rss: int
    files: int


class Result(NamedTuple):
    """What one kind of crowd did. `most_open`: connections of it that the broker had at once."""

    kind: Kind
    before: Seen
    crowded: Seen
    after: Sequence[Seen]
    most_open: int
    reopened: int
    cpu_s: float
    good_s: Sequence[float]
    failures: Sequence[str]
    errors: Sequence[str]

    @property
    def kib_each(self) -> float:
        return max(self.crowded.rss - self.before.rss, 0) / 1024 / max(self.crowded.files - self.before.files, 1)

    def problems(self, longest_s: float) -> list[str]:
        found = [*self.errors]
        if not self.kind.is_beyond:
            found += self.failures
        if not self.good_s or (max(self.good_s) > longest_s and not self.kind.is_beyond):
            found.append(f"the good client took {max(self.good_s, default=0):.1f} s; at most {longest_s:.0f} s")
        most_kib = MOST_KIB_OPEN if self.kind.finishes_tls else MOST_KIB
        if self.kib_each > most_kib and self.crowded.files - self.before.files >= JUDGED_FROM:
            found.append(f"{self.kib_each:.1f} KiB for each connection; at most {most_kib:.0f}")
        grown = (self.after[-1].rss - self.after[0].rss) / (1 << 20)
        if grown > MOST_GROWN_MIB:
            found.append(f"memory grew by {grown:.0f} MiB from the first crowd to the second")
        if self.after[-1].files > self.before.files + MOST_FILES_LEFT:
            found.append(f"{self.after[-1].files - self.before.files} descriptors stayed")
        return found

    def row(self) -> str:
        good = sorted(self.good_s)
        median_ms, longest_ms = (statistics.median(good) * 1000, good[-1] * 1000) if good else (0, 0)
        seen = (self.before, self.crowded, *self.after)
        return (
            f"| {self.kind.name} | {self.most_open:,} | {self.kib_each:.1f} | "
            f"{' / '.join(f'{each.rss / 2**20:.0f}' for each in seen)} | "
            f"{' / '.join(f'{each.files:,}' for each in seen)} | {self.reopened:,} | "
            f"{len(good)}: {median_ms:.0f} / {longest_ms:.0f} | {self.cpu_s:.1f} |"
        )


HEADINGS: Final = (
    "| crowd | at once | KiB each | RSS MiB before / with / after each | descriptors alike | opened anew | "
    "good client: times, ms median / longest | broker's CPU s |"
)


# -- the crowd: a process of its own


def be_a_crowd(kind: Kind, port: int, ca: str, connections: int, addresses: int, orders: Connection) -> None:
    """Opens connections, and those anew that are closed, until told to end. Answers each order with how many are open,
    and how many were opened anew."""
    crowd = _Crowd(kind, port, ca, connections, addresses)
    while not orders.poll():
        crowd.go_on()
    orders.recv()
    orders.send((crowd.most_open, crowd.reopened))
    crowd.close()


class _Member:
    __slots__ = ("greeted", "incoming", "outgoing", "socket", "tls")

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened
        self.greeted = False
        self.tls: ssl.SSLObject | None = None
        self.incoming = self.outgoing = ssl.MemoryBIO()


class _Crowd:
    def __init__(self, kind: Kind, port: int, ca: str, connections: int, addresses: int) -> None:
        self._kind = kind
        self._port = port
        self._missing = connections
        self._addresses = addresses
        self._selector = selectors.DefaultSelector()
        self._members: set[_Member] = set()
        self._context = ssl.create_default_context(cafile=ca)
        self._greeting = _greeting(kind, self._context)
        self._opened: deque[float] = deque()
        self._number = 0
        self._open = 0
        self.most_open = 0
        self.reopened = -connections

    def go_on(self) -> None:
        """Opens some, and takes in what became of the others."""
        now = time.monotonic()
        while self._opened and now - self._opened[0] > 1:
            self._opened.popleft()
        for _ in range(min(self._missing, OPENED_AT_ONCE, OPENED_A_SECOND - len(self._opened))):
            self._opened.append(now)
            self._begin()
        for key, _ in self._selector.select(0.02):
            self._on_ready(key.data)
        self.most_open = max(self.most_open, self._open)

    def close(self) -> None:
        for member in self._members:
            member.socket.close()

    def _begin(self) -> None:
        self._number += 1
        self._missing -= 1
        self.reopened += 1
        opened = socket.socket()
        opened.setblocking(False)
        # Without it a closed connection keeps its port for a minute.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        opened.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        opened.bind((f"127.0.1.{1 + self._number % self._addresses}", 0))
        opened.connect_ex((HOST, self._port))
        member = _Member(opened)
        self._members.add(member)
        self._selector.register(opened, selectors.EVENT_WRITE, member)

    def _on_ready(self, member: _Member) -> None:
        try:
            if not member.greeted:
                if member.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise ConnectionError
                member.greeted = True
                self._open += 1
                self._greet(member)
                self._selector.modify(member.socket, selectors.EVENT_READ, member)
                return
            data = member.socket.recv(65536)
            if not data:
                raise ConnectionError
            if member.tls is not None:
                member.incoming.write(data)
                self._step(member)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, ssl.SSLError):
            self._open -= member.greeted
            self._selector.unregister(member.socket)
            member.socket.close()
            self._members.discard(member)
            self._missing += 1

    def _greet(self, member: _Member) -> None:
        if self._kind.finishes_tls:
            member.incoming, member.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            member.tls = self._context.wrap_bio(member.incoming, member.outgoing, server_hostname="localhost")
            self._step(member)
        elif self._greeting:
            member.socket.send(self._greeting)

    def _step(self, member: _Member) -> None:
        assert member.tls is not None
        with suppress(ssl.SSLWantReadError):
            member.tls.do_handshake()
        if sent := member.outgoing.read():
            member.socket.send(sent)


def _greeting(kind: Kind, context: ssl.SSLContext) -> bytes:
    name = kind.name.removesuffix(", few files")
    if name == "SASL, mechanism chosen":
        with socket.socketpair()[0] as one:
            client = BrokerClient.__new__(BrokerClient)
            client.socket, client._correlation_id = one, 0
            sent: list[bytes] = []
            client.send_bytes = sent.append  # type: ignore[method-assign,assignment] # its bytes are wanted, not their way
            client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            return sent[0]
    if name in ("TLS, 100 bytes of a hello", "TLS, hello sent"):
        outgoing = ssl.MemoryBIO()
        with suppress(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
        hello = outgoing.read()
        return hello[:100] if "100" in name else hello
    return b""


# -- the broker, and the good client


class Broker:
    """A broker with a listener of each kind, and one user."""

    def __init__(self, directory: Path, *, files: int = 0) -> None:
        authority = Authority()
        self.ca = directory / "ca.pem"
        self.ca.write_text(authority.certificate)
        key_store = authority.sign("broker", names=("localhost", HOST)).write(directory / "broker.pem")
        self.ports = {name: free_port() for name in ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")}
        jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        settings = {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "socket.listen.backlog.size": str(BACKLOG),
            # Rings in mapped files: they fill with what connections do, and count as memory.
            "kavka.flight.recorder.bytes": str(1 << 20),
            "kavka.decisions.ring.bytes": str(1 << 17),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(key_store),
        }
        kavka = KavkaProcess(directory / "data", port=self.ports["PLAINTEXT"], settings=settings)
        kavka.data_dir.mkdir(parents=True)
        self.log_file = directory / "broker.log"
        command = kavka.command
        if files:
            command = ["bash", "-c", f'ulimit -n {files}; exec "$@"', "bash", *command]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not answers_metadata(self.ports["PLAINTEXT"]):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"the broker did not start: {self.log_file.read_text()[-2000:]}")
            time.sleep(0.05)

    def seen(self) -> Seen:
        return Seen(resident_bytes(self.process.pid), len(os.listdir(f"/proc/{self.process.pid}/fd")))

    def errors(self) -> list[str]:
        lines = self.log_file.read_text(errors="replace").splitlines()
        bad = [line for line in lines if "[error" in line or "Traceback" in line or "critical" in line]
        if self.process.poll() is not None:
            bad.append(f"the broker ended with {self.process.returncode}")
        return bad[:5]

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def started(directory: Path, files: int) -> Iterator[Broker]:
    broker = Broker(directory, files=files)
    try:
        yield broker
    finally:
        broker.stop()


def log_in_once(broker: Broker, context: ssl.SSLContext) -> float:
    """Seconds from the first SYN to the answer to Metadata, over SASL_SSL. Raises OSError, Closed."""
    began = time.monotonic()
    with BrokerClient(broker.ports["SASL_SSL"], source=GOOD_ADDRESS, timeout_s=30) as client:
        client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        client.ask(ApiVersionsRequest(client_software_name="good", client_software_version="1"), 3)
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=client_token(USER, PASSWORD)), 2)
        if answer.error_code:
            raise OSError(f"not logged in: {answer.error_message}")
        client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), 12)
    return time.monotonic() - began


def run(kind: Kind, directory: Path, *, connections: int, addresses: int, seconds: float, recovery_s: float) -> Result:
    """CROWDS of one kind, one after the other, against a broker of its own."""
    with started(directory, kind.files) as broker:
        context = ssl.create_default_context(cafile=str(broker.ca))
        for _ in range(20):  # What the first connections import is no connection's memory.
            log_in_once(broker, context)
        time.sleep(1)
        before, cpu = broker.seen(), cpu_seconds(broker.process.pid)
        crowded, most_open, reopened = before, 0, 0
        good_s: list[float] = []
        failures: list[str] = []
        after: list[Seen] = []
        for _ in range(CROWDS):
            orders, theirs = multiprocessing.Pipe()
            arguments = (kind, broker.ports[kind.listener], str(broker.ca), connections, addresses, theirs)
            crowd = multiprocessing.get_context("fork").Process(target=be_a_crowd, args=arguments)
            crowd.start()
            began = time.monotonic()
            while (elapsed := time.monotonic() - began) < seconds:
                try:
                    good_s.append(log_in_once(broker, context))
                except Exception as failure:  # Whatever keeps the good client out is a finding
                    failures.append(f"the good client failed after {elapsed:.1f} s: {failure!r}")
                crowded = max(crowded, broker.seen(), key=lambda seen: (seen.files, seen.rss))
                time.sleep(0.2)
            orders.send("end")
            at_once, anew = orders.recv()
            most_open, reopened = max(most_open, at_once), reopened + max(anew, 0)
            crowd.join(30)
            time.sleep(recovery_s)
            after.append(broker.seen())
        spent = cpu_seconds(broker.process.pid) - cpu
        cpu_s = spent.user + spent.system
        return Result(
            kind, before, crowded, after, most_open, reopened, cpu_s, good_s, failures[:5], broker.errors()
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--addresses", type=int, default=250, help="from which the crowd comes; at most 250")
    parser.add_argument("--seconds", type=float, default=30, help="how long each crowd stays")
    parser.add_argument("--recovery", type=float, default=RECOVERY_S, help="seconds until memory is looked at again")
    parser.add_argument("--kind", action="append", choices=[kind.name for kind in KINDS])
    parser.add_argument("--longest", type=float, default=LONGEST_S, help="seconds that the good client may take")
    options = parser.parse_args(arguments)
    print(HEADINGS, "|--|--|--|--|--|--|--|--|", sep="\n", flush=True)
    failed = 0
    for kind in KINDS:
        if options.kind and kind.name not in options.kind:
            continue
        with tempfile.TemporaryDirectory(prefix="kavka-crowd-") as directory:
            result = run(
                kind,
                Path(directory),
                connections=options.connections,
                addresses=options.addresses,
                seconds=options.seconds,
                recovery_s=options.recovery,
            )
        print(result.row(), flush=True)
        for problem in result.problems(options.longest):
            failed += 1
            print(f"  FAILED {kind.name}: {problem}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
