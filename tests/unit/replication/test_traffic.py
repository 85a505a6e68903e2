"""Counts of a topic's traffic."""

from __future__ import annotations

from kavka.replication.traffic import Traffic


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
