"""Regular expressions of subscriptions where a character more or less decides, and how much is kept of them."""

from __future__ import annotations

import tracemalloc

import pytest

from kavka.coordinator.shared.decide.topic_pattern import MAX_DEPTH, MAX_LENGTH, MAX_NODES, InvalidPattern, TopicPattern


@pytest.mark.parametrize(
    ("expression", "yes", "no"),
    [
        ("ba?", ["b", "ba"], ["baa"]),
        ("ba*", ["b", "baa"], ["bab"]),
        ("a{22", ["a{22"], ["a" * 22]),
        ("()" * (MAX_DEPTH + 1) + "a", ["a"], [""]),
        ("(?i)" * (MAX_DEPTH + 1) + "a", ["A"], [""]),
        (r"\Q\Ea", ["a"], ["E", ""]),
        (r"a\b.", ["a\u017f", "a\u212a", "a-"], ["aa"]),
        ("[a-a]", ["a"], ["b", "-"]),
    ],
)
def test_names_are_matched_as_a_whole(expression: str, yes: list[str], no: list[str]) -> None:
    pattern = TopicPattern(expression)
    assert [name for name in yes if not pattern.matches(name)] == []
    assert [name for name in no if pattern.matches(name)] == []


TOO_DEEP = "(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1)


@pytest.mark.parametrize("expression", ["{2}a", "a|{2}a", f"()(){TOO_DEEP}", f"(?i)(?m){TOO_DEEP}"])
def test_what_is_no_expression_or_too_deep_is_refused(expression: str) -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern(expression)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("[a", "missing ] at 2 of '[a'"),
        ("[a-z]*[^b", "missing ] at 9 of '[a-z]*[^b'"),
        ("[", "missing ] at 1 of '['"),
        ("[z-a]", "the range z-a is empty at 4 of '[z-a]'"),
        ("[a-", "missing ] at 3 of '[a-'"),
    ],
)
def test_of_a_set_that_is_none_is_told_why_and_where(expression: str, why: str) -> None:
    with pytest.raises(InvalidPattern) as refused:
        TopicPattern(expression)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("ab*+", "a repetition of a repetition at 3 of 'ab*+'"),
        ("a{2}{3}b", "a repetition of a repetition at 4 of 'a{2}{3}b'"),
        ("a(?x)", "'x' is no flag at 3 of 'a(?x)'"),
        ("(?i-)", "')' is no flag at 4 of '(?i-)'"),
        ("b" * 99 + "c(", f"missing ) at 101 of '{'b' * 99}c'"),
    ],
)
def test_of_a_mistake_is_told_where_it_stands_in_the_first_hundred_characters(expression: str, why: str) -> None:
    with pytest.raises(InvalidPattern) as refused:
        TopicPattern(expression)
    assert str(refused.value) == why


def test_what_is_kept_of_names_is_bounded() -> None:
    pattern = TopicPattern(".*")
    tracemalloc.start()
    try:
        assert pattern.matches("".join(map(chr, range(256, 20_256))))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2_000_000


def test_expressions_may_be_as_large_as_the_documentation_says() -> None:
    assert TopicPattern("(" * 100 + "a" * 1_999 + ")" * 100).matches("a" * 1_999)
    assert (MAX_LENGTH, MAX_NODES, MAX_DEPTH) == (8_192, 2_000, 100)
