"""Followers over simulated networks and disks, against real leaders."""

from __future__ import annotations

import uuid

import pytest

from kavka.decisions import DecisionKind
from kavka.model import BrokerId, TopicPartition
from kavka.protocol.api import ApiKey
from kavka.replication.decide.fetch_state import Stage
from kavka.replication.fetcher import ReplicaFetcher
from kavka.replication.fetcher_manager import FetcherSettings
from tests.unit.replication.fetching_support import DEFAULT_SETTINGS, NOW_MS, ORDERS, World, spawn

BEFORE_2_7 = FetcherSettings(inter_broker_protocol_version="2.6")


def three(settings: FetcherSettings = DEFAULT_SETTINGS) -> World:
    """Brokers 1 to 3; 1 leads in epoch 0."""
    world = World(settings=settings)
    for broker_id in (1, 2, 3):
        world.node(broker_id)
    world.lead(1, 0)
    return world


def in_step(world: World, end: int, partition: TopicPartition = ORDERS) -> bool:
    """Whether all logs end at `end`, committed."""
    return all(node.end(partition) == end == node.high_watermark(partition) for node in world.nodes.values())


def logs_are_equal(world: World, partition: TopicPartition = ORDERS) -> bool:
    return len({node.bytes_of(partition) for node in world.nodes.values()}) == 1


# -- records


def test_records_arrive_byte_for_byte_and_the_high_watermark_follows() -> None:
    world = three()
    world.node(1).append(b"a", b"b")
    world.node(1).append(b"c")
    world.run_until(lambda: in_step(world, 3))
    assert logs_are_equal(world)
    assert ORDERS in world.node(2).advanced


def test_a_record_is_committed_within_a_few_round_trips() -> None:
    world = three()
    world.node(1).append(b"first")
    world.run_until(lambda: in_step(world, 1))
    world.node(1).append(b"second")
    assert world.run_until(lambda: world.node(1).high_watermark() == 2) < 0.005


def test_a_log_of_many_megabytes_is_fetched_in_pieces_of_whole_batches() -> None:
    world = three()
    world.node(1).append(b"x" * 100_000, count=100)
    world.run_until(lambda: world.node(2).end() == world.node(3).end() == 100)
    assert logs_are_equal(world)
    assert len(world.node(1).asked(ApiKey.FETCH)) >= 20, "1 MiB at a time, for each of two"


def test_idle_partitions_are_not_named_again_and_again() -> None:
    world = three()
    for index in range(1, 200):
        world.lead(1, 0, partition=TopicPartition("orders", index))
    world.run_for(2.0)
    leader = world.node(1)
    leader.seen.clear()
    leader.append(b"a")
    world.run_until(lambda: in_step(world, 1))
    world.run_for(2.0)
    sizes = [one.size for one in leader.asked(ApiKey.FETCH)]
    assert sizes
    assert max(sizes) < 150, "one partition at most"


# -- leaders that change


@pytest.mark.parametrize("settings", [FetcherSettings(), BEFORE_2_7], ids=["3.9", "2.6"])
def test_a_former_leaders_uncommitted_tail_goes_and_the_logs_are_the_same_byte_for_byte(
    settings: FetcherSettings,
) -> None:
    # KIP-101, second case.
    world = three(settings)
    first, second = world.node(1), world.node(2)
    first.append(b"m1")
    world.run_until(lambda: in_step(world, 1))
    world.isolate(1)
    first.append(b"m2 that nobody else has", count=3)
    world.lead(2, 1, tell=[2, 3], isr=[2, 3])
    second.append(b"m3")
    world.run_until(lambda: second.high_watermark() == 2)
    world.network.heal_all()
    world.lead(2, 1, tell=[1], isr=[2, 3])
    world.run_until(lambda: in_step(world, 2))
    assert logs_are_equal(world)
    (decision,) = first.told(DecisionKind.LOG_TRUNCATED)
    assert decision.before["log_end_offset"] == 4
    assert decision.after["log_end_offset"] == 1
    assert "no record is removed" not in decision.why
    assert (first.fetchers.counts.truncations, first.fetchers.counts.truncations_below_high_watermark) == (1, 0)


@pytest.mark.parametrize("settings", [FetcherSettings(), BEFORE_2_7], ids=["3.9", "2.6"])
def test_fast_changes_of_leaders_leave_no_alien_epoch_behind(settings: FetcherSettings) -> None:
    # KIP-279, KAFKA-7415, KAFKA-10706: each leads in turn without the others, some write nothing.
    world = three(settings)
    world.node(1).append(b"common", count=2)
    world.run_until(lambda: in_step(world, 2))
    world.isolate(1)
    world.isolate(2)
    world.isolate(3)
    world.node(1).append(b"one's own", count=4)
    world.lead(2, 1, tell=[2], isr=[2])
    world.node(2).append(b"two's own", count=1)
    world.lead(3, 2, tell=[3], isr=[3])
    world.lead(1, 3, tell=[1], isr=[1])
    world.lead(2, 4, tell=[2], isr=[2])
    world.node(2).append(b"two's own, again", count=3)
    world.lead(3, 5, tell=[3], isr=[3])
    world.node(3).append(b"three's", count=2)
    world.network.heal_all()
    world.lead(3, 5, isr=[3])
    world.run_until(lambda: in_step(world, 4))
    assert logs_are_equal(world)
    assert len({tuple(node.partition().log.epoch_entries) for node in world.nodes.values()}) == 1


def test_an_epoch_without_records_is_forgotten_and_told_as_just_that() -> None:
    world = three()
    world.node(1).append(b"common")
    world.run_until(lambda: in_step(world, 1))
    world.isolate(1)
    world.lead(1, 1, tell=[1], isr=[1])  # It leads in epoch 1 and writes nothing.
    world.lead(2, 2, tell=[2, 3], isr=[2, 3])
    world.network.heal_all()
    world.lead(2, 2, tell=[1], isr=[2, 3])
    world.run_until(lambda: bool(world.node(1).told(DecisionKind.LOG_TRUNCATED)))
    (decision,) = world.node(1).told(DecisionKind.LOG_TRUNCATED)
    assert decision.before["log_end_offset"] == decision.after["log_end_offset"] == 1
    assert decision.why.endswith("; no record is removed, only an epoch without records")


def test_a_follower_that_missed_epochs_of_the_same_leader_looks_where_the_logs_part() -> None:
    # KAFKA-7164: 1 led in 0, 2 in 1, 1 again in 2; broker 3 heard nothing of 1, and has records of 0 that went.
    world = three()
    world.node(1).append(b"common")
    world.run_until(lambda: in_step(world, 1))
    world.network.cut("broker-1", "broker-2")
    world.node(1).append(b"only 1 and 3 have it")
    world.run_until(lambda: world.node(3).end() == 2)
    world.isolate(3)
    world.lead(2, 1, tell=[2], isr=[2])
    world.node(2).append(b"of epoch 1")
    world.network.heal_all()
    world.isolate(3)
    world.lead(2, 1, tell=[1], isr=[2])
    world.run_until(lambda: world.node(1).bytes_of() == world.node(2).bytes_of())
    world.lead(1, 2, tell=[1, 2], isr=[1, 2])
    world.network.heal_all()
    world.lead(1, 2, tell=[3], isr=[1, 2])
    world.run_until(lambda: logs_are_equal(world))
    assert world.node(3).told(DecisionKind.LOG_TRUNCATED)[0].leader_epoch == 2


def test_a_leader_that_hears_later_than_its_followers_is_asked_again_within_milliseconds() -> None:
    world = three()
    world.node(1).append(b"a")
    world.run_until(lambda: in_step(world, 1))
    world.node(1).kill()
    del world.nodes[BrokerId(1)]
    world.lead(2, 1, tell=[3], isr=[2, 3])
    world.run_for(0.020)
    world.lead(2, 1, tell=[2], isr=[2, 3])
    world.node(2).append(b"b")
    assert world.run_until(lambda: world.node(3).end() == 2) < 0.060


@pytest.mark.parametrize(("is_kafka", "within_s"), [(False, 0.030), (True, 0.550)])
def test_partitions_that_are_to_be_followed_do_not_wait_for_a_fetch_that_waits(is_kafka: bool, within_s: float) -> None:
    # Broker 3 follows 2 for an idle partition: its fetch waits there, when leader 1 dies.
    world = three()
    world.node(2).mutes = is_kafka
    idle = TopicPartition("idle", 0)
    world.lead(2, 0, partition=idle, topic_id=uuid.UUID(int=5))
    world.node(1).append(b"a")
    world.run_until(lambda: in_step(world, 1))
    world.run_for(0.7)
    world.node(1).kill()
    del world.nodes[BrokerId(1)]
    world.lead(2, 1, isr=[2, 3])
    world.node(2).append(b"b")
    assert world.run_until(lambda: world.node(3).end() == 2) < within_s


def test_a_partition_that_is_to_be_followed_costs_no_more_where_many_are_followed_already() -> None:
    world = three()
    for index in range(1, 200):
        world.lead(1, 0, partition=TopicPartition("orders", index))
    world.run_for(2.0)
    leader = world.node(1)
    leader.seen.clear()

    for index in range(200, 210):
        partition = TopicPartition("orders", index)
        world.lead(1, 0, partition=partition)
        leader.append(b"a", partition=partition)
        took_s = world.run_until(lambda at=partition: world.node(2).end(at) == world.node(3).end(at) == 1)  # type: ignore[misc]
        assert took_s < 0.050
        world.run_for(0.2)

    assert max(one.size for one in leader.asked(ApiKey.FETCH)) < 200, "two partitions at most"
    assert len(leader.asked(ApiKey.OFFSET_FOR_LEADER_EPOCH)) <= 20, "once for each fetch at most, of two followers"


def test_a_bug_in_what_hastens_a_fetch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_fetcher: ReplicaFetcher, _connection: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(ReplicaFetcher, "_ask_for_nothing", fail)
    world = three()
    world.run_for(0.7)  # amid a fetch that waits
    world.lead(1, 0, partition=TopicPartition("orders", 1))
    with pytest.raises(AssertionError):
        world.run_for(0.1)
    assert {str(bug) for node in world.nodes.values() for bug in node.bugs} == {"a bug"}


# -- connections


def test_a_leader_that_was_killed_is_found_again_as_soon_as_it_listens() -> None:
    world = three()
    leader = world.node(1)
    leader.append(b"a")
    world.run_until(lambda: in_step(world, 1))
    leader.kill()
    world.run_for(3.0)
    leader.start()
    leader.apply(ORDERS, world.states[ORDERS])
    leader.append(b"b")
    took_s = world.run_until(lambda: world.node(2).end() == world.node(3).end() == 2)
    assert took_s < 0.120


def test_a_leader_whose_host_was_cut_off_is_found_again_soon_after_the_cut() -> None:
    world = three()
    world.node(1).append(b"a")
    world.run_until(lambda: in_step(world, 1))
    world.isolate(1)
    world.run_for(20.0)
    world.node(1).append(b"b")
    world.network.heal_all()
    assert world.run_until(lambda: world.node(2).end() == world.node(3).end() == 2) < 2.5


def test_a_leader_that_is_not_known_yet_is_fetched_from_when_it_is() -> None:
    world = three()
    third = world.node(3)
    third.fetchers.unfollow([ORDERS])
    third.fetchers.set_endpoints({})
    world.lead(1, 1)
    world.node(1).append(b"a")
    world.run_for(1.0)
    assert third.end() == 0
    third.fetchers.set_endpoints(world.endpoints())
    assert world.run_until(lambda: third.end() == 1) < 0.010


def test_a_leader_that_moved_to_another_address_is_fetched_from_there() -> None:
    world = three()
    world.run_for(0.1)
    third = world.node(3)
    endpoints = dict(world.endpoints())
    endpoints[BrokerId(1)] = endpoints[BrokerId(2)]
    world.node(2).seen.clear()
    third.fetchers.set_endpoints(endpoints)
    world.run_until(lambda: bool(world.node(2).asked(ApiKey.FETCH)), within_s=0.1)


def test_a_leader_restarted_without_its_sessions_is_told_everything_anew() -> None:
    world = three()
    for index in range(1, 5):
        world.lead(1, 0, partition=TopicPartition("orders", index))
    world.run_for(1.0)
    world.node(1).sessions._sessions.clear()
    for index in range(1, 5):
        world.node(1).append(b"a", partition=TopicPartition("orders", index))
    world.run_until(lambda: all(in_step(world, 1, TopicPartition("orders", index)) for index in range(1, 5)))


# -- offsets that the leader does not have


def test_a_follower_behind_the_leaders_log_start_begins_anew_there() -> None:
    world = three()
    leader, third = world.node(1), world.node(3)
    leader.append(b"a", count=5)
    world.run_until(lambda: in_step(world, 5))
    third.fetchers.unfollow([ORDERS])
    leader.append(b"b", count=5)
    world.run_until(lambda: world.node(2).end() == 10)
    leader.partition().log.advance_high_watermark(10)
    leader.partition().log.delete_records(8)
    world.lead(1, 1, tell=[1], isr=[1, 2])
    world.lead(1, 1, isr=[1, 2])
    world.run_until(lambda: third.end() == 10)
    log = third.partition().log
    assert (log.log_start_offset, third.bytes_of()) == (8, leader.bytes_of())
    assert log.high_watermark >= 8


def test_a_follower_ahead_of_a_leader_by_an_unclean_election_is_cut_and_counted() -> None:
    world = three()
    first, third = world.node(1), world.node(3)
    first.append(b"a", count=2)
    world.run_until(lambda: in_step(world, 2))
    third.fetchers.unfollow([ORDERS])
    world.lead(1, 1, isr=[1, 2], tell=[1, 2])
    first.append(b"b", count=3)
    world.run_until(lambda: world.node(2).high_watermark() == 5)
    world.lead(3, 2, isr=[3])
    third.append(b"c")
    world.run_until(lambda: in_step(world, 3))
    assert logs_are_equal(world)
    assert world.node(2).fetchers.counts.truncations_below_high_watermark == 1


def test_a_follower_that_deleted_records_on_its_own_holds_no_deletion_at_the_leader_up() -> None:
    # Retention runs on each broker by itself. A leader that never hears of a follower's log start takes it for the one
    # that has records longest, and DeleteRecords of an idle partition would run into its time limit.
    world = three()
    leader = world.node(1)
    leader.append(b"a", count=5)
    world.run_until(lambda: in_step(world, 5) and leader.high_watermark() == 5)
    world.run_for(1)
    for number in (2, 3):
        follower = world.node(number)
        world.run_until(lambda node=follower: node.high_watermark() == 5)  # type: ignore[misc]
        assert follower.partition().log.delete_records(3)
        follower.fetchers.on_log_start_moved(ORDERS)
    world.run_for(1)
    assert leader.partition().log.delete_records(3)
    leader.replicas.on_log_start_moved(ORDERS)
    world.run_until(lambda: leader.partition().low_watermark == 3, within_s=2)


# -- partitions that come and go


def test_an_unfollowed_partition_stays_as_it_is_and_its_fetcher_ends() -> None:
    world = three()
    second = world.node(2)
    world.run_for(0.1)
    second.fetchers.unfollow([ORDERS])
    assert len(second.fetchers) == 0
    world.node(1).append(b"a")
    world.run_for(1.0)
    assert second.end() == 0
    assert second.fetchers.state(ORDERS) is None


@pytest.mark.setting("num.replica.fetchers")
def test_partitions_are_shared_among_fetchers_and_move_when_there_are_more() -> None:
    world = three(FetcherSettings(num_replica_fetchers=1))
    partitions = [TopicPartition("orders", index) for index in range(8)]
    for partition in partitions[1:]:
        world.lead(1, 0, partition=partition)
    world.run_for(0.2)
    third = world.node(3)
    assert len(third.fetchers) == 1
    third.fetchers.configure(FetcherSettings(num_replica_fetchers=4))
    assert len(third.fetchers) == 4
    for partition in partitions:
        world.node(1).append(b"a", partition=partition)
    world.run_until(lambda: all(in_step(world, 1, partition) for partition in partitions))


def test_partitions_without_a_leader_are_not_fetched() -> None:
    world = three()
    world.run_for(0.1)
    world.lead(-1, 1, tell=[2, 3])
    assert len(world.node(2).fetchers) == 0


def test_a_topic_made_anew_under_its_name_is_fetched_by_its_own_id() -> None:
    world = three()
    world.node(1).append(b"old")
    world.run_until(lambda: in_step(world, 1))
    anew = uuid.UUID(int=78)
    for node in world.nodes.values():
        node.fetchers.unfollow([ORDERS])
        node.replicas.unhost(ORDERS)
        node.logs.delete(ORDERS, NOW_MS)
    world.states.clear()
    # The followers hear of it first: the leader does not know the id yet.
    world.lead(1, 0, topic_id=anew, tell=[2, 3])
    world.run_for(0.050)
    world.lead(1, 0, topic_id=anew, tell=[1])
    world.node(1).append(b"new", b"newer")
    world.run_until(lambda: in_step(world, 2))
    assert logs_are_equal(world)


def test_damage_at_the_leader_delays_its_partition_and_no_other() -> None:
    # KAFKA-4384, KAFKA-9617
    world = three()
    healthy = TopicPartition("orders", 1)
    world.lead(1, 0, partition=healthy)
    leader = world.node(1)
    log = leader.partition().log
    leader.append(b"a" * 100)
    content = leader.disk.files[f"{log.directory}/00000000000000000000.log"].data
    content[-1] ^= 1
    world.run_for(0.1)
    leader.append(b"b", partition=healthy)
    world.run_until(lambda: world.node(2).end(healthy) == world.node(3).end(healthy) == 1, within_s=0.1)
    state = world.node(2).fetchers.state(ORDERS)
    assert state is not None
    assert "CRC" in (state.last_error or "")
    content[-1] ^= 1
    world.run_until(lambda: in_step(world, 1))


def test_a_fenced_follower_says_so_and_goes_on_with_the_next_epoch() -> None:
    world = three()
    world.node(1).append(b"a")
    world.run_until(lambda: in_step(world, 1))
    world.lead(1, 1, tell=[1, 2])
    world.run_until(lambda: world.node(3).fetchers.failed_partitions == 1)
    state = world.node(3).fetchers.state(ORDERS)
    assert state is not None
    assert state.stage is Stage.FAILED
    world.lead(1, 2)
    world.node(1).append(b"b")
    world.run_until(lambda: in_step(world, 2))
    assert world.node(3).fetchers.failed_partitions == 0


def test_stopped_fetchers_leave_nothing_running() -> None:
    world = three()
    world.run_for(0.1)
    second = world.node(2)
    task = spawn(second, second.fetchers.stop())
    world.run_until(task.done, within_s=0.1)
    world.node(1).append(b"a")
    world.run_for(1.0)
    assert (len(second.fetchers), second.end()) == (0, 0)


def test_an_order_to_follow_that_comes_while_the_broker_stops_has_nothing_appended() -> None:
    """Its logs are closed, and marked clean, right after its fetchers have ended: what is appended later is neither in
    the epoch checkpoint nor looked for by the next start."""
    world = three()
    world.run_for(0.1)
    second = world.node(2)
    task = spawn(second, second.fetchers.stop())
    world.run_until(task.done, within_s=0.1)

    world.lead(1, 1)
    world.node(1).append(b"a")
    world.run_for(1.0)

    assert (len(second.fetchers), second.end()) == (0, 0)
