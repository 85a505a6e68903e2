"""Well-formed requests in any order: a slice of what `make fuzz` does with a million of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.simulator.world import BrokerBug
from tests.fuzz.sequences.beside_itself import told
from tests.fuzz.sequences.mutants import (
    FORMER_EPOCHS,
    MUTANTS,
    OF_PRODUCERS,
    OF_THE_PAST,
    ON_ONE_REPLICA,
    WRONG_ANSWERS,
    hunt,
    hunt_beside_itself,
    hunt_on_replicas,
)
from tests.fuzz.sequences.run import in_process, in_virtual_time, on_three_brokers
from tests.fuzz.sequences.themes import THEMES
from tests.simulation.mutation import Mutant


def test_no_sequence_of_requests_halts_a_broker_or_keeps_it_from_opening_what_it_wrote(tmp_path: Path) -> None:
    report = in_process(1, 2_000, tmp_path, quiet=True)
    assert report.findings == []
    assert report.accepted > 500, "most requests are refused, and what they lead to is not seen"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_sequence_of_requests_in_virtual_time_breaks_a_rule(seed: int) -> None:
    report = in_virtual_time(seed, 800)
    assert report.findings == []
    assert report.accepted > 200
    assert {"V1", "V2", "V3", "V4", "V5", "V7", "V9"} <= set(report.compared), "each relation has compared something"


def test_each_broker_of_three_answers_what_any_of_them_may_be_asked_for() -> None:
    assert len(on_three_brokers(1)) == 5


def test_the_same_seed_sends_the_same_requests() -> None:
    assert in_virtual_time(7, 300).latest == in_virtual_time(7, 300).latest


def test_a_halt_that_any_client_could_cause_is_found_when_it_is_put_back() -> None:
    found = hunt(MUTANTS[0])
    assert found is not None
    assert BrokerBug.__name__ in found[1]


def test_an_answer_about_another_topic_than_the_one_asked_for_is_found_when_it_is_put_back() -> None:
    (mutant,) = [each for each in WRONG_ANSWERS if "topic's id" in each.name]
    found = hunt(mutant)
    assert found is not None
    assert found[1].startswith("V1")


def test_a_generation_that_has_ended_and_is_accepted_is_found() -> None:
    found = hunt(OF_THE_PAST[0])
    assert found is not None
    assert "V7: OffsetCommit of generation" in found[1]


def test_records_of_an_aborted_transaction_that_are_shown_to_who_begins_within_it_are_found() -> None:
    found = hunt(OF_THE_PAST[-1])
    assert found is not None
    assert "V8: committed from 0 on" in found[1]


def test_an_answer_of_leaders_alone_is_found_when_it_is_put_back() -> None:
    assert hunt_on_replicas(ON_ONE_REPLICA) is not None


@pytest.mark.parametrize("theme", ["mixed", "share"])
def test_a_sequence_is_answered_alike_in_virtual_time_where_no_bug_is_put_back(theme: str) -> None:
    assert told(3, 200, THEMES[theme]) == told(3, 200, THEMES[theme])


@pytest.mark.parametrize("mutant", FORMER_EPOCHS, ids=lambda mutant: mutant.name)
def test_a_wrong_check_of_former_epochs_shows_in_sequences(mutant: Mutant) -> None:
    found = hunt_beside_itself(mutant, THEMES[FORMER_EPOCHS[mutant]])
    assert found is not None
    assert "GroupHeartbeatRequest" in found[1]


def test_a_gap_in_a_producer_s_batches_that_is_accepted_is_found() -> None:
    found = hunt(OF_PRODUCERS[0])
    assert found is not None
    assert "V9: sequence" in found[1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "mutant", [*MUTANTS[1:], *WRONG_ANSWERS, *OF_THE_PAST[1:-1], *OF_PRODUCERS[1:]], ids=lambda mutant: mutant.name
)
def test_a_bug_that_is_put_back_is_found(mutant: Mutant) -> None:
    assert hunt(mutant) is not None
