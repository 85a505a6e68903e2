"""The classic protocol: members join, one of them assigns, all sync.

decide/  the automaton of one group, and the bytes that its consumers exchange
"""
