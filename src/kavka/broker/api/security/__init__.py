"""Who a client is, and what it may do.

Decides how requests for access control lists become questions to the authorizer, and those for users' credentials
become changes in ZooKeeper, and so do those for delegation tokens. Who may do what is asked before any handler:
`api/guards`. Clients authenticate before that: `broker.authentication`.

    sasl_handshake, sasl_authenticate    what a client is told that authenticates where nobody need
    create_acls, describe_acls, delete_acls    access control lists
    create_delegation_token, renew_delegation_token, expire_delegation_token, describe_delegation_token
    alter_user_scram_credentials, describe_user_scram_credentials    users' credentials
    delegation_token_requests  no API: from whom requests about tokens are taken, and how they are refused
    acl_forms                  no API: bindings and filters as requests have them
    no_authorizer              no API: what the three requests for access control lists are answered without one
    authorized_operations      no API: the operations that other answers list as allowed
    ports                      what these need of the broker
"""
