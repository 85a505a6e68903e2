"""Records: write them, read them, find them, delete them. The partition's leader answers, and a follower some reads.

produce                  appends a batch to each partition
fetch                    reads batches: consumers up to what is committed, followers up to the log's end
list_offsets             the offset of a time, or of either end of the log
offset_for_leader_epoch  where a leader epoch ends, so that a reader finds out where logs part
delete_records           moves a log's start forward
current_leader           not an API: who leads now, for produce and fetch
"""
