"""Handlers of share groups (KIP-932): members, records under locks, and the states of share-partitions.

share_group_heartbeat.py, share_group_describe.py   members, at the group's coordinator
describe_share_group_offsets.py, alter_share_group_offsets.py, delete_share_group_offsets.py   positions of groups
share_fetch.py, share_acknowledge.py                records, at the leader of their partition
initialize_share_group_state.py, read_share_group_state.py, write_share_group_state.py,
delete_share_group_state.py, read_share_group_state_summary.py   states, at their coordinator; between brokers
acknowledgements.py                                 what fetch and acknowledge share
ports.py                                            what the broker must offer
"""
