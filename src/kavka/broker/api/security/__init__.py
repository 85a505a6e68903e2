"""Who a client is and what it may do. This broker has no SASL, no tokens and no authorizer: each is answered so.

sasl_handshake, sasl_authenticate
create_acls, describe_acls, delete_acls
create_delegation_token, renew_delegation_token, expire_delegation_token, describe_delegation_token
alter_user_scram_credentials, describe_user_scram_credentials
no_authorizer              not an API: what all three say of ACLs
authorized_operations      not an API: the operations that other answers name
"""
