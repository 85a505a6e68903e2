"""Limits on what a broker sends and takes.

throttles.py  the replication quota (KIP-73): both sides of it, and where its limits and lists come from
"""
