"""Share groups (KIP-932): members that take records of the same partitions.

decide/  members, epochs, the assignment, records; pure
flow.py  turns, records, answers, deadlines; has states of partitions made before they are assigned
"""
