"""A client with tickets: what it is told where Kerberos fails, and what may be tried again."""

from __future__ import annotations

import pytest

from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.security import kerberos_tickets
from kavka.security.gssapi import Context, KerberosFailed
from kavka.security.kerberos_login import KerberosLogin
from kavka.security.kerberos_refusals import no_proof, no_ticket
from kavka.security.kerberos_tickets import Tickets
from tests.unit.security.test_gssapi import ShortContext

KEYTAB = KerberosLogin("kafka", "alice@R", "/k")
CACHE = KerberosLogin("kafka", None, None, "/c")
USUAL = KerberosLogin("kafka", None, None)


@pytest.mark.parametrize(
    ("code", "login", "sentence"),
    [
        (6, KEYTAB, "the KDC knows no principal alice@R"),
        (18, KEYTAB, "the KDC no longer gives alice@R tickets"),
        (23, KEYTAB, "the password of alice@R has expired"),
        (24, KEYTAB, "the key in /k is not the one that the KDC has for alice@R: write the keytab again"),
        (31, KEYTAB, "the key in /k is not the one that the KDC has for alice@R: write the keytab again"),
        (195, KEYTAB, "keytab /k has no key of alice@R"),
        (181, KEYTAB, "keytab /k has no key of alice@R"),
        (195, CACHE, "there is no ticket in /c: run kinit, or name a keytab"),
        (141, USUAL, "there is no ticket in the usual cache: run kinit, or name a keytab"),
        (32, CACHE, "the ticket has expired: run kinit"),
        (37, CACHE, "this machine's clock and the KDC's differ by more than Kerberos allows: set them right"),
        (154, CACHE, "krb5.conf names no KDC for the realm"),
        (156, CACHE, "no KDC of the realm answers: see krb5.conf, and whether it runs"),
        (29, CACHE, "the KDC does not serve now"),
        (None, CACHE, "Kerberos gave no ticket"),
    ],
)
def test_each_refusal_is_a_sentence(code: int | None, login: KerberosLogin, sentence: str) -> None:
    failed = KerberosFailed("text of the library", code)
    assert no_ticket(failed, login) == f"{sentence} (Kerberos: text of the library)"
    if code not in (24, 31):
        assert no_proof(failed, login, "host") == f"{sentence} (Kerberos: text of the library)"


def test_refusals_of_a_brokers_service() -> None:
    assert no_proof(KerberosFailed("x", 7), CACHE, "h").startswith("the KDC knows no service kafka/h: reach servers by")
    assert no_proof(KerberosFailed("x", 31), CACHE, "h").startswith("the server at h did not prove that it has the key")
    assert no_ticket(KerberosFailed("x", no_keys=True), KEYTAB).startswith("keytab /k cannot be read")


class Failing:
    """In the library's place."""

    code: int | None = None

    def __init__(self, login: KerberosLogin) -> None:
        pass

    def prepare(self) -> None:
        raise KerberosFailed("x", self.code)

    def context(self, host: str) -> Context:
        return ShortContext(1)


@pytest.mark.parametrize(("code", "kind"), [(156, ConnectionFailed), (29, ConnectionFailed), (6, RequestError)])
def test_only_what_passes_by_itself_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    monkeypatch.setattr(kerberos_tickets, "Initiator", Failing)
    monkeypatch.setattr(Failing, "code", code)
    with pytest.raises(kind, match="GSSAPI: ") as raised:
        Tickets(KEYTAB).prepare()
    if isinstance(raised.value, RequestError):
        assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
