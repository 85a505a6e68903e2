"""Limits of clients: whose holds, which may be set, and which are asked for."""

from __future__ import annotations

import math

import pytest

from kavka.errors import ErrorCode, RequestError
from kavka.security.quota_limits import (
    DEFAULT,
    Change,
    Entity,
    Filter,
    Limits,
    Match,
    QuotaKind,
    Share,
    altered,
    connection_rate_of,
    entity_of,
    java_double,
    limit_of,
    shown,
)
from kavka.security.rates import Rate
from kavka.security.throttle_time import MAX_DELAY_MS, TokenBucket, delay_ms


def refusal(call, *arguments):  # type: ignore[no-untyped-def]
    with pytest.raises(RequestError) as refused:
        call(*arguments)
    return refused.value.code, str(refused.value)


def limits_of(**table: float) -> Limits:
    limits = Limits()
    names = {"d": DEFAULT, "n": None}
    for key, limit in table.items():
        user, client_id = (names.get(part, part) for part in key.split("_"))
        limits.set(Entity(user, client_id), limit)
    return limits


def test_a_user_shares_its_limit_and_a_default_is_one_for_each() -> None:
    assert limits_of(u_n=5).share("u", "c") == Share("u", "")
    assert limits_of(u_d=5).share("u", "c") == Share("u", "c")
    assert limits_of(d_n=5).share("u", "c") == Share("u", "")
    assert limits_of(n_d=5).share("u", "c") == Share("", "c")


def test_a_client_without_an_id_has_no_part_in_rules_of_client_ids() -> None:
    limits = limits_of(u_d=5, u_n=7)
    assert limits.limit(limits.share("u", "")) == 7
    alone = limits_of(n_d=5)
    assert alone.limit(alone.share("u", "")) is None


def test_a_negative_limit_is_none_and_hides_the_rules_after_it() -> None:
    limits = limits_of(u_n=-1, n_c=5)
    assert limits.limit(limits.share("u", "c")) is None


def test_a_limit_of_zero_holds_a_client_until_nothing_counts_any_more() -> None:
    rate = Rate(11, 1000)
    rate.record(1, 10)
    assert delay_ms(rate, 0, 10) == 11_000
    bucket = TokenBucket(11, 1000)
    bucket.take(1, 0, 10)
    assert bucket.delay_ms(0, 10) == 11_000


@pytest.mark.parametrize("limit", [5e-324, 1e-310, 1e-9])
def test_a_limit_next_to_zero_holds_a_client_for_the_longest_delay_that_can_be_told(limit: float) -> None:
    rate = Rate(11, 1000)
    rate.record(1e6, 10)
    assert delay_ms(rate, limit, 10) == MAX_DELAY_MS
    bucket = TokenBucket(11, 1000)
    bucket.take(1e6, limit, 10)
    assert bucket.delay_ms(limit, 10) == MAX_DELAY_MS


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "9" * 400])
def test_a_stored_limit_that_is_no_long_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="beyond a LONG"):
        limit_of(QuotaKind.FETCH, {"consumer_byte_rate": text})


def test_the_delay_is_that_of_kafkas_formula() -> None:
    rate = Rate(11, 1000)
    rate.record(2_000_000, 0)
    assert rate.measure(0) == 200_000
    assert delay_ms(rate, 100_000, 0) == 10_000
    assert delay_ms(rate, 200_000, 0) == 0


def test_a_burst_in_a_token_bucket_is_waited_for_only_as_long_as_it_takes_to_refill() -> None:
    bucket = TokenBucket(100, 1000)
    bucket.take(560, 5, 0)
    assert bucket.delay_ms(5, 0) == 12_000
    assert bucket.delay_ms(5, 12_000) == 0


def test_numbers_are_written_as_java_writes_them() -> None:
    numbers = [50.0, 0.001, 1e7, 1.5e-5, 12345678.9, 0.0, 1 / 3, 1e300, float("inf")]
    assert [java_double(number) for number in numbers] == [
        "50.0", "0.001", "1.0E7", "1.5E-5", "1.23456789E7", "0.0", "0.3333333333333333", "1.0E300", "Infinity",
    ]  # fmt: skip


def test_a_change_keeps_what_is_no_limit() -> None:
    stored = {"SCRAM-SHA-256": "salt=...", "producer_byte_rate": "10"}
    changes = [Change("consumer_byte_rate", 20.0), Change("producer_byte_rate", None), Change("request_percentage", 50)]
    assert altered(Entity("u"), stored, changes) == {
        "SCRAM-SHA-256": "salt=...",
        "consumer_byte_rate": "20",
        "request_percentage": "50.0",
    }


@pytest.mark.parametrize(
    ("entity", "key", "value", "code"),
    [
        (Entity("u"), "producer_byte_rate", 1.5, ErrorCode.INVALID_REQUEST),
        (Entity("u"), "producer_byte_rate", -1.0, ErrorCode.INVALID_REQUEST),
        (Entity(ip="10.0.0.1"), "connection_creation_rate", -1.0, ErrorCode.INVALID_REQUEST),
        (Entity("u"), "bad", 1, ErrorCode.INVALID_REQUEST),
        (Entity("u"), "connection_creation_rate", 1, ErrorCode.INVALID_REQUEST),
        (Entity(ip="10.0.0.1"), "producer_byte_rate", 1, ErrorCode.INVALID_REQUEST),
        (Entity(ip="10.0.0.1"), "connection_creation_rate", 2.0**31, ErrorCode.INVALID_REQUEST),
        (Entity("u"), "producer_byte_rate", float("inf"), ErrorCode.INVALID_REQUEST),
        (Entity("u"), "SCRAM-SHA-256", 1, ErrorCode.UNKNOWN_SERVER_ERROR),
        (Entity("u"), "producer_byte_rate", float("nan"), ErrorCode.INVALID_REQUEST),
        (Entity("u"), "request_percentage", float("nan"), ErrorCode.INVALID_REQUEST),
        (Entity("u"), "controller_mutation_rate", float("nan"), ErrorCode.INVALID_REQUEST),
        (Entity(ip="10.0.0.1"), "connection_creation_rate", float("nan"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_a_limit_is_refused(entity: Entity, key: str, value: float, code: ErrorCode) -> None:
    assert refusal(altered, entity, {}, [Change(key, value)])[0] is code


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "Invalid empty client quota entity"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        ([("user", "")], "Empty user not supported"),
        ([("user", ".")], "Unsupported user '.'"),
        ([("user", "u"), ("client-id", "..")], "Unsupported client-id '..'"),
        ([("user", "u"), ("ip", "10.0.0.1")], "Invalid quota entity combination"),
    ],
)
def test_an_entity_that_cannot_be_meant_is_refused(parts: list[tuple[str, str | None]], message: str) -> None:
    code, text = refusal(entity_of, parts)
    assert code is ErrorCode.INVALID_REQUEST
    assert text.startswith(message)


def test_an_entity_with_a_null_name_is_a_default() -> None:
    assert entity_of([("user", None), ("client-id", "c")]) == Entity(DEFAULT, "c")
    assert str(entity_of([("user", None), ("client-id", "c")])) == "default user, client-id c"


ALL = [
    Entity("u"),
    Entity("v"),
    Entity(DEFAULT),
    Entity("u", "c"),
    Entity("u", DEFAULT),
    Entity(None, "c"),
    Entity(None, DEFAULT),
    Entity(ip="10.0.0.1"),
    Entity(ip=DEFAULT),
]


@pytest.mark.parametrize(
    ("matches", "strict", "found"),
    [
        ([], False, ALL),
        ([], True, []),
        ([Match("user", "u")], True, [Entity("u")]),
        ([Match("user", "u")], False, [Entity("u"), Entity("u", "c"), Entity("u", DEFAULT)]),
        ([Match("user", DEFAULT)], False, [Entity(DEFAULT)]),
        ([Match("user", None)], True, [Entity("u"), Entity("v"), Entity(DEFAULT)]),
        ([Match("user", None), Match("client-id", "c")], False, [Entity("u", "c")]),
        ([Match("client-id", "c")], False, [Entity("u", "c"), Entity(None, "c")]),
        ([Match("ip", None)], False, [Entity(ip="10.0.0.1"), Entity(ip=DEFAULT)]),
        ([Match("ip", "10.0.0.1")], True, [Entity(ip="10.0.0.1")]),
    ],
)
def test_a_filter_takes_what_it_names(matches: list[Match], strict: bool, found: list[Entity]) -> None:
    wanted = Filter(tuple(matches), strict)
    wanted.check()
    assert [entity for entity in ALL if wanted.takes(entity)] == found


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        (["user", "user"], ErrorCode.INVALID_REQUEST),
        ([""], ErrorCode.INVALID_REQUEST),
        (["group"], ErrorCode.UNSUPPORTED_VERSION),
        (["user", "ip"], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_no_entity_fits_is_refused(kinds: list[str], code: ErrorCode) -> None:
    assert refusal(Filter(tuple(Match(kind, None) for kind in kinds), True).check)[0] is code


def test_stored_limits_are_read_as_numbers() -> None:
    stored = {"producer_byte_rate": "1024", "request_percentage": "1.0E7", "SCRAM-SHA-256": "x"}
    assert limit_of(QuotaKind.PRODUCE, stored) == 1024
    assert limit_of(QuotaKind.REQUEST, stored) == 1e7
    assert limit_of(QuotaKind.FETCH, stored) is None
    assert connection_rate_of({"connection_creation_rate": "7"}) == 7
    assert shown(Entity("u"), stored) == {"producer_byte_rate": 1024.0, "request_percentage": 1e7}


@pytest.mark.parametrize("text", ["much", "1_000", "1.0", " 1000", "1000 ", "\u0661", "", "9223372036854775808"])
def test_a_stored_whole_number_is_one_as_java_reads_it(text: str) -> None:
    """Python reads 1_000 and other digits than ours: two brands on one ZooKeeper would hold clients to two limits."""
    with pytest.raises(ValueError, match="byte_rate"):
        limit_of(QuotaKind.PRODUCE, {"producer_byte_rate": text})


@pytest.mark.parametrize("text", ["much", "1_0", "nan", "inf", "infinity", "-nan", "\u0661", "", "1e", "1.0L"])
def test_a_stored_number_is_one_as_java_reads_it(text: str) -> None:
    with pytest.raises(ValueError, match="no number"):
        limit_of(QuotaKind.REQUEST, {"request_percentage": text})
    assert shown(Entity("u"), {"request_percentage": text}) == {}


@pytest.mark.parametrize(("text", "number"), [("1.", 1.0), (" .5d", 0.5), ("+1E+3F", 1000.0), ("Infinity", math.inf)])
def test_forms_of_numbers_that_java_has_and_python_has_not(text: str, number: float) -> None:
    assert limit_of(QuotaKind.REQUEST, {"request_percentage": text}) == number


def test_a_limit_that_another_broker_stored_as_no_number_is_none() -> None:
    assert limit_of(QuotaKind.REQUEST, {"request_percentage": "NaN"}) is None
