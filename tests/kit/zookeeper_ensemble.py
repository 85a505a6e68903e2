"""ZooKeeperEnsemble: a real Apache ZooKeeper of three members (or another number) on the loopback, to be broken.

    with ZooKeeperEnsemble(tmp_path) as ensemble:          # starts, waits until there is a leader; ends with SIGKILL
        client = await ZooKeeperClient.connect(SocketNetwork(), f"{ensemble.connect_string}/chroot", ...)
        ensemble.kill(ensemble.leader())                   # SIGKILL; start(member) brings it back with its data
        ensemble.wait_for_leader()                         # of those that are left
        ensemble.pause(2); ensemble.resume(2)              # SIGSTOP, SIGCONT: a member that says nothing
        ensemble.member_of(client.session_id)              # which member holds the session's connection, or None

Members are numbered from 1. ZooKeeper's jars are those that lie beside Apache Kafka's (apache_kafka.py) or in Debian's
package `zookeeper`; where there are none, or no java, the constructor raises PeerMissing with the reason, so that a
test can skip with that sentence.

I1  A member is ended by the pid that was started here. Its address is the same over kill and start. None outlives this
    interpreter: each that the main thread started asks the kernel for SIGKILL when its parent dies.
I2  Every wait is bounded and ends with a ProcessFailed that has the end of the members' logs in it.
I3  What a member answered as committed survives a kill of its process. Not a power cut: nothing is forced to the disk
    unless `force_sync` is set, since three logs that sync on a test machine's disk are slow.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from tests.apache_kafka import PeerMissing, Release, installed
from tests.kit.kavka_process import HOST, ProcessFailed
from tests.kit.ports import free_port

TICK_MS: Final = 500
"""A session's time-out is 2 to 120 of it here: 1 s to 60 s."""
DEBIAN_JAR: Final = Path("/usr/share/java/zookeeper.jar")
"""Of Debian's package `zookeeper`; it names the jars that it needs itself."""
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_PORTS_PER_MEMBER = 4

_running: weakref.WeakSet[ZooKeeperEnsemble] = weakref.WeakSet()


def class_path() -> str:
    """Java's class path with ZooKeeper in it. Raises PeerMissing."""
    if shutil.which(os.environ.get("JAVA", "java")) is None:
        raise PeerMissing("needs java (11 or newer) to run Apache ZooKeeper")
    beside_kafka = Release.named("zk").jars
    if any(beside_kafka.glob("zookeeper-jute-*.jar")):
        return f"{beside_kafka}/*"
    if DEBIAN_JAR.exists():
        return str(DEBIAN_JAR)
    try:
        return f"{installed('zk')}/*"
    except PeerMissing as missing:
        raise PeerMissing(
            f"needs Apache ZooKeeper: its jars in {beside_kafka} or Debian's package zookeeper ({missing})"
        ) from missing


class Secured(NamedTuple):
    """A TLS port beside the other one, with certificates as PEM files, and users of DIGEST-MD5 on both.

    `client_auth` is need, want or none.
    """

    certificate: Path
    authority: Path
    client_auth: str = "need"
    users: dict[str, str] = {}  # noqa: RUF012 - nobody changes it

    @property
    def context(self) -> ssl.SSLContext:
        """A client of the port, with the members' own certificate."""
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.certificate)
        return context


class Kerberos(NamedTuple):
    """The members' principal, zookeeper/HOST@REALM, its keys, and Java's way to the KDC. A client is the first part
    of its principal, as where brokers with one each share lists."""

    principal: str
    keytab: Path
    configuration: Path


class ZooKeeperEnsemble:
    """Members in processes of their own; `data_dir` gets their configuration, logs and data."""

    def __init__(
        self,
        data_dir: Path,
        *,
        members: int = 3,
        tick_ms: int = TICK_MS,
        heap: str = "-Xmx96M",
        force_sync: bool = False,
        secured: Secured | None = None,
        kerberos: Kerberos | None = None,
    ) -> None:
        """`heap`: JVM options of every member. Either `secured` or `kerberos`. Raises PeerMissing."""
        self._secured = secured
        self._kerberos = kerberos
        self._class_path = class_path()
        self.data_dir = data_dir.resolve()
        self.tick_ms = tick_ms
        self.members = tuple(range(1, members + 1))
        self._heap = heap
        self._force_sync = force_sync
        self._base_port = free_port(following=range(1, _PORTS_PER_MEMBER * members))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._paused: set[int] = set()
        for member in self.members:
            self._lay_out(member)

    # ------------------------------------------------------------------------------------------------- addresses

    def port(self, member: int) -> int:
        """Where clients connect to this member."""
        return self._base_port + member - 1

    def address(self, member: int) -> str:
        return f"{HOST}:{self.port(member)}"

    @property
    def connect_string(self) -> str:
        """host:port of all members, comma-separated, as zookeeper.connect wants it; append a chroot."""
        return ",".join(map(self.address, self.members))

    @property
    def secure_connect_string(self) -> str:
        """As `connect_string`, of the TLS ports."""
        return ",".join(f"{HOST}:{self._secure_port(member)}" for member in self.members)

    def _secure_port(self, member: int) -> int:
        return self.port(member) + 3 * len(self.members)

    # ---------------------------------------------------------------------------------------------------- faults

    def start(self, *members: int) -> None:
        """Starts these members (all that do not run, if none is named) without waiting."""
        for member in members or self.members:
            if self.is_running(member):
                continue
            _running.add(self)
            with self.log_file(member).open("ab") as log:
                self._processes[member] = subprocess.Popen(
                    self._command(member),
                    cwd=self._home(member),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def kill(self, *members: int) -> None:
        """SIGKILL to these members (all, if none is named); returns when they are gone. Paused ones too."""
        ended = [self._processes.pop(member) for member in members or self.members if member in self._processes]
        self._paused.difference_update(members or self.members)
        for process in ended:
            process.kill()
        for process in ended:
            process.wait()

    def stop(self, *members: int, timeout_s: float = 10.0) -> None:
        """SIGTERM to these members (all, if none is named); returns when they are gone. Raises ProcessFailed."""
        chosen = [member for member in members or self.members if member in self._processes]
        self.resume(*chosen)
        ended = [self._processes.pop(member) for member in chosen]
        for process in ended:
            process.terminate()
        for process in ended:
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise ProcessFailed(f"a ZooKeeper member did not stop in {timeout_s} s{self.log_tails()}") from None

    def pause(self, *members: int) -> None:
        """SIGSTOP: connections stay, and nothing is answered."""
        for member in members or self.members:
            self._processes[member].send_signal(signal.SIGSTOP)
            self._paused.add(member)

    def resume(self, *members: int) -> None:
        """SIGCONT to these members (all, if none is named)."""
        for member in members or self.members:
            if member in self._paused:
                self._processes[member].send_signal(signal.SIGCONT)
                self._paused.discard(member)

    # ------------------------------------------------------------------------------------------------- questions

    def is_running(self, member: int) -> bool:
        """Whether its process lives, paused or not."""
        process = self._processes.get(member)
        return process is not None and process.poll() is None

    def pid(self, member: int) -> int:
        return self._processes[member].pid

    def role(self, member: int) -> str | None:
        """ "leader" or "follower" ("standalone" of one); None while it serves nobody."""
        for line in self.ask(member, "srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return None

    def leader(self) -> int:
        """The member that leads now. Raises ProcessFailed where none does."""
        for member in self.members:
            if self.role(member) in ("leader", "standalone"):
                return member
        raise ProcessFailed(f"no member of the ensemble leads{self.log_tails()}")

    def member_of(self, session_id: int) -> int | None:
        """The member that holds the connection of this session."""
        wanted = f"sid={session_id & (1 << 64) - 1:#x},"
        for member in self.members:
            if wanted in self.ask(member, "cons") or (
                self._secured is not None and wanted in self.ask(member, "cons", securely=True)
            ):
                return member
        return None

    def ask(self, member: int, word: str, *, timeout_s: float = 1.0, securely: bool = False) -> str:
        """The answer to a four-letter word; "" from a member that is down, paused or serves nobody. Each port tells of
        its own connections."""
        if not self.is_running(member) or member in self._paused:
            return ""
        out = b""
        try:
            with self._connect(member, timeout_s, securely=securely) as connection:
                connection.sendall(word.encode())
                while piece := connection.recv(65536):
                    out += piece
        except OSError:
            return ""
        return out.decode()

    def _connect(self, member: int, timeout_s: float, *, securely: bool) -> socket.socket:
        if not securely or self._secured is None:
            return socket.create_connection((HOST, self.port(member)), timeout_s)
        connection = socket.create_connection((HOST, self._secure_port(member)), timeout_s)
        return self._secured.context.wrap_socket(connection, server_hostname="localhost")

    # ----------------------------------------------------------------------------------------------------- waits

    def wait_until_serving(self, *members: int, timeout_s: float = 60.0) -> None:
        """Returns when each of these members (all that run, if none is named) leads or follows."""
        chosen = members or tuple(member for member in self.members if self.is_running(member))
        self._wait(lambda: all(self.role(member) is not None for member in chosen), f"{chosen} serve", timeout_s)

    def wait_for_leader(self, *, timeout_s: float = 60.0) -> int:
        """Returns the member that leads, when there is only one that says so and a majority serves. (A leader that was
        paused says so for a moment after `resume`, though another was elected.)"""

        def led() -> bool:
            roles = [self.role(member) for member in self.members]
            leaders = sum(role in ("leader", "standalone") for role in roles)
            return leaders == 1 and 2 * sum(role is not None for role in roles) > len(roles)

        self._wait(led, "a majority follows a leader", timeout_s)
        return self.leader()

    def _wait(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            for member, process in self._processes.items():
                if process.poll() is not None:
                    raise ProcessFailed(f"ZooKeeper member {member} ended: {process.returncode}{self.log_tails()}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"not in {timeout_s} s: {what}{self.log_tails()}")
            time.sleep(0.05)

    # ----------------------------------------------------------------------------------------------------- files

    def log_file(self, member: int) -> Path:
        return self._home(member) / "zookeeper.log"

    def log_tails(self, *, lines: int = 12) -> str:
        """The ends of all members' logs, for messages of failure."""
        out = ""
        for member in self.members:
            log = self.log_file(member)
            text = log.read_text(errors="replace") if log.exists() else "(no log)"
            out += f"\n--- member {member}\n" + "\n".join(text.splitlines()[-lines:])
        return out

    def _home(self, member: int) -> Path:
        return self.data_dir / f"member-{member}"

    def _lay_out(self, member: int) -> None:
        home = self._home(member)
        (home / "data").mkdir(parents=True, exist_ok=True)
        (home / "data" / "myid").write_text(f"{member}\n")
        quorum = self._base_port + len(self.members)
        servers = [
            f"server.{each}={HOST}:{quorum + 2 * (each - 1)}:{quorum + 2 * (each - 1) + 1}" for each in self.members
        ]
        settings = [
            f"dataDir={home / 'data'}",
            f"clientPort={self.port(member)}",
            f"clientPortAddress={HOST}",
            f"tickTime={self.tick_ms}",
            "initLimit=20",
            "syncLimit=6",
            f"maxSessionTimeout={120 * self.tick_ms}",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            *(servers if len(self.members) > 1 else []),
            *self._security(member, home),
        ]
        (home / "zoo.cfg").write_text("\n".join(settings) + "\n")
        (home / "log4j.properties").write_text(
            "log4j.rootLogger=INFO, stdout\n"
            "log4j.appender.stdout=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.stdout.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
        )

    def _security(self, member: int, home: Path) -> list[str]:
        if self._kerberos is not None:
            (home / "jaas.conf").write_text(
                "Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
                f'keyTab="{self._kerberos.keytab}" principal="{self._kerberos.principal}"; }};\n'
            )
            return ["authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"]
        if self._secured is None:
            return []
        users = "".join(f' user_{name}="{password}"' for name, password in self._secured.users.items())
        module = "org.apache.zookeeper.server.auth.DigestLoginModule"
        (home / "jaas.conf").write_text(f"Server {{ {module} required{users}; }};\n")
        return [
            f"secureClientPort={self._secure_port(member)}",
            f"secureClientPortAddress={HOST}",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"ssl.keyStore.location={self._secured.certificate}",
            f"ssl.trustStore.location={self._secured.authority}",
            "ssl.protocol=TLSv1.3",
            # Its own choice has no suite of TLS 1.3.
            "ssl.ciphersuites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "ssl.enabledProtocols=TLSv1.2,TLSv1.3",
            f"ssl.clientAuth={self._secured.client_auth}",
            "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        ]

    def _command(self, member: int) -> list[str]:
        home = self._home(member)
        # A parent is a thread to the kernel: of another thread's children its end would be the end too early.
        with_parent = threading.current_thread() is threading.main_thread() and shutil.which("setpriv") is not None
        return [
            *(["setpriv", "--pdeathsig", "KILL", "--"] if with_parent else []),
            os.environ.get("JAVA", "java"),
            *self._heap.split(),
            # A member of an idle test ensemble: start fast, stay small.
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Djava.awt.headless=true",
            "-Dzookeeper.jmx.log4j.disable=true",
            "-Dzookeeper.preAllocSize=1024",
            f"-Dzookeeper.forceSync={'yes' if self._force_sync else 'no'}",
            f"-Dlog4j.configuration=file:{home / 'log4j.properties'}",
            *([f"-Djava.security.auth.login.config={home / 'jaas.conf'}"] if (home / "jaas.conf").exists() else []),
            *self._kerberos_options(),
            "-cp",
            self._class_path,
            _MAIN,
            str(home / "zoo.cfg"),
        ]

    def _kerberos_options(self) -> list[str]:
        if self._kerberos is None:
            return []
        return [
            f"-Djava.security.krb5.conf={self._kerberos.configuration}",
            "-Dzookeeper.kerberos.removeHostFromPrincipal=true",
            "-Dzookeeper.kerberos.removeRealmFromPrincipal=true",
        ]

    def __enter__(self) -> ZooKeeperEnsemble:
        try:
            self.start()
            self.wait_until_serving()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


@atexit.register
def _kill_what_still_runs() -> None:
    for ensemble in list(_running):
        ensemble.kill()
