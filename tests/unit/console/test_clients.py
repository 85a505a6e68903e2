"""Who reads and who writes, from what brokers tell: joined, summed, with a rate of two readings."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette")

from kavka.client.connected_clients import LONGEST, ClientWriting, ConnectedClient
from kavka.client.transaction_admin import ListedTransaction, ShownProducer
from kavka.console.sources import clients
from kavka.console.sources.clients import Reader, WriterReader, readers
from kavka.console.sources.connections import (
    MOST_OF_ONE,
    Identity,
    Unnamed,
    identity_of,
    joined_readers,
    producers,
    without_idempotence,
)
from kavka.model import TopicPartition
from kavka.observe.snapshot import GroupOffset, GroupView, MemberView

ZERO, ONE, OTHER = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def member(name: str, *partitions: TopicPartition) -> MemberView:
    return MemberView(name, None, "app", "/10.0.0.7", partitions, None)


def group(name: str, members: tuple[MemberView, ...], **committed: int) -> GroupView:
    lags = tuple(GroupOffset(TopicPartition("a", int(key[1:])), 5, 5 + lag) for key, lag in committed.items())
    return GroupView(
        name, "classic", "Stable" if members else "Empty", "consumer", "range", 1, members=members, offsets=lags
    )


def producer(partition: TopicPartition, sequence: int, *, epoch: int = 0, start: int = -1) -> ShownProducer:
    return ShownProducer(partition, 7, epoch, 0, sequence, 1_000, start)


def test_readers_are_the_members_that_have_one_of_the_partitions() -> None:
    some = group("g", (member("m1", ZERO, OTHER), member("m2", OTHER)), p0=3)
    assert readers([some], frozenset((ZERO, ONE))) == (
        Reader("g", "Stable", "m1", "app", "10.0.0.7", (ZERO,), some.offsets[0].lag),
    )


def test_a_group_that_is_away_is_a_reader_of_what_it_committed() -> None:
    away = group("g", (), p0=3, p1=4)
    (found,) = readers([away], frozenset((ZERO, ONE)))
    assert (found.member_id, found.partitions, found.lag) == ("", (ZERO, ONE), away.lag)
    assert readers([away], frozenset((ZERO,)), with_away=False) == ()


class TestRates:
    def test_a_rate_is_what_came_between_two_readings(self) -> None:
        reader = WriterReader()
        (first,) = reader.joined([producer(ZERO, 99), producer(ONE, 9)], {}, 0)
        assert first.rate is None
        (second,) = reader.joined([producer(ZERO, 299), producer(ONE, 9)], {}, 2_000)
        assert (second.rate, second.partitions) == (100.0, (ZERO, ONE))

    def test_numbers_go_round(self) -> None:
        reader = WriterReader()
        reader.joined([producer(ZERO, 2**31 - 1)], {}, 0)
        assert reader.joined([producer(ZERO, 9)], {}, 1_000)[0].rate == 10.0

    def test_another_epoch_begins_anew_and_a_reading_too_soon_keeps_the_rate(self) -> None:
        reader = WriterReader()
        reader.joined([producer(ZERO, 0)], {}, 0)
        reader.joined([producer(ZERO, 50)], {}, 1_000)
        assert reader.joined([producer(ZERO, 50)], {}, 1_200)[0].rate == 50.0
        assert reader.joined([producer(ZERO, 60, epoch=1)], {}, 3_000)[0].rate is None
        assert reader.joined([producer(ZERO, 90, epoch=1)], {}, 3_000 + clients.RATE_MOST_MS + 1)[0].rate is None

    def test_readings_to_compare_with_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clients, "MOST_READINGS", 2)
        reader = WriterReader()
        for number in range(5):
            reader.joined([producer(TopicPartition("a", number), 1)], {}, 0)
        assert reader.joined([producer(TopicPartition("a", 0), 2)], {}, 2_000)[0].rate is None, "it was forgotten"
        assert reader.joined([producer(TopicPartition("a", 4), 2)], {}, 2_000)[0].rate is not None


def test_an_open_transaction_is_told_with_its_name_and_where_it_begins() -> None:
    known = {7: ListedTransaction("pay", 1, 7, "Ongoing")}
    (found,) = WriterReader().joined([producer(ZERO, 3, start=40), producer(ONE, 3)], known, 0)
    assert (found.transactional_id, found.state, found.open_in) == ("pay", "Ongoing", ((ZERO, 40),))


def connection(client_id: str, *, host: str = "10.0.0.7", software: str | None = "librdkafka") -> ConnectedClient:
    return ConnectedClient(1, "c", client_id, host, "User:ada", software, "2.3" if software else None, (), ())


class TestConnections:
    def test_a_producer_is_known_by_its_id_and_several_connections_are_one_client(self) -> None:
        one = connection("pay")._replace(writes=(ClientWriting(ZERO, 7, 5, 10), ClientWriting(OTHER, 9, 5, 10)))
        found = producers([one, one._replace(broker=2)], frozenset((ZERO, ONE)))
        assert found == {7: (Identity("pay", "10.0.0.7", "User:ada", "librdkafka", "2.3"),)}

    def test_who_writes_without_idempotence_is_summed_by_client(self) -> None:
        first = connection("loose")._replace(writes=(ClientWriting(ZERO, -1, 5, 10), ClientWriting(OTHER, -1, 9, 50)))
        second = connection("loose")._replace(writes=(ClientWriting(ONE, -1, 8, 30),))
        (found,) = without_idempotence([first, second], frozenset((ZERO, ONE)))
        assert (found.partitions, found.last_ms, found.bytes_in) == ((ZERO, ONE), 8, 40)

    def test_a_member_is_known_by_client_id_and_address_if_it_reads_what_it_is_assigned(self) -> None:
        members = readers([group("g", (member("m1", ZERO), member("m2", ONE)), p0=3)], frozenset((ZERO, ONE)))
        own = connection("app")._replace(reads=(ZERO,))
        stranger = connection("app", host="10.0.0.8", software=None)._replace(reads=(ZERO,))
        named, alone = joined_readers(members, [own, stranger], frozenset((ZERO, ONE)))
        assert [len(each.who) for each in named] == [1, 0]
        assert [(each.group_id, each.client_id, each.host, each.partitions) for each in alone] == [
            ("", "app", "10.0.0.8", (ZERO,))
        ]
        assert alone[0].who[0].software == ""

    def test_of_one_producer_and_one_member_few_connections_are_told_whatever_a_broker_says(self) -> None:
        long = "x" * 32_000
        made = [connection("app", software=f"s{n}")._replace(reads=(ZERO,)) for n in range(50)]
        made = [each._replace(writes=(ClientWriting(ZERO, 7, 5, 10),)) for each in made]
        assert len(producers(made, frozenset((ZERO,)))[7]) == MOST_OF_ONE
        members = readers([group("g", (member("m1", ZERO),), p0=3)], frozenset((ZERO,)))
        named, _ = joined_readers(members, made, frozenset((ZERO,)))
        assert len(named[0].who) == MOST_OF_ONE
        cut = connection(long[:LONGEST])._replace(reads=(ZERO,))
        named, alone = joined_readers([members[0]._replace(client_id=long)], [cut], frozenset((ZERO,)))
        assert (len(named[0].who), alone) == (1, ())

    def test_a_rate_in_bytes_takes_two_readings_and_no_connection_that_closed(self) -> None:
        reader = WriterReader()
        who = identity_of(connection("loose"))

        def rate(size: int, now_ms: int) -> float | None:
            return reader.with_rates([Unnamed(who, (ZERO,), 1, size)], "a/", now_ms)[0].rate

        assert [rate(100, 0), rate(2_100, 2_000), rate(2_100, 2_100), rate(50, 5_000)] == [None, 1_000.0, 1_000.0, None]
