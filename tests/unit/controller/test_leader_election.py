"""Who leads: every kind of election by hand, and the crash table of the replication rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kavka.controller.decide.election import (
    Elected,
    ElectionKind,
    ElectionResult,
    NotElected,
    after_broker_change,
    elect_for_controlled_shutdown,
    elect_for_reassignment,
    elect_initial,
    elect_offline,
    elect_preferred,
    without_offline,
)
from kavka.model import NO_LEADER, BrokerId
from kavka.zookeeper.znodes import RECOVERED, RECOVERING, PartitionState


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def state(leader: int, isr: tuple[int, ...], *, epoch: int = 3, recovery: int = RECOVERED) -> PartitionState:
    return PartitionState(BrokerId(leader), epoch, ids(*isr), 1, recovery)


def test_a_new_partition_is_led_by_its_first_live_replica_in_an_isr_of_the_live() -> None:
    elected = elect_initial(ids(1, 2, 3), ids(2, 3))
    assert isinstance(elected, Elected)
    assert (elected.leader, elected.isr, elected.unclean) == (2, ids(2, 3), False)
    assert isinstance(elect_initial(ids(1), ids(2)), NotElected)


def test_offline_the_first_live_in_sync_replica_by_assignment_leads() -> None:
    elected = elect_offline(ids(1, 2, 3), ids(3, 2), ids(2, 3), unclean_allowed=False)
    assert isinstance(elected, Elected)
    assert (elected.leader, elected.isr, elected.unclean) == (2, ids(3, 2), False)
    assert elected.reason == "first live in-sync replica"
    assert elected.candidates == ids(1, 2, 3)
    assert elected.live == ids(2, 3)


def test_offline_without_a_live_in_sync_replica_there_is_no_leader() -> None:
    refused = elect_offline(ids(1, 2, 3), ids(1), ids(2, 3), unclean_allowed=False)
    assert isinstance(refused, NotElected)
    assert "unclean.leader.election.enable is false" in refused.reason


def test_unclean_the_first_live_replica_leads_alone_and_is_marked() -> None:
    elected = elect_offline(ids(1, 2, 3), ids(1), ids(2, 3), unclean_allowed=True)
    assert isinstance(elected, Elected)
    assert (elected.leader, elected.isr, elected.unclean) == (2, ids(2), True)
    clean = elect_offline(ids(1, 2, 3), ids(3), ids(2, 3), unclean_allowed=True)
    assert isinstance(clean, Elected)
    assert (clean.leader, clean.unclean) == (3, False), "never unclean where it need not be"
    assert elect_offline(ids(1), ids(1), (), unclean_allowed=True) == NotElected(
        ElectionKind.OFFLINE, "no replica is alive", ids(1), ()
    )


@pytest.mark.parametrize(
    ("isr", "live", "leader", "reason"),
    [
        ((2, 1), (1, 2), 1, "preferred replica"),
        ((2,), (1, 2), None, "not in sync"),
        ((1, 2), (2,), None, "not alive"),
    ],
)
def test_the_preferred_replica_leads_if_it_lives_and_is_in_sync(
    isr: tuple[int, ...], live: tuple[int, ...], leader: int | None, reason: str
) -> None:
    result = elect_preferred(ids(1, 2), ids(*isr), ids(*live))
    assert reason in result.reason
    assert (result.leader if isinstance(result, Elected) else None) == leader
    assert result.live == ids(*live), "the decision says who was alive"
    if isinstance(result, Elected):
        assert result.isr == ids(*isr), "the others stay in sync"


def test_a_reassigned_partition_is_led_by_its_first_in_sync_target() -> None:
    elected = elect_for_reassignment(ids(4, 5), ids(1, 5, 4), ids(1, 4, 5))
    assert isinstance(elected, Elected)
    assert (elected.leader, elected.isr) == (4, ids(1, 5, 4))
    assert isinstance(elect_for_reassignment(ids(4, 5), ids(1, 2), ids(1, 2, 4, 5)), NotElected)


def test_in_a_controlled_shutdown_one_that_stays_leads_and_who_goes_leaves_the_isr() -> None:
    elected = elect_for_controlled_shutdown(ids(1, 2, 3), ids(1, 2, 3), ids(1, 2, 3), ids(1, 2))
    assert isinstance(elected, Elected)
    assert (elected.leader, elected.isr) == (3, ids(3))
    refused = elect_for_controlled_shutdown(ids(1, 2), ids(1), ids(1, 2), ids(1))
    assert isinstance(refused, NotElected)


def test_the_isr_of_a_partition_that_died_at_once_stays_whole() -> None:
    assert without_offline(ids(0, 1), ids(1)) == ids(1)
    assert without_offline(ids(0, 1), ids(2)) == ids(0, 1)


REPLICAS = ids(0, 1, 2)


def change(before: PartitionState, live: tuple[int, ...], *, unclean: bool = False) -> PartitionState | None:
    change = after_broker_change(REPLICAS, before, ids(*live), unclean_allowed=unclean, controller_epoch=7)
    return change.state if change is not None else None


def test_case_a_the_leader_dies_and_the_other_leads() -> None:
    after = change(state(0, (0, 1)), (1, 2))
    assert after == PartitionState(BrokerId(1), 4, ids(1), 7)
    follower_died = change(state(0, (0, 1)), (0, 2))
    assert follower_died == PartitionState(BrokerId(0), 4, ids(0), 7)


def test_case_b_one_after_the_other_leaves_the_last_and_only_that_one_may_lead() -> None:
    last = state(1, (1,))
    offline = change(last, (2,))
    assert offline == PartitionState(NO_LEADER, 4, ids(1), 7)
    assert change(offline, (0, 2)) is None, "neither 0 nor 2 may lead, whoever asks"
    assert change(offline, (0, 2), unclean=True) == PartitionState(BrokerId(0), 5, ids(0), 7, RECOVERING)
    assert change(offline, (1, 2)) == PartitionState(BrokerId(1), 5, ids(1), 7)


@pytest.mark.parametrize("returning", [0, 1])
def test_case_c_both_at_once_keeps_both_and_either_may_lead(returning: int) -> None:
    offline = change(state(0, (0, 1)), (2,))
    assert offline == PartitionState(NO_LEADER, 4, ids(0, 1), 7)
    assert change(offline, (2, returning)) == PartitionState(BrokerId(returning), 5, ids(returning), 7)


def test_nothing_changes_for_a_partition_whose_brokers_live() -> None:
    assert change(state(0, (0, 1)), (0, 1)) is None


def test_a_partition_that_recovers_stays_marked_until_its_leader_says_otherwise() -> None:
    recovering = state(0, (0, 1), recovery=RECOVERING)
    assert change(recovering, (0,)) == PartitionState(BrokerId(0), 4, ids(0), 7, RECOVERING)


ALL = ids(1, 2, 3)
ALIVE = ids(2, 3)


@pytest.mark.parametrize(
    ("elect", "expected"),
    [
        (
            lambda: elect_initial(ALL, ALIVE),
            Elected(
                ElectionKind.INITIAL, BrokerId(2), ALIVE, False, "first live replica of a new partition", ALL, ALIVE
            ),
        ),
        (lambda: elect_initial(ALL, ids(4)), NotElected(ElectionKind.INITIAL, "no replica is alive", ALL, ())),
        (
            lambda: elect_offline(ALL, ids(1, 3), ALIVE, unclean_allowed=True, eligible=ids(2)),
            Elected(ElectionKind.OFFLINE, BrokerId(3), ids(3), False, "first live in-sync replica", ALL, ALIVE),
        ),
        (
            lambda: elect_offline(ALL, ids(1), ALIVE, unclean_allowed=True, eligible=ids(3)),
            Elected(
                ElectionKind.OFFLINE,
                BrokerId(3),
                ids(3),
                False,
                "no in-sync replica is alive; first live eligible leader replica, which has all that is committed",
                ALL,
                ALIVE,
            ),
        ),
        (
            lambda: elect_offline(ALL, ids(1), ALIVE, unclean_allowed=True),
            Elected(
                ElectionKind.OFFLINE,
                BrokerId(2),
                ids(2),
                True,
                "the first live replica, as no in-sync replica is alive",
                ALL,
                ALIVE,
            ),
        ),
        (
            lambda: elect_offline(ALL, ids(1), ALIVE, unclean_allowed=False),
            NotElected(
                ElectionKind.OFFLINE,
                "no in-sync replica is alive and unclean.leader.election.enable is false",
                ALL,
                ALIVE,
            ),
        ),
        (
            lambda: elect_preferred(ids(3, 2, 1), ids(2, 3), ALIVE),
            Elected(
                ElectionKind.PREFERRED, BrokerId(3), ids(2, 3), False, "preferred replica", ids(3, 2, 1), ids(3, 2)
            ),
        ),
        (
            lambda: elect_preferred(ids(3, 2, 1), ids(2), ALIVE),
            NotElected(ElectionKind.PREFERRED, "the preferred replica is not in sync", ids(3, 2, 1), ids(3, 2)),
        ),
        (
            lambda: elect_preferred(ALL, ALL, ALIVE),
            NotElected(ElectionKind.PREFERRED, "the preferred replica is not alive", ALL, ALIVE),
        ),
        (
            lambda: elect_preferred((), (), ALIVE),
            NotElected(ElectionKind.PREFERRED, "the preferred replica is not alive", (), ()),
        ),
        (
            lambda: elect_for_reassignment(ALL, ids(3, 1), ALIVE),
            Elected(
                ElectionKind.REASSIGNMENT, BrokerId(3), ids(3, 1), False, "first in-sync target replica", ALL, ALIVE
            ),
        ),
        (
            lambda: elect_for_reassignment(ALL, ids(1), ALIVE),
            NotElected(ElectionKind.REASSIGNMENT, "no live candidate is in sync", ALL, ALIVE),
        ),
        (
            lambda: elect_for_controlled_shutdown(ALL, ids(3, 2, 1), ALIVE, ids(1, 2)),
            Elected(
                ElectionKind.CONTROLLED_SHUTDOWN,
                BrokerId(3),
                ids(3),
                False,
                "first in-sync replica that stays",
                ALL,
                ids(3),
            ),
        ),
        (
            lambda: elect_for_controlled_shutdown(ALL, ids(1, 2), ALIVE, ids(1, 2)),
            NotElected(ElectionKind.CONTROLLED_SHUTDOWN, "no live candidate is in sync", ALL, ids(3)),
        ),
    ],
)
def test_an_election_says_who_leads_why_and_who_was_looked_at(
    elect: Callable[[], ElectionResult], expected: ElectionResult
) -> None:
    assert elect() == expected


def test_who_is_leaving_leads_on_and_wins_nothing() -> None:
    def left(leader: int, live: tuple[int, ...]) -> PartitionState | None:
        change = after_broker_change(
            ALL, state(leader, ALL), ids(*live), unclean_allowed=False, controller_epoch=7, leaving=ids(1, 2)
        )
        return None if change is None else change.state

    assert left(1, (1, 2, 3)) is None
    assert left(1, (1, 3)) == PartitionState(BrokerId(1), 4, ids(1, 3), 7)
    assert left(3, (1, 2)) == PartitionState(NO_LEADER, 4, ids(1, 2), 7)
    assert left(1, (2, 3)) == PartitionState(BrokerId(3), 4, ids(3), 7)


def test_an_eligible_replica_leads_alone_where_a_broker_has_gone() -> None:
    change = after_broker_change(ALL, state(1, (1,)), ALIVE, unclean_allowed=False, controller_epoch=7, eligible=ids(3))
    assert change is not None
    assert change.state == PartitionState(BrokerId(3), 4, ids(3), 7)


def test_a_partition_that_nobody_leads_and_whose_last_member_is_away_changes_with_its_isr_alone() -> None:
    before = state(NO_LEADER, (1, 2))
    change = after_broker_change(ALL, before, ids(2), unclean_allowed=False, controller_epoch=7, leaving=ids(2))
    assert change is not None
    assert change.state == PartitionState(NO_LEADER, 4, ids(2), 7)
    again = replace(change.state, leader_epoch=3)
    assert after_broker_change(ALL, again, ids(2), unclean_allowed=False, controller_epoch=7, leaving=ids(2)) is None
