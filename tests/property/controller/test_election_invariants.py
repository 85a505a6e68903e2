"""Whatever is in sync and alive: a leader lives and is in its ISR, and no committed record is given away cleanly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.controller.decide.election import (
    Elected,
    ElectionResult,
    after_broker_change,
    elect_for_controlled_shutdown,
    elect_for_reassignment,
    elect_initial,
    elect_offline,
    elect_preferred,
)
from kavka.model import NO_LEADER, BrokerId
from kavka.zookeeper.znodes import RECOVERED, RECOVERING, PartitionState

brokers = st.integers(0, 4).map(BrokerId)
sets = st.lists(brokers, max_size=5, unique=True).map(tuple)
non_empty = st.lists(brokers, min_size=1, max_size=5, unique=True).map(tuple)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]:
    """(replicas, ISR)"""
    replicas = draw(non_empty)
    size = draw(st.integers(1, len(replicas)))
    return replicas, tuple(draw(st.permutations(replicas))[:size])


def check(result: ElectionResult, isr: tuple[BrokerId, ...], live: tuple[BrokerId, ...]) -> None:
    assert result.reason
    if not isinstance(result, Elected):
        return
    assert result.leader in live
    assert result.leader in result.isr
    assert result.leader in result.candidates
    if result.unclean:
        assert not set(isr) & set(live) & set(result.candidates)
        assert result.isr == (result.leader,)
    else:
        assert set(result.isr) <= set(isr)


@given(partitions(), sets, sets, st.booleans())
def test_every_kind_of_election(
    partition: tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]],
    live: tuple[BrokerId, ...],
    shutting_down: tuple[BrokerId, ...],
    unclean_allowed: bool,
) -> None:
    replicas, isr = partition
    offline = elect_offline(replicas, isr, live, unclean_allowed=unclean_allowed)
    check(offline, isr, live)
    if unclean_allowed:
        assert isinstance(offline, Elected) == bool(set(replicas) & set(live))
    else:
        assert isinstance(offline, Elected) == bool(set(isr) & set(live))
    check(elect_preferred(replicas, isr, live), isr, live)
    check(elect_for_reassignment(replicas, isr, live), isr, live)
    going = elect_for_controlled_shutdown(replicas, isr, live, shutting_down)
    check(going, isr, live)
    if isinstance(going, Elected):
        assert not set(going.isr) & set(shutting_down)
    first = elect_initial(replicas, live)
    check(first, replicas, live)


@given(partitions(), st.integers(-1, 4), st.lists(sets, min_size=1, max_size=6), st.booleans())
def test_any_sequence_of_deaths_and_returns(
    partition: tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]],
    leader: int,
    history: list[tuple[BrokerId, ...]],
    unclean_allowed: bool,
) -> None:
    replicas, isr = partition
    state = PartitionState(BrokerId(leader) if leader in isr else NO_LEADER, 0, isr, 1)
    for live in history:
        change = after_broker_change(replicas, state, live, unclean_allowed=unclean_allowed, controller_epoch=2)
        after = change.state if change is not None else state
        assert after.isr, "the ISR is never empty"
        assert (after.leader == NO_LEADER) or (after.leader in live and after.leader in after.isr)
        assert (after.leader == NO_LEADER) == (not set(replicas if unclean_allowed else state.isr) & set(live))
        if after.leader != NO_LEADER:
            assert set(after.isr) <= set(live)
        if after.leader_recovery_state == RECOVERED:
            assert set(after.isr) <= set(state.isr), "nobody joins the ISR by an election"
        if not unclean_allowed:
            assert after.leader_recovery_state != RECOVERING
        assert after.leader_epoch == state.leader_epoch + (change is not None)
        again = after_broker_change(replicas, after, live, unclean_allowed=unclean_allowed, controller_epoch=2)
        assert again is None, "a decision that was carried out changes nothing more"
        state = after
