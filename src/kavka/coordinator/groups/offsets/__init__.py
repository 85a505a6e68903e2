"""Committed offsets, of groups of every kind but share groups.

flow     commits, transactions of producers, deletion, expiry
decide/  which offset holds for a partition
"""
