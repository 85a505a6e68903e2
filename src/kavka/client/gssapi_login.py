"""GSSAPI of a client: what Java's and librdkafka's settings say about whose tickets it shows.

Decides where the tickets come from, and refuses what would not be honoured. Must not know connections.

    sasl.jaas.config                     options of Java's Krb5LoginModule: see `security.kerberos_login`
    sasl.kerberos.keytab, .principal     librdkafka's: the keys of a principal
    neither                              the tickets that kinit got, where Kerberos' library looks by itself

    I1  no command is run: the library gets and renews what a keytab gives, and nobody renews tickets of a cache

Source: Kafka's SaslConfigs, KerberosLogin; librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kavka.client.security import SaslMechanism, SaslSettings
from kavka.errors import ConfigError
from kavka.security.jaas import Login, MalformedJaas
from kavka.security.kerberos_login import SERVICE_NAME, KerberosLogin, kerberos_login

_KEYTAB: Final = "sasl.kerberos.keytab"
_PRINCIPAL: Final = "sasl.kerberos.principal"
_KINIT: Final = "sasl.kerberos.kinit.cmd"
_RENEWAL: Final = (
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
)
"""When Java and librdkafka get new tickets. No effect here: the library does it at half of a ticket's life."""
SETTINGS: Final = frozenset({SERVICE_NAME, _KEYTAB, _PRINCIPAL, _KINIT, *_RENEWAL})
_USUAL_SERVICE: Final = "kafka"
"""librdkafka's default; Java has none."""
_OWN_KINIT: Final = re.compile(r"(/\S*/)?kinit")
_PASSWORD: Final = ("sasl.username", "sasl.password")


def ticket_settings(settings: Mapping[str, str], login: Login | None) -> SaslSettings:
    """The login of a client with tickets. Raises ConfigError."""
    given = [name for name in _PASSWORD if settings.get(name)]
    if given:
        raise ConfigError(
            f"{given[0]} is set, which means nothing to GSSAPI. GSSAPI is Kafka's default: set sasl.mechanism to "
            "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 for a login with a password"
        )
    command = settings.get(_KINIT, "").strip()
    if command and not _OWN_KINIT.fullmatch(command):
        raise ConfigError(
            f"{_KINIT} is set, and kavka runs no command: Kerberos' library gets tickets with a keytab by itself, or "
            "run the command yourself, and leave the setting out"
        )
    from kavka.security.kerberos_library import require_library  # late: few clients have tickets
    from kavka.security.kerberos_tickets import Tickets

    tickets = _of_jaas(settings, login) if login is not None else _of_names(settings)
    require_library("a login with GSSAPI, which is Kafka's default for sasl.mechanism,")
    return SaslSettings(mechanism=SaslMechanism.GSSAPI, username=tickets.principal or "", tickets=Tickets(tickets))


def _of_jaas(settings: Mapping[str, str], login: Login) -> KerberosLogin:
    for name in (_KEYTAB, _PRINCIPAL):
        if settings.get(name):
            raise ConfigError(f"{name} and sasl.jaas.config both say whose tickets count: leave one out")
    try:
        return kerberos_login(login.options, settings.get(SERVICE_NAME, "").strip() or None)
    except MalformedJaas as malformed:
        raise ConfigError(f"sasl.jaas.config: {malformed}") from malformed


def _of_names(settings: Mapping[str, str]) -> KerberosLogin:
    keytab, principal = settings.get(_KEYTAB, "").strip() or None, settings.get(_PRINCIPAL, "").strip() or None
    if keytab is not None and principal is None:
        raise ConfigError(f"{_KEYTAB} needs {_PRINCIPAL}: whose keys of it count")
    return KerberosLogin(settings.get(SERVICE_NAME, "").strip() or _USUAL_SERVICE, principal, keytab)
