"""`kavka up --secure`, and the refusal of `kavka up` to be open by accident.

Decides which settings a secured start stands for, which wishes do not go together with it, and what is said. Must not
import typer or rich (kavka/cli/main.py says why). The files are runtime.security_directory's.

    listeners   SASL_SSL (with --mtls: SSL) for clients, where --host and --port say
                BROKERS: SSL with certificates, on the loopback, between brokers: all are in one process
    who         admin and the brokers may do everything, others what ACLs allow
    where       DIR/security; a directory that has it is secured at every later start

I1  Without --secure or --insecure, `kavka up` listens in clear on the loopback only.
I2  What was secured is not opened by leaving an option out.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kavka.cli.run.start import ALL_INTERFACES, Start, WrongUsage, address
from kavka.config.properties import parse_assignments
from kavka.logger import Logger

if TYPE_CHECKING:
    from kavka.broker.metadata.metadata_cache import Endpoint
    from kavka.config.broker import BrokerConfig
    from kavka.runtime.tls.security_directory import SecurityDirectory
    from kavka.zookeeper.port import ZooKeeper

logger = Logger(__name__)

DIRECTORY: Final = "security"
"""In the data directory."""
LOOPBACK: Final = "127.0.0.1"
LOOK_S: Final = 3600.0
"""How often it is looked, while brokers run, whether a certificate has to be renewed."""
_MANAGED: Final = (
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "control.plane.listener.name",
    "authorizer.class.name",
    "super.users",
    "allow.everyone.if.no.acl.found",
    "zookeeper.connect",
    "kavka.metrics.host",
    "kavka.zookeeper.data.dir",
)
_MANAGED_PREFIXES: Final = ("ssl.", "sasl.", "listener.name.", "security.")


def checked(plan: Start) -> Start:
    """The plan with what the directory says of security. Raises WrongUsage for wishes that do not go together."""
    directory = security_directory(plan)
    was_secured = os.path.isdir(directory)
    if plan.insecure and (plan.secure or plan.mtls):
        raise WrongUsage("--secure and --insecure say the opposite of each other: leave one out")
    if plan.insecure and was_secured:
        raise WrongUsage(
            f"--insecure: {directory} says that this cluster is secured. Leave --insecure out, or remove that "
            "directory if its users and certificates are no longer wanted"
        )
    if plan.mtls and not plan.secure and not was_secured:
        raise WrongUsage("--mtls says how clients of --secure prove who they are: add --secure")
    if not plan.secure and not was_secured:
        return plan
    mtls = plan.mtls or (not plan.secure and os.path.exists(os.path.join(directory, "admin.pem")))
    plan = replace(plan, secure=True, mtls=mtls)
    if plan.zookeeper_port is not None:
        raise WrongUsage(
            "--zookeeper-port and --secure do not go together: whoever reaches the embedded ZooKeeper's port may "
            "change users, ACLs and topics, for it knows no users"
        )
    if plan.processes:
        raise WrongUsage(
            "--processes and --secure do not go together: brokers in processes of their own share a ZooKeeper through "
            "an open port, and whoever reaches that may change users, ACLs and topics"
        )
    for name in _settings(plan):
        if name in _MANAGED or name.startswith(_MANAGED_PREFIXES):
            raise WrongUsage(f"--set {name}: --secure sets it itself; for a choice of your own use `kavka server FILE`")
    return plan


def require_closed(plan: Start, config: BrokerConfig) -> None:
    """Raises WrongUsage where `kavka up` would listen in clear where others reach it, and nobody said so."""
    found = config.clear_text_endpoints
    if found and not plan.insecure:
        raise WrongUsage(
            f"{', '.join(map(str, found))} is not of this machine alone, and whoever reaches it could read, write and "
            "delete everything: add --secure for TLS, a password and access control, or --insecure if that is meant"
        )


def tell_of_open(plan: Start, configs: Iterable[BrokerConfig]) -> None:
    """One line about listeners that --insecure left open."""
    found = [str(endpoint) for config in configs for endpoint in config.clear_text_endpoints]
    if plan.insecure and found:
        print(f"Insecure: whoever reaches {', '.join(found)} may read, write and delete everything.", file=sys.stderr)


def security_directory(plan: Start) -> str:
    return os.path.join(os.path.abspath(plan.data), DIRECTORY)


def listeners_of(plan: Start, everyones: Mapping[str, str], *, distance: int) -> dict[str, str]:
    """The settings of a secured broker instead of `everyones`, those of one without security."""
    from kavka.runtime.tls.secured_listeners import BROKERS, by_certificate, by_password, secured_broker

    protocol = "SSL" if plan.mtls else "SASL_SSL"
    # Port 0: nobody but the brokers of this process calls it, and they learn of each other where it is.
    between = f"{BROKERS}://{LOOPBACK}:0"
    advertised = everyones.get("advertised.listeners", everyones["listeners"])
    settings = {
        "listeners": f"{everyones['listeners'].replace('PLAINTEXT', protocol)},{between}",
        "advertised.listeners": f"{advertised.replace('PLAINTEXT', protocol)},{between}",
        "listener.security.protocol.map": f"{protocol}:{protocol},{BROKERS}:SSL",
        **secured_broker(_directory(plan), distance + 1),
        **(by_certificate(protocol) if plan.mtls else by_password()),
    }
    if plan.metrics_port is not None:
        settings["kavka.metrics.host"] = LOOPBACK
    return settings


class SecuredStart:
    """What a secured start does before brokers run, when they do, and while they do. Nothing for another one."""

    def __init__(self, plan: Start, count: int) -> None:
        self._plan = plan
        self._ids = range(1, count + 1)
        self._was_new = False
        self._ended = threading.Event()

    def prepare(self) -> None:
        """Makes what is missing in the directory. Raises NotSecurable, OSError."""
        if not self._plan.secure:
            return
        directory = _directory(self._plan)
        directory.prepare(self._ids, self._names(), _now_ms())
        self._was_new = directory.password_is_new
        # Passwords can be guessed from what ZooKeeper keeps of them.
        zookeeper = os.path.join(os.path.abspath(self._plan.data), "kavka-zookeeper")
        os.makedirs(zookeeper, mode=0o700, exist_ok=True)
        os.chmod(zookeeper, 0o700)

    async def store_user(self, zookeeper: ZooKeeper) -> None:
        """Sees to it that the administrator can log in, before anybody listens. Raises ZooKeeperError."""
        if not self._plan.secure or self._plan.mtls:
            return  # With certificates ZooKeeper is told no password: a new one stays new.
        from kavka.runtime.tls.first_user import store_first_user
        from kavka.runtime.tls.security_directory import ADMIN, MECHANISM

        directory = _directory(self._plan)
        is_new = directory.password_is_new
        await store_first_user(zookeeper, ADMIN, directory.password, MECHANISM, is_new=is_new)
        directory.on_password_stored()

    def on_started(self, bootstrap: str) -> None:
        """Brokers serve at these addresses."""
        if not self._plan.secure:
            return
        _directory(self._plan).write_client_files(bootstrap)
        threading.Thread(target=self._renew_in_time, name="kavka-certificates", daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def lines(self) -> list[str]:
        """What is said of it to who started it. The password only where a person reads it, and once."""
        if not self._plan.secure:
            return []
        directory = _directory(self._plan)
        where = os.path.relpath(directory.path)
        shown = str(directory.path) if where.startswith(os.pardir) else where
        lines = [f"  Secured     {'certificates' if self._plan.mtls else 'passwords'} and TLS; users' files in {shown}"]
        lines.append(f"  Java        --command-config {os.path.join(shown, 'admin.properties')}")
        if self._was_new and sys.stdout.isatty():
            lines.append(f"  Password    admin {directory.password.reveal()}   (shown this once)")
        return lines

    def _names(self) -> list[str]:
        plan = self._plan
        names = [socket.gethostname()]
        if plan.host not in ALL_INTERFACES:
            names.append(plan.host)
        if plan.advertise is not None:
            names.append(advertised_host(plan.advertise))
        return names

    def _renew_in_time(self) -> None:
        """The brokers read the new files by themselves (kavka.ssl.reload.interval.ms)."""
        directory = _directory(self._plan)
        while not self._ended.wait(LOOK_S):
            try:
                for name in directory.renew(self._ids, self._names(), _now_ms()):
                    logger.info("certificate renewed", file=directory.file(name))
            except Exception as problem:  # noqa: BLE001  # whatever it is: the old ones serve on, and it is tried again
                logger.error("certificate not renewed", why=str(problem), next_step="see docs/security.md")


def advertised_host(text: str) -> str:
    """The host of --advertise HOST[:PORT]."""
    name, colon, port = text.rpartition(":")
    return (name if colon and port.isdecimal() and not name.endswith(":") else text).strip("[]")


def client_addresses(endpoints: Mapping[str, Endpoint]) -> dict[str, str]:
    """Where clients connect, by listener: all but the one between brokers."""
    addresses = {name: address(each.host, each.port) for name, each in endpoints.items()}
    if len(addresses) > 1:  # A start in clear has one, and is not to import what it does not use.
        from kavka.runtime.tls.secured_listeners import BROKERS

        addresses.pop(BROKERS, None)
    return addresses


def _directory(plan: Start) -> SecurityDirectory:
    from kavka.runtime.tls.security_directory import SecurityDirectory

    return SecurityDirectory(security_directory(plan), shows_certificates=plan.mtls)


def _settings(plan: Start) -> dict[str, str]:
    from kavka.errors import ConfigError

    try:
        return parse_assignments(plan.settings)
    except ConfigError as problem:
        raise WrongUsage(f"--set: {problem}") from problem


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
