"""JAAS text, as Kafka's JaasConfig reads it."""

import pytest

from kavka.security.jaas import MalformedJaas, parse
from kavka.security.secret import Secret

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_a_login_of_plain_with_users() -> None:
    login = parse(f'{PLAIN} required username="admin" password="admin-secret" user_admin="admin-secret" user_al="x y";')
    assert (login.module, login.username, login.password) == ("PLAIN", "admin", Secret("admin-secret"))
    assert dict(login.users) == {"admin": Secret("admin-secret"), "al": Secret("x y")}
    assert "secret" not in repr(login)


def test_a_login_of_scram_may_have_nothing() -> None:
    login = parse(f"{SCRAM} REQUIRED;")
    assert (login.module, login.username, login.password, dict(login.users)) == ("SCRAM", None, None, {})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', "a\\b"),
        (r'"a\tb\101"', "a\tbA"),
        ("'a\"b'", 'a"b'),
        ('"a;b=c//d /* e */"', "a;b=c//d /* e */"),
        ("word-1.x", "word-1.x"),
        ('"ünï"', "ünï"),
        ('""', ""),
    ],
)
def test_values_are_quoted_as_in_java(written: str, meant: str) -> None:
    password = parse(f"{SCRAM} required username=admin password={written};").password
    assert password is not None
    assert password.reveal() == meant


def test_lines_and_comments_do_not_matter() -> None:
    text = f'{PLAIN} required // who\n  username="a" /* and\n how */ password="b"\n;\n'
    assert (parse(text).username, parse(text).password) == ("a", Secret("b"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        PLAIN,
        f"{PLAIN} required",
        f'{PLAIN} required password="hunter2"',
        f'{PLAIN} sometimes password="hunter2";',
        f'{PLAIN} required password "hunter2";',
        f"{PLAIN} required password=;",
        f'{PLAIN} required ="hunter2";',
        f'{PLAIN} required password="hunter2;',
        f"{PLAIN} required password=hunter2 {{}};",
        f"{PLAIN} required password=7hunter2;",
        f'{PLAIN} required password="hunter2"; {PLAIN} required;',
        f'{PLAIN} required serviceName="hunter2";',
        f'{SCRAM} required user_alice="hunter2";',
        f'{SCRAM} required tokenauth="hunter2";',
        '"hunter2" required;',
        f'{PLAIN} required password= "x" "hunter2"="y";',
        f'{PLAIN} required "hunter2"=;',
        'com.sun.security.auth.module.JndiLoginModule required password="hunter2";',
        'com.sun.security.auth.module.Krb5LoginModule required password="hunter2";',
    ],
)
def test_what_cannot_be_carried_out_is_refused_without_showing_a_value(text: str) -> None:
    with pytest.raises(MalformedJaas) as caught:
        parse(text)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("value", "is_by_token"), [("true", True), ("TRUE", True), ("false", False)])
def test_a_login_with_scram_may_be_a_delegation_tokens(value: str, is_by_token: bool) -> None:
    text = f'ScramLoginModule required username="id" password="hmac" tokenauth="{value}";'
    assert parse(text).is_by_token is is_by_token
    with pytest.raises(MalformedJaas):
        parse(text.replace("Scram", "Plain"))
