"""Filters in CEL: what they may use, what they cost, what is said of records that they fail for."""

from __future__ import annotations

import asyncio
import time

import pytest

pytest.importorskip("starlette")
pytest.importorskip("cel")

from kavka.client.consumer import ConsumerRecord
from kavka.console.messages import expression as expressions
from kavka.console.messages.apart import Apart
from kavka.console.messages.decoding import decode
from kavka.console.messages.expression import Expression, FieldNames, TooSlow, WrongExpression
from kavka.records.batch import TimestampType

NOW_MS = 1_700_000_000_000
LARGE = ('{"items": [' + ",".join(map(str, range(3_000))) + '], "text": "' + "a" * 200_000 + '"}').encode()


def record(value: bytes | None, key: bytes | None = b"k1", timestamp_ms: int = NOW_MS) -> ConsumerRecord:
    return ConsumerRecord("a", 2, 7, timestamp_ms, key, value, (("trace", b"t-9"),), TimestampType.CREATE_TIME, 0)


def ask(made: Expression, *values: bytes | None, key: bytes | None = b"k1", timestamp_ms: int = NOW_MS) -> list[bool]:
    """Whether it is true of records with these values."""

    async def asked() -> list[bool]:
        apart = Apart()
        try:
            return [
                await made.matches(record(value, key, timestamp_ms), decode(key), decode(value), apart)
                for value in values
            ]
        finally:
            await apart.close()

    return asyncio.run(asked())


def matches(text: str, value: bytes | None, timestamp_ms: int = NOW_MS) -> bool:
    return ask(Expression(text), value, timestamp_ms=timestamp_ms)[0]


@pytest.mark.parametrize(
    "text",
    [
        "value.total > 100 && value.customer.name == 'Åsa'",
        "key == 'k1' && key.startsWith('k')",
        "value.items.exists(x, x == 3)",
        "headers['trace'] == 't-9' && 'trace' in headers",
        "partition == 2 && offset >= 7 && size > 10",
        "time > timestamp('2023-01-01T00:00:00Z')",
        "has(value.customer.name) && !has(value.customer.age)",
        "size(value.items) == 3",
        "value.huge > 1.0",
    ],
)
def test_an_expression_is_true_of_a_record(text: str) -> None:
    value = '{"total": 120, "customer": {"name": "Åsa"}, "items": [1, 2, 3], "huge": 100000000000000000000}'
    assert matches(text, value.encode())


def test_a_tombstone_and_a_text_are_records_too() -> None:
    assert matches("value == null", None)
    assert matches("value == 'plain text'", b"plain text")
    assert not matches("value == true", b"plain text"), "only what is true matches"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("value.", "parse"),
        ("valu.total > 1", "there is no valu"),
        ("value.a.all(x, x.b.all(y, y.c.all(z, z > 0)))", "at most 2"),
        ("value.a.existsOne(x, x.b.existsOne(y, y.c.existsOne(z, z > 0)))", "at most 2"),
        ("value.\nall(key, value.\nall(offset, value.\nall(size, size > 0)))", "at most 2"),
        ("value.//\nall(key, value.//\nall(offset, value.//\nall(size, size > 0)))", "takes no //"),
        ("value.all//\n(key, value.all//\n(offset, value.all//\n(size, size > 0)))", "takes no //"),
        ("1" * (expressions.LONGEST + 1), "characters"),
        ("(" * 400 + "1" + ")" * 400, "parse"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, why: str) -> None:
    with pytest.raises(WrongExpression, match=why):
        Expression(text)


def test_a_record_that_it_fails_for_does_not_match_and_is_counted() -> None:
    made = Expression("value.total > 100")
    assert ask(made, b'{"other": 1}', b'{"total": "many"}', b"text") == [False] * 3
    assert made.failed == 3
    assert made.example
    assert not matches("time > timestamp('2023-01-01T00:00:00Z')", b"{}", timestamp_ms=2**62), "no such year"


@pytest.mark.parametrize(
    "text",
    [
        "value.items.map(x, value.items + value.items).size() > 0",
        "value.items.all(x, size(value.items + value.items) > 0)",
        "value.items.map(x, value.text + value.text).size() > 0",
        "value.items.exists(x, 'aaaa'.matches('(a{60}){60}b'))",
    ],
)
def test_what_would_take_the_machine_holds_up_nobody_and_is_given_up(text: str) -> None:
    """Some of these took minutes, or all memory, over one record of a few hundred elements."""
    made, longest_ms = Expression(text), 0.0

    async def asked() -> bool:
        nonlocal longest_ms
        apart = Apart()
        work = asyncio.ensure_future(made.matches(record(LARGE), decode(b"k"), decode(LARGE), apart))
        while not work.done():
            began = time.thread_time()
            await asyncio.sleep(0.001)
            longest_ms = max(longest_ms, (time.thread_time() - began) * 1_000)
        await apart.close()
        return work.result()

    assert not asyncio.run(asked())
    assert made.too_large == 1
    assert longest_ms < 200, "of processor time that others waited for"


def test_after_a_record_that_was_given_up_others_are_worked_out() -> None:
    made = Expression("value.items.map(x, value.items + value.items).size() > 3")
    assert ask(made, b'{"items": [1, 2, 3, 4]}', LARGE, b'{"items": [1, 2, 3, 4]}', b"text") == [
        True,
        False,
        True,
        False,
    ]
    assert (made.too_large, made.failed) == (1, 1)


def test_a_search_that_is_called_off_leaves_no_process() -> None:
    made = Expression("value.items.map(x, value.items + value.items).size() > 3")

    async def asked() -> None:
        apart = Apart()
        work = asyncio.ensure_future(made.matches(record(LARGE), decode(b"k"), decode(LARGE), apart))
        await asyncio.sleep(0.3)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        assert apart.processes == 0
        assert await made.matches(
            record(b'{"items": [1, 2, 3, 4]}'), decode(b"k"), decode(b'{"items": [1, 2, 3, 4]}'), apart
        )
        assert apart.processes == 1
        await apart.close()
        assert apart.processes == 0

    asyncio.run(asked())


def test_a_record_of_too_many_elements_is_not_worked_out_but_counted() -> None:
    made = Expression("size(value.l) > 0")
    assert not ask(made, ('{"l": [' + ",".join("1" for _ in range(expressions.MOST_ELEMENTS)) + "]}").encode())[0]
    assert made.too_large == 1
    assert matches("size(value.items) == 3000", LARGE)


def test_a_search_does_not_spend_all_its_time_on_its_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "EXPRESSION_S", 0.0)
    made = Expression("value == 'a'")
    with pytest.raises(TooSlow, match="simpler"):
        ask(made, b"a", b"a")


def test_time_that_is_spent_elsewhere_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "EXPRESSION_S", 0.4)
    made = Expression("value.items.map(x, value.items + value.items).size() > 3")
    with pytest.raises(TooSlow, match="simpler"):
        ask(made, LARGE, LARGE)


def test_others_go_on_while_an_expression_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "SLICE_S", 0.0)
    made, turns, apart = Expression("value == 'a'"), list[str](), Apart()

    async def search() -> None:
        for number in range(3):
            await made.matches(record(b"a"), decode(b"k"), decode(b"a"), apart)
            turns.append(f"search {number}")

    async def other() -> None:
        for _ in range(2):
            turns.append("other")
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(search(), other())

    asyncio.run(both())
    assert turns != sorted(turns, reverse=True), turns
    assert turns.index("other") < turns.index("search 2")


class TestNames:
    def test_names_of_fields_are_those_that_were_seen(self) -> None:
        names = FieldNames()
        names.take("t", "value", {"customer": {"id": 1}, "a-b": 2, "list": [{"x": 1}]})
        names.take("t", "key", "text")
        assert names.of("t") == ["value.customer", "value.customer.id", "value.list", 'value["a-b"]']
        assert names.of("other") == []

    def test_they_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(expressions, "MOST_TOPICS", 2)
        names = FieldNames()
        for topic in ("a", "b", "c"):
            names.take(topic, "value", {f"f{number}": 1 for number in range(1_000)})
        assert names.of("a") == []
        assert len(names.of("c")) == expressions.MOST_NAMES
        deep: object = 1
        for _ in range(50):
            deep = {"d": deep}
        names.take("d", "value", deep)
        assert len(names.of("d")) == expressions.DEEPEST
