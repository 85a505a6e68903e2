"""Authentication: who a client is, on listeners with SASL.

Decides what reaches the dispatcher before a client has proved who it is, and what a failure leaves behind. Must not
know what a request means, nor how a proof is checked (`kavka.security`).

    sasl_gate         between a connection and the dispatcher: handshakes, tokens, delayed failures, sessions' ends
    credential_store  the users' SCRAM credentials in ZooKeeper: read and followed
    delegation_token_store
                      the delegation tokens in ZooKeeper: read, followed and changed
    delegation_token_records
                      changes and refusals of tokens become why-records
    delegation_token_expiry
                      the controller removes tokens whose time is over
    delegation_token_logins
                      logging in with a token
    delegation_tokens what a broker with tokens has
    issuer_keys       the keys of a tokens' issuer: fetched, kept, and fetched again
    failed_authentications
                      failed authentications become why-records, counted and not repeated
"""
