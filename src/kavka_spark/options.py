"""Options of a table or stream: their names, their values, and how to reach the brokers.

Decides what an option's text means. Must not know how it is used: the source's own options are in `source_options`,
the sink's in `sink_options`.

Invariants
  I1  An unknown name is refused, and the error suggests the closest known one.
  I2  Options mean what they mean for Spark's "kafka" connector where they have its names; a setting of Kafka's Java
      client that has no counterpart here and no effect on what is read or written is taken and left aside.
  I3  What is returned is a value: hashable (connections are cached by it), and small enough to travel to every task.
      Certificates and keys are in it: their files are read where the options are, once.
  I4  An option about security is honoured or refused: none is left aside.

Spark gives names in lower case, whatever case they were written in.

Source: Spark's "Structured Streaming + Kafka Integration Guide"; Kafka's client settings.
"""

from __future__ import annotations

import difflib
import os
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kavka.client.cluster import parse_bootstrap
from kavka.client.login import SETTINGS as SECURITY_SETTINGS
from kavka.client.login import ClientLogin, client_login
from kavka.client.security import TlsSettings
from kavka.client.settings import ClientSettings
from kavka.errors import ConfigError

PREFIX = "kafka."
"""The prefix of settings of a Kafka client."""

CLIENT_SETTINGS = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "default.api.timeout.ms",
        "metadata.max.age.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "socket.connection.setup.timeout.ms",
    }
    | SECURITY_SETTINGS
)
"""Settings that `connection_options` reads. Those about security are all that kavka's client has, by Kafka's names and
by librdkafka's."""

WITHOUT_EFFECT = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    }
)
"""Settings of Kafka's Java consumer and producer that change neither rows nor guarantees (I2)."""

FIRST_CONTACT_MS = 15_000
"""How long a query that begins waits for a broker, if its options do not say: one may be starting, and a wrong address
should be told before its user looks elsewhere."""

_DURATION = re.compile(r"\s*(\d+)\s*([a-z]*)\s*")
_UNIT_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How the brokers of one cluster are reached."""

    bootstrap: tuple[tuple[str, int], ...]
    client: ClientSettings
    tls: TlsSettings | None = None
    first_contact_ms: int = FIRST_CONTACT_MS
    """How long a query that begins waits for a broker."""

    @property
    def protocol(self) -> str:
        """As in `kafka.security.protocol`."""
        below = "PLAINTEXT" if self.tls is None else "SSL"
        return below if self.client.sasl is None else f"SASL_{below}"

    @property
    def shown(self) -> str:
        """The bootstrap addresses, for messages."""
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)


def check_names(options: Mapping[str, str], known: Iterable[str], *, what: str) -> None:
    """Raises `ConfigError` for the first option that is not in `known`, with a hint. `what` is "source" or "sink".

    Both are compared in lower case.
    """
    names = {name.lower(): name for name in known}
    for given in options:
        if given.lower() in names:
            continue
        near = difflib.get_close_matches(given.lower(), names, n=1, cutoff=0.6)
        hint = f"; did you mean {names[near[0]]!r}?" if near else ""
        raise ConfigError(f"the kavka {what} has no option {given!r}{hint}")


def client_names(*more: Iterable[str]) -> set[str]:
    """All `kafka.*` options: those of `connection_options`, those without effect, and `more` settings of Kafka's."""
    return {PREFIX + name for names in (CLIENT_SETTINGS, WITHOUT_EFFECT, *more) for name in names}


def connection_options(options: Mapping[str, str]) -> ConnectionOptions:
    """How to reach the brokers, out of options with lower-case names. Raises `ConfigError`."""
    settings = {name[len(PREFIX) :]: text for name, text in options.items() if name.startswith(PREFIX)}
    bootstrap = settings.get("bootstrap.servers")
    if not bootstrap:
        raise ConfigError("option 'kafka.bootstrap.servers' is missing: host:port of one or more brokers")
    try:
        addresses = tuple(parse_bootstrap(bootstrap))
    except ValueError as error:
        raise ConfigError(f"option 'kafka.bootstrap.servers': {error}") from error
    login = _login(settings)
    given: dict[str, Any] = {
        field: positive_int(options, PREFIX + name)
        for name, field in (
            ("request.timeout.ms", "request_timeout_ms"),
            ("default.api.timeout.ms", "api_timeout_ms"),
            ("retry.backoff.ms", "retry_backoff_ms"),
            ("retry.backoff.max.ms", "retry_backoff_max_ms"),
            ("metadata.max.age.ms", "metadata_max_age_ms"),
            ("socket.connection.setup.timeout.ms", "connect_timeout_ms"),
        )
        if name in settings
    }
    asked_ms = given.get("request_timeout_ms", FIRST_CONTACT_MS)
    first_contact_ms = given.get("api_timeout_ms", min(asked_ms, FIRST_CONTACT_MS))
    usual = ClientSettings().connect_timeout_ms
    given.setdefault("connect_timeout_ms", min(usual, asked_ms, first_contact_ms))
    client = ClientSettings(
        client_id=settings.get("client.id", "kavka-spark"),
        sasl=login.sasl,
        **given,
    )
    return ConnectionOptions(bootstrap=addresses, client=client, tls=login.tls, first_contact_ms=first_contact_ms)


class _KeptLogin(NamedTuple):
    """What settings about security said, and the files that they named, as those were then."""

    login: ClientLogin
    files: tuple[tuple[str, tuple[int, int, int]], ...]


_logins: OrderedDict[tuple[tuple[str, str], ...], _KeptLogin] = OrderedDict()
KEPT_LOGINS = 8


def _login(settings: Mapping[str, str]) -> ClientLogin:
    """Spark asks for the options of a sink twice in each micro-batch, and a key store in PKCS12 takes 50 ms to open: so
    what was read counts until one of the files changes."""
    about = {name: text for name, text in settings.items() if name in SECURITY_SETTINGS}
    key = tuple(sorted(about.items()))
    files: list[tuple[str, tuple[int, int, int]]] = []

    def read(path: str) -> bytes:
        files.append((path, _stamp(path)))
        return Path(path).read_bytes()

    try:
        kept = _logins.get(key)
        if kept is not None and all(_stamp(path) == stamp for path, stamp in kept.files):
            return kept.login
        login = client_login(about, read=read)
    except OSError as error:
        raise ConfigError(f"an option 'kafka.ssl...' names a file that cannot be read: {error}") from error
    except ConfigError as refused:
        raise ConfigError(f"options 'kafka.security...', 'kafka.sasl...', 'kafka.ssl...': {refused}") from refused
    if login.sasl is None or (login.sasl.tokens is None and login.sasl.tickets is None):
        _logins[key] = _KeptLogin(login, tuple(files))
        while len(_logins) > KEPT_LOGINS:
            _logins.popitem(last=False)
    return login


def _stamp(path: str) -> tuple[int, int, int]:
    """Another one where the file has changed. Raises OSError."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


def positive_int(options: Mapping[str, str], name: str) -> int:
    """A whole number, 1 or more. Raises `ConfigError`."""
    text = options[name].strip()
    if not text.isascii() or not text.isdigit() or int(text) <= 0:
        raise ConfigError(f"option {name!r} is {options[name]!r}, expected a whole number, 1 or more")
    return int(text)


def boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """ "true" or "false"; raises `ConfigError`."""
    text = options.get(name)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise ConfigError(f"option {name!r} is {text!r}, expected true or false")
    return text.strip().lower() == "true"


def duration_ms(options: Mapping[str, str], name: str, *, default_ms: int) -> int:
    """Milliseconds, from text such as "500ms", "10s" or "15m", or a plain number of them; raises `ConfigError`."""
    text = options.get(name)
    if text is None:
        return default_ms
    match = _DURATION.fullmatch(text.lower())
    if match is None or match[2] not in _UNIT_MS:
        raise ConfigError(f"option {name!r} is {text!r}, expected a duration such as 500ms, 10s or 15m")
    return int(match[1]) * _UNIT_MS[match[2]]
