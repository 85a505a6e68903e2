"""A cluster's health as a colour, and what a health report says in the reader's language.

Decides words and links only. The score is the report's (observe.health.report).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from jinja2 import pass_context

from kavka.console.look.format import path_part, visible
from kavka.observe.health.report import Statement

if TYPE_CHECKING:
    from jinja2.runtime import Context
    from markupsafe import Markup

    from kavka.console.clusters import ClusterWatch
    from kavka.console.look.i18n import Translator
    from kavka.observe.health.report import Finding

PAGES: Final = {"broker": "brokers", "topic": "topics", "group": "groups"}


def level_of(watch: ClusterWatch) -> str:
    """bad, warn, ok, or away where nothing is known."""
    report = watch.health
    if report is None or (report.score is None and not report.failed):
        return "away"
    if report.is_critical:
        return "bad"
    return "warn" if report.failed else "ok"


def finding_link(watch: ClusterWatch, finding: Finding) -> str:
    """The page of the object that a check names; '' where it has none."""
    place = f"/c/{path_part(watch.name)}"
    match finding.kind:
        case "partition":
            topic, _dash, partition = finding.name.rpartition("-")
            return f"{place}/topics/{path_part(topic)}?partition={partition}"
        case "broker" | "topic" | "group":
            return f"{place}/{PAGES[finding.kind]}/{path_part(finding.name.removeprefix('broker '))}"
        case "zookeeper":
            return f"{place}/zookeeper"
        case _:
            return ""


@pass_context
def say(context: Context, statement: Statement) -> Markup:
    """A statement of a check, in the reader's language, its values escaped."""
    translate: Translator = context["_"]
    return _say(statement, translate)


def _say(statement: Statement, translate: Translator) -> Markup:
    return translate(
        statement.text, **{name: _value(name, value, translate) for name, value in statement.values.items()}
    )


def _value(name: str, value: object, translate: Translator) -> object:
    if isinstance(value, Statement):
        return _say(value, translate)
    return visible(_in_words(name, value, translate)) if isinstance(value, str) else value


def _in_words(name: str, value: str, translate: Translator) -> str:
    """A value that is a phrase of the checks' own (`for 12 s`, `3: 40 records behind`) or a reason, as the reader says
    it; names of topics and groups stay what they are."""
    if name in SENTENCES:
        return str(translate.plain(value))
    since = _SINCE.fullmatch(value)
    if since is not None:
        return str(translate(" for {t}", t=translate(_UNITS[since[2]], n=since[1])))
    return _BEHIND.sub(lambda found: str(translate("{n} records behind", n=found[1])), value)


SENTENCES: Final = ("why", "kind")
_SINCE: Final = re.compile(r" for ([\d.]+) (s|min|h)")
_BEHIND: Final = re.compile(r"([\d,]+) records behind")
_UNITS: Final = {"s": "{n} s", "min": "{n} min", "h": "{n} h"}
