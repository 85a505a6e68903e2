"""Streams groups (KIP-1071): instances of a Kafka Streams application, among which the broker divides tasks.

decide/  members, topology, tasks, epochs, records; pure
flow.py  turns, records, answers, deadlines
"""
