"""Counts of a topic's traffic."""

from __future__ import annotations

from kavka.replication.traffic import TopicTraffic, Traffic


def test_the_total_of_a_count_does_not_go_back_when_a_topic_goes() -> None:
    traffic = Traffic()
    traffic.of("a").bytes_in += 5
    traffic.of("b").bytes_in += 7
    assert traffic.total("bytes_in") == 12
    traffic.forget("a")
    traffic.forget("nobody")
    assert traffic.total("bytes_in") == 12
    assert list(traffic.topics) == ["b"]
    assert traffic.of("a").bytes_in == 0


def test_all_counts_begin_at_0() -> None:
    traffic = Traffic()
    assert (traffic.isr_shrinks, traffic.isr_expands, traffic.failed_isr_updates) == (0, 0, 0)
    topic = traffic.of("a")
    assert [getattr(topic, name) for name in TopicTraffic.__slots__] == [0] * 8
    assert [traffic.total(name) for name in TopicTraffic.__slots__] == [0] * 8


def test_each_count_is_kept_when_topics_go_one_after_the_other() -> None:
    traffic = Traffic()
    for topic, factor in (("a", 1), ("b", 10), ("stays", 100)):
        for number, name in enumerate(TopicTraffic.__slots__, 1):
            setattr(traffic.of(topic), name, number * factor)
    assert traffic.of("a") is traffic.of("a")
    for topic in ("a", "b"):
        traffic.forget(topic)
    assert [getattr(traffic.gone, name) for name in TopicTraffic.__slots__] == [number * 11 for number in range(1, 9)]
    assert [traffic.total(name) for name in TopicTraffic.__slots__] == [number * 111 for number in range(1, 9)]
