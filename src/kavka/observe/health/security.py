"""The checks of brokers' security: who reaches them in clear, when certificates end, how old access control lists are.

Decides by the brokers' own settings, kavka's and Apache Kafka's, and by kavka's metrics. Pure, as checks.py says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kavka.config.listeners import Endpoint, in_clear_beyond, parse_endpoints, parse_protocol_map
from kavka.errors import ConfigError
from kavka.observe.health.findings import Look, Thresholds, result, unknown
from kavka.observe.health.report import Check, CheckResult, Severity, Statement
from kavka.observe.snapshot import ClusterSnapshot, Part


def open_listeners(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "open-listeners",
        "No broker can be reached in clear from other machines",
        5,
        Severity.WARNING,
        Statement("listeners beyond the loopback have TLS"),
        "Whoever reaches such a listener may read, and change, what crosses it. Use SSL or SASL_SSL "
        "(kavka up --secure), or listen on the loopback only.",
    )
    return _listeners(snapshot, check, "it listens in clear on {listeners}", lambda endpoint, configs: True)


def open_passwords(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "open-passwords",
        "No password crosses the network in clear",
        6,
        Severity.WARNING,
        Statement("no PLAIN without TLS beyond the loopback"),
        "Whoever can read the network reads the passwords. Use SASL_SSL, or SCRAM-SHA-512 instead of PLAIN.",
    )
    return _listeners(snapshot, check, "it takes passwords in clear on {listeners}", _takes_plain)


def _listeners(
    snapshot: ClusterSnapshot, check: Check, text: str, fails: Callable[[Endpoint, Mapping[str, str]], bool]
) -> CheckResult:
    """Finds the listeners in clear that others reach and that fail, by a broker's settings."""
    look, why = Look(), "no broker tells its listeners"
    for broker in snapshot.alive_brokers:
        if not broker.configs_reading.is_current:
            why = broker.configs_reading.unknown_because or why
            continue
        found = _in_clear(broker.configs)
        if found is None:
            continue
        look.looked_at += 1
        names = ", ".join(str(each) for each in found if fails(each, broker.configs))
        if names:
            look.found("broker", str(broker.broker_id), text, listeners=names)
    if not look.looked_at:
        return unknown(check, why)
    return result(check, look, Statement("brokers checked: {count}", {"count": look.looked_at}))


def _takes_plain(endpoint: Endpoint, configs: Mapping[str, str]) -> bool:
    if endpoint.security_protocol != "SASL_PLAINTEXT":
        return False
    own = configs.get(f"listener.name.{endpoint.listener.lower()}.sasl.enabled.mechanisms")
    named = own or configs.get("sasl.enabled.mechanisms") or ""
    return "PLAIN" in {each.strip() for each in named.split(",")}


def certificates_end(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "certificates-end",
        "No certificate is about to end",
        8,
        Severity.CRITICAL,
        Statement("valid for at least {limit} days", {"limit": limits.certificate_end_days}),
        _NEW_CERTIFICATE,
    )
    return _certificates(snapshot, check, lambda days: days < limits.certificate_end_days)


def certificates_end_soon(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "certificates-end-soon",
        "Certificates are renewed in time",
        3,
        Severity.WARNING,
        Statement("valid for at least {limit} days", {"limit": limits.certificate_warn_days}),
        _NEW_CERTIFICATE,
    )
    return _certificates(
        snapshot, check, lambda days: limits.certificate_end_days <= days < limits.certificate_warn_days
    )


def _certificates(snapshot: ClusterSnapshot, check: Check, fails: Callable[[float], bool]) -> CheckResult:
    look = Look()
    for broker in snapshot.alive_brokers:
        if broker.metrics is None or not broker.metrics_reading.is_current:
            continue
        for listener, left_ms in broker.metrics.certificates_left_ms.items():
            look.looked_at += 1
            days = left_ms / _DAY_MS
            if fails(days):
                text = "the certificate of its listener {listener} is valid for {days:.1f} days"
                look.found("broker", str(broker.broker_id), text, listener=listener, days=days)
    if not look.looked_at:
        why = snapshot.reading(Part.BROKER_METRICS).unknown_because
        return unknown(check, why or "no broker exposes this metric")
    return result(check, look, Statement("certificates checked: {count}", {"count": look.looked_at}))


def acls_stale(snapshot: ClusterSnapshot, limits: Thresholds, now_ms: int) -> CheckResult:
    check = Check(
        "acls-stale",
        "Brokers know the access control lists of now",
        7,
        Severity.WARNING,
        Statement("read from ZooKeeper at most {limit:.0f} s ago", {"limit": limits.acls_stale_ms / 1000}),
        "The broker is cut off from ZooKeeper and decides by the lists that it read last: what was forbidden since is "
        "still allowed there. See its log, and whether ZooKeeper answers.",
    )
    look = Look()
    for broker in snapshot.alive_brokers:
        if broker.metrics is None or not broker.metrics_reading.is_current:
            continue
        stale_ms = broker.metrics.values.get(_ACLS_STALE)
        if stale_ms is None:
            continue
        look.looked_at += 1
        if stale_ms > limits.acls_stale_ms:
            text = "its lists are {seconds:.0f} s old"
            look.found("broker", str(broker.broker_id), text, seconds=stale_ms / 1000)
    if not look.looked_at:
        why = snapshot.reading(Part.BROKER_METRICS).unknown_because
        return unknown(check, why or "no broker exposes this metric")
    return result(check, look, Statement("brokers checked: {count}", {"count": look.looked_at}))


_ACLS_STALE: Final = "kafka_security_aclauthorizer_aclsstalems"
_DAY_MS: Final = 86_400_000
_NEW_CERTIFICATE: Final = (
    "From its end on no client that checks it gets in, and brokers lose each other. Put a new certificate in the place "
    "of the old one: the broker finds it without a restart."
)


def _in_clear(configs: Mapping[str, str]) -> Sequence[Endpoint] | None:
    """A broker's listeners without TLS that others reach; None where its settings do not say."""
    text = configs.get("listeners")
    if not text:
        return None
    try:
        protocols = parse_protocol_map(configs.get("listener.security.protocol.map") or _EACH_BY_ITS_NAME)
        listeners = parse_endpoints("listeners", text, protocols)
        told = configs.get("advertised.listeners") or text
        return in_clear_beyond(listeners, parse_endpoints("advertised.listeners", told, protocols))
    except ConfigError:
        return None


_EACH_BY_ITS_NAME = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
"""Kafka's default of listener.security.protocol.map."""
