"""Decides who gets which records of a share-partition, and what becomes of them. Pure: values and the time in, results
out.

spans.py             runs of offsets in one state: split, merged, found
share_partition.py   acquire, acknowledge, release, expire, and what of it is to be written
in_flight.py         which records are in flight, as an administrator sees it
acquisition_lock.py  how long a member holds records, and which locks are over
acquired_records.py  how much of what was read a member is given
dead_letters.py      where the dead letters of what is given up go, and what they say
reasons.py           why records are given out again, or not any more
"""
