"""Every text of the console's templates and pages has its Chinese, and values stay escaped and in their places."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from markupsafe import Markup

pytest.importorskip("jinja2")
pytest.importorskip("starlette")

import jinja2.nodes
from starlette.requests import Request

import kavka.console
import kavka.observe.health
from kavka.console.look.i18n import catalogue, language_of, translator
from kavka.console.look.templating import environment
from kavka.decisions import DecisionKind
from kavka.observe.health.checks import check_health
from kavka.observe.snapshot import ClusterSnapshot

PLACE = Path(kavka.console.__file__).parent
TRANSLATING = ("_", "n_")


def texts_of_templates() -> Iterator[tuple[str, str]]:
    for file in sorted((PLACE / "templates").glob("*.html")):
        tree = environment().parse(file.read_text(encoding="utf-8"))
        for call in tree.find_all(jinja2.nodes.Call):
            if isinstance(call.node, jinja2.nodes.Name) and call.node.name in TRANSLATING:
                # Of n_ the plural is the key.
                argument = call.args[1 if call.node.name == "n_" else 0]
                if isinstance(argument, jinja2.nodes.Const):
                    yield file.name, argument.value


def texts_of_modules() -> Iterator[tuple[str, str]]:
    for file in sorted(PLACE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _is_translation(node.func) and node.args:
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield file.name, first.value


def _is_translation(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in ("_", "translate")
    return isinstance(function, ast.Attribute) and function.attr == "translate"


def fields(text: str) -> set[str]:
    return {name for _literal, name, _form, _conversion in Formatter().parse(text) if name}


def test_every_text_has_its_chinese() -> None:
    known = catalogue()
    missing = [f"{where}: {text}" for where, text in (*texts_of_templates(), *texts_of_modules()) if text not in known]
    assert not missing, "\n".join(dict.fromkeys(missing))


def test_every_check_and_every_kind_of_decision_has_its_chinese() -> None:
    report = check_health(ClusterSnapshot("a", "127.0.0.1:1"), 0)
    texts = [
        text for each in report.results for text in (each.check.title, each.check.advice, each.check.threshold.text)
    ]
    texts += [kind.value for kind in DecisionKind]
    assert not [text for text in texts if text not in catalogue()]


def texts_of_checks() -> Iterator[tuple[str, str]]:
    """What a check says of what it found, and of what it looked at: where the call is, or under a name before it."""
    for file in sorted(Path(kavka.observe.health.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            said: list[ast.expr] = []
            if isinstance(node, ast.Call):
                place = SAYING.get(ast.unparse(node.func).rpartition(".")[2])
                said = [] if place is None else node.args[place : place + 1]
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "text":
                said = [node.value]
            for each in said:
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield f"{file.name}:{each.lineno}", each.value


SAYING = {"found": 2, "Statement": 0, "unknown": 1}
"""What says something of a check, and which argument is the text."""


def test_whatever_a_check_finds_has_its_chinese() -> None:
    found = list(texts_of_checks())
    assert len(found) > 60
    known = {*catalogue(), "{why}"}
    assert not [f"{where}: {text}" for where, text in found if text not in known]


def test_a_translation_names_the_values_of_its_text_and_no_others() -> None:
    wrong = {english: chinese for english, chinese in catalogue().items() if fields(english) != fields(chinese)}
    assert not wrong


def test_a_translation_has_no_markup_of_its_own() -> None:
    assert not [text for pair in catalogue().items() for text in pair if re.search(r"[<>]", text)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_value_in_a_text_is_escaped(language: str) -> None:
    said = translator(language)("broker {n}", n="<script>")
    assert isinstance(said, Markup)
    assert "<script>" not in said


def test_one_and_many() -> None:
    assert translator("en").several("{n} check fails", "{n} checks fail", 1) == "1 check fails"
    assert translator("en").several("{n} check fails", "{n} checks fail", 1_200) == "1,200 checks fail"
    assert "1,200" in translator("zh").several("{n} check fails", "{n} checks fail", 1_200)


@pytest.mark.parametrize(
    ("headers", "language"),
    [
        ({"accept-language": "zh-CN,zh;q=0.9,en;q=0.8"}, "zh"),
        ({"accept-language": "de,en;q=0.7,zh;q=0.3"}, "en"),
        ({"accept-language": "fr"}, "en"),
        ({"accept-language": "en", "cookie": "kavka_language=zh"}, "zh"),
        ({"cookie": "kavka_language=../../etc"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_is_the_readers_choice_then_his_browsers(headers: dict[str, str], language: str) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert language_of(Request({"type": "http", "headers": raw})) == language
