"""Groups of every kind, and transactions.

groups         list, describe, reset, delete; group_offsets: from what is written to new offsets
transactions   list, and end those that hang
"""
