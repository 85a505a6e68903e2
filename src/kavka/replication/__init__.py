"""Replicas of partitions: who leads, who is in sync, what is committed, and who waits for it."""
