"""Log: a partition's records on disk, in Apache Kafka's own file formats.

log_config      the settings of one log
segment         one .log file with its indexes
index           offset, time and transaction indexes
record_scan     batches read out of a .log file, window by window
producer_state  idempotence and transactions: what each producer wrote last
leader_epoch    where each leader epoch starts
checkpoint      the small text files beside the logs
log_loader      what a directory's files are worth after a stop, clean or not
unified_log     one partition: append, read, truncate, roll, retain
log_manager     all partitions in all log directories
"""
