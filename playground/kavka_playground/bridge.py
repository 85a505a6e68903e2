"""Bridge: what the page's worker calls. JSON in, JSON out; a page has one run, or two side by side.

    op        fields                      answers
    open      run, choices, clicks        a picture of the first moment; the clicks are planned, not played
    advance   run, to_ms                  a picture
    step      run, closely                a picture
    click     run, what, target           a picture, with the clicks so far
    trace     run                         all events that are kept
    goals     lesson, part, runs          for each goal of the part: its proof, or null
    about                                 versions of kavka and Python

Each message may name its `language`: "zh" answers sentences in Chinese, where their forms are known; an event whose
sentence is not known is marked `english`.

A choice or a click that cannot be is answered with `{"refused": why}`. What else fails is a bug, and is raised.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from kavka_playground.choices import BadChoice, Choices, Click
from kavka_playground.lessons import LESSONS as ALL_LESSONS
from kavka_playground.picture import Camera, as_json
from kavka_playground.run import Run

LESSONS = {lesson.id: lesson for lesson in ALL_LESSONS}


class Bridge:
    """The runs of one page."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._cameras: dict[str, Camera] = {}

    def call(self, words: str) -> str:
        """One message of the worker's."""
        message = json.loads(words)
        try:
            answer = self._answer(message)
        except BadChoice as refusal:
            answer = {"refused": str(refusal)}
        if message.get("language") == "zh":
            from kavka_playground.chinese import answer_in_chinese  # late: most readers' pages are in English

            answer = answer_in_chinese(answer)
        return json.dumps(answer)

    def _answer(self, message: Mapping[str, Any]) -> object:
        name = message.get("run", "")
        match message["op"]:
            case "about":
                return {"kavka": version("kavka"), "python": sys.version.split()[0]}
            case "open":
                clicks = [Click.parse(word) for word in message.get("clicks", [])]
                run = self._runs[name] = Run(Choices.of(message.get("choices", {})), clicks)
                self._cameras[name] = Camera(run)
            case "advance":
                self._runs[name].advance(message["to_ms"])
            case "step":
                self._runs[name].step(closely=message.get("closely", False))
            case "click":
                self._runs[name].click(message["what"], message.get("target", ""))
            case "goals":
                part = LESSONS[message["lesson"]].part(message["part"])
                runs = [self._runs[each] for each in message["runs"]]
                proofs = {goal.id: goal.check(runs) for goal in part.goals}
                return {name: proof and proof._asdict() for name, proof in proofs.items()}
            case "trace":
                return [as_json(event) for event in self._runs[name].trace.events()]
            case other:
                raise BadChoice(f"{other!r}: no such operation")
        return self._picture(name)

    def _picture(self, name: str) -> dict[str, object]:
        run = self._runs[name]
        return {
            **self._cameras[name].take(),
            "choices": run.choices.as_json(),
            "clicks": [click.as_word() for click in run.clicks],
            "skipped": [click.as_word() for click in run.skipped],
        }
