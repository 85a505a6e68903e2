"""Kerberos as the machine's own library does it (MIT's, by the package gssapi): contexts for `gssapi`.

The one module of this room that is no pure decision: it reads keytabs and ticket caches, asks the KDC and the clock, by
what krb5.conf says (KRB5_CONFIG). Whoever calls it does so beside the event loop. It is imported at need: only installs
with the extra `kerberos` have the package.

    I1  only Kerberos 5 counts, whatever else the library knows
    I2  a server accepts tickets for its own principal alone, with the keys of its own keytab alone

The keytab is read for each exchange, so that new keys count at once.

Source: RFC 2743 and 4121; python-gssapi; MIT's krb5_err.et, whose numbers begin with Kerberos' own.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from kavka.errors import ConfigError
from kavka.security.gssapi import Context, KerberosFailed

if TYPE_CHECKING:
    from types import ModuleType

_FIRST_CODE: Final = -1_765_328_384
_CODES: Final = 256
INSTALL: Final = "pip install 'kavka[kerberos]' (it is compiled there: apt install gcc libkrb5-dev)"


def require_library(who: str) -> None:
    """Raises ConfigError where the package is not there; `who` needs it."""
    if find_spec("gssapi") is None:
        raise ConfigError(f"{who} needs the package gssapi: {INSTALL}")


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


def _library() -> ModuleType:
    try:
        import gssapi
    except ImportError as missing:
        raise ConfigError(f"the package gssapi cannot be imported: {missing}; {INSTALL}") from missing
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
            raise KerberosFailed(_text(error), _code(error)) from error


def _code(error: Any) -> int | None:
    """Kerberos' number of a failure. The library's is unsigned here, and signed in its tables."""
    signed = int(error.min_code) - (1 << 32 if error.min_code >= 1 << 31 else 0)
    code = signed - _FIRST_CODE
    return code if 0 <= code < _CODES else None


def _text(error: Any) -> str:
    return " ".join(str(error).split())
