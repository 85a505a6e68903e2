"""The newer protocol (KIP-848): the coordinator assigns, members heartbeat.

group               a group as its records say it is; records: those records
flow                turns, answers, deadlines
heartbeat           what a heartbeat leads to; classic_members: the same for members that speak the classic protocol
current_assignment  a member's next step; target_assignment, assignors, uniform_assignor: where all are to get
topic_pattern       regular expressions over topic names
migration           from one protocol to the other while members are at work
"""
