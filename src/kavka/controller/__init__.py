"""The controller: which broker leads which partition, which topics there are, and the flows that write it down.

Decisions are in `assignment`, `election`, `state_machines` and `topics`, the state they read in `context`; the flows
are `controller` (its own election, what happens when it starts) and `topic_admin` (what clients ask of it).
"""
