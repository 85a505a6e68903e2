"""Transactional writes on this broker, and the end of transactions in their partitions.

Must not know the states of a transaction: those are in `kavka.coordinator.transactions`.

    produce.py       which batches of a Produce request must be verified, and what a client is answered
    verification.py  asks a transaction's coordinator whether a partition is part of it (KIP-890)
    markers.py       writes the markers that end a transaction, here and on other brokers
    peers.py         gathers requests to one broker, so that at most one is under way
    producer_ids.py  ids that no producer of this cluster has had before
"""
