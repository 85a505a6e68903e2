"""Metrics: the broker's own, and those that clients push. And who its clients are.

broker_metrics.py     which question about the broker answers which of Kafka's metrics
client_telemetry.py   which metrics clients are asked for, and whether a push is taken (KIP-714)
connected_clients.py  who writes and reads here, and who is at the other end of each connection
"""
