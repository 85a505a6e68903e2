"""The login of Kerberos, as the options of Java's Krb5LoginModule have it: whose tickets, and where the keys are.

Decides what the options mean. Must not know files, nor what a ticket is.

    useKeyTab, keyTab            the keys of `principal`, in a file
    useTicketCache, ticketCache  tickets that kinit got: in this cache, or where the library looks by itself
    serviceName                  the first component of the brokers' principals, as sasl.kerberos.service.name

    I1  an option is honoured, or changes nothing here: storeKey, doNotPrompt (nobody is asked), refreshKrb5Config,
        isInitiator and debug. What would do less than it says is refused: renewTGT=true, since tickets of a cache are
        not renewed

Source: Java's Krb5LoginModule; Kafka's KerberosLogin.getServiceName.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kavka.security.jaas import MalformedJaas
from kavka.security.secret import Secret

SERVICE_NAME: Final = "sasl.kerberos.service.name"


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """A login. With `keytab`, `principal` is set; without, tickets are in `ticket_cache`, None: the usual one."""

    service_name: str
    principal: str | None
    keytab: str | None
    ticket_cache: str | None = None
    named_by: str = SERVICE_NAME
    """What says the name of the service, for messages."""


def kerberos_login(options: Mapping[str, Secret], service_name: str | None) -> KerberosLogin:
    """What the options say; `service_name` is that of the settings. Raises MalformedJaas."""
    texts = {name: secret.reveal() for name, secret in options.items()}
    own_name = texts.get("serviceName")
    if own_name and service_name and own_name != service_name:
        raise MalformedJaas(
            f"its option serviceName and the setting {SERVICE_NAME} name different services: leave out one of them"
        )
    service = own_name or service_name
    if not service:
        raise MalformedJaas(
            f"{SERVICE_NAME} is not set, which is the first part of the brokers' principals: kafka, as a rule"
        )
    if _is_on(texts, "renewTGT"):
        raise MalformedJaas("option 'renewTGT' would have no effect: let kinit or krenew renew the tickets of a cache")
    principal = texts.get("principal") or None
    if _is_on(texts, "useKeyTab"):
        keytab = texts.get("keyTab")
        if not keytab or principal is None:
            raise MalformedJaas("useKeyTab=true needs the options keyTab, a file, and principal, whose keys are in it")
        return KerberosLogin(service, principal, keytab)
    if not _is_on(texts, "useTicketCache"):
        raise MalformedJaas("it has neither useKeyTab=true nor useTicketCache=true: nothing else gives tickets here")
    return KerberosLogin(service, principal, None, texts.get("ticketCache") or None)


def _is_on(texts: Mapping[str, str], name: str) -> bool:
    text = texts.get(name, "false").lower()
    if text not in ("true", "false"):
        raise MalformedJaas(f"option {name!r} is neither true nor false")
    return text == "true"
