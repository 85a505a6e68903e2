"""Decides which offset holds for a partition of a group. Pure: no log, no futures, no clock.

group_offsets  what groups committed, and what waits for the end of a transaction
"""
