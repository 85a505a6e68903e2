"""Traffic: how much was written to and read from each topic here, and how often ISRs changed, since the broker began.

Decides nothing: it counts. On the hot path it costs one look into a dictionary and a few additions for each partition
of a request, 0.3 us. Must not know who reads it, nor a clock: rates are the reader's matter.

Source: Kafka's BrokerTopicMetrics; its per-second meters are counters here.
"""

from __future__ import annotations


class TopicTraffic:
    """One topic's counts; of requests each partition counts."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.replication_bytes_out = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0


class Traffic:
    """Counts by topic. Those of topics that left this broker are kept in `gone`, so that sums never decrease."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        self.gone = TopicTraffic()
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.failed_isr_updates = 0

    def of(self, topic: str) -> TopicTraffic:
        """The topic's counts, from 0 where it has none."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def forget(self, topic: str) -> None:
        """The topic has left this broker."""
        found = self.topics.pop(topic, None)
        if found is not None:
            for name in TopicTraffic.__slots__:
                setattr(self.gone, name, getattr(self.gone, name) + getattr(found, name))

    def total(self, name: str) -> int:
        """The sum of one of TopicTraffic's counts over all topics."""
        return sum(int(getattr(each, name)) for each in (self.gone, *self.topics.values()))
