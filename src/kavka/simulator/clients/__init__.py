"""Clients of a simulated cluster, kavka's own.

What goes wrong with them is in faults/.

workload     producers that number their records, readers, a monitor
places       what the members of any group are
members      a consumer group's members
share_members  a share group's members
streams_members  a streams group's members
transactors  transactional producers
floods       machines that open connections, and do not belong
logins       how a cluster is secured, who its users are, and how each node gets in
"""
