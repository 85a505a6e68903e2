"""Four-letter words: what ZooKeeper's server tells an administrator who connects and sends four letters.

Decides which words are known, which may be asked for, and their texts. It must not know sockets or the tree: numbers
come in as a `ServerReport`.

As in ZooKeeper, only srvr is answered unless `4lw.commands.whitelist` names more ("*": all). Other machines are told
srvr, mntr and ruok at most.

Source: ZooKeeper's administrator's guide, "The Four Letter Words"; the texts' forms are those that monitoring parses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

WORDS: Final = frozenset({"ruok", "srvr", "stat", "mntr", "envi", "conf", "cons", "dump", "wchs", "isro"})
DEFAULT_WHITELIST: Final = frozenset({"srvr"})
ANYWHERE: Final = frozenset({"srvr", "mntr", "ruok"})
"""What is told to other machines, too: the other words name clients, paths and directories."""
COMPATIBLE_VERSION: Final = "3.9.0-kavka"
"""The version that clients read: the level of the protocol that is served, and who serves it."""


class ClientReport(NamedTuple):
    """One connection. `session_id` is 0 before the session stands."""

    host: str
    port: int
    session_id: int
    timeout_ms: int
    queued: int
    received: int
    sent: int


class ServerReport(NamedTuple):
    """A server's numbers at one moment; latencies in ms, times in ms since 1970."""

    zxid: int
    nodes: int
    ephemerals: Mapping[int, Sequence[str]]
    clients: Sequence[ClientReport]
    watching_sessions: int
    watched_paths: int
    watches: int
    received: int
    sent: int
    latency_min_ms: float
    latency_mean_ms: float
    latency_max_ms: float
    uptime_ms: int
    host: str
    port: int
    directory: str
    tick_ms: int
    max_connections_per_host: int
    min_session_timeout_ms: int
    max_session_timeout_ms: int
    data_bytes: int
    environment: Mapping[str, str]


def whitelist(setting: str) -> frozenset[str]:
    """The words that a value of `4lw.commands.whitelist` allows: names with commas, or "*"."""
    names = [name.strip() for name in setting.split(",")]
    return WORDS if "*" in names else WORDS & frozenset(names)


def allowed_from(host: str, allowed: frozenset[str]) -> frozenset[str]:
    """Of the words allowed, those that somebody at the address `host` may ask for."""
    try:
        is_here = ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        is_here = False
    return allowed if is_here else allowed & ANYWHERE


def answer(word: str, report: ServerReport, allowed: frozenset[str]) -> str:
    """The text for one of `WORDS`."""
    if word not in allowed:
        return f"{word} is not executed because it is not in the whitelist.\n"
    match word:
        case "ruok":
            return "imok"
        case "isro":
            return "rw"
        case "srvr":
            return _server(report)
        case "stat":
            clients = "".join(f" {_address(client)}{_counts(client)}\n" for client in report.clients)
            return _version() + f"Clients:\n{clients}\n" + _server(report).split("\n", 1)[1]
        case "mntr":
            return "".join(f"zk_{name}\t{value}\n" for name, value in _monitored(report))
        case "envi":
            lines = [("zookeeper.version", COMPATIBLE_VERSION), *report.environment.items()]
            return "Environment:\n" + _assignments(lines)
        case "conf":
            return _assignments(_configuration(report))
        case "cons":
            return "".join(f" {_address(client)}{_details(client)}\n" for client in report.clients) + "\n"
        case "dump":
            return _sessions(report)
        case _:
            return (
                f"{report.watching_sessions} connections watching {report.watched_paths} paths\n"
                f"Total watches:{report.watches}\n"
            )


def _version() -> str:
    return f"Zookeeper version: {COMPATIBLE_VERSION}\n"


def _server(report: ServerReport) -> str:
    latencies = f"{report.latency_min_ms:.0f}/{report.latency_mean_ms:.4f}/{report.latency_max_ms:.0f}"
    return (
        f"{_version()}"
        f"Latency min/avg/max: {latencies}\n"
        f"Received: {report.received}\n"
        f"Sent: {report.sent}\n"
        f"Connections: {len(report.clients)}\n"
        f"Outstanding: {_outstanding(report)}\n"
        f"Zxid: {report.zxid:#x}\n"
        "Mode: standalone\n"
        f"Node count: {report.nodes}\n"
    )


def _monitored(report: ServerReport) -> list[tuple[str, object]]:
    return [
        ("version", COMPATIBLE_VERSION),
        ("server_state", "standalone"),
        ("avg_latency", f"{report.latency_mean_ms:.4f}"),
        ("max_latency", f"{report.latency_max_ms:.0f}"),
        ("min_latency", f"{report.latency_min_ms:.0f}"),
        ("packets_received", report.received),
        ("packets_sent", report.sent),
        ("num_alive_connections", len(report.clients)),
        ("outstanding_requests", _outstanding(report)),
        ("znode_count", report.nodes),
        ("watch_count", report.watches),
        ("ephemerals_count", sum(map(len, report.ephemerals.values()))),
        ("approximate_data_size", report.data_bytes),
        ("uptime", report.uptime_ms),
    ]


def _configuration(report: ServerReport) -> list[tuple[str, object]]:
    return [
        ("clientPort", report.port),
        ("clientPortAddress", report.host),
        ("dataDir", report.directory),
        ("dataLogDir", report.directory),
        ("tickTime", report.tick_ms),
        ("maxClientCnxns", report.max_connections_per_host),
        ("minSessionTimeout", report.min_session_timeout_ms),
        ("maxSessionTimeout", report.max_session_timeout_ms),
        ("serverId", 0),
    ]


def _sessions(report: ServerReport) -> str:
    lines = ["SessionTracker dump:", f"Global Sessions({len(report.ephemerals)}):"]
    lines += [f"{session_id:#x}" for session_id in report.ephemerals]
    owners = [(session_id, paths) for session_id, paths in report.ephemerals.items() if paths]
    lines.append(f"ephemeral nodes dump:\nSessions with Ephemerals ({len(owners)}):")
    for session_id, paths in owners:
        lines += [f"{session_id:#x}:", *(f"\t{path}" for path in paths)]
    return "\n".join(lines) + "\n"


def _outstanding(report: ServerReport) -> int:
    return sum(client.queued for client in report.clients)


def _address(client: ClientReport) -> str:
    return f"/{client.host}:{client.port}[{1 if client.session_id else 0}]"


def _counts(client: ClientReport) -> str:
    return f"(queued={client.queued},recved={client.received},sent={client.sent})"


def _details(client: ClientReport) -> str:
    if not client.session_id:
        return _counts(client)
    return f"{_counts(client)[:-1]},sid={client.session_id:#x},to={client.timeout_ms})"


def _assignments(pairs: Iterable[tuple[str, object]]) -> str:
    return "".join(f"{name}={value}\n" for name, value in pairs)
