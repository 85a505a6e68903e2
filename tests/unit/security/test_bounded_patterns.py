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
        # What is repeated here has no empty match: there Python differs from Java in few groups; see below.
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
    "pattern",
    [
        "(",
        "[a&&[^b]]",
        "[a[b]]",
        "[^a[b]]",
        "[a-z[0-9]]*",
        r"[\]a[^b]]",
        r"\v",
        r"(a)\101",
        r"\p{L}",
        "(a)(?(1)b|c)",
        "((((){1000}){1000}){1000}){1000}",
        "a{6000}",
        "(" * 5_000,
    ],
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
        (r"\(?<one>", "(<one>", True),
        (r"\(?<one>", "P<one>", False),
        (r"[\]\[]+", "[]", True),
        (r"[]a]+", "]a", True),
        (r"(?s)a\Z.", "a\n", True),  # Before a last end of a line, too.
        (r"(?ms)a\Z..", "a\nb", False),
        (r"(?s)a\z.", "a\n", False),
        (r"(?s)a$..", "a\r\n", True),
        (r"(?s)a.$.", "a\r\n", False),
        (r"(?ms)a.^.b", "a\r\nb", False),
        ("(?m)^", "", False),  # There is no line.
    ],
)
def test_it_means_what_java_means(pattern: str, text: str, is_match: bool) -> None:
    assert (BoundedPattern(pattern).fullmatch(text) is not None) == is_match


@pytest.mark.parametrize(
    ("pattern", "text", "groups"),
    [
        ("(a*)*", "aa", ("aa", "")),
        ("(a*)+", "aa", ("aa", "")),
        ("(|a)*", "aa", ("aa", "")),
        ("(|a)+b", "ab", ("ab", "")),
        ("(|a){2}b", "ab", ("ab", "")),
        ("(|a){0,3}b", "ab", ("ab", "")),
        ("(a|b*)*c", "aac", ("aac", "")),
        ("((a*)(b*))*?c", "abac", ("abac", "a", "a", "")),
        (r"(\w*)(x*)*,\1", "ab,ab", ("ab,ab", "ab", "")),
    ],
)
def test_what_may_be_empty_is_repeated_as_in_java(pattern: str, text: str, groups: tuple[str, ...]) -> None:
    """The groups that OpenJDK 17 gives."""
    found = BoundedPattern(pattern).fullmatch(text)
    assert found is not None
    assert found.groups == groups


@pytest.mark.parametrize("pattern", ["(?:|a)*", "(?:|a)+", "(?:a??)*", "(?:a*)*?"])
def test_what_may_be_empty_is_found_empty(pattern: str) -> None:
    assert [(each.start, each.end) for each in BoundedPattern(pattern).find_all("aa")] == [(0, 0), (1, 1), (2, 2)]
