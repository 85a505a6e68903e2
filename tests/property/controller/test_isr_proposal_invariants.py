"""Whatever leaders propose: the ISR keeps its invariants, and what was accepted once is a success ever after."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.controller.decide.context import ControllerContext, KnownState, KnownTopic, LiveBroker
from kavka.controller.decide.isr_proposals import Accepted, Proposal, ProposalRefused, Unchanged, judge
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.znodes import BrokerRegistration, PartitionState, TopicAssignment

T0 = TopicPartition("t", 0)
REPLICAS = tuple(map(BrokerId, (1, 2, 3)))


def broker(broker_id: BrokerId, epoch: int) -> LiveBroker:
    return LiveBroker(BrokerRegistration(broker_id, (), 0), epoch)


@st.composite
def clusters(draw: st.DrawFn) -> ControllerContext:
    context = ControllerContext(epoch=3)
    live = draw(st.lists(st.sampled_from(REPLICAS), unique=True))
    context.set_brokers({each: broker(each, draw(st.integers(10, 12))) for each in live})
    for marks in (context.shutting_down, context.unreachable):
        if live:
            for each in draw(st.lists(st.sampled_from(live), unique=True, max_size=1)):
                marks[each] = context.brokers[each].epoch
    context.set_topic(KnownTopic(TopicAssignment("t", {0: REPLICAS}, None), 0))
    isr = tuple(draw(st.lists(st.sampled_from(REPLICAS), unique=True, min_size=1)))
    state = PartitionState(isr[0], draw(st.integers(1, 3)), isr, 2, draw(st.integers(0, 1)))
    context.states[T0] = KnownState(state, draw(st.integers(1, 3)))
    return context


proposals = st.builds(
    Proposal,
    st.just(T0),
    st.sampled_from(REPLICAS),
    st.integers(1, 3),
    st.lists(
        st.tuples(st.sampled_from((*REPLICAS, BrokerId(9))), st.sampled_from((-1, 10, 11, 12))),
        max_size=4,
        unique_by=lambda member: member[0],
    ).map(tuple),
    st.integers(0, 1),
    st.integers(1, 3),
)


@given(context=clusters(), proposed=st.lists(proposals, max_size=8), version=st.integers(0, 3))
def test_invariants_hold_whatever_is_proposed(
    context: ControllerContext, proposed: list[Proposal], version: int
) -> None:
    for proposal in proposed:
        before = context.states[T0]
        verdict = judge(proposal, context, version=version)
        match verdict:
            case ProposalRefused():
                continue
            case Unchanged(known):
                assert known == before
                assert sorted(proposal.members) == sorted(before.state.isr)
            case Accepted(state, based_on):
                assert based_on == before
                assert (proposal.leader_epoch, proposal.partition_epoch) == (before.state.leader_epoch, before.version)
                assert state.leader == before.state.leader
                assert state.leader_epoch == before.state.leader_epoch, "an ISR change is no election"
                assert state.leader in state.isr
                assert set(state.isr) <= set(REPLICAS)
                for joined in set(state.isr) - set(before.state.isr):
                    assert joined in context.electable_broker_ids()
                    assert dict(proposal.isr)[joined] in (-1, context.brokers[joined].epoch)
                context.states[T0] = KnownState(state, before.version + 1)
                again = judge(proposal, context, version=version)
                assert again == Unchanged(context.states[T0]), "its answer was lost: it is asked for again"
