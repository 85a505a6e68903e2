"""One setting: texts to values and back, and refusals that name setting, value and range."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.config.setting import (
    DOUBLE_MAX,
    HIGH,
    INT_MAX,
    LONG_MAX,
    InvalidValue,
    Settings,
    at_least,
    between,
    boolean,
    double,
    format_value,
    integer,
    long,
    one_of,
    password,
    short,
    string,
    string_list,
)
from kavka.errors import ConfigError


class Table(Settings):
    a_flag = boolean(True)
    a_number = integer(5, between(1, 9, extra=-1))
    a_small = short(1)
    a_large = long(None, at_least(-1), HIGH)
    a_share = double(0.5, between(0, 1))
    a_text = string("x", one_of("x", "y"))
    a_loose_text = string("x", one_of("X", "Y", ignore_case=True))
    a_list = string_list("p,q")
    a_secret = password()
    odd_name = string(None, name="odd.camelCase")


def test_a_row_is_named_after_its_attribute() -> None:
    assert Table.a_large.name == "a.large"
    assert Table.odd_name.name == "odd.camelCase"
    assert next(iter(Table.rows)) == "a.flag"


def test_values_that_were_not_set_are_the_rows_defaults() -> None:
    table = Table()
    assert (table.a_flag, table.a_number, table.a_large, table.a_list) == (True, 5, None, ("p", "q"))
    assert vars(table) == {}


def test_only_what_is_set_is_stored() -> None:
    table = Table.parse({"a.number": " -1 ", "a.list": " r , s,", "odd.camelCase": " z "})
    assert vars(table) == {"a_number": -1, "a_list": ("r", "s", ""), "odd_name": "z"}
    assert dict(table.items())[Table.a_number] == -1


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.flag", "yes", "Expected value to be either true or false"),
        ("a.number", "", "Not a number of type INT"),
        ("a.number", "1.0", "Not a number of type INT"),
        ("a.number", "1_0", "Not a number of type INT"),
        ("a.number", "٣", "Not a number of type INT"),
        ("a.number", "0", "Value must be between 1 and 9 or equal to -1"),
        ("a.number", "10", "Value must be between 1 and 9 or equal to -1"),
        ("a.number", str(INT_MAX + 1), "Not a number of type INT"),
        ("a.number", "9" * 65, "Not a number of type INT"),
        ("a.small", "32768", "Not a number of type SHORT"),
        ("a.small", "-32769", "Not a number of type SHORT"),
        ("a.large", str(LONG_MAX + 1), "Not a number of type LONG"),
        ("a.large", "-2", "Value must be at least -1"),
        ("a.share", "1.1", "Value must be no more than 1"),
        ("a.share", "-0.1", "Value must be at least 0"),
        ("a.share", "0x1p3", "Not a number of type DOUBLE"),
        ("a.text", "z", "String must be one of: x, y"),
    ],
)
def test_a_refusal_names_setting_value_and_range(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Table.parse({name: text})
    assert str(refused.value) == f"Invalid value {text} for configuration {name}: {reason}"
    assert (refused.value.name, refused.value.reason) == (name, reason)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Unknown config name: no\.such"):
        Table.parse({"no.such": "1"})


def test_passwords_keep_their_blanks_and_are_sensitive() -> None:
    assert Table.parse({"a.secret": " s "}).a_secret == " s "
    assert Table.a_secret.sensitive
    assert not Table.a_text.sensitive


def test_case_counts_where_the_range_says_so() -> None:
    assert Table.parse({"a.loose.text": "y"}).a_loose_text == "y"
    with pytest.raises(InvalidValue):
        Table.parse({"a.text": "Y"})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (DOUBLE_MAX, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1e-5, "1.0E-5"),
        (0.00012, "1.2E-4"),
        (-2.5e-8, "-2.5E-8"),
        (0.0, "0.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_are_spelled_as_java_does(value: float, text: str) -> None:
    assert format_value(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_comes_back_from_its_text(value: float) -> None:
    row = double(0.0)
    assert row.parse(format_value(value) or "") == value


@given(st.integers(-LONG_MAX - 1, LONG_MAX))
def test_every_long_comes_back_from_its_text(value: int) -> None:
    assert long(0).parse(str(value)) == value


@given(st.lists(st.text(st.characters(exclude_characters=", \t\n\r\x0b\x0c", codec="ascii"), min_size=1)))
def test_every_list_comes_back_from_its_text(elements: list[str]) -> None:
    value = tuple(element.strip() or "x" for element in elements)
    assert string_list("").parse(format_value(value) or "") == value
