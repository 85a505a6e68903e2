"""What runs and lessons say, in Chinese: a sentence is known by its form, as the console knows those of brokers.

said_zh.json has the forms of what only the playground says: proofs, what happens in the simulator, refusals. A value in
a form may be a sentence itself. Why-records are the console's (`kavka.console.look.sentence_translation`).
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, Final

from kavka.console.look.sentence_translation import most_exact_first, pattern_of, said_in_chinese

TEXTS: Final = ("refused", "ended")
"""Fields of an answer that are sentences."""
MAX_DEPTH: Final = 3
VALUES: Final = {"broker": r"\d+", "at": r"\d+\.\d{3} s", "code": "[A-Z_]+", "host": r"\S+"}
"""What a value looks like, by its name; any other is anything."""


@cache
def forms() -> dict[str, str]:
    """English to Chinese."""
    found: dict[str, str] = json.loads(files("kavka_playground").joinpath("said_zh.json").read_text(encoding="utf-8"))
    return found


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    said = forms()
    return [(pattern_of(form, lambda name: VALUES.get(name, ".+?")), said[form]) for form in most_exact_first(said)]


def in_chinese(text: str, depth: int = 0) -> str | None:
    """The sentence in Chinese; None if its form is not known."""
    for pattern, said in _patterns():
        if (match := pattern.fullmatch(text)) is not None:
            values = match.groupdict()
            if depth < MAX_DEPTH:
                values = {name: in_chinese(value, depth + 1) or value for name, value in values.items()}
            return said.format_map(values)
    return said_in_chinese(text) or said_in_chinese(text[:1].lower() + text[1:])


def answer_in_chinese(answer: Any) -> Any:
    """An answer of the bridge: its events, proofs, refusals and what the producer was told."""
    if isinstance(answer, list):
        return [_event(event) for event in answer]
    for name in TEXTS:
        if answer.get(name):
            answer[name] = in_chinese(answer[name]) or answer[name]
    if "events" in answer:
        answer["events"] = [_event(event) for event in answer["events"]]
        for told in answer["clients"]["told"]:
            told["error"] = in_chinese(told["error"]) or told["error"]
    for proof in answer.values():
        if isinstance(proof, dict) and proof.keys() == {"text", "events"}:
            proof["text"] = in_chinese(proof["text"]) or proof["text"]
    return answer


def _event(event: dict[str, object]) -> dict[str, object]:
    shown = "why" if "why" in event else "text"
    text = event.get(shown)
    if isinstance(text, str):
        said = in_chinese(text)
        event[shown] = said or text
        if said is None and re.search("[a-z]{3,} [a-z]{2,}", text):
            event["english"] = True
    return event
