"""Clients of a simulated cluster, kavka's own.

workload     producers that number their records, readers, a monitor
members      a consumer group, and what befalls its members
transactors  transactional producers, and what befalls them
"""
