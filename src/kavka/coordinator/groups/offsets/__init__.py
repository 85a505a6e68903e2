"""Committed offsets, of groups of both protocols.

flow     commits, transactions of producers, deletion, expiry
decide/  which offset holds for a partition
"""
