"""Patterns in bounded time: the same matches and groups as `re`, also where that would take for ever."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.security.bounded_patterns import MAX_STEPS, BoundedPattern, TooLaborious

ATOMS = st.sampled_from(["a", "b", ",", ".", "[ab]", "[^a]", r"\w", r"\d", "^", "$", "(?:a|bb)", r"\b"])


def _extended(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda options: f"({'|'.join(options)})"),
        inner.map(lambda one: f"({one})"),
        # What is repeated has no empty match: there engines differ in the groups, and Java from Python, too.
        st.tuples(st.sampled_from("ab,."), st.sampled_from(["*", "+", "?", "*?", "+?", "{1,2}", "{2}", "*+"])).map(
            "".join
        ),
        st.sampled_from(["(a)*", "(?:(a)|b)+", "(a|ab)(c|b)*", "(?=a).", "(?!b).", "(?<=a)b", "(?>a*)b", "(a)(?i:A)"]),
    )


PATTERNS = st.recursive(ATOMS, _extended, max_leaves=8)


@given(PATTERNS, st.text("ab,c\n", max_size=8))
def test_it_matches_as_re_does(pattern: str, text: str) -> None:
    own, other = BoundedPattern(pattern), re.compile(pattern, re.ASCII)
    found, expected = own.fullmatch(text), other.fullmatch(text)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.groups == (expected[0], *expected.groups())
    assert [(each.start, each.end, each.groups) for each in own.find_all(text)] == list(_found(other, text))


def _found(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int, tuple[str | None, ...]]]:
    """As Java's find goes on: behind an empty match a character further, where Python's `finditer` does not."""
    at = 0
    while (found := pattern.search(text, at)) is not None:
        yield found.start(), found.end(), (found[0], *found.groups())
        at = found.end() + (found.end() == found.start())
        if at > len(text):
            return


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^CN=(.*?),OU=(.*?),OU=(.*?),OU=(.*?),OU=(.*?),C=(.*?)$", "CN=x" + ",OU=a" * 100),
        ("(a+)+b", "a" * 100),
        ("(a|aa)*b", "a" * 100),
        ("((a*)*)*b", "a" * 100),
        (r"(a*)*\1b", "a" * 100),
        ("(?=(a+)+b)a*", "a" * 100),
        ("(?:a?){50}a{50}b", "a" * 100),
        (".*,.*,.*,.*,.*x", "," * 4_000),
    ],
)
def test_what_would_take_minutes_is_decided_or_given_up(pattern: str, text: str) -> None:
    began = time.process_time()
    own = BoundedPattern(pattern)
    try:
        assert own.fullmatch(text) is None
        assert list(own.find_all(text)) == []
    except TooLaborious as error:
        assert str(MAX_STEPS) in str(error)  # noqa: PT017  # either is right
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "pattern", ["(", "[a&&[^b]]", r"\p{L}", "(a)(?(1)b|c)", "((((){1000}){1000}){1000}){1000}", "a{6000}", "(" * 5_000]
)
def test_what_is_no_pattern_is_refused_at_once(pattern: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match=r"."):
        BoundedPattern(pattern)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        (r"\w+", "alice", True),
        (r"\w+", "ålice", False),  # Java's classes know ASCII only.
        (r"\d", "٣", False),
        (r"\W+", "å", True),
        (".*", "a\rb", False),  # Its "." ends at whatever ends a line.
        (".*", "a\u2028b", False),
        ("(?s).*", "a\r\nb", True),
        ("(?i)å", "Å", False),
        ("(?i)A[b-d]", "aC", True),
        ("(?<one>a)(?P<two>b)", "ab", True),
    ],
)
def test_it_means_what_java_means(pattern: str, text: str, is_match: bool) -> None:
    assert (BoundedPattern(pattern).fullmatch(text) is not None) == is_match
