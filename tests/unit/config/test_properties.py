"""The syntax of server.properties, that of java.util.Properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.config.properties import format_properties, parse_assignments, parse_properties
from kavka.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("a=1\nb:2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("  # comment\n! another\n\n \t\n a = 1 ", {"a": "1 "}),
        ("a \t : = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a=\n", {"a": ""}),
        ("=x", {"": "x"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=one, \\\n    two,\\\n    three", {"a": "one, two,three"}),
        ("a=ends\\", {"a": "ends"}),
        ("# a comment does not join \\\na=1", {"a": "1"}),
        ("a=backslash \\\\\nb=2", {"a": "backslash \\", "b": "2"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("a=\\t\\n\\q\\u00e9\\u0041", {"a": "\t\nqéA"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=\\  b", {"a": "  b"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("a=b # no comment", {"a": "b # no comment"}),
        ("a=x\\\n#y", {"a": "x#y"}),
        ("\\\n# a comment after a lone backslash\na=1", {"a": "1"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("text", ["ok=1\na=\\u12", "ok=1\na=\\u12g4", "ok=1\n\\u=1"])
def test_a_malformed_escape_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"line 2: .* four hexadecimal digits"):
        parse_properties(text)


def test_assignments_of_a_command_line() -> None:
    assert parse_assignments(["a=1", " b = x=y ", "c="]) == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize("assignment", ["a", "", "=1", "  =1"])
def test_an_assignment_without_a_name_or_a_sign_is_refused(assignment: str) -> None:
    with pytest.raises(ConfigError, match="is not name=value"):
        parse_assignments([assignment])


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_down_is_read_as_the_same(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


def test_a_password_and_a_login_are_written_as_they_are() -> None:
    login = 'org.x.PlainLoginModule required username="a" password="\\\\#!= \t";'
    assert parse_properties(format_properties({"sasl.jaas.config": login, "#odd name": " x"})) == {
        "sasl.jaas.config": login,
        "#odd name": " x",
    }
