"""Transactional ids, as `__transaction_state` has them.

coordinator  the flow: the log, markers, time
decide/      what each request is answered with, and which states follow
"""
