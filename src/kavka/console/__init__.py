"""The operators' console: pages about any cluster that speaks Kafka's protocol, served by one process.

It knows clusters through kavka's client alone, keeps its history and settings in one SQLite file, and never writes to a
cluster but for an action that an operator confirmed.
"""
