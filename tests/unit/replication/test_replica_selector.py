"""Which replica a consumer is sent to: in its rack, in sync, with the offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.model import BrokerId
from kavka.replication.decide.replica_selector import preferred_read_replica
from tests.unit.replication.replication_support import A, B, C, D, Replica

FAR = "far"
RACKS = {A: "here", B: FAR, C: FAR, D: "here"}


def leader(path: Path, isr: tuple[BrokerId, ...] = (A, B, C, D)) -> Replica:
    """Leads, with ten records."""
    replica = Replica(path)
    replica.lead(isr, replicas=(A, B, C, D))
    replica.append(10)
    return replica


def sent_to(replica: Replica, rack: str, offset: int) -> BrokerId | None:
    return preferred_read_replica(replica.partition, rack, offset, RACKS.get)


def test_a_consumer_in_no_rack_or_in_the_leaders_stays(tmp_path: Path) -> None:
    replica = leader(tmp_path)
    for follower in (B, C, D):
        replica.fetch(follower)
    assert [sent_to(replica, rack, 5) for rack in ("", "nowhere", FAR)] == [None, None, C]
    assert sent_to(replica, "here", 5) is None, "the leader stands there, as D does"
    assert preferred_read_replica(replica.partition, "", 5, lambda _: None) is None, "none of them says its rack"
    assert preferred_read_replica(replica.partition, "", 5, {B: ""}.get) is None


def test_a_consumer_is_not_sent_out_of_its_rack(tmp_path: Path) -> None:
    replica = leader(tmp_path)
    replica.fetch(D)
    assert sent_to(replica, FAR, 5) is None, "B and C have not fetched"


def test_only_a_replica_in_sync_is_chosen(tmp_path: Path) -> None:
    replica = leader(tmp_path, (A, B))
    replica.fetch(B, 6)
    replica.fetch(C)
    assert sent_to(replica, FAR, 5) == B, "C has more, and is not in the ISR"
    assert sent_to(replica, FAR, 7) is None


@pytest.mark.parametrize(
    ("offset", "chosen"),
    [(3, None), (4, B), (6, B), (7, None)],
)
def test_a_replica_is_chosen_for_what_is_in_its_log_and_for_its_end(
    tmp_path: Path, offset: int, chosen: BrokerId | None
) -> None:
    replica = leader(tmp_path)
    replica.partition.record_follower_fetch(B, -1, 6, log_start_offset=4, leader_end_offset=10, now_ms=replica.now_ms)
    assert sent_to(replica, FAR, offset) == chosen


def test_a_replica_that_has_not_fetched_in_this_epoch_is_not_chosen_and_one_whose_log_begins_at_0_is(
    tmp_path: Path,
) -> None:
    replica = leader(tmp_path)
    assert sent_to(replica, FAR, 0) is None
    replica.partition.record_follower_fetch(B, -1, 0, log_start_offset=0, leader_end_offset=10, now_ms=replica.now_ms)
    assert sent_to(replica, FAR, 0) == B
    remote = replica.partition.remote_replica(B)
    assert remote is not None
    remote.log_start_offset = -1
    assert sent_to(replica, FAR, 0) is None, "where its log begins is not known"


def test_of_several_in_the_rack_the_one_with_most_is_chosen_and_then_the_one_last_caught_up(tmp_path: Path) -> None:
    replica = leader(tmp_path)
    replica.fetch(B, 9)
    replica.fetch(C, 8)
    assert sent_to(replica, FAR, 5) == B
    replica.fetch(C, 10)
    assert sent_to(replica, FAR, 5) == C
    replica.now_ms += 1
    replica.fetch(B, 10)
    assert sent_to(replica, FAR, 5) == B
    replica.now_ms += 1
    replica.fetch(C, 10)
    assert sent_to(replica, FAR, 5) == C
