"""BoundedPattern: a regular expression of the operator's, matched with a text of a client's in bounded time.

Decides whether and how it matches, as Java would. Must not know what rules make of that. Python's `re` tries all ways,
and holds every thread up meanwhile: Kafka's own example of a mapping rule, six times `(.*?)`, takes minutes with a
certificate of 120 parts, here as in Java. Here no place of the pattern is tried twice at a place of the text.

    I1  a match takes at most MAX_STEPS, or is given up (TooLaborious)
    I2  which match is found, and what its groups are, is as in Java: the first way that fits, alternatives in order;
        what is repeated and was empty is not repeated again, and its groups count
    I3  as in Java, classes (\\w, \\d, \\s) and (?i) know ASCII only, and "." fits none of five ends of a line
    I4  a pattern that Python reads otherwise than Java is refused: sets within sets, [a&&b], \\v, \\101

Python's own parser reads the pattern, so that its syntax is that of `re`, with Java's (?<name>...), \\Z and \\z.

Source: Cox, "Regular Expression Matching: the Virtual Machine Approach" (2009); RE2's BitState; java.util.regex.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from enum import Enum, auto
from re import _constants as sre  # type: ignore[attr-defined]  # private: typeshed does not have it
from re import _parser as sre_parser  # type: ignore[attr-defined]  # the same; a test compares with `re` whole
from typing import Any, Final, NamedTuple, TypeAlias

MAX_STEPS: Final = 50_000
"""About 50 ms. A name of 100 characters and a pattern of six groups take 1,000."""
MAX_PLACES: Final = 5_000
"""Of a pattern, after repetitions are written out."""
_LINE_ENDS: Final = frozenset("\n\r\x85\u2028\u2029")
_LAST_LINE_ENDS: Final = _LINE_ENDS | {"\r\n"}
_DIGITS: Final = frozenset("0123456789")
_SPACES: Final = frozenset(" \t\n\r\f\v")
_WORDS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")

Test: TypeAlias = Callable[[str], bool]


class TooLaborious(ValueError):
    """It takes too long to say whether the pattern matches."""


class Match(NamedTuple):
    """Where it matches, and its groups by number; 0 is all of it, None one that took no part."""

    start: int
    end: int
    groups: tuple[str | None, ...]

    def group(self, number: int) -> str:
        """A group's text; of one that took no part it is empty."""
        return self.groups[number] or ""


class _Do(Enum):
    TEST = auto()
    FORK = auto()
    JUMP = auto()
    SAVE = auto()
    AT = auto()
    LOOK = auto()
    PROGRESS = auto()
    ATOMIC = auto()
    REPEAT_GROUP = auto()
    DONE = auto()


_Place: TypeAlias = tuple[_Do, Any, Any, tuple[int, ...]]
"""What is done, with what; and the marks of the repetitions around it that may be empty: where this turn began."""


class BoundedPattern:
    """Raises ValueError for a text that is no pattern, or one that is left out here (`I4`, conditional groups)."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", FutureWarning)
                tree = sre_parser.parse(_as_python_has_it(text), re.ASCII)
        except (re.error, FutureWarning, RecursionError, OverflowError) as error:
            raise ValueError(str(error)) from error
        self.group_count: int = tree.state.groups - 1
        self.names: dict[str, int] = dict(tree.state.groupdict)
        builder = _Builder(2 * self.group_count + 2)
        self._places = builder.whole(tree, tree.state.flags)
        self._marks = builder.marks
        self._remembers = not builder.repeats_groups

    def fullmatch(self, text: str) -> Match | None:
        """The match of the whole text. Raises TooLaborious."""
        run = _Run(text, remembers=self._remembers)
        return self._match(text, 0, run.match(self._places, 0, self._no_groups(), set(), whole=True))

    def find_all(self, text: str) -> Iterable[Match]:
        """Its matches in the text, one after another, as Java's find. Raises TooLaborious."""
        run, at = _Run(text, remembers=self._remembers), 0
        while at <= len(text):
            seen: set[object] = set()  # What fails from a place of the text fails wherever the match began.
            for start in range(at, len(text) + 1):
                found = self._match(text, start, run.match(self._places, start, self._no_groups(), seen, whole=False))
                if found is not None:
                    break
            else:
                return
            yield found
            at = found.end if found.end > found.start else found.end + 1

    def _no_groups(self) -> list[int]:
        return [-1] * self._marks

    def _match(self, text: str, start: int, found: tuple[int, list[int]] | None) -> Match | None:
        if found is None:
            return None
        end, marks = found
        groups = [
            text[marks[2 * number] : marks[2 * number + 1]] if marks[2 * number + 1] >= 0 else None
            for number in range(1, self.group_count + 1)
        ]
        return Match(start, end, (text[start:end], *groups))


_TOKEN: Final = re.compile(r"\\[1-9][0-7]{2}|\\.|\(\?<([A-Za-z][A-Za-z0-9]*)>|\[\^?\]?|.", re.DOTALL | re.ASCII)
_PYTHONS: Final = {r"\Z": "(?-m:$)", r"\z": r"\Z"}
"""What Java's ends of a text are called."""


def _as_python_has_it(pattern: str) -> str:
    """The pattern with Python's forms for Java's. Raises ValueError for what means another thing to Python (I4)."""
    made = list[str]()
    in_set = False
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if text == r"\v" or (text[0] == "\\" and len(text) > 2):
            raise ValueError(f"{text} means another thing in Java")
        if in_set and text[0] == "[":
            raise ValueError("a set within a set")
        if in_set:
            in_set = text != "]"
        elif text[0] == "[":
            in_set = True
        elif token[1] is not None:
            text = f"(?P<{token[1]}>"
        else:
            text = _PYTHONS.get(text, text)
        made.append(text)
    return "".join(made)


# -- matching


class _Run:
    """The matching of one text. `remembers`: no place is tried twice; a group that is asked for again forbids it."""

    def __init__(self, text: str, *, remembers: bool) -> None:
        self._text = text
        self._remembers = remembers
        self._left = MAX_STEPS

    def match(
        self, places: list[_Place], at: int, marks: list[int], seen: set[object], *, whole: bool
    ) -> tuple[int, list[int]] | None:
        """The match that begins at `at`: its end, and where its groups are."""
        text, size, width = self._text, len(self._text), len(self._text) + 1
        waiting: list[tuple[int, int, bool]] = [(0, at, False)]
        while waiting:
            place, at, undoes = waiting.pop()
            if undoes:
                marks[place] = at
                continue
            while True:
                self._left -= 1
                if self._left < 0:
                    raise TooLaborious(f"more than {MAX_STEPS} steps")
                do, one, other, turns = places[place]
                if self._remembers:
                    key: object = place * width + at
                    if turns:
                        key = (key, *(marks[turn] == at for turn in turns))
                    if key in seen:
                        break
                    seen.add(key)
                if do is _Do.TEST:
                    if at >= size or not one(text[at]):
                        break
                    at += 1
                elif do is _Do.FORK:
                    waiting.append((other, at, False))
                    place = one
                    continue
                elif do is _Do.JUMP:
                    place = one
                    continue
                elif do is _Do.SAVE:
                    waiting.append((one, marks[one], True))
                    marks[one] = at
                elif do is _Do.PROGRESS:
                    if marks[one] == at:
                        place = other
                        continue
                elif do is _Do.DONE:
                    if whole and at != size:
                        break
                    return at, marks
                else:
                    before = marks.copy()
                    following = self._special(do, one, other, at, marks)
                    if following is None:
                        marks[:] = before
                        break
                    waiting.extend((slot, was, True) for slot, was in enumerate(before) if marks[slot] != was)
                    at = following
                place += 1
        return None

    def _special(self, do: _Do, one: Any, other: Any, at: int, marks: list[int]) -> int | None:
        """Where it goes on, None: nowhere."""
        text = self._text
        if do is _Do.AT:
            return at if one(text, at) else None
        if do is _Do.REPEAT_GROUP:
            begin, end = int(marks[2 * one]), int(marks[2 * one + 1])
            if end < begin or end < 0 or not text.startswith(text[begin:end], at):
                return None
            return at + end - begin
        if do is _Do.ATOMIC:
            found = self.match(one, at, marks, set(), whole=False)
            return None if found is None else found[0]
        back, wanted = other
        found = None if at < back else self.match(one, at - back, marks, set(), whole=False)
        return at if (found is not None) == wanted else None


# -- building


class _Builder:
    """Makes places of the tree that Python's parser gives."""

    def __init__(self, marks: int) -> None:
        self.marks = marks
        """How many there are: two of each group, then one for each depth of repetitions that may be empty."""
        self._next_mark = marks
        self._count = 0
        self._turns: tuple[int, ...] = ()
        self.repeats_groups = False

    def whole(self, tree: Any, flags: int) -> list[_Place]:
        places: list[_Place] = []
        around, self._turns = self._turns, ()
        self._sequence(places, tree, flags)
        self._turns = around
        self._add(places, _Do.DONE)
        return places

    def _add(self, places: list[_Place], do: _Do, one: Any = None, other: Any = None) -> int:
        self._count += 1
        if self._count > MAX_PLACES:
            raise ValueError(f"the pattern has more than {MAX_PLACES} places")
        places.append((do, one, other, self._turns))
        return len(places) - 1

    def _sequence(self, places: list[_Place], parts: Any, flags: int) -> None:
        for kind, value in parts:
            self._part(places, kind, value, flags)

    def _part(self, places: list[_Place], kind: Any, value: Any, flags: int) -> None:
        if kind in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            self._add(places, _Do.TEST, _test(kind, value, flags))
        elif kind is sre.SUBPATTERN:
            self._group(places, value, flags)
        elif kind is sre.BRANCH:
            self._branch(places, value[1], flags)
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            self._repeat(places, value, flags, is_lazy=kind is sre.MIN_REPEAT)
        elif kind is sre.POSSESSIVE_REPEAT:
            self._add(places, _Do.ATOMIC, self.whole([(sre.MAX_REPEAT, value)], flags))
        elif kind is sre.ATOMIC_GROUP:
            self._add(places, _Do.ATOMIC, self.whole(value, flags))
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            direction, inner = value
            back = inner.getwidth()[0] if direction < 0 else 0
            self._add(places, _Do.LOOK, self.whole(inner, flags), (back, kind is sre.ASSERT))
        elif kind is sre.GROUPREF:
            self.repeats_groups = True
            self._add(places, _Do.REPEAT_GROUP, value)
        elif kind is sre.AT:
            self._add(places, _Do.AT, _ats(value, flags))
        else:
            raise ValueError(f"{kind} is not known here")

    def _group(self, places: list[_Place], value: Any, flags: int) -> None:
        number, added, removed, inner = value
        flags = (flags | added) & ~removed
        if number is not None:
            self._add(places, _Do.SAVE, 2 * number)
        self._sequence(places, inner, flags)
        if number is not None:
            self._add(places, _Do.SAVE, 2 * number + 1)

    def _branch(self, places: list[_Place], options: Any, flags: int) -> None:
        ends = []
        for option in options[:-1]:
            fork = self._add(places, _Do.FORK)
            self._sequence(places, option, flags)
            ends.append(self._add(places, _Do.JUMP))
            places[fork] = (_Do.FORK, fork + 1, len(places), self._turns)
        self._sequence(places, options[-1], flags)
        for end in ends:
            places[end] = (_Do.JUMP, len(places), None, self._turns)

    def _repeat(self, places: list[_Place], value: Any, flags: int, *, is_lazy: bool) -> None:
        least, most, inner = value
        ends, forks = list[int](), list[int]()
        for _ in range(least):
            self._add_step()
            self._turn(places, inner, flags, ends)
        if most is sre.MAXREPEAT:
            forks.append(self._add(places, _Do.FORK))
            self._turn(places, inner, flags, ends)
            self._add(places, _Do.JUMP, forks[0])
        else:
            for _ in range(most - least):
                forks.append(self._add(places, _Do.FORK))
                self._turn(places, inner, flags, ends)
        after = len(places)
        for fork in forks:
            places[fork] = (_Do.FORK, *((after, fork + 1) if is_lazy else (fork + 1, after)), self._turns)
        for end in ends:
            do, mark, _, turns = places[end]
            places[end] = (do, mark, after, turns)

    def _turn(self, places: list[_Place], inner: Any, flags: int, ends: list[int]) -> None:
        """What is repeated, once. Where it was empty, the repetition is over: such places are added to `ends`."""
        if inner.getwidth()[0] > 0:
            self._sequence(places, inner, flags)
            return
        mark, around = self._next_mark, self._turns
        self._next_mark += 1
        self.marks = max(self.marks, self._next_mark)
        self._add(places, _Do.SAVE, mark)
        self._turns = (*around, mark)
        self._sequence(places, inner, flags)
        ends.append(self._add(places, _Do.PROGRESS, mark))
        self._turns = around
        self._next_mark = mark

    def _add_step(self) -> None:
        """A repetition counts, also of what makes no place."""
        self._count += 1
        if self._count > MAX_PLACES:
            raise ValueError(f"the pattern has more than {MAX_PLACES} places")


def _test(kind: Any, value: Any, flags: int) -> Test:
    """Whether a character fits."""
    if kind is sre.ANY:
        return (lambda char: True) if flags & re.DOTALL else (lambda char: char not in _LINE_ENDS)
    items = list(value) if kind is sre.IN else [(sre.LITERAL, value)]
    negated = kind is sre.NOT_LITERAL
    if items and items[0][0] is sre.NEGATE:
        negated = True
        del items[0]
    tests = [_item(*item) for item in items]
    if flags & re.IGNORECASE:
        return lambda char: any(test(char) or test(_other_case(char)) for test in tests) != negated
    if len(tests) == 1 and not negated:
        return tests[0]
    return lambda char: any(test(char) for test in tests) != negated


def _item(kind: Any, value: Any) -> Test:
    if kind is sre.LITERAL:
        wanted = chr(value)
        return lambda char: char == wanted
    if kind is sre.RANGE:
        low, high = map(chr, value)
        return lambda char: low <= char <= high
    found, negated = _CATEGORIES[value]
    return lambda char: (char in found) != negated


_CATEGORIES: Final[dict[Any, tuple[frozenset[str], bool]]] = {
    sre.CATEGORY_DIGIT: (_DIGITS, False),
    sre.CATEGORY_NOT_DIGIT: (_DIGITS, True),
    sre.CATEGORY_SPACE: (_SPACES, False),
    sre.CATEGORY_NOT_SPACE: (_SPACES, True),
    sre.CATEGORY_WORD: (_WORDS, False),
    sre.CATEGORY_NOT_WORD: (_WORDS, True),
}


def _other_case(char: str) -> str:
    return char.swapcase() if char.isascii() else char


def _is_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and text[at] in _WORDS


def _is_within_end(text: str, at: int) -> bool:
    """Between the two characters of one end of a line."""
    return text[max(at - 1, 0) : at + 1] == "\r\n"


def _ats(kind: Any, flags: int) -> Callable[[str, int], bool]:
    """Whether a place of the text is the start, the end, or where a word begins or ends."""
    if kind is sre.AT_BEGINNING and flags & re.MULTILINE:
        return lambda text, at: (
            at < len(text) and (at == 0 or (text[at - 1] in _LINE_ENDS and not _is_within_end(text, at)))
        )
    if kind in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
        return lambda text, at: at == 0
    if kind is sre.AT_END_STRING:
        return lambda text, at: at == len(text)
    if kind is sre.AT_END:
        if flags & re.MULTILINE:
            return lambda text, at: at == len(text) or (text[at] in _LINE_ENDS and not _is_within_end(text, at))
        return lambda text, at: at == len(text) or (text[at:] in _LAST_LINE_ENDS and not _is_within_end(text, at))
    wanted = kind is sre.AT_BOUNDARY
    return lambda text, at: (_is_word(text, at - 1) != _is_word(text, at)) == wanted
