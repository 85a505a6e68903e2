"""Security: who a client is, what it may do and how much, as pure decisions.

Decides from values: a principal, a host, an operation, a resource and the access control lists; a client's tokens and
the users' credentials. Must not know connections, requests or ZooKeeper; the broker asks (`broker.authorization`,
`broker.authentication`) and keeps the lists and credentials.

    principals       "User:alice", super users, and the texts of hosts
    acls             access control lists: entries, bindings, filters
    resource_patterns
                     which resources a list is about: literal and prefixed patterns, and what they match
    quota_limits     whose limit holds for a client, and which limits may be set
    rates            how fast something happens
    throttle_time    how long a client over its quota has to wait; token buckets
    right_words      rights in short words: read:orders-*
    authorizer       may a principal do this? The decision, its reason, and the rule that would change it
    sasl             a step of an exchange, and how one fails
    sasl_server      the states of a connection that must authenticate
    connection_quota how many connections there may be; connection_rates: how fast they may come; giving_way: who gives
                     way where all places are taken
    failed_login_delay
                     how long an address that fails has to wait
    passwords        passwords of the console's and the schema registry's users, as they are kept
    plain            the mechanism PLAIN
    scram_exchange   the mechanisms SCRAM-SHA-256 and SCRAM-SHA-512, both sides
    scram_credentials
                     what a broker keeps of a password, its bounds, and which changes of it are refused
    oauthbearer      the mechanism OAUTHBEARER, the server's side
    json_web_tokens  signed tokens: whom they name, and whether they are to be believed
    gssapi           the mechanism GSSAPI, both sides; kerberos_refusals: what a client is told where it fails
    kerberos_names   principals, and sasl.kerberos.principal.to.local.rules; kerberos_login: a login's options
    kerberos_library the machine's Kerberos library: no pure decision, and imported at need only; kerberos_tickets: a
                     client's login with it
    delegation_tokens
                     delegation tokens: how long they are good, who may renew or end them, and their passwords
    digest_md5       the mechanism DIGEST-MD5 of ZooKeeper, both sides
    jaas             the text of a login, as Kafka's settings have it
    secret           a text that must not be shown
    key_stores       PEM, JKS and PKCS12 stores as one kind of value; which settings of them are refused
    certificates     what a certificate says; distinguished_name: its subject as Java prints it; der: the encoding;
                     certificate_changes: which one may take another's place
    ssl_principal_rules
                     ssl.principal.mapping.rules: a principal's name of a distinguished name
    bounded_patterns regular expressions of such rules, in bounded time and with Java's meaning
    tls_records      where whole TLS records end, and what first bytes look like
"""
