"""What replication decides. Values and `now_ms` come in, results go out.

A module here must not know a clock, an event loop, a socket, a thread or randomness; `make check` sees to it. A log is
given to `Partition` and is called, never opened.

Leading:
partition             one hosted replica: its role, who joins and who leaves the in-sync replicas, where the high
                      watermark stands
divergence            where a reader's log and this one part
partition_results     what a call of a partition did, with the decisions that the caller records
partition_reasons     the why-records and refusals of a partition: sentences and numbers
partition_rules       what holds for all partitions of a broker
refusals              which refusals are worth a why-record
isr_states            the in-sync replicas, committed or with one change under way
replica               what a leader knows of one follower
idle_partitions       partitions of a follower's fetch session that its fetches need not look at
lag_policy            when a follower no longer counts as in sync
partition_snapshot    all that a partition remembers, as a value
replica_selector      which replica a consumer should read from
fetching              the values of a fetch: what is wanted, within which limits, what was found

Following:
followed_partitions   which request to the leader comes next, and what its answer does to the logs
fetch_state           how one partition stands with its leader
follower_session      what the next Fetch of a session carries
leader_questions      what a follower asks beside Fetch
fetch_versions        in which versions a follower speaks to its leader

Both:
throttle              how many bytes a second replication may move
"""
