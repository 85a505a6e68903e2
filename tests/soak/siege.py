"""A siege: three secured brokers under all bad input at once, while good clients write, read and log in.

    make siege
    python -m tests.soak.siege [--seconds 120] [--connections 1000] [--waves 2] [--up-secure]

The brokers have the settings that `kavka up --secure --brokers 3` gives them (the listener between brokers asks for
certificates, an authorizer decides, clients come over SASL_SSL with SCRAM), each in a process of its own, and
OAUTHBEARER beside it, with an issuer whose keys cannot be had any more. With --up-secure that command itself is
besieged (up_secure.py): one process with three brokers and their ZooKeeper, its own files and settings, and no tokens.

In each wave besiegers (besiegers.py) send all that does not belong there, and for each broker a crowd (crowd.py) holds
handshakes half open. Then there is peace for a while. Clients of librdkafka write with acks=all and read all the while
(tests/chaos/workload.py); others log in again and again, with SCRAM and with tokens.

Printed: what became of each assault; for each broker memory and descriptors before, at the most, and after each wave;
how long acknowledgements and logins took, before and in the siege. A run fails where

    a besieger got in                                     an acknowledged record is lost, or moved, or read twice
    a broker ended, or logged an error of its own         a leader or an in-sync set changed
    a good client failed, or waited too long              an event filled the log
    memory took more than MOST_MIB, or grew from the first wave to the last
    descriptors stayed
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import ssl
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exported in fact

from kavka.protocol.messages import MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from kavka.runtime.tls.secured_listeners import BROKERS, SUPER_USERS, secured_broker
from kavka.runtime.tls.security_directory import TRUSTED, SecurityDirectory
from tests.chaos.campaign import bugs_in_logs
from tests.chaos.checker import check
from tests.chaos.workload import Workload
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import cpu_seconds, resident_bytes
from tests.kit.ports import free_port
from tests.kit.process_cluster import ProcessCluster
from tests.kit.secured_brokers import SecuredBrokers
from tests.kit.token_issuer import AUDIENCE, ISSUER, claims, first_message, token
from tests.soak import besiegers
from tests.soak.crowd import Kind, be_a_crowd
from tests.soak.up_secure import UpSecure

TOPIC: Final = "siege"
PARTITIONS: Final = 6
LISTENER: Final = "SASL_SSL"
GOOD_ADDRESS: Final = "127.0.9.9"
CROWD: Final = Kind("TLS, hello sent", LISTENER)
MOST_MIB: Final = 150.0
"""What a siege may take of a broker's memory: 1,000 handshakes under way take 42, frames that are half received 64."""
MOST_GROWN_MIB: Final = 24.0
"""What memory may grow by from the first wave to the last."""
MOST_FILES_LEFT: Final = 16
MOST_LINES: Final = 10
"""Of one event, in each of a broker's minutes, of which a run touches one or two more than it lasts."""
MOST_LINES_OF: Final = {"authentication failed": 100}
"""Each is of another address, listener, mechanism or reason; brokers write 100 a minute in all."""
LONGEST_S: Final = 10.0
SETTINGS: Final = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    # Rings in mapped files, which fill with the traffic, and count as memory.
    "kavka.flight.recorder.bytes": str(1 << 20),
    "kavka.decisions.ring.bytes": str(1 << 17),
}


class Besieged(SecuredBrokers):
    """As `kavka up --secure` has it, and tokens."""

    def __init__(self, directory: Path, issuer: besiegers.Issuer) -> None:
        super().__init__(directory)
        self.security = SecurityDirectory(directory / "security")
        self.security.prepare(range(1, 4), [], int(time.time() * 1000))
        self._issuer = issuer
        self.ports: dict[str, list[int]] = {"PLAINTEXT": [], LISTENER: [], BROKERS: []}

    @property
    def ca(self) -> str:
        return self.security.file(TRUSTED)

    def settings(self, broker_id: int, host: str, plain_port: int, port: int) -> dict[str, str]:
        places = {"PLAINTEXT": plain_port, LISTENER: port, BROKERS: free_port()}
        for name, each in places.items():
            self.ports[name].append(each)
        listeners = ",".join(f"{name}://{host}:{each}" for name, each in places.items())
        own = f"listener.name.{LISTENER.lower()}.oauthbearer"
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:{LISTENER},{BROKERS}:SSL",
            **secured_broker(self.security, broker_id + 1),
            "super.users": f"{SUPER_USERS};User:{self.user}",
            "sasl.enabled.mechanisms": f"{besiegers.MECHANISM.value},OAUTHBEARER",
            f"{own}.sasl.jaas.config": self._issuer.server.login.replace("\\", "\\\\"),
            f"{own}.sasl.oauthbearer.jwks.endpoint.url": self._issuer.server.url,
            f"{own}.sasl.oauthbearer.expected.issuer": ISSUER,
            f"{own}.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{own}.sasl.oauthbearer.jwks.endpoint.refresh.ms": "2000",
        }

    @property
    def user(self) -> str:
        return str(super().client["sasl.username"])

    @property
    def client(self) -> dict[str, str]:
        return {**super().client, "ssl.ca.location": self.ca}

    def target(self, directory: Path) -> besiegers.Target:
        ports, password = self.ports, self.client["sasl.password"]
        return besiegers.Target(
            ports[LISTENER], ports[BROKERS], ports["PLAINTEXT"], self.ca, str(directory), self.user, password
        )


@dataclass
class Seen:
    """One broker: memory and descriptors before, at the most, and after each wave."""

    before: tuple[int, int] = (0, 0)
    most: tuple[int, int] = (0, 0)
    after: list[tuple[int, int]] = field(default_factory=list)

    def look(self, pid: int) -> tuple[int, int]:
        now = resident_bytes(pid), len(os.listdir(f"/proc/{pid}/fd"))
        self.most = max(self.most[0], now[0]), max(self.most[1], now[1])
        return now

    def problems(self, name: str, brokers: int) -> Iterator[str]:
        """Of a process with so many brokers."""
        if (taken := (self.most[0] - self.before[0]) / 2**20) > MOST_MIB * brokers:
            yield f"{name} took {taken:.0f} MiB more; at most {MOST_MIB * brokers:.0f}"
        if (grown := (self.after[-1][0] - self.after[0][0]) / 2**20) > MOST_GROWN_MIB * brokers:
            yield f"{name} grew by {grown:.0f} MiB from the first wave to the last"
        if (left := self.after[-1][1] - self.before[1]) > MOST_FILES_LEFT * brokers:
            yield f"{left} descriptors of {name} stayed"

    def row(self, name: str) -> str:
        all_of_it = (self.before, self.most, *self.after)
        mib = " / ".join(f"{rss / 2**20:.0f}" for rss, _ in all_of_it)
        return f"{name}: MiB before / most / after each wave {mib}; descriptors " + " / ".join(
            f"{files:,}" for _, files in all_of_it
        )


class Arrivals:
    """Good clients that come anew again and again, on a thread: with SCRAM and with a token, to one broker after the
    other. `took_s` by kind."""

    def __init__(self, target: besiegers.Target, kinds: Sequence[str]) -> None:
        self.took_s: dict[str, list[float]] = {kind: [] for kind in kinds}
        self._kinds = kinds
        self.failures: list[str] = []
        self._target = target
        self._context = ssl.create_default_context(cafile=target.ca)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(0.1):
            kind = self._kinds[number // 3 % len(self._kinds)]
            began = time.monotonic()
            try:
                self._come(kind, self._target.clients[number % 3])
            except Exception as failure:  # Whatever keeps a good client out is a finding.
                self.failures.append(f"a good client with {kind} did not get in: {failure!r}")
            self.took_s[kind].append(time.monotonic() - began)
            number += 1

    def _come(self, kind: str, port: int) -> None:
        with BrokerClient(port, source=GOOD_ADDRESS, timeout_s=30) as client:
            client.socket = self._context.wrap_socket(client.socket, server_hostname="localhost")
            if kind == "SCRAM":
                besiegers.log_in(client, self._target.user, self._target.password)
            else:
                client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
                message = first_message(token(claims(sub=self._target.user)))
                answer = client.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
                if answer.error_code or answer.auth_bytes:
                    raise OSError(f"{answer.error_message} {answer.auth_bytes!r}")
            client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), 9)


class Crowds:
    """Handshakes held half open, a process for each broker."""

    def __init__(self, target: besiegers.Target, connections: int) -> None:
        self._orders: list[Connection] = []
        self._processes = []
        for port in target.clients:
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.get_context("fork").Process(
                target=be_a_crowd, args=(CROWD, port, target.ca, connections, 250, theirs), daemon=True
            )
            process.start()
            self._orders.append(ours)
            self._processes.append(process)

    def end(self) -> list[tuple[int, int]]:
        """For each broker how many were open at once, and how many were opened anew."""
        for orders in self._orders:
            orders.send("end")
        found = [orders.recv() for orders in self._orders]
        for process in self._processes:
            process.join(30)
        return found


@dataclass
class Outcome:
    """`failures` is empty where all held."""

    failures: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    assaults: int = 0
    acknowledged: int = 0


def run(
    directory: Path,
    *,
    seconds: float,
    connections: int,
    waves: int,
    peace_s: float,
    longest_s: float,
    up_secure: bool = False,
) -> Outcome:
    """`waves` of `seconds` each, `peace_s` before the first and after each. `up_secure`: that command's brokers."""
    with ExitStack() as stack:
        issuer = stack.enter_context(besiegers.Issuer(directory))
        token()  # Its key is made before the besiegers have a process of their own.
        cluster: ProcessCluster | UpSecure
        if up_secure:
            # The besiegers are forked from a process with threads, which must hold no lock then: librdkafka's do not.
            cluster = stack.enter_context(UpSecure(directory / "up"))
            target, login = cluster.target(), cluster.client
        else:
            besieged = Besieged(directory, issuer)
            cluster = ProcessCluster(directory / "cluster", settings=SETTINGS, secured=besieged)
            target, login = besieged.target(directory), besieged.client
        orders, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(
            target=besiegers.be_besiegers, args=(target, theirs), daemon=True
        )
        process.start()
        stack.callback(process.terminate)
        if isinstance(cluster, ProcessCluster):
            stack.enter_context(cluster)
            cluster.start()
        return _Siege(cluster, login, target, issuer, orders).run(
            seconds, connections=connections, waves=waves, peace_s=peace_s, longest_s=longest_s
        )


class _Siege:
    def __init__(
        self,
        cluster: ProcessCluster | UpSecure,
        login: Mapping[str, str],
        target: besiegers.Target,
        issuer: besiegers.Issuer,
        orders: Connection,
    ) -> None:
        self._cluster, self._target, self._issuer, self._orders = cluster, target, issuer, orders
        self._each = len(target.clients) // len(cluster.brokers)
        """So many brokers are in a process: what it may take and write is theirs."""
        self._outcome = Outcome()
        self._seen = {number: Seen() for number in cluster.brokers}
        self._waves: list[tuple[float, float]] = []
        self._said: Counter[str] = Counter()
        self._crowds: list[tuple[int, int]] = []
        admin = AdminClient({**login, "bootstrap.servers": cluster.bootstrap})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)]).values():
            future.result(60)
        self._workload = Workload(cluster.bootstrap, TOPIC, PARTITIONS, producers=2, rate=50, racks=("",), login=login)

    def run(self, seconds: float, *, connections: int, waves: int, peace_s: float, longest_s: float) -> Outcome:
        outcome, workload = self._outcome, self._workload
        workload.start()
        self._arrivals = Arrivals(
            self._target, ("SCRAM",) if isinstance(self._cluster, UpSecure) else ("SCRAM", "token")
        )
        time.sleep(peace_s)
        states = self._states()
        cpu = self._cpu_s()
        for number, seen in self._seen.items():
            seen.before = seen.look(self._cluster.brokers[number].pid)
        for wave in range(waves):
            self._hold_out(seconds, connections, is_first=wave == 0)
            time.sleep(peace_s)
            for number, seen in self._seen.items():
                seen.after.append(seen.look(self._cluster.brokers[number].pid))
        self._arrivals.stop()
        workload.stop_producers()
        workload.final_read(timeout_s=120)
        workload.drain(timeout_s=60)
        outcome.lines += [f"brokers' CPU s: {self._cpu_s() - cpu:.0f} in {waves * (seconds + peace_s):.0f} s"]
        if (now := self._states()) != states:
            outcome.failures.append(f"leaders or in-sync sets changed: {states} became {now}")
        outcome.failures += self._arrivals.failures[:5]
        outcome.failures += [f"not as it was acknowledged: {anomaly}" for anomaly in check(workload.history)[:20]]
        outcome.failures += [f"a client could not go on: {text}" for text in workload.fatal]
        outcome.failures += bugs_in_logs(self._cluster)
        self._judge_brokers()
        self._judge_times(longest_s)
        outcome.acknowledged = workload.history.acknowledged
        outcome.assaults = sum(self._said.values())
        return outcome

    def _hold_out(self, seconds: float, connections: int, *, is_first: bool) -> None:
        """One wave."""
        if is_first:
            self._issuer.misbehave()
        self._orders.send("begin")
        crowds = Crowds(self._target, connections)
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            for number, seen in self._seen.items():
                server = self._cluster.brokers[number]
                if not server.is_running:
                    raise AssertionError(f"{server.name} ended with {server.returncode}: {server.log_tail()}")
                seen.look(server.pid)
            time.sleep(0.25)
        self._waves.append((began, time.monotonic()))
        self._orders.send("end")
        self._crowds += crowds.end()
        said, got_in = self._orders.recv()
        self._said += said
        self._outcome.failures += got_in[:5]

    def _states(self) -> list[Any]:
        return [self._cluster.state(TOPIC, partition) for partition in range(PARTITIONS)]

    def _cpu_s(self) -> float:
        return sum(sum(cpu_seconds(server.pid)) for server in self._cluster.brokers.values())

    def _judge_brokers(self) -> None:
        outcome = self._outcome
        outcome.lines += [f"{name}: {count:,}" for name, count in sorted(self._said.items())]
        most, anew = max(most for most, _ in self._crowds), sum(anew for _, anew in self._crowds)
        outcome.lines.append(f"half open: at most {most:,} on a broker; {anew:,} opened anew")
        for number, seen in self._seen.items():
            server = self._cluster.brokers[number]
            outcome.lines.append(seen.row(server.name))
            outcome.failures += seen.problems(server.name, self._each)
            minutes = 1 + (self._waves[-1][1] - self._waves[0][0]) / 60
            events = events_of(server.log_file.read_text(errors="replace").splitlines())
            outcome.lines.append(f"{server.name}'s log, {minutes:.1f} minutes: {sum(events.values())} lines")
            for event, lines in events.most_common():
                if lines > MOST_LINES_OF.get(event, MOST_LINES) * (int(minutes) + 2) * self._each:
                    outcome.failures.append(f"{server.name} logged {lines} lines of {event!r} in {minutes:.1f} minutes")
        outcome.lines.append(f"the issuer's keys: {self._issuer.server.asked} times asked for")

    def _judge_times(self, longest_s: float) -> None:
        begin, end = self._waves[0][0], self._waves[-1][1]
        in_peace: list[float] = []
        besieged: list[float] = []
        for producer in self._workload.history.producers:
            for number in range(len(producer)):
                if producer.is_acknowledged(number):
                    took_s = producer.acknowledged_at[number] - producer.sent_at[number]
                    (besieged if begin <= producer.sent_at[number] <= end else in_peace).append(took_s)
        timed: Mapping[str, Sequence[float]] = {
            "acknowledgement in peace": in_peace,
            "acknowledgement in the siege": besieged,
            **{f"login with {kind}": took for kind, took in self._arrivals.took_s.items()},
        }
        for name, took in timed.items():
            self._outcome.lines.append(f"{name}: {told(took)}")
            if not took or max(took) > longest_s:
                longest = f"{max(took):.1f} s" if took else "nobody"
                self._outcome.failures.append(f"{name}: {longest}; at most {longest_s:.0f} s")


def told(took_s: Sequence[float]) -> str:
    """Median, 99 of 100, and longest, in ms."""
    if not took_s:
        return "none"
    ordered = [1000 * each for each in sorted(took_s)]
    p99 = ordered[int(len(ordered) * 0.99)]
    return f"{len(ordered):,}: median {statistics.median(ordered):.0f} ms, p99 {p99:.0f}, longest {ordered[-1]:.0f}"


EVENT: Final = re.compile(r'event=(?:"([^"]*)"|(\S+))')


def events_of(lines: Sequence[str]) -> Counter[str]:
    """How many lines a log has of each event, whatever its keys."""
    found: Counter[str] = Counter()
    for line in lines:
        match = EVENT.search(line)
        found[match[1] or match[2] if match else line[:80]] += 1
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120, help="of a wave")
    parser.add_argument("--waves", type=int, default=2)
    parser.add_argument("--peace", type=float, default=60, help="seconds before the first wave and after each")
    parser.add_argument("--connections", type=int, default=1000, help="half open, for each broker")
    parser.add_argument("--longest", type=float, default=LONGEST_S, help="seconds that a good client may wait")
    parser.add_argument("--up-secure", action="store_true", help="of `kavka up --secure --brokers 3`, as it is")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kavka-siege-") as directory:
        outcome = run(
            Path(directory),
            seconds=options.seconds,
            connections=options.connections,
            waves=options.waves,
            peace_s=options.peace,
            longest_s=options.longest,
            up_secure=options.up_secure,
        )
    print("\n".join(outcome.lines))
    for failure in outcome.failures:
        print(f"FAILED {failure}")
    print(f"{outcome.assaults:,} assaults, {outcome.acknowledged:,} records acknowledged")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
