"""ClusterSettings: how a cluster is reached, and what of it may be looked at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kavka.client.cluster import parse_bootstrap
from kavka.client.security import SaslSettings, TlsSettings
from kavka.errors import ConfigError
from kavka.runtime.http.http_services import service_address

CLUSTER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""It stands in addresses of pages."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One cluster. `metrics` is a template of the brokers' metrics addresses, for those that do not say theirs."""

    name: str
    bootstrap: str
    metrics: str = ""
    zookeeper: str = ""
    schema_registry: str = ""
    connect: str = ""
    """The address of a Kafka Connect cluster's REST interface."""
    read_only: bool = False
    sasl: SaslSettings | None = None
    tls: TlsSettings | None = None

    def __post_init__(self) -> None:
        if not CLUSTER_NAME.fullmatch(self.name):
            raise ConfigError(f"cluster name {self.name!r}: expected letters, digits, '.', '_' or '-', up to 64")
        try:
            parse_bootstrap(self.bootstrap)
            if self.zookeeper:
                parse_bootstrap(self.zookeeper, default_port=2181)
            for address in filter(None, (self.schema_registry, self.connect)):
                service_address(address, "no address")
        except ValueError as problem:
            raise ConfigError(f"cluster {self.name}: {problem}") from problem
