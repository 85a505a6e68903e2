"""Who a client is, and what it may do.

This broker has no SASL, no delegation tokens and no authorizer. Each API answers as Apache Kafka does where they are
not configured, so that tools show a clear error.

    sasl_handshake, sasl_authenticate    how a client authenticates
    create_acls, describe_acls, delete_acls    access control lists
    create_delegation_token, renew_delegation_token, expire_delegation_token, describe_delegation_token
    alter_user_scram_credentials, describe_user_scram_credentials    users' credentials
    no_authorizer              no API: what the three requests for access control lists are answered
    authorized_operations      no API: the operations that other answers list as allowed
    ports                      what these need of the broker
"""
