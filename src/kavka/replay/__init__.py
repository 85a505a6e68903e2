"""Replay: a flight recording decided again by the same code, and what comes out compared.

broker_replay   one broker's recording, and what counts as a difference
cluster_replay  those of several brokers side by side, as one trace
metadata_log    a log without records, as far as decisions need it
"""
