"""Share groups: queues on topics (KIP-932). What one group has done with the records of one partition.

Must not know the log, requests, sessions, nor where the state is kept: `broker.share` is the flow around it, and
`coordinator.share_state` keeps what must survive.

decide/  spans of offsets in one state, and the share-partition that they make up; pure
"""
