"""Translates the English sentences of brokers and errors into the reader's language.

Recognises a sentence by its form: `broker {n} is not alive` is the form of every sentence that the code makes with
those words. Each form has its translation (translations/sentences_zh.json). A value may be a sentence itself, and
several sentences may follow one another, joined by "; ". Must not know who wrote a sentence, nor any page.

The module recognises sentences, because a why-record is stored as a sentence, not as a form with values: `why` is what
people read in the topic, in logs and in files. Pages also show records that older brokers wrote. The forms of former
versions are kept in translations/former_sentences_zh.json. A sentence that is not recognised is shown unchanged, and
pages mark it as English.

    I1  each form of sentences_zh.json is one that the code has: a test finds the form of a changed sentence. Move it
        to the former forms if it is one of a why-record or of a job
    I2  a text of any length and content costs a bounded time: MAX_TEXT characters, MAX_DEPTH sentences in one another
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, lru_cache
from importlib.resources import files
from string import Formatter
from typing import Final, NamedTuple

MAX_TEXT: Final = 2_000
MAX_DEPTH: Final = 5
MAX_ROW: Final = 12
"""Sentences in a row."""
FILE: Final = "sentences_zh.json"
FORMER_FILE: Final = "former_sentences_zh.json"
"""Forms of stored sentences that former versions wrote."""
REMEMBERED: Final = 4_096
"""Sentences whose translation is remembered."""


class Value(Enum):
    """What a value may consist of, by its name."""

    NUMBER = r"-?\d+(?:[.,]\d+)*"
    LIST = r"[\[(][-\d, ]*[\])]|-?\d+(?:, ?-?\d+)*"
    """Of brokers."""
    WORD = r"[^\s;]*"
    PHRASE = r".*?"
    """A part of the sentence: nothing, or of a known form."""
    SENTENCE = r"(?s:.*?)"
    """Anything, several sentences, too."""
    NAME = r"(?:(?!; ).)*?"
    """Anything but several sentences."""


VALUES: Final = {
    Value.NUMBER: """added all broker count deliveries end epoch first factor generation known last
        leader least limit minutes moved ms n number own percent present rate registered seconds
        seed size start until usable version watermark""",
    Value.LIST: "adding after before brokers dropped gone isr keep out replicas target trusted",
    Value.WORD: "address host peer",
    Value.PHRASE: "cause does has kind leave lost members more records said since waited whose",
    Value.SENTENCE: "problem reason remark then what why",
}
"""The names of the forms' values; any other is a NAME."""
_KINDS: Final = {name: kind for kind, names in VALUES.items() for name in names.split()}


def kind_of(name: str) -> Value:
    """The kind of value that has this name."""
    return _KINDS.get(name, Value.NAME)


class _Form(NamedTuple):
    """`needle` is the longest piece that every sentence of this form has."""

    pattern: re.Pattern[str]
    needle: str
    said: str


@lru_cache(maxsize=REMEMBERED)
def said_in_chinese(text: str) -> str | None:
    """The sentence in Chinese; None if its form is not known."""
    return _said(text, 0) if len(text) <= MAX_TEXT else None


@cache
def forms(file: str = FILE) -> Mapping[str, str]:
    """English to Chinese."""
    text = files("kavka.console").joinpath("translations", file).read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text)
    return found


@cache
def _forms() -> tuple[_Form, ...]:
    known = {**forms(FORMER_FILE), **forms()}
    return tuple(
        _Form(pattern_of(form, lambda name: kind_of(name).value), max(_pieces(form), key=len), known[form])
        for form in most_exact_first(known)
    )


def most_exact_first(forms: Iterable[str]) -> list[str]:
    """Those with more words of their own come first: they say more exactly what is meant."""
    return sorted(forms, key=lambda form: -sum(map(len, _pieces(form))))


def _pieces(form: str) -> list[str]:
    return [piece for piece, *_ in Formatter().parse(form)]


def pattern_of(form: str, value: Callable[[str], str]) -> re.Pattern[str]:
    """What each sentence of the form matches. `value` says, by its name, what a value looks like."""
    parts = []
    for piece, name, *_ in Formatter().parse(form):
        parts.append(re.escape(piece))
        if name is not None:
            parts.append(f"(?P<{name}>{value(name)})")
    return re.compile("".join(parts), re.DOTALL)


def _said(text: str, depth: int) -> str | None:
    if depth > MAX_DEPTH:
        return None
    for form in _forms():
        if form.needle in text and (match := form.pattern.fullmatch(text)) is not None:
            values = {name: (value, _said(value, depth + 1)) for name, value in match.groupdict().items()}
            if all(
                said is not None or not value or kind_of(name) is not Value.PHRASE
                for name, (value, said) in values.items()
            ):
                return form.said.format_map({name: said or value for name, (value, said) in values.items()})
    return _row(text, depth)


def _row(text: str, depth: int) -> str | None:
    """Several sentences, all of which are known."""
    parts = text.split("; ", MAX_ROW)
    if len(parts) == 1:
        return None
    said = [_said(part, depth + 1) for part in parts]
    known = [each for each in said if each is not None]
    return "；".join(known) if len(known) == len(said) else None
