"""Three brokers, some of them down or moving: kavka's answers beside those that Apache Kafka's gave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.three_brokers.answers import Found, differences, load, play
from tests.conformance.three_brokers.differences import DIFFERENCES
from tests.conformance.three_brokers.scenarios import SCENARIOS
from tests.conformance.three_brokers.stage import Stage, kavka_stage

RECORDED = load()


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with kavka_stage() as started:
        yield started


@pytest.fixture(scope="module")
def found(stage: Stage) -> dict[str, list[Found]]:
    """What differed in each scenario that has been played."""
    return {}


def test_every_scenario_is_recorded() -> None:
    assert list(RECORDED) == list(SCENARIOS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_three_brokers_answer_as_those_of_apache_kafka(stage: Stage, found: dict[str, list[Found]], name: str) -> None:
    found[name] = differences(name, play(stage, name), RECORDED[name])
    unexplained = [each for each in found[name] if each.reason is None]
    assert not unexplained, "\n".join(map(str, unexplained))


def test_every_difference_on_purpose_is_one(stage: Stage, found: dict[str, list[Found]]) -> None:
    for name in SCENARIOS:
        if name not in found:
            found[name] = differences(name, play(stage, name), RECORDED[name])
    used = {each.reason for several in found.values() for each in several}
    assert [row for row in DIFFERENCES if row not in used] == []
