"""Decides what every coordinator has to decide. Pure: no log, no futures, no clock.

partitions     which partition of a coordinator's topic keeps a key; which leader epochs count
records        a key and a value as bytes, each with a version in front
log_errors     what the log's errors mean, and what clients are answered
topic_pattern  regular expressions over names of topics and transactional ids, in time that is linear in the name
"""
