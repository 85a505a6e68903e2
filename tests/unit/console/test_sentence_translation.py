"""Sentences of brokers and of errors in Chinese: each form is one that the code has, and is told from the others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kavka
from kavka.console.look.sentence_translation import FORMER_FILE, MAX_TEXT, Value, forms, kind_of, said_in_chinese

FORMS = forms()
FORMER_FORMS = forms(FORMER_FILE)


def normal(form: str) -> str:
    return collapsed("".join(piece + ("{}" if name is not None else "") for piece, name, *_ in Formatter().parse(form)))


def collapsed(text: str) -> str:
    """Two values side by side look like one, as host:port does; what begins with "; " is a sentence in a row."""
    return re.sub(r"\{\}(:?\{\})*", "{}", text).removeprefix("; ")


@cache
def sentences_of_the_code() -> frozenset[str]:
    """Collapsed. Messages of the protocol are generated, and say nothing to people."""
    found = set()
    for file in Path(kavka.__file__).parent.rglob("*.py"):
        if file.parent.name == "messages" and file.parent.parent.name == "protocol":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                found.add("".join(_piece(part) for part in node.values))
    return frozenset(map(collapsed, found))


def _piece(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "{}"


def test_every_form_is_one_that_the_code_has() -> None:
    assert not [form for form in FORMS if normal(form) not in sentences_of_the_code()]


def test_a_former_form_is_one_that_the_code_has_no_longer() -> None:
    assert not [form for form in FORMER_FORMS if normal(form) in sentences_of_the_code()]


def test_a_translation_has_the_values_of_its_form_and_no_others() -> None:
    def fields(text: str) -> set[str]:
        return {name for _piece, name, *_ in Formatter().parse(text) if name}

    known = {**FORMER_FORMS, **FORMS}
    assert not [form for form, said in known.items() if fields(form) != fields(said)]


@pytest.mark.parametrize("form", [*FORMS, *FORMER_FORMS])
def test_a_sentence_is_said_by_its_own_form(form: str) -> None:
    values = {name: value_of(name, place) for place, (_piece, name, *_) in enumerate(Formatter().parse(form)) if name}
    said = {name: "从未" if value == "never" else value for name, value in values.items()}
    assert said_in_chinese(form.format(**values)) == {**FORMER_FORMS, **FORMS}[form].format(**said)


def value_of(name: str, place: int) -> str:
    return {Value.NUMBER: f"{place}7", Value.LIST: f"[{place}, 3]", Value.PHRASE: "never"}.get(
        kind_of(name), f"<{place}>"
    )


def test_sentences_in_one_another_and_in_a_row() -> None:
    told = (
        "broker 3 last caught up 31200 ms ago, replica.lag.time.max.ms allows 30000 ms; broker 2 is no longer a replica"
    )
    assert said_in_chinese(told) == (
        "Broker 3 最近一次在 31200 ms 前追上过，replica.lag.time.max.ms 允许 30000 ms；Broker 2 不再是副本"
    )
    told = "offline election: broker 2 leads from epoch 7, first live in-sync replica; not in sync: records may be lost"
    said = said_in_chinese(told)
    assert said is not None
    assert not re.search(r"[a-z]{3,} [a-z]{3,}", said.replace("Broker", ""))


def test_what_nobody_knows_stays_unsaid() -> None:
    assert said_in_chinese("the moon is full") is None
    assert said_in_chinese("broker 2 is no longer a replica; the moon is full") is None
    assert said_in_chinese("broker 2: " + "x" * MAX_TEXT) is None


@given(st.text(max_size=300))
def test_any_text_ends_in_a_sentence_or_in_none(text: str) -> None:
    said = said_in_chinese(f"broker 1: {text}")
    assert said is None or said.startswith("Broker")


def reasons_of_decisions() -> Iterator[tuple[str, str]]:
    """The sentences that the code gives to why-records, where each is made, as far as they stand there as text: in the
    call that makes the record, or under a name in the same function. Records that a replay makes are compared only."""
    for file in sorted(Path(kavka.__file__).parent.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "ecision(" not in text or file.parent.name == "replay":
            continue
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            named = [
                (target.id, node.value)
                for node in ast.walk(function)
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            ]
            for call in ast.walk(function):
                place = MAKERS.get(ast.unparse(call.func), MANY) if isinstance(call, ast.Call) else MANY
                if isinstance(call, ast.Call) and len(call.args) > place:
                    why = call.args[place]
                    found = [value for name, value in named if isinstance(why, ast.Name) and name == why.id] or [why]
                    for value in found:
                        for each in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
                            if isinstance(each, ast.JoinedStr):
                                yield f"{file.name}:{each.lineno}", "".join(map(_piece, each.values))
                            elif isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value:
                                yield f"{file.name}:{each.lineno}", each.value


MAKERS = {"Decision": 3, "_decision": 2}
"""What makes a why-record, and which of its arguments is the sentence."""
MANY = 100


def test_the_sentence_of_every_why_record_has_its_chinese() -> None:
    known = {normal(form) for form in FORMS}
    found = list(reasons_of_decisions())
    assert len(found) > 10
    missing = [f"{where}: {sentence}" for where, sentence in found if collapsed(sentence) not in known]
    assert not missing, "\n".join(missing)
