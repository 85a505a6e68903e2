"""Translator: the console's texts in the reader's language, English or Chinese.

Decides which language a request wants, and what a text is in it. The English sentence is the key, so that a template
reads as its page does, and what nobody translated yet is shown in English. Must not know any page.

    I1  a value that is put into a text is escaped; the text itself is ours
    I2  each text of a template has its Chinese (tests/unit/console/test_translations.py)

The catalogues are translations/zh*.json: one object each, English to Chinese, merged.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from kavka.console.look.sentence_translation import said_in_chinese

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

ENGLISH: Final = "en"
CHINESE: Final = "zh"
LANGUAGES: Final[Mapping[str, str]] = {ENGLISH: "English", CHINESE: "中文"}
"""Each with what its readers call it."""
COOKIE: Final = "kavka_language"
SAID_BETTER: Final[Mapping[str, str]] = {"broker came": "broker joined", "broker went": "broker left"}
"""Words that stand in records of decisions, and would be others today."""
MAX_WISHES: Final = 8
"""How many entries of an Accept-Language header are looked at."""


class Translator:
    """Calls give a text in one language, with its values put in."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._texts: Mapping[str, str] = catalogue() if language == CHINESE else SAID_BETTER

    def __call__(self, text: str, /, **values: object) -> Markup:
        """`text` in this language; each {name} in it is the value of that name, escaped."""
        found = Markup(self._texts.get(text, text))
        return found.format(**values) if values else found

    def several(self, one: str, many: str, count: int, /, **values: object) -> Markup:
        """`one` or `many` by `count`, which both may show as {n}. Chinese has one form, that of `many`."""
        chosen = one if count == 1 and self.language == ENGLISH else many
        return self(chosen, **{"n": f"{count:,}", **values})

    def plain(self, text: str) -> Markup | str:
        """A text that came at run time: ours if it is in the catalogue, else whoever's it is, to be escaped."""
        found = self._texts.get(text)
        if found is not None:
            return Markup(found)
        return self.sentence(text) or text

    def sentence(self, text: str) -> str | None:
        """A sentence of a broker or of an error in this language, to be escaped; None where it is as it came."""
        return said_in_chinese(text) if self.language == CHINESE else None


def language_of(request: Request) -> str:
    """What the reader chose, else the first language of Accept-Language that there is, else English."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    for wish in request.headers.get("accept-language", "").split(",")[:MAX_WISHES]:
        primary = wish.split(";")[0].strip().lower().split("-")[0]
        if primary in LANGUAGES:
            return primary
    return ENGLISH


@cache
def translator(language: str) -> Translator:
    """The translator into `language`, which is one of LANGUAGES."""
    return Translator(language if language in LANGUAGES else ENGLISH)


@cache
def catalogue() -> Mapping[str, str]:
    """English to Chinese, of all catalogues together."""
    texts: dict[str, str] = {}
    place = files("kavka.console").joinpath("translations")
    for file in sorted(place.iterdir(), key=lambda entry: entry.name):
        if file.name.startswith(CHINESE) and file.name.endswith(".json"):
            texts.update(json.loads(file.read_text(encoding="utf-8")))
    return texts
