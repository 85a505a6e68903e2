"""The tests, as packages: `from tests.kit.kavka_process import KavkaProcess` from anywhere.

unit         a decision by hand; no process, no socket
property     what holds for any input or any legal order of events
simulation   whole clusters in virtual time, with every rule checked after every event
integration  real processes, sockets and disks
conformance  the same script against Apache Kafka and kavka
ecosystem    programs of other people, unmodified (`make ecosystem`)
chaos        a campaign of faults and a checker of what clients saw (`make chaos`)
kit          what tests share
apache_kafka runs Apache Kafka
"""
