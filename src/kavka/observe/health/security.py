"""The check of how brokers can be reached: none in clear from elsewhere.

Decides by the brokers' own settings, kavka's and Apache Kafka's. Pure, as checks.py says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kavka.config.listeners import Endpoint, in_clear_beyond, parse_endpoints, parse_protocol_map
from kavka.errors import ConfigError
from kavka.observe.health.findings import Look, Thresholds, result, unknown
from kavka.observe.health.report import Check, CheckResult, Severity, Statement
from kavka.observe.snapshot import ClusterSnapshot


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
    look, why = Look(), "no broker tells its listeners"
    for broker in snapshot.alive_brokers:
        if not broker.configs_reading.is_current:
            why = broker.configs_reading.unknown_because or why
            continue
        found = _in_clear(broker.configs)
        if found is None:
            continue
        look.looked_at += 1
        if found:
            names = ", ".join(map(str, found))
            look.found("broker", str(broker.broker_id), "it listens in clear on {listeners}", listeners=names)
    if not look.looked_at:
        return unknown(check, why)
    return result(check, look, Statement("brokers checked: {count}", {"count": look.looked_at}))


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
