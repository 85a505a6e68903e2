"""What `kavka.testing` says of groups and does to them."""

from __future__ import annotations

import uuid

import pytest

from kavka.protocol.messages.streams_group_heartbeat_request import Subtopology, Topology
from kavka.share.decide.spans import RecordState
from kavka.testing import Cluster
from tests.kit.process_cluster import eventually
from tests.kit.share_group import ShareGroup
from tests.kit.share_member import ACCEPT, ShareMember
from tests.kit.streams_member import StreamsMember


@pytest.mark.kavka_cluster(brokers=1)
def test_locks_end_when_the_test_says_so_and_deliveries_are_counted_up_to_the_limit(kavka_cluster: Cluster) -> None:
    port = int(kavka_cluster.address(1).rpartition(":")[2])
    group = ShareGroup(port)
    name = group.name
    kavka_cluster.configure_group(name, {"share.delivery.count.limit": 2})
    assert kavka_cluster.share_records(name, name) is None
    assert kavka_cluster.deliveries(name, name) == {}
    with ShareMember(port, name, "reader") as member:
        member.join_assigned(name)
        assert eventually("records come", lambda: member.fetch(group.topic_id)) == [(0, 9, 1)]
        found = kavka_cluster.wait_for_group(name, members=1)
        assert (found.kind, [each.member_id for each in found.members]) == ("share", ["reader"])
        assert member.acknowledge(group.topic_id, (2, 3, [ACCEPT])) == 0
        assert kavka_cluster.expire_locks(name) == 8
        assert kavka_cluster.expire_locks(name) == 0, "what is being written is held no more"
        again = eventually("they come again", lambda: member.fetch(group.topic_id))
        assert {count for _first, _last, count in again} == {2}
        given = {offset for first, last, _count in again for offset in range(first, last + 1)}
        counted = kavka_cluster.deliveries(name, name)
        assert {offset for offset, count in counted.items() if count == 2} == given
        kavka_cluster.expire_locks(name)

        def ended() -> bool:
            told = kavka_cluster.share_records(name, name)
            assert told is not None
            return all(run.state is RecordState.ARCHIVED for run in told.runs if run.deliveries == 2)

        kavka_cluster.wait_until(ended)
        with pytest.raises(TimeoutError, match="has 1 member"):
            kavka_cluster.wait_for_group(name, members=2, timeout=0.01)


@pytest.mark.kavka_cluster(brokers=1)
def test_a_streams_group_is_there_with_its_tasks_and_without_a_delay(kavka_cluster: Cluster) -> None:
    kavka_cluster.create_topic("words", partitions=2)
    application = f"app-{uuid.uuid4().hex}"
    topology = Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=["words"])])
    with StreamsMember(int(kavka_cluster.address(1).rpartition(":")[2]), application, "one") as member:
        assert member.join(topology).active_tasks, "the first answer has them"
        member.beat(has={"0": [0, 1]})
        found = kavka_cluster.wait_for_group(application, members=1)
        assert found.kind == "streams"
        (one,) = found.members
        assert one.tasks is not None
        assert one.tasks.active == {"0": [0, 1]}


@pytest.mark.kavka_cluster(brokers=1)
def test_a_group_that_is_not_there_is_dead(kavka_cluster: Cluster) -> None:
    assert kavka_cluster.group("nobody").state == "Dead"
