"""Listeners: where a broker accepts connections, and what it tells others to connect to.

Decides how `listeners`, `advertised.listeners` and `listener.security.protocol.map` are read and which combinations
are refused. Must not know sockets, nor resolve a host's name: an empty host means all interfaces.

I1. The listeners of one list differ in name, and in port unless the port is 0.
I2. Every listener has a security protocol.

Source: Kafka's KafkaConfig, CoreUtils.listenerListToEndPoints, EndPoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kavka.errors import ConfigError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_PROTOCOLS = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
TLS_PROTOCOLS = frozenset({"SSL", "SASL_SSL"})
"""Those that are encrypted."""
PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener: its name in capitals, its host ("" for all interfaces), port (0 for any) and security protocol."""

    listener: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host by this name or address. A name that is looked up is not believed."""
    name = host.strip("[]").lower()
    return name in ("localhost", "::1", "0:0:0:0:0:0:0:1") or bool(re.fullmatch(r"127(\.[0-9]{1,3}){3}", name))


def in_clear_beyond(listeners: Sequence[Endpoint], advertised: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """The listeners without TLS that others than this machine reach, as far as addresses tell: each as it is advertised
    where that is what is open, else as it listens."""
    told = {endpoint.listener: endpoint for endpoint in advertised}
    found = []
    for endpoint in listeners:
        if endpoint.security_protocol in TLS_PROTOCOLS:
            continue
        outside = told.get(endpoint.listener, endpoint)
        if not is_loopback(endpoint.host):
            found.append(endpoint)
        elif not is_loopback(outside.host):
            found.append(outside)
    return tuple(found)


def parse_protocol_map(text: str) -> dict[str, str]:
    """Listener name -> security protocol, from `NAME:PROTOCOL,...`."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (e.strip() for e in text.split(","))):
        name, separator, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        if not separator or protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"Invalid value {text} for configuration listener.security.protocol.map: "
                f"{entry!r} is not NAME:PROTOCOL with a protocol of {', '.join(SECURITY_PROTOCOLS)}"
            )
        if name in protocols:
            raise ConfigError(
                f"Invalid value {text} for configuration listener.security.protocol.map: {name} is mapped twice"
            )
        protocols[name] = protocol
    return protocols


def parse_endpoints(setting: str, text: str, protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """The listeners of `setting`, whose text is `NAME://host:port,...`. Raises ConfigError, see I1 and I2."""

    def refuse(reason: str) -> ConfigError:
        return ConfigError(f"Invalid value {text} for configuration {setting}: {reason}")

    endpoints: list[Endpoint] = []
    for entry in filter(None, (e.strip() for e in text.split(","))):
        match = re.fullmatch(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*?)\]?:([0-9]{1,5})", entry)
        if match is None or int(match[3]) > PORT_MAX:
            raise refuse(f"{entry!r} is not NAME://host:port with a port from 0 to {PORT_MAX}")
        name = match[1].upper()
        if name not in protocols:
            raise refuse(f"no security protocol is defined for listener {name} in listener.security.protocol.map")
        endpoints.append(Endpoint(name, match[2], int(match[3]), protocols[name]))
    names = [endpoint.listener for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise refuse("each listener must have a different name")
    return tuple(endpoints)


def check_ports(text: str, endpoints: Sequence[Endpoint]) -> None:
    """Refuses two listeners on one port, but for an IPv4 and an IPv6 address on the same one."""
    seen: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            seen.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in seen.items():
        sixes = sum(":" in endpoint.host for endpoint in sharing)
        fours = sum(bool(re.fullmatch(r"[0-9.]+", endpoint.host)) for endpoint in sharing)
        if len(sharing) > 1 and not (len(sharing) == 2 and sixes == fours == 1):
            raise ConfigError(
                f"Invalid value {text} for configuration listeners: each listener must have a different port, "
                f"found {port} twice"
            )
