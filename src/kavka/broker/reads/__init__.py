"""What reads from logs need beyond one request.

Must not know replicas or time-outs.

    fetch_session.py      a client names its partitions once, and afterwards only what changed (KIP-227)
    timestamp_lookups.py  worker threads search logs for records by their timestamps
"""
