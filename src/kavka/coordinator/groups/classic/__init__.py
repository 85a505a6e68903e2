"""The classic protocol: members join, one of them assigns, all sync.

group              the automaton of one group
consumer_protocol  the bytes that consumers exchange through it
"""
