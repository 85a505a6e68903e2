"""GSSAPI of one listener: whose tickets it takes, with which keys, and which rules make names of principals.

Decides what Kafka's sasl.kerberos.* mean for a listener, and what is refused before a broker starts. Must not know
files or Kerberos' library. Loaded only where a listener has the mechanism.

Source: Kafka's SaslConfigs, BrokerSecurityConfigs, KerberosLogin, SaslChannelBuilder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kavka.config.setting import InvalidValue
from kavka.errors import ConfigError
from kavka.security.gssapi import MECHANISM
from kavka.security.jaas import MalformedJaas
from kavka.security.kerberos_login import SERVICE_NAME, kerberos_login
from kavka.security.kerberos_names import ShortNames

if TYPE_CHECKING:
    from kavka.security.jaas import Login

RULES: Final = "sasl.kerberos.principal.to.local.rules"


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    """Of a listener: it takes tickets for `principal`, whose keys are in `keytab`; `rules` make names of clients'.
    `service_name` is the first part of the principals of all brokers."""

    principal: str
    keytab: str
    rules: tuple[str, ...]
    service_name: str


def kerberos_settings(
    listener: str, login: Login | None, jaas_name: str, text: Callable[[str], str | None], rules: tuple[str, ...]
) -> KerberosSettings:
    """What holds for a listener; `text` gives the text of a setting that counts for it, `rules` are those of all.
    Raises ConfigError."""
    if login is None:
        raise ConfigError(
            f"listener {listener} enables {MECHANISM}, but {jaas_name} is not set, which names the broker's keytab and "
            f"principal. {MECHANISM} is Kafka's default: for another mechanism set sasl.enabled.mechanisms"
        )
    try:
        own = kerberos_login(login.options, text(SERVICE_NAME))
    except MalformedJaas as malformed:
        raise ConfigError(f"{jaas_name}: {malformed}") from malformed
    if own.keytab is None or own.principal is None:
        raise ConfigError(f"{jaas_name}: a listener needs useKeyTab=true, keyTab and principal: it checks with keys")
    own_rules = text(RULES)
    if own_rules is not None:
        rules = tuple(part for part in map(str.strip, own_rules.split(",")) if part)
    try:
        ShortNames(rules, "")
    except ValueError as malformed:
        raise InvalidValue(RULES, ",".join(rules), str(malformed)) from malformed
    return KerberosSettings(own.principal, own.keytab, rules, own.service_name)
