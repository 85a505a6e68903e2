"""Principals and hosts, read and compared as Kafka and Java do."""

from __future__ import annotations

import pytest

from kavka.security.principals import Principal, host_text, super_users


def test_a_principal_is_a_type_and_a_name_that_may_have_colons() -> None:
    assert Principal.parse("User:CN=a:b,O=c") == Principal("User", "CN=a:b,O=c")
    assert str(Principal("User", "alice")) == "User:alice"


def test_a_text_without_a_type_is_no_principal() -> None:
    with pytest.raises(ValueError, match="Type:name"):
        Principal.parse("alice")


def test_super_users_are_separated_by_semicolons_for_distinguished_names_have_commas() -> None:
    assert super_users(" User:CN=a,O=b ; User:c;") == {Principal("User", "CN=a,O=b"), Principal("User", "c")}
    assert super_users("") == frozenset()


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::00ff", "2001:db8:0:0:0:0:0:ff"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("broker-1.example", "broker-1.example"),
        ("*", "*"),
    ],
)
def test_a_host_is_written_as_java_writes_addresses(host: str, text: str) -> None:
    assert host_text(host) == text
