"""What a run of a client's own tests says of its failures, and what it reads from Go's events."""

from __future__ import annotations

import json

import pytest

from tests.conformance.upstream.go_suites import outcomes_of
from tests.conformance.upstream.run import report
from tests.conformance.upstream.suite import Outcome, Suite

SUITE = Suite(
    lambda _directory: None,
    lambda _directory, _against: [],
    {"on_kavka_*": "kavka cannot do it"},
    everywhere={"on_both": "nobody can", "sometimes": "it depends on the moment"},
    now_and_then=("sometimes",),
)
PASSED, ON_BOTH, SOMETIMES, ON_KAVKA = (
    Outcome("good", "passed"),
    Outcome("on_both", "failed"),
    Outcome("sometimes", "failed"),
    Outcome("on_kavka_1", "failed"),
)


@pytest.mark.parametrize(
    ("against", "outcomes", "status"),
    [
        ("kavka", [PASSED, ON_BOTH, ON_KAVKA], 0),
        ("kavka", [PASSED, ON_BOTH, ON_KAVKA, SOMETIMES], 0),
        ("kavka", [PASSED, ON_BOTH, ON_KAVKA, Outcome("other", "failed")], 1),
        ("kavka", [PASSED, ON_BOTH], 1),
        ("kavka", [ON_BOTH, ON_KAVKA], 1),
        ("kafka", [PASSED, ON_BOTH], 0),
        ("kafka", [PASSED, ON_BOTH, ON_KAVKA], 1),
        ("kafka", [PASSED], 1),
    ],
    ids=["explained", "now-and-then", "unexplained", "stale", "nothing", "kafka", "kavka-only", "kafka-stale"],
)  # fmt: skip
def test_only_failures_whose_explanations_still_hold_end_well(
    against: str, outcomes: list[Outcome], status: int
) -> None:
    assert report("clients", SUITE, outcomes, against) == status


def event(action: str, test: str | None = None, *, package: str = "example.org/owner/client", output: str = "") -> str:
    named = {} if test is None else {"Test": test}
    return json.dumps({"Action": action, "Package": package, "Output": output, **named})


def failures(lines: list[str]) -> list[str]:
    return [outcome.name for outcome in outcomes_of(lines) if outcome.status == "failed"]


def test_each_test_of_each_package_has_its_outcome() -> None:
    other = "example.org/owner/client/topics"
    lines = ["# no event", event("run", "A"), event("pass", "A"), event("skip", "B"), event("fail", "C", package=other)]
    found = [outcome[:2] for outcome in outcomes_of([*lines, event("fail", package=other), event("pass")])]
    assert found == [("A", "passed"), ("B", "skipped"), ("topics.C", "failed")]


def test_a_panic_fails_what_had_begun_and_says_that_the_rest_never_ran() -> None:
    lines = [
        event("run", "A"),
        event("run", "B"),
        event("output", "A", output="panic: nil pointer\n"),
        event("fail", "A"),
    ]
    assert sorted(failures([*lines, event("fail")])) == [".: ended early", "A", "B"]


def test_a_package_that_does_not_compile_fails() -> None:
    broken = event("fail", package="example.org/owner/client/topics")
    assert failures([event("pass", "A"), event("pass"), broken]) == ["topics: failed without a test"]
