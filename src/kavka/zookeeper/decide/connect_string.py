"""ConnectString: what `zookeeper.connect` says: servers, and the node below which everything is kept (the chroot).

    host:port,host:port/path       a port is 2181 where it is missing; an IPv6 address stands in brackets

Source: ZooKeeper's ConnectStringParser, Kafka's setting zookeeper.connect.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.errors import ConfigError
from kavka.zookeeper.decide.path import validate_path
from kavka.zookeeper.port import BadArguments

DEFAULT_PORT: Final = 2181
_PORTS = range(1, 65536)


class ZooKeeperAddress(NamedTuple):
    """Where one server is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ConnectString(NamedTuple):
    """At least one server; `chroot` is a path, or "" for the whole tree."""

    servers: tuple[ZooKeeperAddress, ...]
    chroot: str


def parse_connect_string(text: str) -> ConnectString:
    """Raises ConfigError."""
    hosts, slash, path = text.strip().partition("/")
    chroot = f"{slash}{path}" if path else ""
    if chroot:
        try:
            validate_path(chroot)
        except BadArguments as error:
            raise ConfigError(f"zookeeper.connect={text}: {error}") from error
    servers = tuple([_address(host.strip(), text) for host in hosts.split(",") if host.strip()])
    if not servers:
        raise ConfigError(f"zookeeper.connect={text}: names no server; expected host:port,host:port/path")
    return ConnectString(servers, chroot)


def _address(server: str, text: str) -> ZooKeeperAddress:
    if server.startswith("["):
        host, bracket, rest = server[1:].partition("]")
        port = rest.removeprefix(":")
        well_formed = bool(bracket) and (not rest or rest.startswith(":"))
    else:
        host, _, port = server.partition(":")
        well_formed = True
    number = int(port) if port.isascii() and port.isdigit() else (0 if port else DEFAULT_PORT)
    if not host or not well_formed or number not in _PORTS:
        raise ConfigError(f"zookeeper.connect={text}: {server!r} is not host:port")
    return ZooKeeperAddress(host, number)
