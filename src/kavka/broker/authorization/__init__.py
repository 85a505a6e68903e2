"""Authorization: whether what a request asks for is allowed, where a broker has an authorizer.

Decides for whom a decision is remembered and what a refusal leaves behind. Must not know what a request means (that is
`broker.api.guards`), nor how lists of rights are read (`kavka.security`).

    authorization  sessions, questions, remembered decisions; a denial is recorded
    acl_store      the access control lists in ZooKeeper: read, followed, changed
    denials        denials become why-records, counted and not repeated
    lockout        a broker that would be refused by everybody does not start
    plugins        an authorizer of one's own, by its entry point
"""
