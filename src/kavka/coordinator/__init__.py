"""Coordinators: group membership and committed offsets, kept in a log of their own and rebuilt from it."""
