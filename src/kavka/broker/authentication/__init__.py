"""Authentication: who a client is, on listeners with SASL.

Decides what reaches the dispatcher before a client has proved who it is, and what a failure leaves behind. Must not
know what a request means, nor how a proof is checked (`kavka.security`).

    gate              between a connection and the dispatcher: handshakes, tokens, delayed failures, sessions' ends
    credential_store  the users' SCRAM credentials in ZooKeeper: read and followed
    failures          failed authentications become why-records, counted and not repeated
"""
