"""Metrics: the broker's own, and those that clients push.

broker_metrics.py    which question about the broker answers which of Kafka's metrics
client_telemetry.py  which metrics clients are asked for, and whether a push is taken (KIP-714)
"""
