"""NamedHosts: bounds on connections by address, where max.connections.per.ip.overrides names hosts.

Decides which addresses a name stands for: all that it has when the setting is taken over, as Kafka's brokers look
names up once (Kafka takes the first). A name that nobody knows bounds nothing, and is told. Must not know connections.

Source: Kafka's ConnectionQuotas.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kavka.logger import Logger

logger = Logger(__name__)

Lookup = Callable[[str, None], Sequence[tuple[Any, Any, Any, Any, tuple[Any, ...]]]]
"""As `socket.getaddrinfo`."""


def has_names(overrides: Mapping[str, int]) -> bool:
    """Whether any host is given by its name, so that `by_address` may have to wait for an answer."""
    return any(_address(host) is None for host in overrides)


def by_address(
    overrides: Mapping[str, int],
    lookup: Lookup = socket.getaddrinfo,
    *,
    setting: str = "max.connections.per.ip.overrides",
) -> dict[str, int]:
    """Address, as connections come from it -> bound. An address that is given itself goes before names that have it.

    Blocks where a host is given by its name.
    """
    named: dict[str, int] = {}
    given: dict[str, int] = {}
    for host, bound in overrides.items():
        address = _address(host)
        if address is not None:
            given[address] = bound
            continue
        try:
            found = [str(entry[4][0]) for entry in lookup(host, None)]
        except (OSError, UnicodeError) as unknown:
            logger.error(
                "a bound on connections has no effect: nobody knows the host",
                host=host,
                why=str(unknown),
                setting=setting,
                next_step="use its address, or set it again when the name can be resolved",
            )
            continue
        for text in found:
            named[_address(text) or text] = bound
    return {**named, **given}


def _address(text: str) -> str | None:
    """The address as a socket tells it, but for IPv4 in IPv6, which is IPv4; None where it is a name."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)
