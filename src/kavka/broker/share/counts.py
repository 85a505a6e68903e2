"""ShareCounts: what a broker has done for share groups since it began, for its metrics.

Decides nothing: it counts. Must not know who reads it.

    I1  a group has histograms of its own while a member of it has a session here, and for at most MOST_GROUPS; its dead
        letters are counted as long as the broker runs, as Kafka does, for as many

Source: KIP-1103; Kafka's ShareGroupMetrics. Its SharePartitionMetrics about a fetch lock have nothing to measure here:
there is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kavka.metrics import Histogram
from kavka.share.decide.share_partition import Acknowledgement

MOST_GROUPS: Final = 1_000
"""A group's two histograms take 4 KB."""


class GroupTimes:
    """Of one group's fetches that gave something: the percentage of their partitions that gave, and the milliseconds
    from the request until then."""

    __slots__ = ("acquire_ms", "fetch_ratio")

    def __init__(self) -> None:
        self.fetch_ratio = Histogram()
        self.acquire_ms = Histogram()


class ShareCounts:
    """`acknowledged` counts records by what members said of them (the protocol's numbers), `load_ms` how long
    share-partitions took to load. By group: dead letters that were written, tries to write some, and batches that were
    given up."""

    def __init__(self) -> None:
        self.acknowledged: Counter[int] = Counter()
        self.load_ms = Histogram()
        self.dead_letters: Counter[str] = Counter()
        self.dead_letter_requests: Counter[str] = Counter()
        self.dead_letter_failures: Counter[str] = Counter()
        self.by_group: dict[str, GroupTimes] = {}

    def on_acknowledged(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """A member has said this of records that it held. Gaps, where there is no record, do not count."""
        for first, last, kinds in acknowledgements:
            if len(kinds) == 1:
                self.acknowledged[kinds[0]] += last - first + 1
            else:
                self.acknowledged.update(kinds)

    def on_dead_letter_request(self, group_id: str) -> None:
        """A batch of dead letters is sent to its partition."""
        _count(self.dead_letter_requests, group_id, 1)

    def on_dead_letters(self, group_id: str, count: int) -> None:
        """So many dead letters are written."""
        _count(self.dead_letters, group_id, count)

    def on_dead_letters_failed(self, group_id: str) -> None:
        """Some will never be written."""
        _count(self.dead_letter_failures, group_id, 1)

    def on_fetched(self, group_id: str, gave: int, asked: int, took_ms: int) -> None:
        """A fetch has given something, of `gave` of the `asked` partitions."""
        found = self.by_group.get(group_id)
        if found is None:
            if len(self.by_group) >= MOST_GROUPS:
                return
            found = self.by_group[group_id] = GroupTimes()
        found.fetch_ratio.record(100 * gave // max(asked, 1))
        found.acquire_ms.record(took_ms)

    def forget(self, group_id: str) -> None:
        """No member of the group has a session here any more."""
        self.by_group.pop(group_id, None)


def _count(counter: Counter[str], group_id: str, count: int) -> None:
    """A group beyond the first MOST_GROUPS does not count (I1)."""
    if group_id in counter or len(counter) < MOST_GROUPS:
        counter[group_id] += count
