"""Options of a table or stream: their names, their values, and how to reach the brokers.

Decides what an option's text means. Must not know how it is used: the source's own options are in `source_options`,
the sink's in `sink_options`.

Invariants
  I1  An unknown name is refused, and the error suggests the closest known one.
  I2  Options mean what they mean for Spark's "kafka" connector where they have its names; a setting of Kafka's Java
      client that has no counterpart here and no effect on what is read or written is taken and left aside.
  I3  What is returned is a value: hashable (connections are cached by it), and small enough to travel to every task.

Spark gives names in lower case, whatever case they were written in.

Source: Spark's "Structured Streaming + Kafka Integration Guide"; Kafka's client settings.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kavka.client.cluster import parse_bootstrap
from kavka.client.login import sasl_settings
from kavka.client.security import SaslMechanism, SaslSettings, TlsSettings
from kavka.client.settings import ClientSettings
from kavka.client.token_login import SETTINGS
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
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "ssl.ca.location",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
    | SETTINGS
)
"""Settings that `connection_options` reads. sasl.username, sasl.password and ssl.ca.location are librdkafka's."""

WITHOUT_EFFECT = frozenset(
    {
        "allow.auto.create.topics",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.id",
        "group.instance.id",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "sasl.client.callback.handler.class",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.enabled.protocols",
        "ssl.protocol",
        "ssl.provider",
        "ssl.truststore.password",
        "ssl.keystore.password",
    }
)
"""Settings of Kafka's Java consumer and producer that change neither rows nor guarantees (I2)."""

_CREDENTIAL = re.compile(r'\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]*)\s*")
_UNIT_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How the brokers of one cluster are reached."""

    bootstrap: tuple[tuple[str, int], ...]
    client: ClientSettings
    tls: TlsSettings | None = None

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
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise ConfigError(
            f"option 'kafka.security.protocol' is {protocol!r}, expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
        )
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
    client = ClientSettings(
        client_id=settings.get("client.id", "kavka-spark"),
        sasl=_sasl(settings) if protocol.startswith("SASL_") else None,
        **given,
    )
    return ConnectionOptions(
        bootstrap=addresses, client=client, tls=_tls(settings) if protocol.endswith("SSL") else None
    )


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


def _sasl(settings: Mapping[str, str]) -> SaslSettings:
    named = settings.get("sasl.mechanism", "GSSAPI")
    try:
        mechanism = SaslMechanism(named.upper())
    except ValueError as error:
        known = ", ".join(m.value for m in SaslMechanism)
        raise ConfigError(f"option 'kafka.sasl.mechanism' is {named!r}; kavka supports {known}") from error
    if mechanism is SaslMechanism.OAUTHBEARER:
        return sasl_settings(settings, lambda path: Path(path).read_bytes())
    found = {"username": settings.get("sasl.username", ""), "password": settings.get("sasl.password", "")}
    for name, quoted, plain in _CREDENTIAL.findall(settings.get("sasl.jaas.config", "")):
        found[name] = re.sub(r"\\(.)", r"\1", quoted) or plain
    if not found["username"] or not found["password"]:
        raise ConfigError(
            f'{mechanism.value} needs option \'kafka.sasl.jaas.config\' with username="..." and password="...", '
            "or 'kafka.sasl.username' and 'kafka.sasl.password'"
        )
    return SaslSettings(mechanism=mechanism, username=found["username"], password=found["password"])


def _tls(settings: Mapping[str, str]) -> TlsSettings:
    for store in ("truststore", "keystore"):
        location, kind = settings.get(f"ssl.{store}.location"), settings.get(f"ssl.{store}.type", "JKS").upper()
        if location is not None and kind != "PEM":
            raise ConfigError(
                f"option 'kafka.ssl.{store}.location' names a {kind} store, which only Java reads: export it as PEM "
                f"(keytool, openssl) and set 'kafka.ssl.{store}.type' to PEM"
            )
    verified = settings.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if verified not in ("", "https"):
        raise ConfigError(
            f"option 'kafka.ssl.endpoint.identification.algorithm' is {verified!r}, expected https or nothing"
        )
    return TlsSettings(
        authorities=settings.get("ssl.truststore.certificates")
        or settings.get("ssl.truststore.location")
        or settings.get("ssl.ca.location"),
        certificate=settings.get("ssl.keystore.certificate.chain") or settings.get("ssl.keystore.location"),
        key=settings.get("ssl.keystore.key"),
        key_password=settings.get("ssl.key.password"),
        check_hostname=verified == "https",
        cipher_suites=tuple(filter(None, (name.strip() for name in settings.get("ssl.cipher.suites", "").split(",")))),
    )
