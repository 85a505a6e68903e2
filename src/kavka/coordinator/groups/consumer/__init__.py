"""The newer protocol (KIP-848): the coordinator assigns, members heartbeat.

flow     turns, answers, deadlines
decide/  what a heartbeat leads to, and where every partition is to go
"""
