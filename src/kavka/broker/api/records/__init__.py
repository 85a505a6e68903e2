"""Records: write them, read them, find them, delete them.

Decides what a request must have before it reaches a partition, and what its answer looks like. Must not know how a log
stores records, nor when they are committed: that is `kavka.log` and `kavka.replication`.

    produce                  appends a batch to each partition
    fetch                    reads batches: consumers up to what is committed, followers up to the log's end
    list_offsets             the offset of a time, and the two ends of a log
    offset_for_leader_epoch  where a leader epoch ends, so that a reader finds where two logs diverge
    delete_records           moves a log's start forward
    current_leader           no API: who leads now, for produce and fetch
    may_follow               no API: whether who asks as a follower may
    ports                    what these need of the broker
"""
