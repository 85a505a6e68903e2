"""Regular expressions of subscriptions: RE2's answers, in bounded time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.coordinator.shared.decide.topic_pattern import MAX_DEPTH, MAX_LENGTH, MAX_NODES, InvalidPattern, TopicPattern


@pytest.mark.parametrize(
    ("expression", "yes", "no"),
    [
        ("orders.*", ["orders", "orders-1"], ["my-orders", ""]),
        ("^orders$|bills", ["orders", "bills"], ["orders|bills", "ordersbills"]),
        ("a|b", ["a", "b"], ["ab", ""]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("a{2,}?", ["aa", "aaaaa"], ["a"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("(?i)orders-[a-c]", ["ORDERS-B", "orders-a"], ["orders-d"]),
        ("(?i:a)b", ["Ab"], ["aB"]),
        ("(?:x(?P<n>y))+", ["xy", "xyxy"], ["x"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
        (r"a\.b", ["a.b"], ["axb"]),
        (r"[[:digit:]_]+\d", ["1_2"], ["_"]),
        (r"[^a-c]", ["d"], ["a", ""]),
        (r"[]a]+", ["]a"], ["b"]),
        (r"\pL\p{Nd}\PL", ["a1-", "a1."], ["a1b"]),
        (r"\x61\x{62}\141", ["aba"], ["ab"]),
        ("", [""], ["a"]),
        (r"\Aa\z", ["a"], ["aa"]),
        (r"\ba.*b\B.", ["a-bc"], ["a-b-", "a-bb-"]),
        (r"a\b-\Ba?", ["a-"], ["a-a"]),
        (r"\B", [""], ["a"]),
        (r"a^|b$|^c|d\b", ["b", "c", "d"], ["a", "bb"]),
        (r"(?i)\x{17f}\x{212a}\d", ["sk1", "SK1"], ["s", "kk1"]),
        (r"(?i)a(?-i)b(?s-i:c)|(?i:d(?U)e)f", ["abc", "Abc", "DEf"], ["aBc", "abC", "DEF"]),
        (r"(?-s)(?m)(?s)(?U)a", ["a"], ["A"]),
        (r"ab(?i)*C", ["aC", "abbc"], ["abab", "A"]),
        (r"((?i)a)b", ["Ab", "ab"], ["aB"]),
        (r"a{01}|b{1,02}|c{|d{}|{|e{1|f{x}", ["a{01}", "b{1,02}", "c{", "d{}", "{", "e{1", "f{x}"], ["a", "b", "c"]),
        (r"a{0}b{0,1}c{2,}d{3}", ["ccddd", "bcccddd"], ["accddd", "cddd", "ccdd", "bbccddd"]),
        (r"(a|b|){2}c??d+?", ["d", "abcdd", "bd"], ["abab", "c", "aaad"]),
        (r"[a-]+[-b]+[c\-d]+[\d-z]", ["a-bd-", "a-b-z", "--c1"], ["a-bcy"]),
        (r"[^-a\]]b[\x61-\x{63}]", ["cbb", "dba"], ["-bb", "abb", "]bb", "cbd"]),
        (r"[[:^digit:]x[:upper:]\PL\p{^Lu}\w]", ["1", "x", "A"], [""]),
        (r"[[:fo]+x", ["[f:x", "ox"], ["d[", ""]),
        (r"[^\w]\D\W\s?\S", ["-a-b"], ["1a-b", "-1-b", "-aab", "-a-"]),
        (r"\Qa\E\Q\E\Q.*", ["a.*"], ["a", "abc"]),
        (r"\Qab\E{2}c", ["abbc"], ["ababc", "abc"]),
        (r"\0a|\0141|\1412|\12a|\.\-\_", [".-_", "\x0c1", "\na", "a2", "\x00a"], ["a", "\x00"]),
        (r"\a?\f?\n?\r?\t?\v?x", ["x", "\a\f\n\r\t\vx"], ["a"]),
        (r"\p{Any}\pN\p{L}\PL", ["-1a1"], ["-aa1", "-111", "-1aa"]),
        (r"(?P<n_1>a)(?<m>b)", ["ab"], ["a"]),
        (r"(a(b|c)*)+", ["a", "abcab"], ["b", ""]),
    ],
)
def test_names_are_matched_as_a_whole(expression: str, yes: list[str], no: list[str]) -> None:
    pattern = TopicPattern(expression)
    assert [name for name in yes if not pattern.matches(name)] == []
    assert [name for name in no if pattern.matches(name)] == []


@pytest.mark.parametrize(
    ("expression", "yes", "no"),
    [
        (".", ["a", "-"], ["\n"]),
        ("(?m).", ["a"], ["\n"]),
        ("(?s).", ["a", "\n"], ["\n\n"]),
        (r"[^a]|\D\W\S", ["\n", "\n\na"], ["a", "\n\n\n"]),
        ("a(?s).b|c.d", ["a\nb", "c\nd"], ["ab"]),
        ("(?s:a.)b|((?s)c.)d|(?s)(?-s)e.f", ["a\nb", "c\nd", "exf"], ["e\nf"]),
        ("(?s:a).b|((?s)c).d", ["axb"], ["a\nb", "c\nd"]),
        (r"a$\nb|a\n^b", [], ["a\nb"]),
        (r"(?m)a$\n^b", ["a\nb"], ["a\n\nb"]),
        (r"(?m)a$\n^$\n^b$", ["a\n\nb"], ["a\nb"]),
        (r"(?m)^a$\n?", ["a", "a\n"], ["\na"]),
        (r"(?m)a$b|a^b", [], ["ab"]),
        (r"(?m)a\z\nb|a\n\Ab", [], ["a\nb"]),
        (r"(?m:a$)\nb|(?m-m)c$\nd|(?-m)(?m:^)e", ["a\nb", "e"], ["c\nd"]),
        (r"a\b\n\Bx?|\n\B", ["a\n", "\n"], ["a\nx"]),
        (r"\n\bx", ["\nx"], []),
        ("(?mis)A.b", ["a\nB"], ["ab"]),
    ],
)
def test_lines_are_told_apart_as_by_re2j(expression: str, yes: list[str], no: list[str]) -> None:
    """A transactional id may have several."""
    pattern = TopicPattern(expression)
    assert [name for name in yes if not pattern.matches(name)] == []
    assert [name for name in no if pattern.matches(name)] == []


@pytest.mark.parametrize(
    "same",
    [
        *["aA", "kK\u212a", "sS\u017f", "1", "\xe9\xc9", "\xe5\xc5\u212b", "\xdf\u1e9e", "\u0131", "\u0130", "\u0149"],
        *[
            "\u03bc\xb5\u039c",
            "\u01c6\u01c4\u01c5",
            "\u03b9\u0345\u0399\u1fbe",
            "\u03b2\u0392\u03d0",
            "\u03b8\u0398\u03d1\u03f4",
        ],
        *["\u03c3\u03a3\u03c2", "\u03c9\u03a9\u2126", "\u1e61\u1e60\u1e9b", "\u1fb3\u1fbc", "\u1f80\u1f88", "\ufb05"],
        *["\u03b5\u0395\u03f5", "\u03ba\u039a\u03f0", "\u03c0\u03a0\u03d6", "\u03c1\u03a1\u03f1", "\u03c6\u03a6\u03d5"],
    ],
)
def test_without_case_letters_are_the_same_as_for_re2j(same: str) -> None:
    """A transactional id may have any characters."""
    for letter in same:
        one, others = TopicPattern(rf"(?i)\x{{{ord(letter):x}}}"), TopicPattern(rf"(?i)[^\x{{{ord(letter):x}}}]")
        assert "".join(each for each in (*same, "i", "I", "x") if one.matches(each)) == same
        assert [each for each in (*same, "i", "I", "x") if others.matches(each)] == ["i", "I", "x"]


@pytest.mark.parametrize(
    ("expression", "matched"),
    [
        (r"(?i)\w", "aAsS\u017fkK\u212a1"),
        (r"(?i)[\w]", "aAsS\u017fkK\u212a1"),
        (r"(?i)[\W]", "-\xdf\u1e9e"),
        (r"(?i)[^\w]", "-\xdf\u1e9e"),
        ("(?i)[[:^upper:]]", "1-\xdf\u1e9e"),
        ("(?i)[[:^word:]]", "-\xdf\u1e9e"),
        ("(?i)[[:upper:]]", "aAsS\u017fkK\u212a"),
        ("(?i)[^[:^lower:]]", "aAsS\u017fkK\u212a"),
        (r"(?i)\p{Lu}", "aAsS\u017fkK\u212a\xdf\u1e9e"),
        (r"(?i)[^\PL]", "aAsS\u017fkK\u212a\xdf\u1e9e"),
        (r"(?i)\P{Lu}", "1-"),
        (r"\w", "aAsSkK1"),
    ],
)
def test_without_case_classes_have_the_members_that_they_have_for_re2j(expression: str, matched: str) -> None:
    pattern = TopicPattern(expression)
    assert "".join(each for each in "aAsS\u017fkK\u212a1-\xdf\u1e9e" if pattern.matches(each)) == matched


@pytest.mark.parametrize(
    "complement", ["[^a]", "[^A]", "[^a-c]", r"\P{Lu}", r"\p{^Ll}", "[[:^upper:]]", "[^[:lower:]]", r"[^\pL]"]
)
def test_without_case_a_complement_leaves_out_both_cases(complement: str) -> None:
    pattern = TopicPattern(f"(?i){complement}")
    assert [char for char in "aA1" if pattern.matches(char)] == ["1"]


@pytest.mark.parametrize(
    "expression",
    [
        *["(", ")", "[", "[a", "a**", "*", "+a", "a{2}{3}", "a{1001}", "a{3,2}", r"\1", r"\p{Greek}", r"\y"],
        *["a\\", "(?=a)", "(?!a)", "(?<=a)", "(?z)", "[b-a]", "[[:nope:]]", "(?P<a-b>x)", r"\x{110000}"],
        *["{2}", "a|{1,2}", "(*)", "(?i)*", "a{1,1001}", "a{1001,}", "a{2}*", "a*{2}", "a?(b", "a)", "(?P<>a)"],
        *["(?-)", "(?i-)", "(?i--s)", "(?-:a)", "(?i", r"[a-\d]", "[^]", "[[:^^digit:]]", "[[:digit:]", r"\Z"],
        *[r"\x", r"\x6", r"\x6g", r"\x{}", r"\x{ 61}", r"\x{6_1}", r"\x{61", r"\p", r"\p{Cn}", r"\p{Lu", r"\p{}"],
        *["[\\", r"\08{2}{2}", r"\pX", r"\C", r"\8", "(?P<n", "(?"],
        "(" * 101 + ")" * 101,
    ],
)
def test_what_is_no_expression_of_re2_or_too_much_is_refused(expression: str) -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern(expression)


EMPTY_PARTS = "((){1000}){99}(){798}()"
"""Takes MAX_STEPS to build: each group and each repetition is one, as often as it is written out."""


@pytest.mark.parametrize(
    ("largest", "more"),
    [
        ("(?i)" * (MAX_LENGTH // 4), "a"),
        ("a" * (MAX_NODES - 1), "a"),
        (EMPTY_PARTS, "()"),
        ("(" * MAX_DEPTH + ")" * MAX_DEPTH, "(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1)),
    ],
    ids=["characters", "nodes", "steps", "depth"],
)
def test_an_expression_that_would_take_too_much_room_is_refused(largest: str, more: str) -> None:
    TopicPattern(largest)
    with pytest.raises(InvalidPattern, match=r"at most|more than"):
        TopicPattern(largest + more)


def test_an_expression_that_would_be_written_out_too_large_is_refused() -> None:
    with pytest.raises(InvalidPattern):
        TopicPattern("((a{100}){100}){100}")


@pytest.mark.parametrize("empty", ["()", "(a{0})"])
def test_an_expression_that_repeats_nothing_beyond_all_bounds_is_refused(empty: str) -> None:
    """Nothing makes no node: 24 characters took a billion steps, and four more for each factor of a thousand."""
    expression = empty
    for _ in range(20):
        expression = f"({expression}{{1000}})"
    with pytest.raises(InvalidPattern):
        TopicPattern(expression)
    assert TopicPattern(f"a{empty}{{1000}}").matches("a")


def test_an_expression_that_makes_backtracking_engines_hang_takes_linear_time() -> None:
    pattern = TopicPattern("(a*)*(a|aa)+(.*a){20}b")
    started = time.process_time()
    assert not pattern.matches("a" * 249)
    assert time.process_time() - started < 5


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", "(a|b)", "(?:ab)", "-"])
REPEATS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "{0,}"])
EXPRESSIONS = st.lists(st.tuples(ATOMS, REPEATS).map("".join), max_size=6).map("".join)


@given(st.lists(EXPRESSIONS, min_size=1, max_size=3).map("|".join), st.text(alphabet="ab1-", max_size=8))
def test_the_answers_are_those_of_pythons_engine(expression: str, name: str) -> None:
    assert TopicPattern(expression).matches(name) == (re.fullmatch(expression, name) is not None)
