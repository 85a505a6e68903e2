"""The settings of a secured broker's listeners: what `kavka up --secure` and `kavka.testing` have in common.

Decides how brokers know each other, how clients prove who they are, and who may do everything. Must not know command
lines, nor which ports there are.

    BROKERS   SSL with certificates, between brokers
    others    of clients: by password (SASL_SSL) or by certificate (SSL)

I1  Only a certificate that the cluster's own authority signed lets a broker in.
"""

from __future__ import annotations

from typing import Final

from kavka.runtime.tls.security_directory import ADMIN, BROKER_PRINCIPAL, CLIENT_RULES, TRUSTED, SecurityDirectory

BROKERS: Final = "BROKERS"
"""The listener between brokers."""
SUPER_USERS: Final = f"User:{ADMIN};{BROKER_PRINCIPAL}"


def secured_broker(directory: SecurityDirectory, broker_id: int) -> dict[str, str]:
    """What every secured broker has."""
    return {
        "inter.broker.listener.name": BROKERS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": directory.broker_file(broker_id),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": directory.file(TRUSTED),
        f"listener.name.{BROKERS.lower()}.ssl.client.auth": "required",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": SUPER_USERS,
    }


def by_password() -> dict[str, str]:
    """For listeners with SASL."""
    return {"sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256"}


def by_certificate(listener: str) -> dict[str, str]:
    """For a listener whose clients show certificates: `alice` is who has one with her name."""
    own = f"listener.name.{listener.lower()}"
    return {f"{own}.ssl.client.auth": "required", f"{own}.ssl.principal.mapping.rules": CLIENT_RULES}
