"""ConsoleSettings: which clusters the console shows, where it listens, where it keeps its files.

Decides names, defaults and ranges, and which source wins: the command line over the environment over the settings file
over the defaults. Must not know the console's extra. Users are here or in the ledger (access/auth.py).

The file is TOML:

    host = "127.0.0.1"              # where it listens
    port = 8090
    data = "kavka-console"          # directory of its SQLite files: history; users, jobs, audit log
    login = false                   # ask for a login on loopback, too
    secure_cookies = false          # true behind a proxy that speaks https
    tls = { certificate = "/etc/kavka/console.pem" }    # https; `key` where the key is in a file of its own
    language = "en"                 # where a reader asks for none
    playground = "build/site"       # what `make playground` built: shown at /play/ and /learn/
    poll_ms = 2000

    [health]                        # from when on something counts: the names of observe.health.findings.Thresholds
    under_replicated_ms = 60000
    disk_free_percent = 15.0

    [[cluster]]
    name = "orders"
    bootstrap = "broker-1:9092,broker-2:9092"
    metrics = "http://{host}:7071/metrics"      # {host}, {broker}: where brokers do not say it themselves
    zookeeper = "zk-1:2181,zk-2:2181"           # for health checks and the tree
    schema_registry = "http://registry:8081"
    connect = "http://connect:8083"             # Kafka Connect's REST interface: any of its workers
    read_only = false                           # no action on this cluster, whoever asks
    sasl = { mechanism = "SCRAM-SHA-512", username = "console", password = "..." }     # where brokers ask who it is
    tls = { authorities = "/etc/ssl/kafka-ca.pem" }      # where they speak TLS; {} for certificates the machine trusts
    client_config = "/etc/kavka/orders.properties"       # instead of sasl and tls: a file of Kafka's client settings

    [[user]]                                    # rights: docs/console.md
    name = "ada"
    password = "scrypt:...:..."                 # `kavka console user hash` makes it; without: the ledger's
    rights = ["operator on orders, topics payments-*, values", "viewer on *"]

    [[mask]]                                    # what only those see who have `unmasked` in their right (masks.py)
    topics = ["payments-*"]
    fields = ["value.customer.email", "value.**.iban", "headers.authorization"]

    [sso]                                       # logins by a provider: sso_settings.py

Environment: KAVKA_BOOTSTRAP, KAVKA_CONSOLE_HOST, KAVKA_CONSOLE_PORT, KAVKA_CONSOLE_DATA.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from kavka.client.client_file import read_client_file
from kavka.client.security import PASSWORD_MECHANISMS, SaslMechanism, SaslSettings, TlsSettings
from kavka.console.alert_rules import MOST_RULES, AlertRule, parse_alert
from kavka.console.masks import MOST_MASKS, Mask, parse_mask
from kavka.console.rights import Rights, parse_grant
from kavka.console.sso_settings import SsoSettings, parse_sso
from kavka.errors import ConfigError
from kavka.observe.cluster_settings import ClusterSettings
from kavka.observe.health.findings import Thresholds
from kavka.runtime.tls.server_tls import ServerTlsSettings

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8090
DEFAULT_DATA: Final = "kavka-console"
HISTORY_FILE: Final = "history.sqlite"
MAX_CLUSTERS: Final = 100
DEFAULT_THRESHOLDS: Final = Thresholds()
MAX_USERS: Final = 1_000
MAX_GRANTS: Final = 200
"""Of one user."""
USER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_TABLES: Final = ("alerts", "clusters", "masks", "sso", "thresholds", "tls", "users")
"""What is a table in the file."""
VARIABLES: Final = {
    "KAVKA_CONSOLE_HOST": "host",
    "KAVKA_CONSOLE_PORT": "port",
    "KAVKA_CONSOLE_DATA": "data_directory",
}


@dataclass(frozen=True, slots=True)
class UserSettings:
    """Somebody who may log in. `password` is a hash (access/auth.py); empty: the ledger has it."""

    name: str
    rights: Rights
    """Without a grant: nothing."""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """All of it, born valid. Durations in ms."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    data_directory: str = DEFAULT_DATA
    language: str = "en"
    playground: str = ""
    """Directory of the cluster in a page; empty: it is not shown."""
    login: bool = False
    """Beyond loopback a login is needed in any case."""
    secure_cookies: bool = False
    tls: ServerTlsSettings | None = None
    """The console's own certificate: it speaks https then."""
    poll_ms: int = 2_000
    """How often a cluster is asked who leads what; everything else is a multiple of it."""
    history_days: int = 30
    thresholds: Thresholds = DEFAULT_THRESHOLDS
    """Of the health checks."""
    clusters: tuple[ClusterSettings, ...] = ()
    users: tuple[UserSettings, ...] = ()
    alerts: tuple[AlertRule, ...] = ()
    masks: tuple[Mask, ...] = ()
    sso: SsoSettings | None = None

    def __post_init__(self) -> None:
        for name, least, most in (("port", 0, 65_535), ("poll_ms", 100, 600_000), ("history_days", 1, 3_650)):
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"{name} is {getattr(self, name)}, expected {least} to {most}")
        if len(self.clusters) > MAX_CLUSTERS:
            raise ConfigError(f"{len(self.clusters)} clusters, expected at most {MAX_CLUSTERS}")
        seen: set[str] = set()
        for each in self.clusters:
            if each.name in seen:
                raise ConfigError(f"cluster {each.name!r} is given twice")
            seen.add(each.name)
        if len(self.users) > MAX_USERS:
            raise ConfigError(f"{len(self.users)} users, expected at most {MAX_USERS}")
        if self.sso is not None and self.sso.is_https != self.is_https:
            raise ConfigError(
                f"[sso] says that browsers know the console as {self.sso.address}, and it speaks "
                f"{'https' if self.is_https else 'http'}: see tls, and secure_cookies for a proxy that speaks https"
            )
        if len(self.masks) > MOST_MASKS:
            raise ConfigError(f"{len(self.masks)} masks, expected at most {MOST_MASKS}")
        for mask in self.masks if self.clusters else ():
            if not any(fnmatchcase(each.name, mask.cluster) for each in self.clusters):
                # A misspelt name would mask nothing, and nobody would see it.
                known = ", ".join(each.name for each in self.clusters)
                raise ConfigError(f"[[mask]]: cluster is {mask.cluster!r}, which fits none of {known}")
        if len(self.alerts) > MOST_RULES:
            raise ConfigError(f"{len(self.alerts)} alerts, expected at most {MOST_RULES}")
        for name, times in Counter(each.name for each in self.alerts).items():
            if times > 1:
                raise ConfigError(f"alert {name!r} is given twice")
        names = [each.name for each in self.users]
        for name, times in Counter(names).items():
            if times > 1:
                raise ConfigError(f"user {name!r} is given twice")

    @property
    def is_https(self) -> bool:
        """Whether browsers reach it by https alone: from itself, or from a proxy before it."""
        return self.secure_cookies or self.tls is not None

    @property
    def history_file(self) -> Path:
        """Where the history is kept."""
        return Path(self.data_directory) / HISTORY_FILE


def parse_settings(text: str, *, where: str = "settings") -> ConsoleSettings:
    """The settings of a TOML text. Raises ConfigError, which names what is wrong."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{where} is not valid TOML: {problem}") from problem
    clusters = [_cluster(each, where) for each in _tables(found.pop("cluster", []), "cluster", where)]
    users = [_user(each, where) for each in _tables(found.pop("user", []), "user", where)]
    alerts = [parse_alert(each, where) for each in _tables(found.pop("alert", []), "alert", where)]
    masks = [_mask(each, where) for each in _tables(found.pop("mask", []), "mask", where)]
    sso = parse_sso(found.pop("sso"), f"{where}: [sso]") if "sso" in found else None
    if "data" in found:
        found["data_directory"] = found.pop("data")
    thresholds = _thresholds(found.pop("health", {}), f"{where}: [health]")
    tls = _server_tls(found.pop("tls"), f"{where}: tls") if "tls" in found else None
    known = {each.name: each for each in fields(ConsoleSettings) if each.name not in _TABLES}
    _check(found, {name: type(each.default) for name, each in known.items()}, where)
    return ConsoleSettings(
        **found,
        clusters=tuple(clusters),
        thresholds=thresholds,
        tls=tls,
        users=tuple(users),
        alerts=tuple(alerts),
        masks=tuple(masks),
        sso=sso,
    )


def with_environment(settings: ConsoleSettings, environment: Mapping[str, str]) -> ConsoleSettings:
    """The settings with what the environment says instead. Raises ConfigError."""
    changes: dict[str, Any] = {}
    for variable, name in VARIABLES.items():
        value = environment.get(variable)
        if not value:
            continue
        if name == "port":
            if not value.isdecimal():
                raise ConfigError(f"{variable} is {value!r}, expected a port")
            changes[name] = int(value)
        else:
            changes[name] = value
    return replace(settings, **changes)


def with_bootstrap(settings: ConsoleSettings, bootstraps: Sequence[str]) -> ConsoleSettings:
    """The settings with these clusters instead, as `HOST:PORT,...` or `name=HOST:PORT,...`."""
    clusters = []
    for number, text in enumerate(bootstraps, 1):
        name, equals, addresses = text.rpartition("=")
        default = "local" if len(bootstraps) == 1 else f"cluster-{number}"
        clusters.append(ClusterSettings(name if equals else default, addresses))
    return replace(settings, clusters=tuple(clusters))


def _tables(value: object, name: str, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ConfigError(f"{where}: write each {name} under its own [[{name}]]")
    return value


def _user(table: dict[str, Any], where: str) -> UserSettings:
    _check(table, {"name": str, "rights": list, "password": str}, f"{where}: [[user]]", needed=("name",))
    name, grants = table["name"], table.get("rights", [])
    if not USER_NAME.fullmatch(name):
        raise ConfigError(f"{where}: {name!r} is no user name: letters, digits and . _ @ -, at most 64")
    return UserSettings(name, parse_rights(grants, f"{where}: rights of {name}"), table.get("password", ""))


def _mask(table: dict[str, Any], where: str) -> Mask:
    try:
        return parse_mask(table)
    except ValueError as problem:
        raise ConfigError(f"{where}: [[mask]]: {problem}") from problem


def parse_rights(grants: Sequence[object], where: str) -> Rights:
    """Raises ConfigError."""
    if len(grants) > MAX_GRANTS:
        raise ConfigError(f"{where}: {len(grants)}, expected at most {MAX_GRANTS}")
    try:
        return Rights(parse_grant(str(each)) for each in grants)
    except ValueError as problem:
        raise ConfigError(f"{where}: {problem}") from problem


def _server_tls(table: object, where: str) -> ServerTlsSettings:
    if not isinstance(table, dict):
        raise ConfigError(f'{where}: expected {{ certificate = "FILE" }}')
    _check(table, {"certificate": str, "key": str}, where, needed=("certificate",))
    return ServerTlsSettings(**table)


def _cluster(table: dict[str, Any], where: str) -> ClusterSettings:
    types: dict[str, type] = dict.fromkeys((each.name for each in fields(ClusterSettings)), str)
    types.update(read_only=bool, sasl=dict, tls=dict, client_config=str)
    needed = ("name",) if "client_config" in table else ("name", "bootstrap")
    _check(table, types, f"{where}: [[cluster]]", needed=needed)
    made: dict[str, Any] = dict(table)
    if "client_config" in table:
        made.update(_client_config(made, f"{where}: client_config of {table['name']}"))
    if "sasl" in table:
        made["sasl"] = _sasl(table["sasl"], f"{where}: sasl of {table['name']}")
    if "tls" in table:
        wanted: dict[str, type] = dict.fromkeys((each.name for each in fields(TlsSettings)), str)
        wanted["check_hostname"] = bool
        _check(table["tls"], wanted, f"{where}: tls of {table['name']}")
        made["tls"] = TlsSettings(**table["tls"])
    return ClusterSettings(**made)


def _client_config(table: dict[str, Any], where: str) -> dict[str, Any]:
    """What a client's file says of how the cluster is reached, with every mechanism that kavka's client has."""
    file = table.pop("client_config")
    for name in ("sasl", "tls"):
        if name in table:
            raise ConfigError(f"{where}: {name} is set, too, and both say how the cluster is reached: leave one out")
    try:
        login = read_client_file(file)
    except OSError as problem:
        raise ConfigError(f"{where}: cannot read {file}: {problem.strerror}") from problem
    except ConfigError as problem:
        raise ConfigError(f"{where}: {problem}") from problem
    bootstrap = table.get("bootstrap") or login.bootstrap
    if not bootstrap:
        raise ConfigError(f"{where}: neither bootstrap nor bootstrap.servers of {file} says where the brokers are")
    return {"bootstrap": bootstrap, "sasl": login.sasl, "tls": login.tls}


def _thresholds(table: object, where: str) -> Thresholds:
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: expected name = number")
    types = {each.name: type(each.default) for each in fields(Thresholds)}
    # 15 is a number as good as 15.0.
    numbers: dict[str, Any] = {
        name: float(value) if types.get(name) is float and type(value) is int else value
        for name, value in table.items()
    }
    _check(numbers, types, where)
    for name, value in numbers.items():
        if value < 0:
            raise ConfigError(f"{where}: {name} is {value}, expected 0 or more")
    return Thresholds(**numbers)


def _sasl(table: Mapping[str, Any], where: str) -> SaslSettings:
    names = ("mechanism", "username", "password")
    _check(table, dict.fromkeys(names, str), where, needed=names)
    try:
        mechanism = SaslMechanism(table["mechanism"])
        if mechanism not in PASSWORD_MECHANISMS:
            raise ValueError("tokens come from a client's settings, which this table does not have")
    except ValueError:
        known = ", ".join(each.value for each in PASSWORD_MECHANISMS)
        raise ConfigError(f"{where}: mechanism is {table['mechanism']!r}, expected {known}") from None
    return SaslSettings(mechanism=mechanism, username=table["username"], password=table["password"])


def _check(table: Mapping[str, Any], types: Mapping[str, type], where: str, *, needed: Sequence[str] = ()) -> None:
    for name, value in table.items():
        if name not in types:
            raise ConfigError(f"{where}: unknown setting {name!r}; known are {', '.join(sorted(types))}")
        if type(value) is not types[name]:
            raise ConfigError(f"{where}: {name} is {value!r}, expected {types[name].__name__}")
    for name in needed:
        if name not in table:
            raise ConfigError(f"{where}: {name} is missing")
