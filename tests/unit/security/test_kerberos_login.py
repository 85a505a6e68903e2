"""The options of Krb5LoginModule: whose tickets, and where the keys are."""

import pytest

from kavka.security.jaas import MalformedJaas, parse
from kavka.security.kerberos_login import KerberosLogin, kerberos_login

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


def login(options: str, service: str | None = "kafka") -> KerberosLogin:
    parsed = parse(f"{MODULE} {options};")
    assert parsed.module == "GSSAPI"
    return kerberos_login(parsed.options, service)


def test_a_keytab_with_its_principal() -> None:
    options = 'useKeyTab=true storeKey=TRUE doNotPrompt=true keyTab="/k" principal="kafka/h@R"'
    assert login(options.replace("TRUE", "true")) == KerberosLogin("kafka", "kafka/h@R", "/k")


def test_a_ticket_cache() -> None:
    assert login("useTicketCache=true") == KerberosLogin("kafka", None, None)
    assert login('useTicketCache=true ticketCache="/c" principal="a@R"') == KerberosLogin("kafka", "a@R", None, "/c")


@pytest.mark.parametrize(("option", "setting"), [('serviceName="k"', None), ("", "k"), ('serviceName="k"', "k")])
def test_the_service_is_named_by_the_option_or_the_setting(option: str, setting: str | None) -> None:
    assert login(f"useTicketCache=true {option}", setting).service_name == "k"


@pytest.mark.parametrize(
    ("options", "service", "why"),
    [
        ("useTicketCache=true", None, "sasl.kerberos.service.name is not set"),
        ('useTicketCache=true serviceName="a"', "b", "name different services"),
        ("", "kafka", "neither useKeyTab=true nor useTicketCache=true"),
        ("useKeyTab=true", "kafka", "needs the options keyTab"),
        ('useKeyTab=true keyTab="/k"', "kafka", "needs the options keyTab"),
        ("useKeyTab=yes", "kafka", "'useKeyTab' is neither true nor false"),
        ("useTicketCache=true renewTGT=true", "kafka", "'renewTGT' would have no effect"),
        ("useTicketCache=true useFirstPass=true", "kafka", "'useFirstPass' has no meaning"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(options: str, service: str | None, why: str) -> None:
    with pytest.raises(MalformedJaas, match=why):
        login(options, service)
