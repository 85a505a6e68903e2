"""How a cluster stands in a word, and where the object of a failed check is looked at."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("starlette")

from kavka.console.look.failures import FAILURES, failure
from kavka.console.look.health_text import finding_link, level_of, say
from kavka.console.look.i18n import catalogue, translator
from kavka.console.look.templating import environment
from kavka.observe.health.checks import all_checks
from kavka.observe.health.report import Check, CheckResult, Finding, Outcome, Severity, Statement, report


def watch(*outcomes: tuple[Outcome, Severity]) -> SimpleNamespace:
    """What pages see of a cluster, as far as these functions look at it."""
    nothing = Statement("")
    results = [
        CheckResult(Check(f"c{number}", "", 5, severity, nothing, ""), outcome, nothing, looked_at=1, failed=1)
        for number, (outcome, severity) in enumerate(outcomes)
    ]
    return SimpleNamespace(name="pr/od", health=report(results, 0))


@pytest.mark.parametrize(
    ("outcomes", "level"),
    [
        ([(Outcome.PASSED, Severity.CRITICAL), (Outcome.UNKNOWN, Severity.CRITICAL)], "ok"),
        ([(Outcome.PASSED, Severity.CRITICAL), (Outcome.FAILED, Severity.WARNING)], "warn"),
        ([(Outcome.FAILED, Severity.CRITICAL), (Outcome.FAILED, Severity.WARNING)], "bad"),
        ([(Outcome.UNKNOWN, Severity.CRITICAL)], "away"),
    ],
)
def test_the_worst_failure_gives_the_level(outcomes: list[tuple[Outcome, Severity]], level: str) -> None:
    assert level_of(watch(*outcomes)) == level  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "name", "page"),
    [
        ("broker", "3", "/c/pr%2Fod/brokers/3"),
        ("partition", "clicks.eu-west-1-11", "/c/pr%2Fod/topics/clicks.eu-west-1?partition=11"),
        ("topic", "orders", "/c/pr%2Fod/topics/orders"),
        ("group", "a/b <c>", "/c/pr%2Fod/groups/a%2Fb%20%3Cc%3E"),
        ("zookeeper", "zk-1:2181", "/c/pr%2Fod/zookeeper"),
        ("transaction", "4001", ""),
    ],
)
def test_an_object_of_a_failed_check_leads_to_its_page(kind: str, name: str, page: str) -> None:
    assert finding_link(watch(), Finding(kind, name, Statement(""))) == page  # type: ignore[arg-type]


def test_a_statement_is_said_in_the_readers_language_with_the_phrases_in_it() -> None:
    text = "out of sync{since}: {missing}{behind}"
    statement = Statement(text, {"missing": "<3>", "since": " for 66 s", "behind": " (3: 1,200 records behind)"})
    said = environment().from_string("{{ say(it) }}", {"say": say})
    english, chinese = (said.render(it=statement, _=translator(language)) for language in ("en", "zh"))
    assert english == "out of sync for 66 s: &lt;3&gt; (3: 1,200 records behind)"
    assert chinese == "副本 &lt;3&gt; 不同步（已 66 秒） (3: 落后 1,200 条记录)"


def test_each_check_has_a_failure_in_both_languages() -> None:
    assert {*FAILURES} == {check.name for check in all_checks()}
    known = catalogue()
    assert not [many for _one, many in FAILURES.values() if many not in known]


def test_a_failed_check_is_named_by_what_is_wrong() -> None:
    made = Check("single-replica", "Topics have more than one replica", 5, Severity.WARNING, Statement(""), "")
    for failed, said in ((1, "1 topic has a single replica"), (2, "2 topics have a single replica")):
        result = CheckResult(made, Outcome.FAILED, Statement(""), looked_at=9, failed=failed)
        shown = (
            environment()
            .from_string("{{ failure(result) }}")
            .render(failure=failure, result=result, _=translator("en"))
        )
        assert shown == said
