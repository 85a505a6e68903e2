"""Log: a partition's records on disk, in Apache Kafka's own file formats.

decide/         what is decided without touching a file: `decide/__init__.py` is its map
log_manager     all partitions in all log directories
home_loader     what lies in the log directories when a broker starts
log_home        one log directory in use
offset_checkpoints
                the files that say one offset of each log in a directory
unified_log     one partition: append, read, truncate, roll, retain
log_results     what a log returns
log_config      the settings of one log
log_segments    one log's segments in order: where an offset is among them
durability      what of a log a power cut may take or bring back, and what a flush syncs to end that
partition_metadata
                partition.metadata: the topic id beside the records
segment_swap    how compaction puts a segment in the place of others
segment         one .log file with its indexes
record_scan     batches read out of a .log file, window by window
timestamp_search
                the first record that is not older than a time
log_loader      what a directory's files are worth after a stop, clean or not
producer_snapshots
                the .snapshot files of one log
made_directories
                which new directories a power cut may still take away
log_move        a copy of a log in another log directory, until it takes the log's place
move_marks      which log is the newer one, where a move ended in the middle
cleaner_choice  compaction: which log comes next, and which of its segments
cleaner_pass    compaction: one pass over one log, file by file
"""
