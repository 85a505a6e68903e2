"""A controller with three brokers, some of which are down or move: kavka beside Apache Kafka 3.9 and 4.3.

stage.py         three brokers, of kavka or of Apache Kafka
trio_session.py  one scenario's talk with them
scenarios.py     what is asked
answers.py       what Apache Kafka answered, in answers.json; records and compares
differences.py   where kavka answers otherwise than either line, and why
"""
