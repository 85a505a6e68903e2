"""The states of share-partitions, as `__share_group_state` has them.

decide/         what a request changes, fences, the records; pure
coordinator.py  the flow: turns, the log, loading
"""
