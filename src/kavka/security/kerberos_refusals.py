"""What a client is told when Kerberos gives it no ticket, or the broker's proof is wrong: a sentence, with what to do.

Decides by the number of the error, and by where the client's tickets come from. Must not know the library.

Source: RFC 4120, section 7.5.9; MIT's krb5_err.et, whose numbers above 127 are its own.
"""

from __future__ import annotations

from typing import Final

from kavka.security.gssapi import EXPIRED, KerberosFailed
from kavka.security.kerberos_login import KerberosLogin

_NO_CREDENTIALS: Final = (141, 181, 195)
"""MIT's library: nothing fits in the cache; no such key in the keytab; no cache."""
_UNKNOWN_CLIENT: Final = 6
_UNKNOWN_SERVICE: Final = 7
_REVOKED: Final = 18
_KEY_EXPIRED: Final = 23
_WRONG_KEY: Final = (24, 31)
_SKEW: Final = 37
_BUSY: Final = 29
_NO_REALM: Final = 154
_NO_KDC: Final = 156
_PASSING: Final = (_BUSY, _NO_KDC)


def is_passing(failed: KerberosFailed) -> bool:
    """Whether another try may succeed without anybody's doing anything here."""
    return failed.code in _PASSING


def no_ticket(failed: KerberosFailed, login: KerberosLogin) -> str:
    """Why there is no ticket for the client itself."""
    return _with_text(_no_ticket(failed, login), failed)


def no_proof(failed: KerberosFailed, login: KerberosLogin, host: str) -> str:
    """Why an exchange with the server at `host` failed: there is no ticket for its service, or its proof is wrong."""
    service = f"{login.service_name}/{host}"
    if failed.code == _UNKNOWN_SERVICE:
        sentence = (
            f"the KDC knows no service {service}: reach servers by the names in their principals, whose first part is "
            f"{login.named_by}"
        )
    elif failed.code in _WRONG_KEY:
        sentence = f"the server at {host} did not prove that it has the key of {service}"
    else:
        sentence = _no_ticket(failed, login)
    return _with_text(sentence, failed)


def _with_text(sentence: str, failed: KerberosFailed) -> str:
    return f"{sentence} (Kerberos: {failed})"


def _no_ticket(failed: KerberosFailed, login: KerberosLogin) -> str:
    who = login.principal or "its owner"
    if failed.no_keys:
        return f"keytab {login.keytab} cannot be read"
    if login.keytab is not None and failed.code in _NO_CREDENTIALS:
        return f"keytab {login.keytab} has no key of {who}"
    if failed.code in _NO_CREDENTIALS:
        where = "the usual cache" if login.ticket_cache is None else login.ticket_cache
        return f"there is no ticket in {where}: run kinit, or name a keytab"
    match failed.code:
        case code if code == EXPIRED:
            return "the ticket has expired: run kinit"
        case code if code == _UNKNOWN_CLIENT:
            return f"the KDC knows no principal {who}"
        case code if code == _REVOKED:
            return f"the KDC no longer gives {who} tickets"
        case code if code == _KEY_EXPIRED:
            return f"the password of {who} has expired"
        case code if code in _WRONG_KEY:
            return f"the key in {login.keytab} is not the one that the KDC has for {who}: write the keytab again"
        case code if code == _SKEW:
            return "this machine's clock and the KDC's differ by more than Kerberos allows: set them right"
        case code if code == _NO_REALM:
            return "krb5.conf names no KDC for the realm"
        case code if code == _NO_KDC:
            return "no KDC of the realm answers: see krb5.conf, and whether it runs"
        case code if code == _BUSY:
            return "the KDC does not serve now"
        case _:
            return "Kerberos gave no ticket"
