"""Share groups (KIP-932) on this broker: the partitions that it leads for them, and the way to their states.

Which record is whose is decided in `kavka.share`; what is stored, in `kavka.coordinator.share_state`.

    room.py            ShareRoom: what of these handlers use
    led_share_partitions.py
                       the share-partitions that are led here: loaded, written, their locks watched
    fetches.py         reads for members, and waits where there is nothing to give
    sessions.py        who fetches what: sessions of members, which end with their connections
    dead_letters.py    writes what groups give up to their dead-letter topics (KIP-1191)
    buried_records.py  what the log says of records whose dead letters are due
    counts.py          what was done here, for metrics
    persister.py       reads and writes states at their coordinator, which may be another broker
    offsets.py         how far groups are, and how much is left for them
    peers.py           the other brokers, asked for states and ends of logs
    state_requests.py  the coordinator's requests and answers
    deleted_topics.py  has states of deleted topics deleted, and groups forget them
    group_settings.py  the settings of a group, within those of the broker
"""
