"""Fetch versions: in which versions a follower speaks to its leader, by inter.broker.protocol.version.

Decides what a release can say. Must not know connections or messages.

The newest are those of Apache Kafka 3.9, so that brokers of both kinds can follow each other. Before 2.7 a fetch does
not carry the epoch of the last record fetched: where two logs part is asked with OffsetForLeaderEpoch then.

| from    | Fetch | ListOffsets | OffsetForLeaderEpoch | what came with it                                  |
|---------|-------|-------------|----------------------|----------------------------------------------------|
| 3.9     |    17 |           9 |                    4 | directory id of the replica (KIP-853)              |
| 3.7-IV4 |    16 |           8 |                    4 | node endpoints (KIP-951)                           |
| 3.5-IV1 |    15 |           8 |                    4 | broker epoch of the replica (KIP-903)              |
| 3.5-IV0 |    14 |           8 |                    4 | tiered storage (KIP-405)                           |
| 3.1     |    13 |           7 |                    4 | topic ids (KIP-516)                                |
| 3.0-IV1 |    12 |           7 |                    4 | the offset of the largest timestamp (KIP-734)      |
| 2.8     |    12 |           6 |                    4 | compact encoding (KIP-482)                         |
| 2.7-IV1 |    12 |           5 |                    3 | last fetched epoch (KIP-595)                       |
| 2.3-IV1 |    11 |           5 |                    3 | replica id in OffsetForLeaderEpoch (KIP-392)       |
| 2.2-IV1 |    10 |           5 |                    2 | OFFSET_NOT_AVAILABLE (KIP-207)                     |
| 2.1-IV2 |    10 |           4 |                    2 | current leader epoch (KIP-320)                     |

Older releases than 2.1 get the last row: brokers here serve nothing older.

Source: Kafka's MetadataVersion, 3.9.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from kavka.config.setting import release_of

Release: TypeAlias = tuple[int, int, int]
"""Major, minor and internal version, such as (2, 7, 1) for 2.7-IV1."""


class FetchVersions(NamedTuple):
    """The versions of one release. `truncates_on_fetch`: a fetch's answer says where the logs part (KIP-595)."""

    fetch: int
    list_offsets: int
    offset_for_leader_epoch: int
    truncates_on_fetch: bool


FIRST_FETCH_WITH_TOPIC_IDS: Final = 13
FIRST_FETCH_WITH_REPLICA_STATE: Final = 15
LAST_FETCH_BY_NAME: Final = FIRST_FETCH_WITH_TOPIC_IDS - 1

_NEWEST: Final = FetchVersions(17, 9, 4, truncates_on_fetch=True)
_OLDEST: Final = FetchVersions(10, 4, 2, truncates_on_fetch=False)
_ROWS: Final[tuple[tuple[Release, FetchVersions], ...]] = (
    ((3, 9, 0), _NEWEST),
    ((3, 7, 4), FetchVersions(16, 8, 4, truncates_on_fetch=True)),
    ((3, 5, 1), FetchVersions(15, 8, 4, truncates_on_fetch=True)),
    ((3, 5, 0), FetchVersions(14, 8, 4, truncates_on_fetch=True)),
    ((3, 1, 0), FetchVersions(13, 7, 4, truncates_on_fetch=True)),
    ((3, 0, 1), FetchVersions(12, 7, 4, truncates_on_fetch=True)),
    ((2, 8, 0), FetchVersions(12, 6, 4, truncates_on_fetch=True)),
    ((2, 7, 1), FetchVersions(12, 5, 3, truncates_on_fetch=True)),
    ((2, 3, 1), FetchVersions(11, 5, 3, truncates_on_fetch=False)),
    ((2, 2, 1), FetchVersions(10, 5, 2, truncates_on_fetch=False)),
)


def fetch_versions(release: str) -> FetchVersions:
    """The versions for a value of inter.broker.protocol.version. A release without -IV is its last one.

    >>> fetch_versions("3.9-IV0").fetch, fetch_versions("2.7").fetch, fetch_versions("2.6-IV0").fetch
    (17, 12, 11)
    """
    wanted = release_of(release)
    for since, versions in _ROWS:
        if wanted >= since:
            return versions
    return _OLDEST
