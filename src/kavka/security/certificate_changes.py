"""Which certificate may take another's place while a broker runs.

Decides from what both say. Must not know whether brokers would believe the new one: `runtime.broker_tls` tries that.

Source: Kafka's SslFactory.CertificateEntries; KIP-978 for the two settings.
"""

from __future__ import annotations

from kavka.security.certificates import Certificate


def refusal(
    old: Certificate, new: Certificate, *, allows_other_name: bool, allows_fewer_alternative_names: bool
) -> str | None:
    """Why `new` may not take the place of `old`, None where it may. Letters' case in a subject is of no account."""
    if not allows_other_name and new.subject.lower() != old.subject.lower():
        return (
            f"Keystore DistinguishedName does not match: existing={old.subject}, new={new.subject}; "
            "ssl.allow.dn.changes=true would allow it"
        )
    missing = old.alternative_names - new.alternative_names
    if not allows_fewer_alternative_names and missing:
        return (
            f"Keystore SubjectAltNames do not match: {', '.join(sorted(missing))} would be missing; "
            "ssl.allow.san.changes=true would allow it"
        )
    return None
