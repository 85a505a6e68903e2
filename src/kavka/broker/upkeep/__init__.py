"""What a broker does for its logs beside requests.

Flows only: what is due, and what stays of a log, is decided in `kavka.log`.

    log_maintenance.py     runs flushes, retention, compaction and checkpoints at their intervals
    log_cleaner.py         compacts logs
    log_moves.py           moves logs to other log directories of this broker
    flushes.py             makes a log durable before its records are acknowledged (flush.messages)
    directory_failures.py  what follows when a file of a log directory fails
"""
