"""Decides for share groups. Pure: no log, no futures, no clock.

group.py            a group, its members, the partitions whose states are there
records.py          records 10 to 15 of `__consumer_offsets`
simple_assignor.py  which members read which partitions
heartbeat.py        joining, staying and leaving
offsets.py          positions that an administrator sets, or has forgotten
"""
