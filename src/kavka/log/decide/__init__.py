"""What a log decides without touching a file. Bytes, offsets and times come in, results go out.

A module here must not know a clock, an event loop, a socket, a thread or randomness; `make check` sees to it.

accepted_batches      which batches a log takes from a client, from this broker, from the leader
directory_names       what the name of a partition's directory says
retention             how many of the oldest segments go
segment_roll          when a segment is full, so that the next batch starts a new one
leader_epochs         where each leader epoch starts and ends in a log
producer_state        idempotence and transactions: what each producer wrote last
indexes               which entry of an offset, time or transaction index answers a look-up
checkpoint            the text of the small files beside the logs, to and fro
offset_map            compaction: the latest offset of each key, in bounded memory
compaction            compaction: which records, tombstones and markers stay, and until when
compacted_batches     compaction: the bytes of a batch after some of its records went
cleaned_transactions  compaction: which batches and markers of a transaction may go
"""
