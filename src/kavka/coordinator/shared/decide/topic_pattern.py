"""TopicPattern: regular expressions over names, in RE2's syntax and with RE2's promise: linear time.

Decides which names an expression matches as a whole: those of topics, and transactional ids, which may have any
characters. Must not know groups. Python's own `re` backtracks, so that a
client could stop the broker with one expression; here an expression becomes a non-deterministic automaton whose
deterministic states are made as names need them.

    I1  a name of n characters takes at most n steps, each of at most as many moves as the automaton has nodes
    I2  an expression that is too large is refused when it is compiled: MAX_LENGTH, MAX_DEPTH, MAX_REPEAT, MAX_NODES,
        MAX_STEPS; the states that are kept are bounded by MAX_STATES

Syntax      literals . [a-z] [^a] [[:alpha:]] \\d \\D \\w \\W \\s \\S \\pL \\p{Lu} \\PN, ( ) (?: ) (?P<name> )
            (?<name> ) (?i) (?i: ) with flags i m s U, | * + ? {n} {n,} {n,m} and their lazy forms, ^ $ \\A \\z
            \\b \\B, \\Q..\\E, \\a \\f \\t \\n \\r \\v \\123 \\x7F \\x{10FFFF}
Not         scripts (\\p{Greek}): refused. RE2 itself refuses \\C, look-around and back-references.

Source: RE2's syntax page; Thompson 1968; KIP-848 (subscribedTopicRegex).
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

MAX_LENGTH: Final = 8_192
"""Characters of an expression."""
MAX_DEPTH: Final = 100
"""Groups within groups; RE2 allows 1,000, more than Python's own stack likes."""
MAX_REPEAT: Final = 1_000
"""RE2's."""
MAX_NODES: Final = 2_000
"""Nodes of the automaton, after repetitions are written out: the longest name takes 250 times as many steps at most,
about a tenth of a second."""
MAX_STEPS: Final = 100_000
"""How much is looked at to build them: what matches nothing but the empty text makes no node, however often it is to be
repeated."""
MAX_STATES: Final = 1_000
"""Deterministic states that are kept."""


class InvalidPattern(Exception):
    """The expression is no RE2 expression, or too large, or uses what is left out here; says where and why."""


_ALSO_FOLDED: Final = {
    letters[0]: letters
    for letters in ["kK", "sſ", "åÅ", "ßẞ", "βϐ", "εϵ", "θϑϴ", "ιͅι", "κϰ", "μµ", "πϖ", "ρϱ", "σς", "φϕ", "ωΩ", "ṡẛ"]
}
"""Where case does not matter, what is the same as a small letter besides its capital: older signs for it, mostly."""
_DOTLESS: Final = "\u0131"
"""An i without a dot, which is no i: only Turkish has it as the small letter of I."""


class _Literal(NamedTuple):
    """A set of characters: ranges and tests, or all but these. Where case does not matter, both cases of what is named
    are in the set, or out of it."""

    ranges: tuple[tuple[str, str], ...]
    tests: tuple[Callable[[str], bool], ...] = ()
    negated: bool = False
    folds_case: bool = False

    def matches(self, char: str) -> bool:
        same: Iterable[str] = _same_letters(char) if self.folds_case else char
        found = any(low <= one <= high for low, high in self.ranges for one in same)
        return (found or any(test(one) for test in self.tests for one in same)) != self.negated


@lru_cache(maxsize=256)
def _same_letters(char: str) -> frozenset[str]:
    """The character and those that are the same where case does not matter; no text of several characters."""
    if char == _DOTLESS:
        return frozenset(char)
    upper = char.upper()
    small = (upper if len(upper) == 1 else char).lower()
    same = (char, small, small.upper(), small.title(), *_ALSO_FOLDED.get(small, ""))
    return frozenset(each for each in same if len(each) == 1)


class _Kind(Enum):
    """What stands on one side of a place between two characters."""

    NONE = "none"
    WORD = "word"
    """One of a word."""
    LINE_END = "line end"
    OTHER = "other"


class _Assert(Enum):
    """What must hold between two characters."""

    START = "start"
    END = "end"
    LINE_START = "line start"
    LINE_END = "line end"
    BOUNDARY = "boundary"
    """Of a word."""
    NO_BOUNDARY = "no boundary"


@dataclass(slots=True)
class _Sequence:
    parts: list[_Node]


@dataclass(slots=True)
class _Choice:
    options: list[_Node]


@dataclass(slots=True)
class _Repeat:
    part: _Node
    least: int
    most: int | None


_Node: TypeAlias = _Literal | _Assert | _Sequence | _Choice | _Repeat

_ANY: Final = _Literal((), negated=True)
_ANY_IN_LINE: Final = _Literal((("\n", "\n"),), negated=True)
_ASSERTS: Final = {
    "A": _Assert.START,
    "z": _Assert.END,
    "b": _Assert.BOUNDARY,
    "B": _Assert.NO_BOUNDARY,
}
_DIGIT: Final = (("0", "9"),)
_WORD: Final = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_SPACE: Final = (("\t", "\n"), ("\f", "\r"), (" ", " "))
_CLASSES: Final = {
    "d": _Literal(_DIGIT),
    "w": _Literal(_WORD),
    "s": _Literal(_SPACE),
    "D": _Literal(_DIGIT, negated=True),
    "W": _Literal(_WORD, negated=True),
    "S": _Literal(_SPACE, negated=True),
}
_NAMED: Final = {
    "alnum": (("0", "9"), ("A", "Z"), ("a", "z")),
    "alpha": (("A", "Z"), ("a", "z")),
    "ascii": (("\0", "\x7f"),),
    "blank": (("\t", "\t"), (" ", " ")),
    "cntrl": (("\0", "\x1f"), ("\x7f", "\x7f")),
    "digit": _DIGIT,
    "graph": (("!", "~"),),
    "lower": (("a", "z"),),
    "print": ((" ", "~"),),
    "punct": (("!", "/"), (":", "@"), ("[", "`"), ("{", "~")),
    "space": (("\t", "\r"), (" ", " ")),
    "upper": (("A", "Z"),),
    "word": _WORD,
    "xdigit": (("0", "9"), ("A", "F"), ("a", "f")),
}
_ESCAPES: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_CATEGORIES: Final = frozenset(("Any", *"CLMNPSZ")) | {
    first + second
    for first, seconds in (
        ("C", "cfos"),
        ("L", "lmotu"),
        ("M", "cen"),
        ("N", "dlo"),
        ("P", "cdefios"),
        ("S", "ckmo"),
        ("Z", "lps"),
    )
    for second in seconds
}


class TopicPattern:
    """A compiled expression. Raises `InvalidPattern`."""

    def __init__(self, expression: str) -> None:
        if len(expression) > MAX_LENGTH:
            raise InvalidPattern(f"the expression has {len(expression)} characters; at most {MAX_LENGTH} are allowed")
        self.expression = expression
        self._automaton = _Automaton(_Parser(expression).parse())
        self._moves: dict[tuple[frozenset[int], _Kind, str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        """Whether the whole of `name` matches."""
        state, before = frozenset((self._automaton.start,)), _Kind.NONE
        for char in name:
            following = self._moves.get((state, before, char))
            if following is None:
                following = self._automaton.step(state, before, char)
                if len(self._moves) >= MAX_STATES:
                    self._moves.clear()
                self._moves[state, before, char] = following
            if not following:
                return False
            state, before = following, _kind_of(char)
        return self._automaton.accepts(state, before)


def _kind_of(char: str) -> _Kind:
    if char == "\n":
        return _Kind.LINE_END
    return _Kind.WORD if _CLASSES["w"].matches(char) else _Kind.OTHER


class _Automaton:
    """Nodes: a literal with one follower, an assertion with one, or a fork. Node 0 accepts."""

    def __init__(self, tree: _Node) -> None:
        self._kinds: list[_Literal | _Assert | None] = [None]
        self._out: list[tuple[int, ...]] = [()]
        self._steps = 0
        self.start = self._build(tree, 0)

    def _add(self, kind: _Literal | _Assert | None, out: tuple[int, ...]) -> int:
        if len(self._kinds) >= MAX_NODES:
            raise InvalidPattern(f"the expression needs more than {MAX_NODES} nodes")
        self._kinds.append(kind)
        self._out.append(out)
        return len(self._kinds) - 1

    def _build(self, node: _Node, then: int) -> int:
        """The node's first place, when what follows it begins at `then`."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise InvalidPattern(f"the expression takes more than {MAX_STEPS} steps to build")
        match node:
            case _Literal() | _Assert():
                return self._add(node, (then,))
            case _Sequence(parts):
                for part in reversed(parts):
                    then = self._build(part, then)
                return then
            case _Choice(options):
                return self._add(None, tuple(self._build(option, then) for option in options))
            case _Repeat(part, least, most):
                if most is None:
                    loop = self._add(None, ())
                    self._out[loop] = (self._build(part, loop), then)
                    then = loop
                else:
                    end = then
                    for _ in range(most - least):
                        then = self._add(None, (self._build(part, then), end))
                for _ in range(least):
                    then = self._build(part, then)
                return then

    def step(self, state: frozenset[int], before: _Kind, char: str) -> frozenset[int]:
        """Where `char` leads to from `state`."""
        following: set[int] = set()
        for node in self._closure(state, _holding(before, _kind_of(char))):
            kind = self._kinds[node]
            if isinstance(kind, _Literal) and kind.matches(char):
                following.update(self._out[node])
        return frozenset(following)

    def accepts(self, state: frozenset[int], before: _Kind) -> bool:
        """Whether the text may end in `state`."""
        return 0 in self._closure(state, _holding(before, _Kind.NONE))

    def _closure(self, nodes: frozenset[int], holding: frozenset[_Assert]) -> set[int]:
        """All that is reached without a character."""
        found: set[int] = set()
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node in found:
                continue
            found.add(node)
            kind = self._kinds[node]
            if kind is None or kind in holding:
                waiting.extend(self._out[node])
        return found


def _holding(before: _Kind, after: _Kind) -> frozenset[_Assert]:
    """What holds between two characters."""
    holding = {_Assert.NO_BOUNDARY if (before is _Kind.WORD) == (after is _Kind.WORD) else _Assert.BOUNDARY}
    for at, whole, line in ((before, _Assert.START, _Assert.LINE_START), (after, _Assert.END, _Assert.LINE_END)):
        if at is _Kind.NONE:
            holding |= {whole, line}
        elif at is _Kind.LINE_END:
            holding.add(line)
    return frozenset(holding)


class _Parser:
    """Recursive descent over the expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._flags = frozenset[str]()

    def parse(self) -> _Node:
        tree = self._choice()
        if self._at < len(self._text):
            raise self._wrong("unexpected )")
        return tree

    def _wrong(self, why: str) -> InvalidPattern:
        return InvalidPattern(f"{why} at {self._at} of {self._text[:100]!r}")

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else ""

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise self._wrong("ends too early")
        self._at += 1
        return char

    def _taken(self, literal: str) -> bool:
        if self._text.startswith(literal, self._at):
            self._at += len(literal)
            return True
        return False

    def _until(self, end: str) -> str:
        stop = self._text.find(end, self._at)
        if stop < 0:
            raise self._wrong(f"missing {end}")
        found = self._text[self._at : stop]
        self._at = stop + len(end)
        return found

    def _choice(self) -> _Node:
        options = [self._sequence()]
        while self._taken("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else _Choice(options)

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            if self._taken("\\Q"):
                stop = self._text.find("\\E", self._at)
                quoted = self._text[self._at : stop if stop >= 0 else len(self._text)]
                self._at = len(self._text) if stop < 0 else stop + 2
                parts.extend(self._literal(char) for char in quoted[:-1])
                if quoted:
                    parts.append(self._repeated(self._literal(quoted[-1])))
                continue
            part = self._one()
            if part is not None:
                parts.append(self._repeated(part))
            elif parts:
                parts[-1] = self._repeated(parts[-1])  # What follows flags may repeat what is before them.
        return _Sequence(parts)

    def _repeated(self, part: _Node) -> _Node:
        repeated = False
        while True:
            begin = self._at
            if self._taken("*"):
                bounds: tuple[int, int | None] | None = (0, None)
            elif self._taken("+"):
                bounds = (1, None)
            elif self._taken("?"):
                bounds = (0, 1)
            else:
                bounds = self._bounds()
            if bounds is None:
                return part
            if repeated:
                self._at = begin
                raise self._wrong("a repetition of a repetition")
            self._taken("?")
            repeated = True
            part = _Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        """{n}, {n,} or {n,m}; anything else in braces is a literal, as in RE2."""
        stop = self._text.find("}", self._at)
        if self._peek() != "{" or stop < 0:
            return None
        low, comma, high = self._text[self._at + 1 : stop].partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            return None
        least = int(low[:6])
        most = least if not comma else int(high[:6]) if high else None
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self._wrong(f"a repetition outside of 0 to {MAX_REPEAT}")
        self._at = stop + 1
        return least, most

    def _one(self) -> _Node | None:
        if self._bounds() is not None:
            raise self._wrong("a repetition of nothing")
        char = self._take()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._set()
            case ".":
                return _ANY if "s" in self._flags else _ANY_IN_LINE
            case "^":
                return _Assert.LINE_START if "m" in self._flags else _Assert.START
            case "$":
                return _Assert.LINE_END if "m" in self._flags else _Assert.END
            case "*" | "+" | "?":
                raise self._wrong("a repetition of nothing")
            case "\\":
                return self._escape()
            case _:
                return self._literal(char)

    @property
    def _folds_case(self) -> bool:
        return "i" in self._flags

    def _literal(self, char: str) -> _Literal:
        return _Literal(((char, char),), folds_case=self._folds_case)

    def _group(self) -> _Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._wrong(f"more than {MAX_DEPTH} groups within groups")
        before = self._flags
        if self._taken("?P<") or (self._text.startswith("?<", self._at) and self._taken("?<")):
            name = self._until(">")
            if not name or not all(char == "_" or (char.isascii() and char.isalnum()) for char in name):
                raise self._wrong(f"{name!r} is not a name of a group")
        elif self._taken("?") and self._set_flags():
            self._depth -= 1
            return None  # (?i) holds to the end of the group around it.
        inner = self._choice()
        if not self._taken(")"):
            raise self._wrong("missing )")
        self._flags = before
        self._depth -= 1
        return inner

    def _set_flags(self) -> bool:
        """Flags after (?; whether they stand alone."""
        on, needs_one = True, False
        while True:
            match self._take():
                case "i" | "m" | "s" | "U" as flag:  # U has no effect: which match is found first does not matter.
                    self._flags = self._flags | {flag} if on else self._flags - {flag}
                    needs_one = False
                case "-" if on:
                    on, needs_one = False, True
                case ":" | ")" as end if not needs_one:
                    return end == ")"
                case other:
                    self._at -= 1
                    raise self._wrong(f"{other!r} is no flag")

    def _escape(self) -> _Node:
        char = self._take()
        if char in _CLASSES:
            return _CLASSES[char]._replace(folds_case=self._folds_case)
        if char in "pP":
            return self._category(negated=char == "P")
        if char in _ASSERTS:
            return _ASSERTS[char]
        return self._literal(self._escaped(char))

    def _escaped(self, char: str) -> str:
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "x":
            digits = self._until("}") if self._taken("{") else self._take() + self._take()
            return self._code(digits, 16)
        if char in "01234567":
            # A digit alone would be a back-reference, but for 0.
            digits = char
            while len(digits) < 3 and self._peek() and self._peek() in "01234567":
                digits += self._take()
            if char != "0" and len(digits) == 1:
                raise self._wrong("a back-reference")
            return self._code(digits, 8)
        if char.isascii() and char.isalnum():
            raise self._wrong(f"unknown escape \\{char}")
        return char

    def _code(self, digits: str, base: int) -> str:
        try:
            if not set(digits) <= set(string.hexdigits):
                raise ValueError(digits)
            return chr(int(digits, base))
        except (ValueError, OverflowError) as failure:
            raise self._wrong(f"{digits!r} is no character") from failure

    def _category(self, *, negated: bool) -> _Literal:
        name = self._until("}") if self._taken("{") else self._take()
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if name not in _CATEGORIES:
            raise self._wrong(f"unknown or unsupported class {name!r}")
        begin = "" if name == "Any" else name
        return _Literal((), (lambda char: unicodedata.category(char).startswith(begin),), negated, self._folds_case)

    def _set(self) -> _Literal:
        negated = self._taken("^")
        ranges: list[tuple[str, str]] = []
        tests: list[Callable[[str], bool]] = []
        first = True
        while first or self._peek() != "]":
            if not self._peek():
                raise self._wrong("missing ]")
            first = False
            if self._text.find(":]", self._at) > 0 and self._taken("[:"):
                tests.append(self._named().matches)
                continue
            low = self._take()
            if low == "\\":
                escape = self._take()
                if escape in _CLASSES:
                    tests.append(_CLASSES[escape]._replace(folds_case=self._folds_case).matches)
                    continue
                if escape in "pP":
                    tests.append(self._category(negated=escape == "P").matches)
                    continue
                low = self._escaped(escape)
            high = low
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._take()
                if high == "\\":
                    high = self._escaped(self._take())
                if high < low:
                    raise self._wrong(f"the range {low}-{high} is empty")
            ranges.append((low, high))
        self._at += 1
        return _Literal(tuple(ranges), tuple(tests), negated, self._folds_case)

    def _named(self) -> _Literal:
        wanted = self._until(":]")
        name = wanted.removeprefix("^")
        if name not in _NAMED:
            raise self._wrong(f"unknown class {wanted!r}")
        return _Literal(_NAMED[name], (), wanted != name, self._folds_case)


def _is_number(digits: str) -> bool:
    """Without zeros before it: RE2 takes those for text."""
    return digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0")
