"""Decides which offset holds for a partition of a group. Pure: no log, no futures, no clock.

commits        what a member asks to commit, and what is decided of it: values
expiry         which offsets are over their retention
group_offsets  what groups committed, and what waits for the end of a transaction
"""
