"""Committed offsets, of groups of both protocols.

decide/  which offset holds for a partition
"""
