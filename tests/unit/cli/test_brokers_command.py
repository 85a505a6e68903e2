"""What `kavka brokers` counts of a cluster's partitions."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kavka.cli.cluster.brokers import shares_of
from kavka.client.cluster import PartitionMetadata, TopicMetadata

IDS = st.integers(1, 5)


@st.composite
def partitions(draw: st.DrawFn, number: int = 0) -> PartitionMetadata:
    replicas = tuple(draw(st.lists(IDS, unique=True, max_size=4)))
    in_sync = tuple(draw(st.lists(st.sampled_from(replicas), unique=True))) if replicas else ()
    leader = draw(st.sampled_from([-1, *in_sync]))
    return PartitionMetadata(number, leader, 0, replicas, in_sync, ())


@given(st.lists(partitions(), max_size=8))
def test_each_broker_leads_and_holds_what_a_look_at_every_partition_finds(found: list[PartitionMetadata]) -> None:
    shares = shares_of([TopicMetadata("t", UUID(int=1), False, tuple(found))])
    for broker in range(1, 6):
        share = shares.get(broker)
        counted = (share.leads, share.preferred, share.replicas, share.out_of_sync) if share else (0, 0, 0, 0)
        assert counted == (
            sum(each.leader == broker for each in found),
            sum(each.replicas[:1] == (broker,) for each in found),
            sum(broker in each.replicas for each in found),
            sum(broker in each.replicas and broker not in each.in_sync_replicas for each in found),
        )
