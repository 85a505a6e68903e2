"""Clients' metrics: who is asked for what, and which pushes are refused."""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Mapping

import pytest

from kavka.broker.telemetry import client_telemetry
from kavka.broker.telemetry.client_telemetry import (
    NO_INSTANCE,
    Assignment,
    ClientIdentity,
    ClientTelemetry,
    CompressedPush,
    Push,
)
from kavka.errors import ErrorCode, RequestError
from kavka.records.compression import Compression

ID = uuid.UUID(int=7)
MAX_BYTES = 1_000
INTERVAL_MS = 60_000


class World:
    """A broker's telemetry with its subscriptions, and what was exported."""

    def __init__(self, *subscriptions: Mapping[str, str]) -> None:
        self.subscriptions = list(subscriptions)
        self.version = 0
        self.pushed: list[Push] = []
        self.ids = iter(range(100, 1_000_000))
        self.telemetry = ClientTelemetry(
            lambda: self.subscriptions,
            lambda: self.version,
            max_bytes=lambda: MAX_BYTES,
            new_id=lambda: uuid.UUID(int=next(self.ids)),
            on_push=self.pushed.append,
        )

    def ask(self, now_ms: int = 0, *, client_id: str = "app", instance: uuid.UUID = ID) -> Assignment:
        return self.telemetry.subscribe(instance, identity(client_id), now_ms)

    def push(
        self,
        subscription_id: int,
        now_ms: int,
        metrics: bytes = b"metrics",
        codec: int = 0,
        *,
        is_last: bool = False,
        instance: uuid.UUID = ID,
    ) -> ErrorCode:
        try:
            push = CompressedPush(subscription_id, is_last, codec, metrics)
            self.telemetry.push(instance, identity("app"), now_ms, push)
        except RequestError as refusal:
            return refusal.code
        return ErrorCode.NONE


def identity(client_id: str) -> ClientIdentity:
    return ClientIdentity(str(ID), client_id, "apache-kafka-java", "4.3.1", "10.0.0.7", "4711")


SUBSCRIPTION = {"interval.ms": str(INTERVAL_MS), "metrics": "org.apache.kafka.consumer.,org.apache.kafka.producer."}


def test_a_client_is_asked_for_what_all_subscriptions_that_match_it_want() -> None:
    world = World(
        SUBSCRIPTION,
        {"interval.ms": "1000", "metrics": "org.apache.kafka.consumer.", "match": "client_id=app.*"},
        {"metrics": "*", "match": "client_id=app,client_software_version=3.*"},
        {"metrics": "*", "match": "client_id=ap"},
    )
    told = world.ask()
    assert (told.interval_ms, told.metrics) == (1000, ("org.apache.kafka.consumer.", "org.apache.kafka.producer."))
    assert world.ask(client_id="other", instance=uuid.UUID(int=8)).interval_ms == INTERVAL_MS


def test_without_a_subscription_nothing_is_asked_for() -> None:
    told = World().ask()
    assert (told.interval_ms, told.metrics) == (300_000, ())


def test_metrics_are_wanted_while_a_subscription_asks_for_some_or_somebody_takes_them() -> None:
    subscriptions: list[Mapping[str, str]] = []
    version = 0
    telemetry = ClientTelemetry(
        lambda: subscriptions, lambda: version, max_bytes=lambda: MAX_BYTES, new_id=lambda: ID, on_push=None
    )
    assert not telemetry.is_wanted
    for wanted, is_wanted in (({"interval.ms": "1000"}, False), ({"metrics": ""}, False), (SUBSCRIPTION, True)):
        version += 1
        subscriptions[:] = [wanted]
        assert telemetry.is_wanted is is_wanted
    assert World().telemetry.is_wanted


def test_all_metrics_take_the_place_of_some() -> None:
    assert World(SUBSCRIPTION, {"metrics": "*"}).ask().metrics == ("*",)


def test_who_has_no_id_is_given_one_and_every_broker_names_a_subscription_alike() -> None:
    world, other = World(SUBSCRIPTION), World(SUBSCRIPTION)
    told = world.ask(instance=NO_INSTANCE)
    assert told.client_instance_id == uuid.UUID(int=100)
    assert other.ask(instance=told.client_instance_id) == told


def test_who_asks_too_early_is_throttled_unless_it_was_told_to_ask_again() -> None:
    world = World(SUBSCRIPTION)
    told = world.ask()
    with pytest.raises(RequestError) as refusal:
        world.ask(INTERVAL_MS - 1)
    assert refusal.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert world.push(told.subscription_id + 1, 10) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert world.ask(20) == told
    assert (world.telemetry.throttled, world.telemetry.unknown_subscriptions) == (1, 1)


def test_who_pushes_too_early_is_throttled_but_for_the_first_and_the_last_time() -> None:
    world = World(SUBSCRIPTION)
    told = world.ask()
    assert world.push(told.subscription_id, 10) is ErrorCode.NONE
    assert world.push(told.subscription_id, 20) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert world.push(told.subscription_id, 10 + INTERVAL_MS) is ErrorCode.NONE
    assert world.push(told.subscription_id, 20 + INTERVAL_MS, is_last=True) is ErrorCode.NONE
    assert world.push(told.subscription_id, 30 + 9 * INTERVAL_MS) is ErrorCode.INVALID_REQUEST
    assert [push.is_last for push in world.pushed] == [False, False, True]
    assert (world.telemetry.pushes, world.telemetry.pushed_bytes) == (3, 3 * len(b"metrics"))


def test_a_changed_subscription_is_unknown_until_the_client_asks_again() -> None:
    world = World(SUBSCRIPTION)
    told = world.ask()
    world.subscriptions[0] = {**SUBSCRIPTION, "interval.ms": "2000"}
    world.version += 1
    assert world.push(told.subscription_id, 10) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert world.ask(20).interval_ms == 2000


def test_what_is_wanted_now_is_told_at_once_whenever_the_client_asked_last() -> None:
    world = World()
    assert world.ask().metrics == ()
    world.subscriptions.append(SUBSCRIPTION)
    world.version += 1
    told = world.ask(10)
    assert told.metrics
    assert world.push(told.subscription_id, 20) is ErrorCode.NONE


@pytest.mark.setting("telemetry.max.bytes")
def test_what_is_pushed_is_inflated_up_to_the_limit_and_not_beyond() -> None:
    world = World(SUBSCRIPTION)
    told = world.ask()
    assert world.push(told.subscription_id, 0, gzip.compress(b"m" * MAX_BYTES), Compression.GZIP) is ErrorCode.NONE
    assert world.pushed[0].metrics == b"m" * MAX_BYTES
    bomb = gzip.compress(bytes(100 * MAX_BYTES))
    assert len(bomb) < MAX_BYTES
    at = iter(range(INTERVAL_MS, 100 * INTERVAL_MS, INTERVAL_MS))
    for metrics, codec, expected in (
        (bomb, Compression.GZIP, ErrorCode.TELEMETRY_TOO_LARGE),
        (bytes(MAX_BYTES + 1), Compression.NONE, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"no gzip", Compression.GZIP, ErrorCode.INVALID_RECORD),
        (b"x", 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ):
        assert world.push(told.subscription_id, next(at), metrics, codec) is expected
    assert world.push(told.subscription_id, 0, instance=NO_INSTANCE) is ErrorCode.INVALID_REQUEST
    assert len(world.pushed) == 1
    assert world.telemetry.refused == 5


def test_clients_that_were_silent_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_telemetry, "MAX_CLIENTS", 3)
    world = World(SUBSCRIPTION)
    for number in range(10):
        world.ask(instance=uuid.UUID(int=number + 1))
    assert world.telemetry.client_count == 3


def test_a_subscription_that_cannot_be_obeyed_is_left_out() -> None:
    told = World({"match": "client_id=(", "metrics": "*"}, {"interval.ms": "soon"}, SUBSCRIPTION).ask()
    assert told.interval_ms == INTERVAL_MS
