"""TopicPattern: regular expressions over topic names, in RE2's syntax and with RE2's promise: linear time.

Decides which names an expression matches as a whole. Must not know groups. Python's own `re` backtracks, so that a
client could stop the broker with one expression; here an expression becomes a non-deterministic automaton whose
deterministic states are made as names need them.

    I1  a name of n characters takes at most n steps, each of at most as many moves as the automaton has nodes
    I2  an expression that is too large is refused when it is compiled: MAX_LENGTH, MAX_DEPTH, MAX_REPEAT, MAX_NODES,
        MAX_STEPS; the states that are kept are bounded by MAX_STATES

Syntax      literals . [a-z] [^a] [[:alpha:]] \\d \\D \\w \\W \\s \\S \\pL \\p{Lu} \\PN, ( ) (?: ) (?P<name> )
            (?<name> ) (?i) (?i: ) with flags i m s U, | * + ? {n} {n,} {n,m} and their lazy forms, ^ $ \\A \\z,
            \\Q..\\E, \\a \\f \\t \\n \\r \\v \\123 \\x7F \\x{10FFFF}
Not         \\b \\B \\C, scripts (\\p{Greek}): refused. RE2 itself refuses look-around and back-references.

Source: RE2's syntax page; Thompson 1968; KIP-848 (subscribedTopicRegex).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
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


class _Chars(NamedTuple):
    """A set of characters: ranges and tests, or all but these."""

    ranges: tuple[tuple[str, str], ...]
    tests: tuple[Callable[[str], bool], ...] = ()
    negated: bool = False

    def matches(self, char: str) -> bool:
        found = any(low <= char <= high for low, high in self.ranges) or any(test(char) for test in self.tests)
        return found != self.negated


@dataclass(slots=True)
class _Literal:
    chars: _Chars
    folds_case: bool


@dataclass(slots=True)
class _Assert:
    at_start: bool


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

_ANY: Final = _Chars((), negated=True)
_DIGIT: Final = (("0", "9"),)
_WORD: Final = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_SPACE: Final = (("\t", "\n"), ("\f", "\r"), (" ", " "))
_CLASSES: Final = {
    "d": _Chars(_DIGIT),
    "w": _Chars(_WORD),
    "s": _Chars(_SPACE),
    "D": _Chars(_DIGIT, negated=True),
    "W": _Chars(_WORD, negated=True),
    "S": _Chars(_SPACE, negated=True),
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
_CATEGORIES: Final = frozenset("CLMNPSZ") | {
    first + second
    for first, seconds in (
        ("C", "cfnos"),
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
        self._start = self._automaton.closure((self._automaton.start,), at_start=True)
        self._moves: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        """Whether the whole of `name` matches."""
        state = self._start
        for char in name:
            following = self._moves.get((state, char))
            if following is None:
                following = self._automaton.step(state, char)
                if len(self._moves) >= MAX_STATES:
                    self._moves.clear()
                self._moves[state, char] = following
            if not following:
                return False
            state = following
        return self._automaton.accepts(state, at_start=not name)


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

    def closure(self, nodes: tuple[int, ...], *, at_start: bool = False, at_end: bool = False) -> frozenset[int]:
        """All that is reached without a character."""
        found: set[int] = set()
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node in found:
                continue
            found.add(node)
            kind = self._kinds[node]
            if kind is None or (isinstance(kind, _Assert) and (at_start if kind.at_start else at_end)):
                waiting.extend(self._out[node])
        return frozenset(found)

    def step(self, state: frozenset[int], char: str) -> frozenset[int]:
        following: list[int] = []
        for node in sorted(state):
            kind = self._kinds[node]
            if isinstance(kind, _Literal) and _matches(kind, char):
                following.extend(self._out[node])
        return self.closure(tuple(following))

    def accepts(self, state: frozenset[int], *, at_start: bool) -> bool:
        return 0 in self.closure(tuple(sorted(state)), at_start=at_start, at_end=True)


def _matches(literal: _Literal, char: str) -> bool:
    if literal.chars.matches(char):
        return True
    if not literal.folds_case:
        return False
    return any(other != char and literal.chars.matches(other) for other in (char.lower(), char.upper()))


class _Parser:
    """Recursive descent over the expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._folds_case = False

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
            if part is None:
                continue
            parts.append(self._repeated(part))
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
        if not low.isascii() or not low.isdigit() or (high and not (high.isascii() and high.isdigit())):
            return None
        least = int(low[:6])
        most = least if not comma else int(high[:6]) if high else None
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self._wrong(f"a repetition outside of 0 to {MAX_REPEAT}")
        self._at = stop + 1
        return least, most

    def _one(self) -> _Node | None:
        char = self._take()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._literal_set(self._set())
            case ".":
                return self._literal_set(_ANY)
            case "^":
                return _Assert(at_start=True)
            case "$":
                return _Assert(at_start=False)
            case "*" | "+" | "?":
                raise self._wrong("a repetition of nothing")
            case "\\":
                return self._escape()
            case _:
                return self._literal(char)

    def _literal(self, char: str) -> _Literal:
        return _Literal(_Chars(((char, char),)), self._folds_case)

    def _literal_set(self, chars: _Chars) -> _Literal:
        return _Literal(chars, self._folds_case)

    def _group(self) -> _Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._wrong(f"more than {MAX_DEPTH} groups within groups")
        before = self._folds_case
        if self._taken("?P<") or (self._text.startswith("?<", self._at) and self._taken("?<")):
            name = self._until(">")
            if not name or not all(char == "_" or (char.isascii() and char.isalnum()) for char in name):
                raise self._wrong(f"{name!r} is not a name of a group")
        elif self._taken("?") and self._flags():
            self._depth -= 1
            return None  # (?i) holds to the end of the group around it.
        inner = self._choice()
        if not self._taken(")"):
            raise self._wrong("missing )")
        self._folds_case = before
        self._depth -= 1
        return inner

    def _flags(self) -> bool:
        """Flags after (?; whether they stand alone."""
        on = True
        while True:
            match self._take():
                case "i":
                    self._folds_case = on
                case "m" | "s" | "U":
                    pass  # Names have no lines, and which match is found first does not matter.
                case "-" if on:
                    on = False
                case ":":
                    return False
                case ")":
                    return True
                case other:
                    self._at -= 1
                    raise self._wrong(f"{other!r} is no flag")

    def _escape(self) -> _Node:
        char = self._take()
        if char in _CLASSES:
            return self._literal_set(_CLASSES[char])
        if char in "pP":
            return self._literal_set(self._category(negated=char == "P"))
        if char == "A":
            return _Assert(at_start=True)
        if char == "z":
            return _Assert(at_start=False)
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
            return chr(int(digits, base))
        except (ValueError, OverflowError) as failure:
            raise self._wrong(f"{digits!r} is no character") from failure

    def _category(self, *, negated: bool) -> _Chars:
        name = self._until("}") if self._taken("{") else self._take()
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if name not in _CATEGORIES:
            raise self._wrong(f"unknown or unsupported class {name!r}")
        return _Chars((), (lambda char: unicodedata.category(char).startswith(name),), negated)

    def _set(self) -> _Chars:
        negated = self._taken("^")
        ranges: list[tuple[str, str]] = []
        tests: list[Callable[[str], bool]] = []
        first = True
        while first or self._peek() != "]":
            if not self._peek():
                raise self._wrong("missing ]")
            first = False
            if self._taken("[:"):
                wanted = self._until(":]")
                inverted = wanted.startswith("^")
                if wanted.lstrip("^") not in _NAMED:
                    raise self._wrong(f"unknown class {wanted!r}")
                tests.append(_Chars(_NAMED[wanted.lstrip("^")], (), inverted).matches)
                continue
            low = self._take()
            if low == "\\":
                escape = self._take()
                if escape in _CLASSES:
                    tests.append(_CLASSES[escape].matches)
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
        return _Chars(tuple(ranges), tuple(tests), negated)
