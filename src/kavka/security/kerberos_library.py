"""Kerberos as the machine's own library does it (MIT's, by the package gssapi): contexts for `gssapi`.

The one module of this room that is no pure decision: it reads keytabs and ticket caches, asks the KDC and the clock, by
what krb5.conf says (KRB5_CONFIG). Whoever calls it does so beside the event loop. It is imported at need: only installs
with the extra `kerberos` have the package.

    I1  only Kerberos 5 counts, whatever else the library knows
    I2  a server accepts tickets for its own principal alone, with the keys of its own keytab alone
    I3  a client asks each broker for its proof (mutual authentication), and gives nobody its tickets (no delegation)

A server's keytab is read for each exchange, so that new keys count at once. Tickets that a client gets with a keytab
stay in this process, in a cache in memory for each principal and keytab; the library gets new ones when half of their
life is over. Those of a cache that kinit filled are not renewed.

Source: RFC 2743 and 4121; python-gssapi; MIT's krb5_err.et, whose numbers begin with Kerberos' own; its credential
store extensions (client_keytab, ccache).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from kavka.errors import ConfigError
from kavka.security.gssapi import EXPIRED, Context, KerberosFailed

if TYPE_CHECKING:
    from types import ModuleType

    from kavka.security.kerberos_login import KerberosLogin

_FIRST_CODE: Final = -1_765_328_384
_CODES: Final = 256
_CREDENTIALS_EXPIRED: Final = 11 << 16
_MAJOR: Final = re.compile(r"Major \(\d+\): (.+?)(?:, Minor|$)")
_MINOR: Final = re.compile(r"Minor \(\d+\): (?!Success)(.+)")


def _install() -> str:
    from kavka.installation import install_command

    return f"{install_command('kerberos')} (it is compiled there: apt install gcc libkrb5-dev)"


def require_library(who: str) -> None:
    """Raises ConfigError where the package is not there; `who` needs it."""
    if find_spec("gssapi") is None:
        raise ConfigError(f"{who} needs the package gssapi: {_install()}")


def default_realm() -> str:
    """This machine's realm; empty where it has none, as Apache Kafka takes it."""
    gssapi = _library()
    try:
        name = gssapi.Name("tmp", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).partition("@")[2]


def acceptor(keytab: str, principal: str) -> Callable[[], Context]:
    """What makes the server's side of contexts. Raises ConfigError where the keytab has no key of the principal."""
    gssapi = _library()

    def credentials() -> Any:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(name=name, usage="accept", mechs=[gssapi.MechType.kerberos], store={"keytab": keytab})

    def new() -> Context:
        try:
            own = credentials()
        except gssapi.exceptions.GSSError as error:
            raise KerberosFailed(_text(error), no_keys=True) from error
        return _LibraryContext(gssapi, gssapi.SecurityContext(creds=own, usage="accept"))

    try:
        credentials()
    except gssapi.exceptions.GSSError as error:
        raise ConfigError(f"keytab {keytab} has no usable key of {principal}: {_text(error)}") from error
    return new


class Initiator:
    """The client's side: contexts with one login's tickets. Each method may wait as long as the KDC does."""

    def __init__(self, login: KerberosLogin) -> None:
        self._login = login

    def prepare(self) -> None:
        """Sees to it that there is a ticket. Raises KerberosFailed."""
        self._credentials()

    def context(self, host: str) -> Context:
        """A new context with the broker at a host. Raises KerberosFailed."""
        gssapi = _library()
        own = self._credentials()
        flags = gssapi.RequirementFlag
        context = gssapi.SecurityContext(
            name=gssapi.Name(f"{self._login.service_name}@{host}", gssapi.NameType.hostbased_service),
            creds=own,
            usage="initiate",
            flags=[flags.mutual_authentication, flags.integrity, flags.out_of_sequence_detection],
            mech=gssapi.MechType.kerberos,
        )
        return _LibraryContext(gssapi, context)

    def _credentials(self) -> Any:
        gssapi, login = _library(), self._login
        if login.keytab is not None:
            _require_readable(login.keytab)
        try:
            name = login.principal and gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
            own = gssapi.Credentials(
                name=name or None, usage="initiate", mechs=[gssapi.MechType.kerberos], store=_store(login)
            )
            own.inquire()  # Only now are tickets looked for, and got with the keytab.
        except gssapi.exceptions.GSSError as error:
            raise _failed(error) from error
        return own


def _store(login: KerberosLogin) -> dict[str, str] | None:
    if login.keytab is not None:
        place = sha256("\0".join((login.keytab, login.principal or "")).encode()).hexdigest()[:32]
        return {"client_keytab": login.keytab, "ccache": f"MEMORY:kavka-{place}"}
    return None if login.ticket_cache is None else {"ccache": login.ticket_cache}


def _require_readable(keytab: str) -> None:
    """The library says of a keytab that is not there that a cache is not."""
    try:
        with open(keytab.removeprefix("FILE:"), "rb"):
            pass
    except OSError as error:
        raise KerberosFailed(str(error), no_keys=True) from error


def _library() -> ModuleType:
    try:
        import gssapi
    except ImportError as missing:
        raise ConfigError(f"the package gssapi cannot be imported: {missing}; {_install()}") from missing
    module: ModuleType = gssapi
    return module


class _LibraryContext:
    """A `Context`."""

    def __init__(self, gssapi: ModuleType, context: Any) -> None:
        self._gssapi = gssapi
        self._context = context
        # Else a refusal that comes with a token for the other side is raised at the next call, whatever that is.
        context.__DEFER_STEP_ERRORS__ = False

    def step(self, token: bytes) -> bytes:
        return bytes(self._called(lambda: self._context.step(token or None)) or b"")

    def is_complete(self) -> bool:
        return bool(self._called(lambda: self._context.complete))

    def peer(self) -> str:
        return str(self._called(lambda: self._context.initiator_name))

    def wrap(self, message: bytes) -> bytes:
        return bytes(self._called(lambda: self._context.wrap(message, False)).message)

    def unwrap(self, message: bytes) -> bytes:
        return bytes(self._called(lambda: self._context.unwrap(message)).message)

    def _called(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except self._gssapi.exceptions.GSSError as error:
            raise _failed(error) from error


def _failed(error: Any) -> KerberosFailed:
    code = _code(error)
    if code is None and error.maj_code == _CREDENTIALS_EXPIRED:
        code = EXPIRED  # The library finds that by itself, and has no number of Kerberos' for it.
    return KerberosFailed(_text(error), code)


def _code(error: Any) -> int | None:
    """Kerberos' number of a failure. The library's is unsigned here, and signed in its tables."""
    signed = int(error.min_code) - (1 << 32 if error.min_code >= 1 << 31 else 0)
    code = signed - _FIRST_CODE
    return code if 0 <= code < _CODES else None


def _text(error: Any) -> str:
    """What Kerberos itself says, where it says something; else what GSSAPI does."""
    text = " ".join(str(error).split())
    found = _MINOR.search(text) or _MAJOR.search(text)
    return text if found is None else found[1]
