"""HostLayout: the brokers of one host, out of one file of settings.

Decides what each of several brokers on one machine has of its own, and which files cannot be shared that way. Must not
know files, processes or the host's name: it is given them.

    broker.id                       the file's is the first; the others have the numbers after it
    listeners, advertised.listeners the file's ports are the first broker's; each next broker has ports one higher
    log.dirs                        DIR/broker-ID in each directory of the file; cordoned.log.dirs likewise
    broker.rack                     the host, unless the file names a rack: replicas of a partition then never share it
    kavka.metrics.port              the host's own, with the metrics of all; the brokers' are those after it, on the
                                    loopback
    all else                        as in the file

I1  Two brokers of a layout share no id, port or directory.
I2  A file that was given to one broker is refused where sharing it would lose that broker's logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kavka.config.broker import ALL_DIRECTORIES, BrokerConfig
from kavka.config.listeners import PORT_MAX, Endpoint
from kavka.config.setting import InvalidValue

LOOPBACK: Final = "127.0.0.1"
BROKER_DIRECTORY: Final = "broker-"
MOST_BROKERS: Final = 256
"""More than one machine has cores for."""


@dataclass(frozen=True, slots=True)
class PlannedBroker:
    """One broker: the texts of its settings, and what they say."""

    broker_id: int
    settings: Mapping[str, str]
    config: BrokerConfig

    @property
    def address(self) -> str:
        """Where clients reach its first listener, as host:port."""
        endpoint = self.config.advertised_endpoints[0]
        host = endpoint.host or LOOPBACK
        return f"{f'[{host}]' if ':' in host else host}:{endpoint.port}"


@dataclass(frozen=True, slots=True)
class MetricsPlace:
    """Where the host shows the metrics of all its brokers, and where each broker shows its own (by broker id)."""

    host: str
    port: int
    of_brokers: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class HostLayout:
    """The brokers, by rising id. `directories` are log.dirs as in the file; `metrics` is None where none are shown."""

    brokers: tuple[PlannedBroker, ...]
    directories: tuple[str, ...]
    rack: str
    metrics: MetricsPlace | None

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(broker.broker_id for broker in self.brokers)


def lay_out(written: Mapping[str, str], count: int, *, host_name: str) -> HostLayout:
    """The layout of `count` brokers that share the settings `written`.

    `host_name` is the rack of a file that names none. Raises ConfigError, which names the setting.
    """
    if not 1 <= count <= MOST_BROKERS:
        raise InvalidValue("--brokers", count, f"a host has 1 to {MOST_BROKERS} brokers")
    shared = BrokerConfig.from_properties(written)
    _require_shareable(shared, written)
    _require_room(shared, count)
    rack = shared.broker_rack or host_name
    first = shared.broker_id
    brokers = []
    for distance in range(count):
        settings = {**written, **_own_settings(shared, written, distance, rack)}
        brokers.append(PlannedBroker(first + distance, settings, BrokerConfig.from_properties(settings)))
    metrics = None
    if shared.kavka_metrics_port:
        port = shared.kavka_metrics_port
        host = shared.kavka_metrics_host or shared.listener_endpoints[0].host
        metrics = MetricsPlace(host, port, {first + each: port + 1 + each for each in range(count)})
    return HostLayout(tuple(brokers), shared.log_directories, rack, metrics)


def why_other(running: HostLayout, asked: HostLayout) -> str | None:
    """What of a layout cannot change while its brokers run, one after the other; None where nothing of it did."""
    if running.broker_ids != asked.broker_ids:
        return f"the brokers of the host are {_ids(running)}, and would be {_ids(asked)}"
    if running.directories != asked.directories:
        return f"log.dirs is {','.join(running.directories)}, and would be {','.join(asked.directories)}"
    if running.metrics != asked.metrics:
        return "the host's place for metrics would be another one (kavka.metrics.port, kavka.metrics.host, listeners)"
    return None


def _ids(layout: HostLayout) -> str:
    first, last = layout.broker_ids[0], layout.broker_ids[-1]
    return str(first) if first == last else f"{first} to {last}"


# -- what cannot be shared


def _require_shareable(shared: BrokerConfig, written: Mapping[str, str]) -> None:
    if shared.broker_id < 0:
        raise InvalidValue(
            "broker.id",
            written.get("broker.id", "(not set)"),
            "brokers of one host need the first one's id; the others have the numbers after it",
        )
    if not shared.zookeeper_connect:
        raise InvalidValue(
            "zookeeper.connect",
            written.get("zookeeper.connect", "(not set)"),
            "the brokers of a host are processes of their own and meet at a ZooKeeper: name it "
            "(`kavka zookeeper` is one)",
        )
    if shared.abandoned_log_directories:
        raise InvalidValue(
            "kavka.abandoned.log.dirs",
            written["kavka.abandoned.log.dirs"],
            "it is about one broker's directories: start that broker once with `kavka server` and its own file",
        )


def _require_room(shared: BrokerConfig, count: int) -> None:
    """Each listener takes so many ports, and so do the metrics. Raises InvalidValue."""
    taken: dict[int, str] = {}
    for what, first, wanted in _wanted_ports(shared, count):
        if first == 0:
            raise InvalidValue("listeners", what, "brokers of one host need a port: the others have those after it")
        if first + wanted - 1 > PORT_MAX:
            raise InvalidValue(
                what, first, f"{count} brokers need the ports up to {first + wanted - 1}, beyond {PORT_MAX}"
            )
        for port in range(first, first + wanted):
            if port in taken:
                raise InvalidValue(
                    what,
                    first,
                    f"{count} brokers need {_range(first, wanted)}, and port {port} is one of {taken[port]}; "
                    f"leave {count} ports between listeners",
                )
        taken.update(dict.fromkeys(range(first, first + wanted), f"{what} {_range(first, wanted)}"))


def _wanted_ports(shared: BrokerConfig, count: int) -> Iterator[tuple[str, int, int]]:
    """What for, from which port on, how many."""
    seen: set[int] = set()
    for endpoint in shared.listener_endpoints:
        # An IPv4 and an IPv6 address may have one port, in two listeners.
        if endpoint.port not in seen or endpoint.port == 0:
            yield endpoint.listener, endpoint.port, count
        seen.add(endpoint.port)
    if shared.kavka_metrics_port:
        yield "kavka.metrics.port", shared.kavka_metrics_port, count + 1


def _range(first: int, wanted: int) -> str:
    return f"port {first}" if wanted == 1 else f"ports {first} to {first + wanted - 1}"


# -- what each has of its own


def _own_settings(shared: BrokerConfig, written: Mapping[str, str], distance: int, rack: str) -> dict[str, str]:
    broker_id = shared.broker_id + distance
    own = {
        "broker.id": str(broker_id),
        "broker.rack": rack,
        "listeners": _moved(shared.listener_endpoints, distance),
        "log.dirs": ",".join(own_directories(shared.log_directories, broker_id)),
    }
    if "node.id" in written:
        own["node.id"] = str(broker_id)
    if shared.advertised_listeners is not None:
        own["advertised.listeners"] = _moved(shared.advertised_endpoints, distance)
    if shared.cordoned_log_dirs and ALL_DIRECTORIES not in shared.cordoned_log_dirs:
        own["cordoned.log.dirs"] = ",".join(own_directories(shared.cordoned_log_directories, broker_id))
    if shared.kavka_metrics_port:
        own["kavka.metrics.port"] = str(shared.kavka_metrics_port + 1 + distance)
        own["kavka.metrics.host"] = LOOPBACK
    return own


def own_directories(directories: Sequence[str], broker_id: int) -> list[str]:
    """Where a broker of a host keeps its logs."""
    return [f"{directory.rstrip('/')}/{BROKER_DIRECTORY}{broker_id}" for directory in directories]


def _moved(endpoints: Sequence[Endpoint], distance: int) -> str:
    """The listeners, as text, with ports `distance` higher."""
    moved = (Endpoint(each.listener, each.host, each.port + distance, each.security_protocol) for each in endpoints)
    return ",".join(map(str, moved))
