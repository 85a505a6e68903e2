"""What a share session says, in which epoch, and what it holds."""

from __future__ import annotations

from uuid import UUID

from kavka.client.share_session import AcknowledgeType, FetchLimits, SharePartition, ShareSession

LIMITS = FetchLimits(500, 1, 1_000_000, 100, 100, 0)
TOPIC = UUID(int=7)
P0, P1 = SharePartition(TOPIC, 0), SharePartition(TOPIC, 1)
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW


def session() -> ShareSession:
    return ShareSession("workers", "member")


def named(request: object) -> list[int]:
    return [each.partition_index for topic in request.topics for each in topic.partitions]  # type: ignore[attr-defined]


def test_a_partition_is_named_once_and_forgotten_once() -> None:
    one = session()
    assert named(one.fetch(frozenset({P0, P1}), {}, LIMITS)) == [0, 1]
    one.advance()
    request = one.fetch(frozenset({P0, P1}), {}, LIMITS)
    assert (request.share_session_epoch, request.topics, request.forgotten_topics_data) == (1, [], [])
    one.advance()
    request = one.fetch(frozenset({P1}), {}, LIMITS)
    assert (named(request), [each.partitions for each in request.forgotten_topics_data]) == ([], [[0]])


def test_a_session_that_begins_anew_names_everything_and_holds_nothing() -> None:
    one = session()
    one.fetch(frozenset({P0}), {}, LIMITS)
    one.advance()
    one.hold(P0, range(5))
    assert one.restart() == 5
    assert not one.decide(P0, 3, ACCEPT)
    request = one.fetch(frozenset({P0}), {}, LIMITS)
    assert (request.share_session_epoch, named(request)) == (0, [0])


def test_the_epoch_after_the_last_is_one() -> None:
    one = session()
    one.epoch = 2**31 - 1
    one.advance()
    assert one.epoch == 1


def test_what_is_said_last_is_sent_once() -> None:
    one = session()
    one.hold(P0, range(4))
    for offset in (0, 1, 3):
        assert one.decide(P0, offset, ACCEPT)
    assert one.decide(P0, 3, RELEASE)
    sent = one.take_decided()
    assert [tuple(run) for run in sent[P0]] == [(0, 1, 1), (3, 3, 2)]
    assert (one.held, one.has_decided, one.take_decided()) == (1, False, {})
    assert not one.decide(P0, 0, RELEASE)


def test_a_renewed_lock_goes_on_to_be_held_until_its_renewal_is_refused() -> None:
    one = session()
    one.hold(P0, range(3))
    one.decide_all(RENEW)
    sent = one.take_decided()
    assert one.acknowledge(sent).is_renew_ack
    assert one.held == 3
    one.drop(sent)
    assert one.held == 0


def test_a_fetch_takes_acknowledgements_of_partitions_that_were_named_before() -> None:
    one = session()
    one.fetch(frozenset({P0}), {}, LIMITS)
    one.advance()
    one.hold(P0, [4, 5])
    one.decide_all(ACCEPT)
    (topic,) = one.fetch(frozenset({P0}), one.take_decided(), LIMITS).topics
    (batch,) = topic.partitions[0].acknowledgement_batches
    assert (batch.first_offset, batch.last_offset, batch.acknowledge_types) == (4, 5, [1])


def test_the_last_request_closes() -> None:
    one = session()
    one.epoch = 9
    assert one.acknowledge({}, closing=True).share_session_epoch == -1
