"""What clients use up of their quotas: who shares a meter, which delay counts, and what leaves a record."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from kavka.broker.quotas import client_quotas
from kavka.broker.quotas.client_quotas import ClientQuotas, QuotaPorts, RequestMeter, rate_of_address
from kavka.config.broker import BrokerConfig
from kavka.decisions import Decision, DecisionKind
from kavka.model import BrokerId
from kavka.protocol import messages as m
from kavka.protocol.api import RequestHeader
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.connection import ConnectionContext, Request
from kavka.security.quota_limits import QuotaKind, Share

HEADER_BYTES = 10


class World:
    """A broker's quotas, with clocks that stand still until they are moved."""

    def __init__(self, **settings: str) -> None:
        self.now_ms = 1_000_000
        self.spent_ns = 0
        self.told: list[Decision] = []
        texts = {
            "broker.id": "1",
            "log.dirs": "/d",
            "zookeeper.connect": "localhost",
            **{key.replace("_", "."): text for key, text in settings.items()},
        }
        self.quotas = ClientQuotas(
            BrokerConfig.from_properties(texts),
            QuotaPorts(BrokerId(1), lambda: self.now_ms, lambda: self.spent_ns, lambda: 7, self.told.append),
        )

    def set(self, path: str, **config: object) -> None:
        self.quotas.on_entity(path, {key: str(value) for key, value in config.items()})

    def meter(
        self, key: ApiKey, *, user: str = "alice", client_id: str | None = "app", size: int = 0, version: int = 6
    ) -> RequestMeter:
        context = ConnectionContext("c", "10.0.0.1", 1, "PLAINTEXT", principal=f"User:{user}")
        header = RequestHeader(key, version, 1, client_id)
        body = memoryview(bytes(max(size - HEADER_BYTES - len(client_id or ""), 0)))
        return self.quotas.meter(Request(header, body, context))

    def produce(self, size: int, *, acks: int = -1, spent_ms: float = 0, **who: Any) -> int:
        meter = self.meter(ApiKey.PRODUCE, size=size, **who)
        self.spent_ns += round(spent_ms * 1_000_000)
        return meter.charge(m.ProduceRequest(acks=acks))

    def ask(self, *, spent_ms: float, key: ApiKey = ApiKey.METADATA, **who: Any) -> int:
        meter = self.meter(key, **who)
        self.spent_ns += round(spent_ms * 1_000_000)
        return meter.charge(None)


def test_a_producer_over_its_quota_waits_until_its_rate_is_down_again() -> None:
    world = World()
    world.set("users/alice", producer_byte_rate=1000)
    assert world.produce(10_000) == 0
    assert world.produce(5_000) == 5_000
    world.now_ms += 5_000
    # As in Kafka: the burst counts until its window is out of sight.
    assert world.produce(100) == 5_100
    world.now_ms += 6_000
    assert world.produce(100) == 0


def test_the_clients_of_a_user_share_its_quota_and_others_have_none() -> None:
    world = World()
    world.set("users/alice", producer_byte_rate=1000)
    assert world.produce(10_000, client_id="one") == 0
    assert world.produce(1_000, client_id="two") == 1_000
    assert world.produce(1_000_000, user="bob") == 0


def test_of_several_delays_the_longest_counts_and_is_that_of_its_kind_only() -> None:
    world = World()
    world.set("users/alice", producer_byte_rate=1000, request_percentage=1)
    assert world.produce(20_000, spent_ms=150) == 10_000
    produce, request = (
        world.quotas.kinds[kind].meters[Share("alice", "")] for kind in (QuotaKind.PRODUCE, QuotaKind.REQUEST)
    )
    assert produce.average_delay_ms(world.now_ms) == 10_000
    assert request.average_delay_ms(world.now_ms) == 0
    assert request.rate.measure(world.now_ms) == pytest.approx(1.5)


def test_time_is_waited_for_one_window_at_most() -> None:
    world = World()
    world.set("clients/app", request_percentage=1)
    assert world.ask(spent_ms=110) == 1_000
    assert world.ask(spent_ms=0, client_id="other") == 0


def test_requests_without_an_answer_are_bounded_by_their_bytes_and_not_by_their_time() -> None:
    world = World()
    world.set("users/alice", producer_byte_rate=1000, request_percentage=0.001)
    assert world.produce(1_000, acks=0, spent_ms=500) == 0
    assert world.produce(14_000, acks=0, spent_ms=500) == 5_000


def test_what_brokers_ask_of_each_other_is_exempt() -> None:
    world = World()
    world.set("users/alice", request_percentage=0.001)
    assert world.ask(spent_ms=900, key=ApiKey.LEADER_AND_ISR) == 0
    assert world.quotas.exempt.measure(world.now_ms) == pytest.approx(9)
    follower = world.meter(ApiKey.FETCH)
    follower.fetched_by_follower()
    assert follower.charge(None) == 0


def test_who_asks_what_only_brokers_may_pays_for_the_time() -> None:
    world = World()
    world.set("users/alice", request_percentage=1)
    meter = world.meter(ApiKey.LEADER_AND_ISR)
    meter.refuse()
    world.spent_ns += 110_000_000
    assert meter.charge(None) == 1_000
    assert world.quotas.exempt.measure(world.now_ms) == 0


def test_a_consumer_over_its_quota_gets_no_records_and_is_not_charged_for_them() -> None:
    world = World()
    world.set("users/alice", consumer_byte_rate=1000)
    meter = world.meter(ApiKey.FETCH)
    assert meter.most_bytes() == 10_000
    assert meter.fetched(10_000) == 0
    over = world.meter(ApiKey.FETCH)
    assert over.fetched(1_000) == 1_000
    assert over.charge(None) == 1_000
    assert world.quotas.kinds[QuotaKind.FETCH].meters[Share("alice", "")].rate.measure(world.now_ms) == 1_000
    world.now_ms += 11_000
    assert world.meter(ApiKey.FETCH).fetched(1_000) == 0


def test_a_consumer_without_a_quota_may_take_what_it_likes() -> None:
    world = World()
    world.set("users/bob", consumer_byte_rate=1000)
    meter = world.meter(ApiKey.FETCH)
    assert meter.most_bytes() == 2**31 - 1
    assert meter.fetched(1_000_000_000) == 0


def test_a_strict_quota_of_changes_lets_the_change_pass_that_overdraws_it_and_refuses_the_next() -> None:
    world = World()
    world.set("users/alice", controller_mutation_rate=1)
    meter = world.meter(ApiKey.CREATE_TOPICS)
    assert meter.mutate(20, strict=True)
    assert not meter.mutate(1, strict=True)
    assert meter.charge(None) == 9_000
    world.now_ms += 9_000
    assert world.meter(ApiKey.CREATE_TOPICS).mutate(1, strict=True)


def test_a_permissive_quota_of_changes_refuses_nothing_and_delays() -> None:
    world = World()
    world.set("users/alice", controller_mutation_rate=1)
    meter = world.meter(ApiKey.CREATE_TOPICS, version=5)
    assert meter.mutate(12, strict=False)
    assert meter.mutate(1, strict=False)
    world.now_ms += 500
    assert meter.charge(None) == 1_500


def test_a_changed_quota_holds_for_what_was_used_up_before() -> None:
    world = World()
    world.set("users/alice", producer_byte_rate=1_000_000)
    assert world.produce(20_000) == 0
    world.set("users/alice", producer_byte_rate=1000)
    assert world.produce(0) == pytest.approx(10_015, abs=10)
    world.set("users/alice", producer_byte_rate=0)
    assert world.produce(0) == 11_000
    world.set("users/alice")
    assert not world.quotas.is_active


def test_nothing_is_measured_once_the_last_quota_is_gone() -> None:
    world = World()
    assert not world.quotas.is_active
    world.set("users/alice", producer_byte_rate=1000)
    world.produce(10_000)
    world.set("users/alice")
    assert not world.quotas.is_active
    assert not world.quotas.kinds[QuotaKind.PRODUCE].meters


def test_the_first_delay_of_a_minute_leaves_a_record_that_says_whose_quota_it_is() -> None:
    world = World()
    world.set("users/<default>", producer_byte_rate=1000)
    assert world.produce(15_000) == 5_000
    assert world.produce(1_000) > 0
    (decision,) = world.told
    assert decision.kind is DecisionKind.THROTTLED
    assert decision.why == (
        "user alice had 1500 bytes/s produced, and 1000 is the quota of default user: the client waits 5000 ms"
    )
    assert decision.evidence["rule"] == "default user"
    world.now_ms += 60_000
    assert world.produce(15_000) == 5_000
    assert world.told[1].evidence["unrecorded_before"] == 1


def test_clients_with_many_names_leave_no_flood_of_records() -> None:
    world = World()
    world.set("clients/<default>", producer_byte_rate=1)
    for number in range(client_quotas.MAX_TOLD + 50):
        assert world.produce(1_000, client_id=f"client-{number}") > 0
    assert len(world.told) == client_quotas.MAX_TOLD
    world.now_ms += 60_000
    world.produce(1_000, client_id="client-149")
    assert world.told[-1].evidence["unrecorded_before"] == 1


def test_a_quota_that_is_no_number_is_left_out() -> None:
    world = World()
    world.set("users/alice", producer_byte_rate="much", consumer_byte_rate=1000)
    assert world.produce(1_000_000) == 0
    assert world.quotas.is_active


def test_the_windows_are_those_of_the_settings() -> None:
    world = World(quota_window_num="2", quota_window_size_seconds="3")
    world.set("users/alice", producer_byte_rate=1000, request_percentage=1)
    assert world.produce(4_500) == 1_500
    assert world.ask(spent_ms=1_000_000) == 3_000


def test_meters_are_bounded_and_the_idle_ones_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_METERS", 20)
    world = World()
    world.set("clients/<default>", producer_byte_rate=1000)
    world.produce(15_000, client_id="old")
    world.now_ms += 20_000
    for number in range(19):
        world.produce(15_000, client_id=f"client-{number}")
    world.produce(15_000, client_id="new")
    meters = world.quotas.kinds[QuotaKind.PRODUCE].meters
    assert Share("", "old") not in meters
    assert Share("", "client-1") in meters, "a tenth goes at once, two here"
    for number in range(100):
        world.now_ms += 1
        world.produce(15_000, client_id=f"more-{number}")
    assert len(meters) <= 20


def test_clients_that_make_up_names_do_not_have_all_meters_looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the pace at which they become idle there is one idle meter more for each new one."""
    monkeypatch.setattr(client_quotas, "MAX_METERS", 110)
    world, looks = World(), []
    kind = world.quotas.kinds[QuotaKind.PRODUCE]
    make_room = kind._make_room

    def counted(now_ms: int) -> None:
        looks.append(now_ms)
        make_room(now_ms)

    monkeypatch.setattr(kind, "_make_room", counted)
    world.set("clients/<default>", producer_byte_rate=1_000_000)
    for number in range(1_100):
        world.now_ms += 100
        world.produce(100, client_id=f"made-up-{number}")
    assert len(looks) <= 1_100 / 11 + 1


def test_client_ids_as_long_as_the_wire_allows_are_not_kept() -> None:
    world = World()
    world.set("clients/<default>", producer_byte_rate=1000, request_percentage=1000)
    tracemalloc.start()
    try:
        for number in range(200):
            assert world.produce(40_000, client_id=f"{number:>30000}") > 0
        kept, _most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 200 * 10_000
    assert len(world.quotas.kinds[QuotaKind.PRODUCE].meters) == 200
    assert max(len(str(decision.evidence)) for decision in world.told) < 1_000


def test_a_quota_of_a_long_client_id_holds_for_it_and_for_no_other() -> None:
    world = World()
    one, other = "x" * 30_000 + "1", "x" * 30_000 + "2"
    world.set(f"clients/{one}", producer_byte_rate=1000)
    world.set(f"users/bob/clients/{one}", producer_byte_rate=2000)
    assert world.produce(45_000, client_id=one) == 35_000
    assert world.produce(45_000, client_id=other) == 0
    assert world.produce(45_000, client_id=one, user="bob") == 12_500
    world.set(f"clients/{one}")
    assert world.produce(45_000, client_id=one) == 0


def test_the_rate_of_an_address_is_read_from_its_path() -> None:
    assert rate_of_address("ips/10.0.0.7", {"connection_creation_rate": "5"}) == ("10.0.0.7", 5)
    assert rate_of_address("ips/<default>", {}) == (None, None)
    assert rate_of_address("ips/10.0.0.7", {"connection_creation_rate": "x"}) == ("10.0.0.7", None)


def test_metrics_show_rates_and_delays_by_user_and_client_id() -> None:
    world = World()
    world.set("users/alice", producer_byte_rate=1000, controller_mutation_rate=1)
    world.produce(15_000)
    world.meter(ApiKey.CREATE_TOPICS).mutate(1, strict=True)
    tags = (("user", "alice"), ("client-id", ""))
    assert world.quotas.measured("Produce", "byte-rate") == [(tags, 1_500)]
    assert world.quotas.measured("Produce", "throttle-time") == [(tags, 5_000)]
    assert world.quotas.measured("ControllerMutation", "tokens") == [(tags, 10)]
    assert world.quotas.measured("ControllerMutation", "mutation-rate") == [(tags, 0.1)]


def test_records_that_were_acquired_leave_and_the_wait_for_more_comes_after_them() -> None:
    world = World()
    world.set("clients/app", consumer_byte_rate=1000)

    def share_fetch(size: int) -> tuple[int, int]:
        """What was owed, what is told."""
        meter = world.meter(ApiKey.SHARE_FETCH)
        owed_ms = meter.owed_ms()
        meter.gave(0 if owed_ms else size, owed_ms)
        return owed_ms, meter.charge(m.ShareFetchRequest())

    assert share_fetch(10_000) == (0, 0)  # As much as ten windows hold.
    assert share_fetch(3_000) == (0, 3_000)
    assert share_fetch(5_000) == (3_000, 3_000)
    world.now_ms += 11_000  # All windows are over.
    assert share_fetch(5_000) == (0, 0)
    assert world.told[0].evidence["quota"] == "consumer_byte_rate"


def test_a_quota_of_nothing_lets_no_share_consumer_acquire_anything() -> None:
    world = World()
    world.set("clients/app", consumer_byte_rate=0)
    meter = world.meter(ApiKey.SHARE_FETCH)
    assert meter.owed_ms() == 11_000
    meter.gave(0, 11_000)
    assert meter.charge(m.ShareFetchRequest()) == 11_000


def test_who_has_no_quota_of_fetches_owes_nothing() -> None:
    world = World()
    world.set("clients/other", consumer_byte_rate=0)
    assert world.meter(ApiKey.SHARE_FETCH).owed_ms() == 0
    world.set("clients/other")
    world.set("clients/app", producer_byte_rate=0)
    assert world.meter(ApiKey.SHARE_FETCH).owed_ms() == 0


def test_what_was_overdrawn_is_owed_no_more_once_the_quota_was_taken_away() -> None:
    world = World()
    world.set("clients/app", controller_mutation_rate=1, producer_byte_rate=1)

    def change() -> bool:
        return world.meter(ApiKey.CREATE_TOPICS).mutate(1_000, strict=True)

    assert change()
    assert not change()
    world.set("clients/app", producer_byte_rate=1)
    assert change()
    world.set("clients/app", controller_mutation_rate=1)
    assert change()
    assert not change()
