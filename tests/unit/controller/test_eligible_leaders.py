"""Eligible leader replicas: the decisions by hand, and S21 through the flow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.controller.decide.election import Elected, NotElected, PartitionChange
from kavka.controller.decide.eligible_leaders import LiveBrokers, with_elr
from kavka.controller.decide.requested_election import ElectionType, hold
from kavka.model import NO_LEADER, BrokerId
from kavka.zookeeper.znodes import RECOVERED, RECOVERING, PartitionState

REPLICAS = (1, 2, 3)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def state(leader: int, isr: tuple[int, ...], elr: tuple[int, ...] = (), last: tuple[int, ...] = ()) -> PartitionState:
    return PartitionState(BrokerId(leader), 3, ids(*isr), 1, RECOVERED, ids(*elr), ids(*last))


@pytest.mark.parametrize(
    ("isr", "elr", "next_isr", "expected", "why"),
    [
        ((1, 2, 3), (), (1, 2), (), "two are enough: nobody needs to stay eligible"),
        ((1, 2), (), (1,), (2,), "2 left when that left too few"),
        ((1, 2, 3), (), (1,), (2, 3), "both left at once"),
        ((1,), (2,), (1, 3), (), "enough again"),
        ((1,), (2,), (2,), (1,), "2 leads; 1 has what is committed"),
        ((1,), (2,), (1,), (2,), "an election that changes no member"),
        ((1, 2), (3,), (1,), (2,), "the elr of a state with enough in sync is void"),
    ],
)
def test_who_leaves_an_isr_that_is_too_small_then_stays_eligible(
    isr: tuple[int, ...], elr: tuple[int, ...], next_isr: tuple[int, ...], expected: tuple[int, ...], why: str
) -> None:
    after = with_elr(state(1, isr, elr), state(1, next_isr), staying=ids(*REPLICAS), needed=2)

    assert sorted(after.eligible_leader_replicas) == list(expected), why


def test_who_is_no_replica_any_more_or_is_back_uncleanly_is_not_eligible() -> None:
    before, after = state(1, (1, 2, 3)), state(1, (1,))

    assert with_elr(before, after, staying=ids(1, 2), needed=2).eligible_leader_replicas == ids(2)
    kept = with_elr(before, after, staying=ids(*REPLICAS), needed=2, unclean=ids(2))
    assert kept.eligible_leader_replicas == ids(3)


def test_the_last_leader_is_known_until_there_is_another() -> None:
    lost = with_elr(state(2, (2,), (1,)), state(NO_LEADER, (2,)), staying=ids(*REPLICAS), needed=2)
    assert lost.last_known_elr == ids(2)
    still = with_elr(lost, replace(lost, leader_epoch=5), staying=ids(*REPLICAS), needed=2)
    assert still.last_known_elr == ids(2)
    assert with_elr(still, state(1, (1,)), staying=ids(*REPLICAS), needed=2).last_known_elr == ()


def change(
    before: PartitionState,
    live: tuple[int, ...],
    *,
    unclean: tuple[int, ...] = (),
    needed: int = 2,
    unclean_allowed: bool = False,
) -> PartitionChange | None:
    asked = LiveBrokers(ids(*REPLICAS), ids(*live), unclean_allowed, 2, (), needed=needed, unclean=ids(*unclean))
    return asked.answer(before)


def led(result: PartitionChange | None) -> tuple[int, tuple[int, ...]]:
    assert result is not None
    assert result.state.leader_epoch == 4
    assert result.state.controller_epoch == 2
    return result.state.leader, result.state.isr


def test_nothing_changes_where_nothing_did() -> None:
    assert change(state(1, (1,), (2,)), (1, 2)) is None
    assert change(state(NO_LEADER, (1,), (2,)), (3,)) is None


def test_a_live_in_sync_replica_comes_first_and_an_eligible_one_second() -> None:
    assert led(change(state(NO_LEADER, (2,), (1, 3)), (1, 2))) == (2, (2,))

    result = change(state(2, (2,), (1, 3)), (3, 1))
    assert led(result) == (1, (1,))
    assert result is not None
    assert isinstance(result.election, Elected)
    assert not result.election.unclean
    assert "eligible" in result.election.reason
    assert result.state.leader_recovery_state == RECOVERED


def test_an_eligible_replica_comes_before_an_unclean_election() -> None:
    result = change(state(2, (2,), (3,)), (1, 3), unclean_allowed=True)

    assert led(result) == (3, (3,))
    assert led(change(state(2, (2,), ()), (1, 3), unclean_allowed=True)) == (1, (1,))


def test_an_operators_unclean_election_takes_an_eligible_one_first() -> None:
    elected = hold(ElectionType.UNCLEAN, ids(*REPLICAS), ids(2), ids(1, 3), ids(3))

    assert isinstance(elected, Elected)
    assert (elected.leader, elected.unclean) == (3, False)


def test_without_a_live_member_of_isr_or_elr_there_is_no_leader() -> None:
    result = change(state(2, (2,), (3,)), (1,))

    assert led(result) == (NO_LEADER, (2,))
    assert result is not None
    assert isinstance(result.election, NotElected)


def test_s21_who_is_back_uncleanly_does_not_lead_while_an_eligible_one_lives() -> None:
    assert led(change(state(NO_LEADER, (3,), (1, 2), (3,)), (1, 2, 3), unclean=(3,))) == (1, (1,))


def test_s21_who_is_back_uncleanly_waits_for_the_others_if_they_are_dead() -> None:
    """Whichever of them is back first may lead: the elr is the isr then."""
    assert led(change(state(NO_LEADER, (3,), (1, 2), (3,)), (3,), unclean=(3,))) == (NO_LEADER, (1, 2))


def test_one_of_several_in_sync_replicas_that_is_back_uncleanly_leaves_the_isr_and_its_leadership() -> None:
    assert led(change(state(3, (3, 1)), (1, 3), unclean=(3,))) == (1, (1,))
    result = change(state(1, (1, 2, 3)), (1, 2, 3), unclean=(3,))
    assert led(result) == (1, (1, 2))
    assert result is not None
    assert "[3] did not stop cleanly" in result.why


def test_one_that_is_back_uncleanly_leaves_the_elr() -> None:
    before = state(1, (1,), (2, 3))
    result = change(before, (1, 2, 3), unclean=(3,))
    assert led(result) == (1, (1,))
    assert result is not None

    kept = with_elr(before, result.state, staying=ids(*REPLICAS), needed=2, unclean=ids(3))

    assert kept.eligible_leader_replicas == ids(2)


def test_where_nobody_is_left_the_last_known_leader_leads_and_that_counts_as_unclean() -> None:
    result = change(state(NO_LEADER, (2, 3), (), (3,)), (2, 3), unclean=(2, 3))

    assert led(result) == (3, (3,))
    assert result is not None
    assert isinstance(result.election, Elected)
    assert result.election.unclean
    assert "not synced" in result.election.reason
    assert result.state.leader_recovery_state == RECOVERING


def test_the_last_member_may_lead_again_at_once_if_it_led_in_its_former_life() -> None:
    result = change(state(3, (3,)), (3,), unclean=(3,))

    assert led(result) == (3, (3,))
    assert result is not None
    assert result.state.leader_recovery_state == RECOVERING


def test_the_last_known_leader_is_waited_for_if_it_is_dead() -> None:
    assert change(state(NO_LEADER, (3,), (), (3,)), (2,), unclean=(2, 3)) is None


def test_the_last_known_leader_leads_even_if_its_return_put_it_out_of_the_isr() -> None:
    """3 led until it was killed, with all that is committed. It was back before 2, so that 2 became the isr; then 2 was
    back without what it had not synced."""
    waiting = change(state(NO_LEADER, (3,), (2,), (3,)), (3,), unclean=(3,))
    assert led(waiting) == (NO_LEADER, (2,))
    assert waiting is not None
    before = with_elr(
        state(NO_LEADER, (3,), (2,), (3,)), waiting.state, staying=ids(*REPLICAS), needed=2, unclean=ids(3)
    )
    assert before.last_known_elr == ids(3)
    before = replace(before, leader_epoch=3)

    assert led(change(before, (2, 3), unclean=(2,))) == (3, (3,))
    assert led(change(before, (2,), unclean=(2,))) == (NO_LEADER, (3,)), "waited for if it is dead"
    assert led(change(before, (2, 3))) == (2, (2,)), "2 was stopped cleanly: it has all that is committed"


def test_a_last_known_leader_that_is_no_replica_any_more_does_not_lead() -> None:
    assert led(change(state(NO_LEADER, (2,), (), (9,)), (2, 9), unclean=(2,))) == (2, (2,))


def test_an_elr_that_a_lower_min_insync_replicas_made_void_leads_nothing_and_is_dropped() -> None:
    """With one in sync being enough, 2 may have committed what 1 does not have."""
    assert led(change(state(2, (2,), (1,)), (1,), needed=1)) == (NO_LEADER, (2,))
    before = state(2, (2,), (1,))
    result = change(before, (1, 2), needed=1)
    assert led(result) == (2, (2,))
    assert result is not None
    kept = with_elr(before, result.state, staying=ids(*REPLICAS), needed=1)
    assert kept.eligible_leader_replicas == ()


def test_where_nobody_needs_to_be_in_sync_nobody_stays_eligible_and_the_elr_that_was_kept_goes() -> None:
    """min.insync.replicas of a topic may be 1, and `needed` 0 where it has no replicas that stay: the ELR is kept."""
    result = change(state(2, (2,), (1,)), (1, 2), needed=0)
    assert led(result) == (2, (2,))
    assert result is not None
    assert "no longer eligible: [1]" in result.why


def test_of_several_members_without_a_known_leader_the_first_is_waited_for() -> None:
    assert led(change(state(NO_LEADER, (2, 3)), (1,), unclean=(2, 3))) == (NO_LEADER, (2,))
