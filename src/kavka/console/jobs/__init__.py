"""Moves of replicas that take long: planned, agreed to, throttled, carried out, resumed after a restart of the console.

Decides what a job does next. Must not know pages.

plan       what a job would do: moves, bytes, time, risks
placement  where replicas go when a broker leaves or the replication factor changes
inventory  what is read off the cluster for a plan and for a job's progress
store      jobs in the ledger: the state machine
progress   what became of a job's partitions, and what is sent next
runner     carries jobs out, one step after the other
audit      a job in the audit log
throttle   a job's throttles: set before anything moves, restored afterwards
"""
